package feed

import (
	"context"
	"slices"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// subscription is the position of one stream in the feed, and all that an idle stream costs.
type subscription struct {
	feed     *Feed
	pages    int // that it takes at once; 0: one
	target   Target
	labels   map[string]string // of the target
	names    []string          // sorted submitters whose events are sent; nil: all
	epoch    int64
	run      uint64        // of the feed, when it joined
	wake     chan struct{} // there may be events; capacity 1
	progress *progress     // of the named transactions that the stream ends with; nil: none

	cursor
	behind  bool         // the ring has dropped events; read the ledger
	minRead uint64       // the read whose batch ends at or after cursor.from
	rejoin  *rejoinPoint // where reading the ledger stops
	// restricted means that tokens must name no event of another stream: see Request
	restricted bool
	delivered  *store.Position // last position the client knows; nil unless restricted
	entered    bool            // the registry has it
}

// rejoinPoint is the end of a batch: a snapshot, and the index of the first event after it.
type rejoinPoint struct {
	snapshot string
	index    uint64
}

// positioned is an event and the position after it.
type positioned struct {
	store.EventInfo
	after store.Position
}

// join registers a subscription at the end of a batch. With fresh, the snapshot of that batch was
// taken after the call, so it sees every event that the caller has already been sent. The caller
// must call leave.
func (f *Feed) join(ctx context.Context, t Target, names []string,
	fresh bool) (*subscription, error) {
	var s *subscription
	minRead := uint64(0)
	_ = OnFreshStack(func() error {
		s = &subscription{
			feed:   f,
			target: t,
			labels: t.labelSet(),
			names:  names,
			wake:   make(chan struct{}, 1),
		}
		f.metrics.streams.Add(ctx, 1)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.subscriptions.count++
		if fresh || f.boundary == "" {
			minRead = f.started + 1
			f.requestRead()
		}
		return nil
	})
	if err := s.enter(ctx, minRead); err != nil {
		s.leave()
		return nil, err
	}
	return s, nil
}

// enter registers the subscription at the end of the batch of that read, or of a later one.
func (s *subscription) enter(ctx context.Context, minRead uint64) error {
	f := s.feed
	return f.awaitRead(ctx, minRead, func() {
		s.epoch = f.head.Epoch
		s.run = f.run
		s.next = f.edge
		s.from = f.end()
		f.subscriptions.add(s)
	})
}

// end returns the position after the newest complete batch. The caller holds the lock.
func (f *Feed) end() store.Position {
	return store.Position{Epoch: f.head.Epoch, Timeline: f.head.Timeline, Seen: f.boundary}
}

func (s *subscription) leave() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.subscriptions.count--
	s.feed.remove(s)
	s.feed.metrics.streams.Add(context.Background(), -1)
}

// resumeAt moves the subscription to the position of a token. The subscription must be fresh, so
// that the batches after its ring position are also after the token.
func (s *subscription) resumeAt(at store.Position) {
	s.from, s.behind = at, true
	s.noteDelivered(at)
}

// skipToEnd moves the subscription to the end of the ring.
func (s *subscription) skipToEnd() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.caughtUp, s.behind = true, false
	s.rejoin = nil
}

// maxChunks bounds how much of the ring one call of peek returns.
const maxChunks = 16

// take returns the next events from the ring, at most one page: a slow client holds no more than
// that. With behind set, the caller must read the ledger instead. Neither events nor behind means
// that the stream is caught up.
func (s *subscription) take() (events []positioned, behind bool, err error) {
	for len(events) == 0 {
		chunks, behind, err := s.peek()
		if err != nil || behind || len(chunks) == 0 {
			return nil, behind, err
		}
		events = s.pick(chunks)
	}
	return events, false, nil
}

func (s *subscription) peek() (chunks []chunk, behind bool, err error) {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.down:
		return nil, false, store.ErrUnavailable
	case s.run != f.run, s.behind && !f.continues(&s.from):
		return nil, false, store.ErrTokenExpired
	case s.caughtUp:
		return nil, false, f.left(s.target)
	case s.behind || s.next < f.ring.first:
		if !s.behind {
			// The position may be inside the batch that the feed is reading right now.
			s.behind, s.minRead = true, f.started
			s.from.Timeline = f.head.Timeline // the ring is of one run
		}
		return nil, true, nil
	case s.next == f.ring.end:
		s.caughtUp = true
		return nil, false, f.left(s.target)
	}
	return f.ring.from(s.next, maxChunks), false, nil
}

// continues reports whether reading on from a position is possible after a fail-over, and moves the
// position to the present timeline. The caller holds the lock.
func (f *Feed) continues(p *store.Position) bool {
	if p.Timeline != f.head.Timeline {
		if !f.head.Holds(*p) {
			return false
		}
		p.Timeline = f.head.Timeline
	}
	return true
}

// pick returns the matching events of the chunks and advances past all that it examined.
func (s *subscription) pick(chunks []chunk) (events []positioned) {
	if n := s.count(chunks); n > 0 {
		events = make([]positioned, 0, n) // events are large: allocate once
	}
	next, from := s.next, s.from
	for i := range chunks {
		c := &chunks[i]
		for n := int(next - c.first); n < len(c.events); n++ {
			if len(events) == s.most() {
				s.advance(next, from)
				return events
			}
			next, from = next+1, c.position(n)
			if s.matches(&c.events[n]) {
				events = append(events, positioned{c.events[n], from})
			}
		}
	}
	s.advance(next, from)
	return events
}

