package feed

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Reader reads the events between two snapshots.
type Reader interface {
	Head(ctx context.Context) (store.Head, error)
	// EventsSince appends to page the events that until sees and since does not.
	EventsSince(ctx context.Context, page []store.EventInfo, since, until string,
		after store.EventKey, submitter txn.SubmitterID, limit int) ([]store.EventInfo, error)
	EventsSinceOf(ctx context.Context, since, until string, after store.EventKey, ids []txn.TxID,
		limit int) ([]store.EventInfo, error)
	// MovedOf returns those of these submitters that have moved to another ledger. Every later
	// snapshot sees all events that they have here.
	MovedOf(ctx context.Context,
		ids []txn.SubmitterID) (map[txn.SubmitterID]*store.MovedError, error)
}

// Store is the part of the ledger that the feed and its streams read.
type Store interface {
	// EventsWritten signals commits of this node. Signals may be coalesced or lost.
	EventsWritten() <-chan struct{}
	Reader
	EventsOfTx(ctx context.Context, id txn.TxID, afterSeq int64,
		limit int) ([]store.EventInfo, error)

	Tx(ctx context.Context, id txn.TxID) (store.TxInfo, error)
	// TxVersions returns the current version and state of those transactions that exist.
	TxVersions(ctx context.Context, ids []txn.TxID) (map[txn.TxID]store.TxVersion, error)
	Txs(ctx context.Context, filter store.TxFilter) ([]store.TxInfo, error)
}

// Limits bound the memory and the reads of a feed. All must be positive.
type Limits struct {
	RingEvents  int           // newest events kept in memory for all streams
	PageEvents  int           // events, or snapshots, that a stream reads and holds at once
	Poll        time.Duration // interval of reads without a signal
	MinGap      time.Duration // least time between two reads
	Outage      time.Duration // time that a stream waits for a database that is down
	ReadTimeout time.Duration // of one read of the ledger
}

// Options configure a feed. All fields are required.
type Options struct {
	Store         Store
	Tail          Reader // for the feed itself; streams read with Store
	Clock         clock.Clock
	Logger        *slog.Logger
	Limits        Limits
	MeterProvider metric.MeterProvider
}

// Feed reads the events of the ledger for all streams of a node. It is safe for concurrent use.
type Feed struct {
	store     Store
	tail      Reader
	clock     clock.Clock
	log       *slog.Logger
	limits    Limits
	metrics   *metrics
	readSlots chan struct{} // one for each stream that reads the ledger
	requests  chan struct{} // a stream wants a read now; capacity 1
	page      int           // most events of one read

	at     store.Position    // position of the feed. Only Run uses it
	buffer []store.EventInfo // reused by each read. Only Run uses it
	asked  time.Time         // when it last asked which accounts have moved. Only Run uses it

	mu            sync.Mutex
	ring          ring
	subscriptions registry
	// accounts of streams that have moved, and whose events are all in the ring or before it
	moved map[txn.SubmitterID]*store.MovedError
	head  store.Head // of the newest read that succeeded
	run   uint64     // number of the first read without a gap to this one
	// snapshot that ends the newest complete batch; empty while the feed idles
	boundary string
	edge     uint64 // index of the first event after it
	started  uint64 // number of reads started
	finished uint64 // number of the newest read that succeeded
	advanced chan struct{}
	failing  bool // the last read failed
	down     bool // reads have failed for longer than Limits.Outage
}

const (
	// PagesPerRead is the size of a read of the feed in pages of a stream: a node has only one
	// feed.
	PagesPerRead = 8
	// concurrentReads bounds the streams that read the ledger at once; they share fewer
	// connections.
	concurrentReads = 32
	// maxBackoff bounds the pause between failed reads.
	maxBackoff = time.Second
)

