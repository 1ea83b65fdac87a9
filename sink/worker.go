package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// worker delivers for one sink under one lease.
type worker struct {
	set     Settings
	lease   txn.SinkLease
	o       *Options
	metrics *metrics
	log     *slog.Logger
	renewed time.Time // used by the runner only
	cancel  context.CancelFunc
	ended   chan struct{}
	changed chan struct{} // an operator decided; capacity 1

	sink     Sink
	revision atomic.Int64 // of the cursor that the worker has read
	failing  atomic.Bool

	cursor   txn.SinkCursor // used by the loop of new events only
	position string         // of the cursor in the ledger, as far as known
	moved    time.Time      // when position was written
	passed   time.Time      // time of the newest event that the sink did not want
	noted    string         // reason of the cursor, if this or an earlier worker wrote it

	commits chan struct{} // the two loops write one after the other; capacity 1

	parked, dead atomic.Int64
	behind       atomic.Int64 // events
	oldest       atomic.Int64 // time of the oldest event in hand, in ns; 0: none
	stalled      atomic.Int64 // since when nothing can be delivered, in ns; 0: it can
	lost         atomic.Bool  // the lease
}

// Intervals of a worker.
const (
	idleInterval  = time.Second // between commits of a cursor that only passes other events
	retryInterval = time.Second // between looks for retries that are due
	maxPause      = time.Minute // between attempts to reach a receiver that is unavailable
)

// announceTries is how often a receiver may fail to accept the news that the ledger was restored.
// Events wait meanwhile, so it must be told soon or not at all.
const announceTries = 8

// Bounds of the retries in hand.
const (
	retriesAtOnce = 64
	eventsOfRetry = 32
)