// most is the most events that the stream takes at once.
func (s *subscription) most() int { return max(1, s.pages) * s.feed.limits.PageEvents }

// count returns the number of matching events, at most one page.
func (s *subscription) count(chunks []chunk) (n int) {
	next := s.next
	for i := range chunks {
		c := &chunks[i]
		for at := int(next - c.first); at < len(c.events) && n < s.most(); at++ {
			if next++; s.matches(&c.events[at]) {
				n++
			}
		}
	}
	return n
}

func (s *subscription) matches(e *store.EventInfo) bool {
	switch {
	case e.Tx.IsAccount() && !s.target.Accounts:
		return false
	case s.target.Tx != txn.TxID{}:
		return e.Tx == s.target.Tx
	case s.target.Txs != nil && !s.isNamed(e):
		return false
	case s.target.Submitter != 0 && s.target.Submitter != e.Submitter,
		!s.target.States.has(e.State):
		return false
	}
	if _, visible := slices.BinarySearch(s.names, e.SubmitterName); s.names != nil && !visible {
		return false
	}
	for key, value := range s.labels {
		if got, has := e.Labels[key]; !has || got != value {
			return false
		}
	}
	return true
}

// isNamed reports whether the transaction is one of the named ones. It also records its progress,
// including events that the stream does not deliver.
func (s *subscription) isNamed(e *store.EventInfo) bool {
	_, named := s.target.Txs.find(e.Tx)
	if named && s.progress != nil {
		s.progress.record(e.Tx, e.Seq, e.State)
	}
	return named
}

func (s *subscription) advance(next uint64, from store.Position) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.next, s.from = next, from
	s.caughtUp = next == s.feed.ring.end
}

// position returns where the stream is: it has taken every matching event up to there.
func (s *subscription) position() store.Position {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch last := len(f.ring.chunks) - 1; {
	case !s.caughtUp:
		return s.from
	case f.edge == f.ring.end:
		return f.end()
	default:
		return f.ring.chunks[last].after // inside the batch that the feed is reading
	}
}

// redact returns an equivalent position that names no event of an account that the caller may not
// see. Within a batch a position names the last event examined, which may be such an event. There
// is nothing for this stream between the last delivered position and that event, so any position in
// between resumes at the same position: for example before all events of the same database
// transaction.
func (s *subscription) redact(at store.Position) store.Position {
	delivered := store.Position{}
	if s.delivered != nil {
		delivered = *s.delivered
	}
	if !s.restricted || at.After == (store.EventKey{}) || at.After == delivered.After {
		return at
	}
	if delivered.Epoch == at.Epoch && delivered.Seen == at.Seen && delivered.Until == at.Until &&
		delivered.After.Xid == at.After.Xid {
		return delivered
	}
	at.After = store.EventKey{Xid: at.After.Xid}
	return at
}

// deliver records an event as delivered and returns the position after it.
func (s *subscription) deliver(e positioned) store.Position {
	s.noteDelivered(e.after)
	return e.after
}

// noteDelivered keeps a position that the client knows, for redact.
func (s *subscription) noteDelivered(at store.Position) {
	if s.restricted {
		delivered := at
		s.delivered = &delivered
	}
}

// catchUp reads one page of the ledger for a stream that is behind. At the end of a batch that the
// ring continues, the stream returns to the ring.
func (s *subscription) catchUp(ctx context.Context) (events []positioned, err error) {
	until := s.from.Until // a batch is finished before the next one begins
	if until == "" {
		if until, err = s.chooseRejoin(ctx); err != nil {
			return nil, err
		}
	}
	if s.from.Seen != until {
		s.feed.metrics.ledgerReads.Add(ctx, 1)
		before := s.from
		page, after, err := readPage(ctx, s.feed.store, nil, before, until, s.target,
			s.most())
		if err != nil {
			return nil, err
		}
		events, s.from = s.match(before, after, until, page), after
	}
	if s.rejoin != nil && s.from.Until == "" && s.from.Seen == s.rejoin.snapshot {
		s.next, s.behind = s.rejoin.index, false
		s.rejoin = nil
	}
	return events, nil
}

// chooseRejoin picks the end of a batch at or after the position of the stream.
func (s *subscription) chooseRejoin(ctx context.Context) (snapshot string, err error) {
	f := s.feed
	if s.rejoin == nil {
		err := f.awaitRead(ctx, s.minRead, func() { s.rejoin = &rejoinPoint{f.boundary, f.edge} })
		if err != nil {
			return "", err
		}
	}
	return s.rejoin.snapshot, nil
}

// match returns the matching events of a page of the ledger with their positions.
func (s *subscription) match(before, after store.Position, until string,
	page []store.EventInfo) (events []positioned) {
	c := chunk{before: before, after: after, until: until, events: page}
	for i := range page {
		if s.matches(&page[i]) {
			events = append(events, positioned{page[i], c.position(i)})
		}
	}
	return events
}