// New returns a feed that reads nothing before Run.
func New(o Options) (*Feed, error) {
	m, err := newMetrics(o.MeterProvider)
	if err != nil {
		return nil, err
	}
	return &Feed{
		store: o.Store, tail: o.Tail, clock: o.Clock, log: o.Logger, limits: o.Limits, metrics: m,
		readSlots:     make(chan struct{}, concurrentReads),
		requests:      make(chan struct{}, 1),
		page:          PagesPerRead * o.Limits.PageEvents,
		ring:          ring{capacity: o.Limits.RingEvents},
		subscriptions: newRegistry(),
		moved:         map[txn.SubmitterID]*store.MovedError{},
		advanced:      make(chan struct{}),
	}, nil
}

// Run reads events while there are streams, until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	lastSuccess := f.clock.Now()
	pause := f.limits.MinGap
	for ctx.Err() == nil {
		if !f.hasStreams() {
			select {
			case <-f.requests:
			case <-ctx.Done():
			}
			lastSuccess = f.clock.Now()
			continue
		}
		err := f.read(ctx)
		switch now := f.clock.Now(); {
		case ctx.Err() != nil:
			return
		case err == nil:
			lastSuccess, pause = now, f.limits.MinGap
		default:
			pause = min(max(2*pause, f.limits.Poll), maxBackoff)
			f.fail(err, now.Sub(lastSuccess))
		}
		f.wait(ctx, pause)
	}
}

// hasStreams reports whether there are streams. Without any it resets the feed, so that the next
// stream starts at a new snapshot.
func (f *Feed) hasStreams() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscriptions.count > 0 {
		return true
	}
	f.reset()
	f.failing, f.down = false, false
	return false
}

// reset empties the ring. Indexes continue, so that an index never names two events.
func (f *Feed) reset() {
	f.at, f.boundary = store.Position{}, ""
	f.ring.clear()
	f.edge = f.ring.end
}

// wait returns when there is a reason to read, but not before the gap has passed: a burst of
// signals causes one read.
func (f *Feed) wait(ctx context.Context, gap time.Duration) {
	if clock.Sleep(ctx, f.clock, gap) != nil || gap >= f.limits.Poll {
		return
	}
	timer := f.clock.NewTimer(f.limits.Poll - gap)
	defer timer.Stop()
	select {
	case <-f.store.EventsWritten():
	case <-f.requests:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// read appends one batch to the ring, or the rest of a batch whose read failed midway.
func (f *Feed) read(ctx context.Context) error {
	f.mu.Lock()
	f.started++
	number := f.started
	f.mu.Unlock()
	f.metrics.reads.Add(ctx, 1)
	moved, err := f.readMoved(ctx) // before the head, which then has all of their events
	if err != nil {
		return err
	}
	head, err := f.readHead(ctx)
	if err != nil {
		return fmt.Errorf("server: read the head of the feed: %w", err)
	}
	// Trimmed events are hours old: the node stood still, and may have missed them.
	missed := head.Trims(f.at) && !head.Trims(store.Position{Seen: head.Snapshot})
	if f.at.Seen == "" || !head.Holds(f.at) || missed {
		f.begin(head)
	}
	f.at.Timeline = head.Timeline
	if err := f.readUpTo(ctx, head.Snapshot); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head = head
	f.boundary = f.at.Seen
	f.edge = f.ring.end
	f.finished = number
	f.failing, f.down = false, false
	f.leave(moved)
	f.broadcastAdvance()
	return nil
}

// broadcastAdvance wakes the joining streams. The caller holds the lock.
func (f *Feed) broadcastAdvance() {
	close(f.advanced)
	f.advanced = make(chan struct{})
}

func (f *Feed) readHead(ctx context.Context) (store.Head, error) {
	ctx, cancel := f.bound(ctx)
	defer cancel()
	return f.tail.Head(ctx)
}

// holds reports whether a position is one of the feed.
func (f *Feed) holds(p store.Position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head.Holds(p)
}

// trims reports whether events after a position may have been archived and removed.
func (f *Feed) trims(p store.Position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head.Trims(p)
}

// bound limits the time of a read. A read that times out is treated as a database that is down.
func (f *Feed) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, f.limits.ReadTimeout, store.ErrUnavailable)
}

