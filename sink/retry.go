package sink

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// retryLoop retries parked transactions when they are due, until ctx ends or the lease is lost.
func (w *worker) retryLoop(ctx context.Context) error {
	away := 0 // times in a row that the receiver was unavailable
	for failures := 0; ctx.Err() == nil; {
		n, wait, err := w.retryDue(ctx)
		if wait == nil {
			away = 0
		}
		switch {
		case errors.Is(err, ErrLost), errors.Is(err, ErrChanged):
			return err
		case err != nil:
			_ = clock.Sleep(ctx, w.o.Clock, txn.Backoff(failures))
			failures++
		case wait != nil:
			_ = clock.Sleep(ctx, w.o.Clock, max(wait.After, w.pause(away)))
			away++
		case n < retriesAtOnce:
			failures = 0
			_ = clock.Sleep(ctx, w.o.Clock, retryInterval)
		}
	}
	return nil
}

// retryDue retries some of the transactions that are due, and returns how many; and why to wait, if
// the receiver is unavailable.
func (w *worker) retryDue(ctx context.Context) (n int, wait *Result, err error) {
	due, err := w.o.Ledger.DueParked(ctx, w.set.Name, retriesAtOnce)
	if err != nil || len(due) == 0 {
		return 0, nil, err
	}
	retries := make([]txn.SinkRetry, len(due))
	index := map[txn.TxID]int{}
	var events []*Event
	for i, p := range due {
		retries[i] = txn.SinkRetry{SinkParked: p, NextSeq: p.Next}
		index[p.Tx] = i
		found, err := w.o.Ledger.EventsOfTx(ctx, p.Tx, p.Next, p.Last, eventsOfRetry)
		if err != nil {
			return 0, nil, err
		}
		if len(found) == 0 { // a ledger that was restored may lack them
			retries[i].NextSeq = p.Last + 1
		}
		events = append(events, found...)
	}
	if len(events) > 0 {
		if _, err := w.complete(ctx, events); err != nil {
			return 0, nil, err
		}
	}
	stop, err := w.retryEvents(ctx, events, retries, index)
	switch {
	case err != nil:
		return 0, nil, err
	case stop != nil && stop.Verdict == Gone:
		if err := w.commit(ctx, txn.SinkProgress{Disable: goneReason(*stop)}); err != nil {
			return 0, nil, err
		}
		return 0, nil, ErrChanged
	}
	return len(due), stop, w.commitRetries(ctx, retries)
}

// retryEvents delivers the wanted events, and records how far each transaction has come. It returns
// the result that concerns all of them: the receiver is gone or unavailable.
func (w *worker) retryEvents(ctx context.Context, events []*Event, retries []txn.SinkRetry,
	index map[txn.TxID]int) (stop *Result, err error) {
	var wanted []*Event
	for _, e := range events {
		if w.set.Wants(e) {
			wanted = append(wanted, e)
		}
	}
	results := []Result{}
	if len(wanted) > 0 {
		results = w.sink.Deliver(ctx, wanted)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	at := 0
	var delivered int64
	waits := map[txn.TxID]bool{}
	for _, e := range events {
		r := &retries[index[e.Tx]]
		result, wants := Result{}, w.set.Wants(e)
		if wants {
			result = resultOf(results, at)
			at++
		}
		switch {
		case r.Failed, waits[e.Tx]:
		case result.Verdict == Done:
			r.NextSeq = e.Seq + 1
			if wants {
				delivered++
			}
		case result.Verdict == Gone:
			return &result, nil
		case result.Verdict == Unavailable:
			// An outage counts for no transaction, which would be dead after a long one. Each
			// stays due, behind the others.
			stop, waits[e.Tx] = &result, true
			r.Reason = clip(result.Cause)
		default:
			w.failRetry(r, e, result)
		}
	}
	w.metrics.add(ctx, w.metrics.delivered, w.set.Name, delivered)
	w.metrics.add(ctx, w.metrics.retried, w.set.Name, int64(len(wanted)))
	return stop, nil
}

func (w *worker) failRetry(r *txn.SinkRetry, e *Event, result Result) {
	attempts := r.Attempts
	if e.Seq != r.Next {
		attempts = 0
	}
	r.Failed, r.Reason = true, clip(result.Cause)
	r.NextSeq = e.Seq
	r.Delay = max(result.After, w.backoff(attempts))
	if result.Verdict == Refused {
		r.Delay = -1
	}
}

// commitRetries records retries. Their outcome is written once; if it is unknown, they are retried.
func (w *worker) commitRetries(ctx context.Context, retries []txn.SinkRetry) error {
	w.commits <- struct{}{}
	defer func() { <-w.commits }()
	dead, err := w.o.Ledger.CommitSinkRetries(ctx, w.lease, retries, w.set.RetryFor)
	if err != nil {
		return err
	}
	if dead > 0 {
		w.log.Error("transactions are dead: their events are not retried any more",
			"transactions", dead)
	}
	w.metrics.add(ctx, w.metrics.dead, w.set.Name, dead)
	return nil
}
