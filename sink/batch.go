package sink

import (
	"context"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// batch collects the outcome of the deliveries of a page.
type batch struct {
	delivered    int64 // events
	failures     []txn.SinkFailure
	parked, dead int64 // transactions
	gone         string
	index        map[txn.TxID]int // of failures
}

// failed returns the failure of the transaction; nil if it has none.
func (b *batch) failed(id txn.TxID) *txn.SinkFailure {
	if i, found := b.index[id]; found {
		return &b.failures[i]
	}
	return nil
}

// fail parks the transaction from the event on. A negative delay makes it dead.
func (b *batch) fail(e *Event, attempts int, delay time.Duration, cause string) {
	if f := b.failed(e.Tx); f != nil {
		f.Last = max(f.Last, e.Seq)
		return
	}
	if b.index == nil {
		b.index = map[txn.TxID]int{}
	}
	b.index[e.Tx] = len(b.failures)
	b.failures = append(b.failures, txn.SinkFailure{Submitter: e.Submitter, Tx: e.Tx, First: e.Seq,
		Last: e.Seq, Attempts: attempts, Delay: delay, Reason: clip(cause)})
	if attempts > 0 {
		b.parked++
	}
	if delay < 0 {
		b.dead++
	}
}

// maxCause bounds the text of a failure in the ledger, in characters.
const maxCause = 500

// clip makes the text of a receiver fit for the ledger, which holds neither invalid UTF-8 nor NUL.
func clip(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	if runes := []rune(text); len(runes) > maxCause {
		return string(runes[:maxCause])
	}
	return text
}

func goneReason(r Result) string { return clip("receiver is gone: " + r.Cause) }

// deliverAll delivers events until each is accepted or parked. While the receiver is unavailable it
// tries again and holds nothing but these events.
func (w *worker) deliverAll(ctx context.Context, events []*Event, b *batch) error {
	for tries := 0; len(events) > 0; tries++ {
		results := w.sink.Deliver(ctx, events)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var rest []*Event
		var last Result
		for i, e := range events {
			result := resultOf(results, i)
			if b.failed(e.Tx) != nil && result.Verdict != Done && e.Seq > 0 {
				b.fail(e, 0, 0, "")
				continue
			}
			switch result.Verdict {
			case Done:
				b.delivered++
			case Retry:
				b.fail(e, 1, max(result.After, w.backoff(0)), result.Cause)
			case Refused:
				b.fail(e, 1, -1, result.Cause)
			case Gone:
				b.gone = goneReason(result)
				return nil
			case Unavailable:
				rest, last = append(rest, e), result
			}
		}
		if len(rest) == 0 {
			break
		}
		w.metrics.add(ctx, w.metrics.retried, w.set.Name, int64(len(rest)))
		if !w.failing.Swap(true) {
			w.log.Warn("receiver unavailable; events wait", "cause", last.Cause)
		}
		if err := w.note(ctx, last.Cause); err != nil {
			return err
		}
		if len(rest) < len(events) {
			tries = 0
		}
		events = rest
		if err := clock.Sleep(ctx, w.o.Clock, max(last.After, w.pause(tries))); err != nil {
			return context.Cause(ctx)
		}
	}
	if w.failing.Swap(false) {
		w.log.Info("receiver accepts events again")
	}
	return w.note(ctx, "")
}

// resultOf is the result of event i; one result may stand for all.
func resultOf(results []Result, i int) Result {
	switch {
	case i < len(results):
		return results[i]
	case len(results) == 1:
		return results[0]
	}
	return Result{Verdict: Unavailable, Cause: "no result"}
}