// begin starts at a snapshot. The feed has a gap there: the ledger was restored or went back, or
// unread events were archived. The streams from before it end.
func (f *Feed) begin(head store.Head) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reset()
	f.at = store.Position{Epoch: head.Epoch, Timeline: head.Timeline, Seen: head.Snapshot}
	f.run = f.started
	f.head = head
	f.subscriptions.wakeAll()
}

// readUpTo reads up to a snapshot page by page, and publishes each page at once.
func (f *Feed) readUpTo(ctx context.Context, snapshot string) error {
	for f.at.Seen != snapshot {
		bounded, cancel := f.bound(ctx)
		events, next, err := readPage(bounded, f.tail, f.buffer, f.at, snapshot, Target{}, f.page)
		cancel()
		if err != nil {
			return err
		}
		kept := slices.Clone(events)
		f.mu.Lock()
		f.subscriptions.notify(f.ring.add(f.at, next, kept))
		f.mu.Unlock()
		clear(events) // the buffer must not keep dropped events alive
		f.at, f.buffer = next, events[:0]
	}
	return nil
}

// readPage reads the events between a position and a newer snapshot, limited to the submitter or
// the named transactions of the target, and returns them with the position after them. It appends
// to page, which must be empty and may be nil.
func readPage(ctx context.Context, s Reader, page []store.EventInfo, at store.Position,
	until string, of Target, limit int) (
	events []store.EventInfo, next store.Position, err error) {
	if at.Until != "" {
		until = at.Until // a batch is finished before the next one begins
	}
	if of.Txs != nil {
		events, err = s.EventsSinceOf(ctx, at.Seen, until, at.After, *of.Txs, limit)
	} else {
		events, err = s.EventsSince(ctx, page, at.Seen, until, at.After, of.Submitter, limit)
	}
	if err != nil {
		return nil, at, fmt.Errorf("server: read events: %w", err)
	}
	if len(events) < limit {
		return events, store.Position{Epoch: at.Epoch, Timeline: at.Timeline, Seen: until}, nil
	}
	return events, store.Position{
		Epoch:    at.Epoch,
		Timeline: at.Timeline,
		Seen:     at.Seen,
		Until:    until,
		After:    events[len(events)-1].Key(),
	}, nil
}

// fail logs the first of several failed reads, and ends the streams after Limits.Outage.
func (f *Feed) fail(err error, lasted time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.failing {
		f.log.Warn("event feed read failed; streams wait", "cause", err)
	}
	f.failing = true
	if lasted > f.limits.Outage && !f.down {
		f.down = true
		f.subscriptions.wakeAll()
		f.broadcastAdvance()
	}
}

// requestRead asks Run to read now.
func (f *Feed) requestRead() {
	select {
	case f.requests <- struct{}{}:
	default:
	}
}

// awaitRead calls then, with the lock, once the read of that number or a later one has succeeded.
func (f *Feed) awaitRead(ctx context.Context, number uint64, then func()) error {
	for {
		var advanced <-chan struct{}
		err := OnFreshStack(func() (err error) {
			advanced, err = f.tryRead(number, then)
			return err
		})
		if err != nil || advanced == nil {
			return err
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryRead calls then if that read has succeeded; otherwise it returns a channel that closes when it
// is time to try again.
func (f *Feed) tryRead(number uint64, then func()) (advanced <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.down:
		return nil, store.ErrUnavailable
	case f.boundary == "" || f.finished < number:
		return f.advanced, nil
	}
	then()
	return nil, nil
}

// Healthy reports whether the last read succeeded.
func (f *Feed) Healthy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.failing
}

// Idle reports whether the feed reads nothing because there are no streams.
func (f *Feed) Idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boundary == ""
}
