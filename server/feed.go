package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// feedStore is what the tailer and the streams read.
type feedStore interface {
	// Told signals that this node committed something; it may be coalesced or lost.
	Told() <-chan struct{}
	FeedHead(ctx context.Context) (epoch int64, snapshot string, err error)
	EventsSince(ctx context.Context, page []store.EventInfo, since, until string,
		after store.EventKey, submitter txn.SubmitterID, limit int) ([]store.EventInfo, error)
	EventsSinceOf(ctx context.Context, since, until string, after store.EventKey, ids []txn.TxID,
		limit int) ([]store.EventInfo, error)
	EventsOfTx(ctx context.Context, id txn.TxID, afterSeq int64,
		limit int) ([]store.EventInfo, error)
}

// feed is the tailer of a node: it turns the snapshots of the ledger, one after the other, into the ring that all streams share.
//
// The events that one snapshot sees and the snapshot before did not are a batch. Batches do not overlap and leave nothing out, whatever the order in which
// transactions commit. Streams join at the end of a batch, so each gets every event once.
type feed struct {
	store   feedStore
	clock   clock.Clock
	log     *slog.Logger
	limits  Limits
	metrics *metrics
	kicked  chan struct{} // somebody wants a read now; capacity 1
	page    int           // most events of one read

	at   store.Position    // where the tailer stands. Only run uses it
	room []store.EventInfo // that every page is read into: how long one is shows in the end. Only run uses it

	mu       sync.Mutex
	ring     ring
	streams  streams
	epoch    int64
	boundary string // snapshot of the newest whole batch; empty while the tailer idles
	edge     uint64 // index of the first event after it
	started  uint64 // reads begun
	finished uint64 // newest read that succeeded
	advanced chan struct{}
	failing  bool // the last read failed
	down     bool // reads have failed for longer than a stream waits
}

// tailerPages is how many pages of a stream the tailer reads at once: there is but one tailer.
const tailerPages = 8

func newFeed(s feedStore, c clock.Clock, log *slog.Logger, limits Limits, m *metrics) *feed {
	return &feed{
		store: s, clock: c, log: log, limits: limits, metrics: m, kicked: make(chan struct{}, 1), page: tailerPages * limits.PageEvents,
		ring: ring{
			capacity: limits.RingEvents,
		}, streams: newStreams(), advanced: make(chan struct{}),
	}
}

// maxBackoff bounds the pause between two reads that fail.
const maxBackoff = time.Second

// run reads the feed while there are streams, until ctx ends.
func (f *feed) run(ctx context.Context) {
	ctx = store.Tailing(ctx)
	since := f.clock.Now() // of the last success
	pause := f.limits.FeedGap
	for ctx.Err() == nil {
		if !f.wanted() {
			select {
			case <-f.kicked:
			case <-ctx.Done():
			}
			since = f.clock.Now()
			continue
		}
		err := f.read(ctx)
		switch now := f.clock.Now(); {
		case ctx.Err() != nil:
			return
		case err == nil:
			since, pause = now, f.limits.FeedGap
		default:
			pause = min(max(2*pause, f.limits.FeedPoll), maxBackoff)
			f.fail(err, now.Sub(since))
		}
		f.rest(ctx, pause)
	}
}

// wanted forgets where the tailer stood when nobody watches: the next stream begins at a new snapshot.
func (f *feed) wanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.streams.count > 0 {
		return true
	}
	f.forget()
	f.failing, f.down = false, false
	return false
}

// forget drops what is in the ring. Indexes go on, so that nobody takes a new event for an old one.
func (f *feed) forget() {
	f.at, f.boundary = store.Position{}, ""
	f.ring.clear()
	f.edge = f.ring.end
}

// rest waits for a reason to read again, for the gap at least: many wake-ups in a row make one read.
func (f *feed) rest(ctx context.Context, gap time.Duration) {
	if clock.Sleep(ctx, f.clock, gap) != nil || gap >= f.limits.FeedPoll {
		return
	}
	timer := f.clock.NewTimer(f.limits.FeedPoll - gap)
	defer timer.Stop()
	select {
	case <-f.store.Told():
	case <-f.kicked:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// read takes one batch into the ring, or what is left of one that failed half-way.
func (f *feed) read(ctx context.Context) error {
	f.mu.Lock()
	f.started++
	number := f.started
	f.mu.Unlock()
	f.metrics.polls.Add(ctx, 1)
	epoch, head, err := f.head(ctx)
	if err != nil {
		return fmt.Errorf("server: read the head of the feed: %w", err)
	}
	if f.at.Seen == "" || f.at.Epoch != epoch {
		f.begin(epoch, head)
	}
	if err := f.readUpTo(ctx, head); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boundary, f.edge, f.finished, f.failing, f.down = f.at.Seen, f.ring.end, number, false, false
	close(f.advanced)
	f.advanced = make(chan struct{})
	return nil
}

func (f *feed) head(ctx context.Context) (epoch int64, snapshot string, err error) {
	ctx, cancel := f.limits.bound(ctx)
	defer cancel()
	return f.store.FeedHead(ctx)
}

// begin starts at a snapshot. What was read under another epoch is of a ledger that is no more: the streams that stand in it end.
func (f *feed) begin(epoch int64, head string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
	f.at, f.epoch = store.Position{Epoch: epoch, Seen: head}, epoch
	f.streams.signalAll()
}

// readUpTo reads up to a snapshot, page by page. Every page is told at once.
func (f *feed) readUpTo(ctx context.Context, snapshot string) error {
	for f.at.Seen != snapshot {
		bounded, cancel := f.limits.bound(ctx)
		events, next, err := readPage(bounded, f.store, f.room, f.at, snapshot, target{}, f.page)
		cancel()
		if err != nil {
			return err
		}
		kept := slices.Clone(events)
		f.mu.Lock()
		f.streams.tell(f.ring.add(f.at, next, kept))
		f.mu.Unlock()
		clear(events) // what the ring lets go of shall not be held here
		f.at, f.room = next, events[:0]
	}
	return nil
}

// readPage reads the events between a position and a snapshot that is newer, and where one stands after them: those of the submitter, or of the transactions, that a
// target names, if it does. They are appended to a page without any, which may be nil.
func readPage(ctx context.Context, s feedStore, page []store.EventInfo, at store.Position,
	until string, of target, limit int) (
	events []store.EventInfo, next store.Position, err error) {
	if at.Until != "" {
		until = at.Until // a batch is finished before the next one begins
	}
	if of.txs != nil {
		events, err = s.EventsSinceOf(ctx, at.Seen, until, at.After, *of.txs, limit)
	} else {
		events, err = s.EventsSince(ctx, page, at.Seen, until, at.After, of.submitter, limit)
	}
	if err != nil {
		return nil, at, fmt.Errorf("server: read events: %w", err)
	}
	if len(events) < limit {
		return events, store.Position{Epoch: at.Epoch, Seen: until}, nil
	}
	return events, store.Position{
		Epoch: at.Epoch,
		Seen:  at.Seen,
		Until: until,
		After: events[len(events)-1].Key(),
	}, nil
}

// fail says once that the feed cannot be read, and ends the streams when that has lasted too long.
func (f *feed) fail(err error, lasted time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.failing {
		f.log.Warn("the feed of events cannot be read; watchers wait", "cause", err)
	}
	f.failing = true
	if lasted > f.limits.Outage && !f.down {
		f.down = true
		f.streams.signalAll()
		close(f.advanced)
		f.advanced = make(chan struct{})
	}
}

// kick asks for a read.
func (f *feed) kick() {
	select {
	case f.kicked <- struct{}{}:
	default:
	}
}