// noteRevision makes the worker read its cursor again if an operator has decided.
func (w *worker) noteRevision(revision int64) {
	if known := w.revision.Load(); known != 0 && revision != known {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// run delivers until ctx ends or the lease is lost.
func (w *worker) run(ctx context.Context) {
	defer func() {
		if w.sink != nil {
			w.sink.Close()
		}
	}()
	for tries := 0; ctx.Err() == nil; tries++ {
		started := w.o.Clock.Now()
		err := w.serve(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrLost):
			w.log.Warn("sink was taken over")
			return
		case err == nil, errors.Is(err, ErrChanged):
			tries = -1
			continue
		}
		if w.o.Clock.Now().Sub(started) > time.Minute {
			tries = 0
		}
		w.stalled.CompareAndSwap(0, started.UnixNano())
		if !w.failing.Swap(true) {
			w.log.Warn("sink delivers nothing; retrying", "error", err)
		}
		_ = clock.Sleep(ctx, w.o.Clock, w.pause(tries))
	}
}

// idleReason begins the reason of an active sink that delivers nothing, and openCause the cause if
// its receiver cannot be opened.
const (
	idleReason = "delivers nothing: "
	openCause  = "open: "
)

// note records for operators why nothing can be delivered; an empty cause, that it can. It is used
// by the loop of new events only: the causes of parked transactions are recorded with them.
func (w *worker) note(ctx context.Context, cause string) error {
	reason := ""
	if cause != "" {
		reason = clip(idleReason + cause)
	}
	if reason == w.noted {
		return nil
	}
	if err := w.commit(ctx, txn.SinkProgress{Reason: &reason}); err != nil {
		return err
	}
	w.noted = reason
	return nil
}

// serve reads the cursor and delivers from there, until something changes or fails.
func (w *worker) serve(ctx context.Context) error {
	cursors, err := w.o.Ledger.SinkCursors(ctx, w.set.Name)
	if err != nil {
		return err
	}
	if len(cursors) != 1 {
		return fmt.Errorf("sink: %q has no cursor", w.set.Name)
	}
	w.cursor = cursors[0]
	w.position, w.moved = w.cursor.Position, w.o.Clock.Now()
	w.revision.Store(w.cursor.Revision)
	w.noted = ""
	if strings.HasPrefix(w.cursor.Reason, idleReason) {
		w.noted = w.cursor.Reason
	}
	if w.cursor.Status != txn.SinkActive {
		w.stalled.Store(w.cursor.UpdatedAt.UnixNano())
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
		return nil
	}
	if w.position == "" {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	if w.sink == nil {
		s, err := w.set.Open(ctx)
		if err != nil {
			return errors.Join(fmt.Errorf("sink: open: %w", err),
				w.note(ctx, openCause+strings.TrimPrefix(err.Error(), "sink: ")))
		}
		w.sink = s
	}
	if strings.HasPrefix(w.noted, idleReason+openCause) {
		if err := w.note(ctx, ""); err != nil {
			return err
		}
	}
	return w.deliver(ctx)
}

var errBegun = errors.New("the sink has a position")

// begin gives a new sink its position, before its receiver is opened: events are kept from then on,
// also while the receiver is unavailable.
func (w *worker) begin(ctx context.Context) error {
	err := w.o.Feed.Follow(ctx, "", idleInterval, func(p Page) error {
		if err := w.commit(ctx, txn.SinkProgress{Position: p.Position}); err != nil {
			return err
		}
		return errBegun
	})
	if errors.Is(err, errBegun) {
		return nil
	}
	return err
}

// deliver runs the loops of new events and of retries until one of them ends.
func (w *worker) deliver(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel(nil)
	loops.Go(func() {
		select {
		case <-w.changed:
			cancel(ErrChanged)
		case <-ctx.Done():
		}
	})
	if w.cursor.Restored {
		if err := w.announce(ctx); err != nil {
			return cause(ctx, err)
		}
	}
	loops.Go(func() {
		if err := w.retryLoop(ctx); err != nil {
			cancel(err)
		}
	})
	err := w.o.Feed.Follow(ctx, w.position, idleInterval,
		func(p Page) error { return w.take(ctx, p) })
	w.behind.Store(0)
	w.oldest.Store(0)
	return cause(ctx, err)
}

// cause prefers the reason why a context was cancelled.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// backoff is the delay after the n-th failed try in a row, n from 0: doubling, with jitter.
func (w *worker) backoff(n int) time.Duration {
	d := w.set.RetryMax
	if n < 40 {
		if grown := w.set.RetryMin << n; grown > 0 && grown < d {
			d = grown
		}
	}
	return time.Duration(float64(d) * (1 + w.o.Random()) / 2)
}

// pause is the delay after the n-th try in a row to reach a receiver that is unavailable.
func (w *worker) pause(n int) time.Duration { return min(w.backoff(n), maxPause) }

// announce tells the receiver that the ledger was restored. The id is that of no other restore:
// the revision of a cursor repeats when a backup is restored again. Each node sends the same times.
func (w *worker) announce(ctx context.Context) error {
	e := &Event{At: w.cursor.UpdatedAt, Content: &pb.SinkEvent{
		Id: fmt.Sprintf("ledger/%d", w.cursor.Epoch),
		Content: &pb.SinkEvent_Restored{
			Restored: &pb.LedgerRestored{Time: timestamppb.New(w.cursor.UpdatedAt)}},
	}}
	var b *batch
	for tries := range announceTries {
		b = &batch{}
		if err := w.deliverAll(ctx, []*Event{e}, b); err != nil {
			return err
		}
		if len(b.failures) == 0 {
			break
		}
		failed := b.failures[0]
		if failed.Delay < 0 || tries == announceTries-1 {
			w.log.Error("receiver does not accept that the ledger was restored; inform its "+
				"operators", "cause", failed.Reason)
			break
		}
		delay := max(min(failed.Delay, maxPause), w.pause(tries))
		if err := clock.Sleep(ctx, w.o.Clock, delay); err != nil {
			return err
		}
	}
	return w.commit(ctx, txn.SinkProgress{Announced: b.gone == "", Disable: b.gone})
}

// take delivers a page of the feed and moves the cursor past it.
func (w *worker) take(ctx context.Context, p Page) error {
	w.stalled.Store(0)
	w.behind.Store(int64(p.Behind + len(p.Events)))
	defer func() {
		w.behind.Store(int64(p.Behind))
		w.oldest.Store(0)
	}()
	events, b, err := w.prepare(ctx, p.Events)
	if err != nil {
		return err
	}
	if len(events) == 0 && len(b.failures) == 0 {
		return w.pass(ctx, p)
	}
	if len(events) > 0 {
		w.oldest.Store(events[0].At.UnixNano())
		if err := w.deliverAll(ctx, events, b); err != nil {
			return err
		}
	}
	progress := txn.SinkProgress{Position: p.Position, Delivered: b.delivered,
		Failures: b.failures, EventAt: p.Events[len(p.Events)-1].At}
	if b.gone != "" {
		// Delivered events are delivered again once the sink is resumed.
		progress = txn.SinkProgress{Disable: b.gone}
	}
	if err := w.commit(ctx, progress); err != nil {
		return err
	}
	if b.gone != "" {
		w.log.Error("receiver is gone; sink disabled, resume it when it is back",
			"cause", b.gone)
		return ErrChanged
	}
	w.metrics.add(ctx, w.metrics.delivered, w.set.Name, b.delivered)
	w.metrics.add(ctx, w.metrics.parked, w.set.Name, b.parked)
	w.metrics.add(ctx, w.metrics.dead, w.set.Name, b.dead)
	return nil
}

// pass moves the cursor past events that the sink does not want, but not each time.
func (w *worker) pass(ctx context.Context, p Page) error {
	if n := len(p.Events); n > 0 {
		w.passed = p.Events[n-1].At
	}
	late := w.o.Clock.Now().Sub(w.moved) >= idleInterval
	if p.Position == w.position || w.position != "" && !late {
		return nil
	}
	return w.commit(ctx, txn.SinkProgress{Position: p.Position, EventAt: w.passed})
}

// prepare completes the events that the sink wants, and passes over events of parked transactions.
func (w *worker) prepare(ctx context.Context, page []*Event) (events []*Event, b *batch,
	err error) {
	b = &batch{}
	wanted := make([]*Event, 0, len(page))
	for _, e := range page {
		if w.set.wantsSubmitter(e.Name) && w.set.wantsState(e.State) {
			wanted = append(wanted, e)
		}
	}
	if len(wanted) == 0 {
		return nil, b, nil
	}
	facts, err := w.complete(ctx, wanted)
	if err != nil {
		return nil, b, err
	}
	for _, e := range wanted {
		switch {
		case !w.set.wantsLabels(e.Content.GetLabels()):
		case facts[e.Tx].Parked:
			b.fail(e, 0, 0, "")
		default:
			events = append(events, e)
		}
	}
	return events, b, nil
}

// complete reads labels and request ids of events.
func (w *worker) complete(ctx context.Context, events []*Event) (map[txn.TxID]txn.SinkFact,
	error) {
	seen := make(map[txn.TxID]bool, len(events))
	ids := make([]txn.TxID, 0, len(events))
	for _, e := range events {
		if !seen[e.Tx] {
			seen[e.Tx] = true
			ids = append(ids, e.Tx)
		}
	}
	facts, err := w.o.Ledger.SinkFacts(ctx, w.set.Name, ids)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		f, found := facts[e.Tx]
		if !found {
			return nil, fmt.Errorf("sink: transaction %s of an event is missing", e.Tx)
		}
		e.Content.RequestId, e.Content.Labels = f.RequestID, f.Labels
	}
	return facts, nil
}

// commit writes progress until its outcome is known. The position is written behind the fence.
func (w *worker) commit(ctx context.Context, p txn.SinkProgress) error {
	w.commits <- struct{}{}
	defer func() { <-w.commits }()
	p.Revision = w.cursor.Revision
	for tries := 0; ; tries++ {
		err := w.o.Ledger.CommitSink(ctx, w.lease, p)
		if err == nil {
			if p.Position != "" {
				w.position, w.moved = p.Position, w.o.Clock.Now()
			}
			if p.Reason == nil {
				w.failing.Store(false)
			}
			return nil
		}
		if errors.Is(err, ErrLost) || errors.Is(err, ErrChanged) {
			return err
		}
		if err := clock.Sleep(ctx, w.o.Clock, txn.Backoff(tries)); err != nil {
			return err
		}
	}
}
