package server

import (
	"context"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// target is what a stream watches: one transaction, else several that are named, else the transactions of one submitter, else all; of the last two, the ones with certain
// labels. Of all of that it tells the events that lead to certain states.
type target struct {
	tx        txn.TxID
	txs       *idSet
	submitter txn.SubmitterID
	labels    string // each as key=value on a line of its own, in order, so that targets can be compared; values have no line breaks
	states    stateSet
}

// withLabels narrows a target to the transactions that have all of these labels.
func (t target) withLabels(labels map[string]string) target {
	lines := make([]string, 0, len(labels))
	for key, value := range labels {
		lines = append(lines, key+"="+value)
	}
	slices.Sort(lines)
	t.labels = strings.Join(lines, "\n")
	return t
}

// labelSet are the labels that a target asks for; nil: none.
func (t target) labelSet() map[string]string {
	if t.labels == "" {
		return nil
	}
	set := map[string]string{}
	for line := range strings.SplitSeq(t.labels, "\n") {
		key, value, _ := strings.Cut(line, "=")
		set[key] = value
	}
	return set
}

// signs are the targets by which a stream is found: one for each state that it tells, and of several labels the first alone. The stream of one transaction, or of several,
// is found by each of these and follows all of their events, whatever it tells.
func (t target) signs() (signs []target) {
	if t.txs != nil {
		for _, id := range *t.txs {
			signs = append(signs, target{tx: id})
		}
		return signs
	}
	t.labels, _, _ = strings.Cut(t.labels, "\n")
	if t.states == 0 || t.tx != (txn.TxID{}) {
		t.states = 0
		return []target{t}
	}
	for _, state := range t.states.of(txn.States) {
		t.states = setOf(state)
		signs = append(signs, t)
	}
	return signs
}

// appendSigns adds the signs of the streams that an event may be for.
func appendSigns(signs []target, e *store.EventInfo) []target {
	signs = append(signs, target{tx: e.Tx})
	many := len(signs)
	signs = append(signs, target{submitter: e.Submitter}, target{})
	for key, value := range e.Labels {
		label := key + "=" + value
		signs = append(signs, target{submitter: e.Submitter, labels: label}, target{labels: label})
	}
	for _, t := range signs[many:] {
		t.states = setOf(e.State)
		signs = append(signs, t)
	}
	return signs
}

// streams are the places of the streams that are open, by the sign of what they watch: a new event costs only as much as there are streams that it may be for.
// A stream of several labels is woken by the first of them.
type streams struct {
	count  int // those that still wait for their place included
	places map[target]map[*place]struct{}
}

func newStreams() streams { return streams{places: map[target]map[*place]struct{}{}} }

func (s *streams) add(p *place) {
	for _, sign := range p.target.signs() {
		if s.places[sign] == nil {
			s.places[sign] = map[*place]struct{}{}
		}
		s.places[sign][p] = struct{}{}
	}
}

func (s *streams) remove(p *place) {
	for _, sign := range p.target.signs() {
		delete(s.places[sign], p)
		if len(s.places[sign]) == 0 {
			delete(s.places, sign)
		}
	}
}

// tell wakes the streams that a chunk has events for. One that had seen everything stands before the first of them now, so that a stream that waits long for
// an event does not fall behind meanwhile.
func (s *streams) tell(c *chunk) {
	if c == nil {
		return
	}
	told := map[target]bool{} // as many as streams have, which are few next to the signs of a page
	var signs []target
	for i := range c.events {
		signs = appendSigns(signs[:0], &c.events[i])
		for _, t := range signs {
			places := s.places[t]
			if len(places) == 0 || told[t] {
				continue
			}
			told[t] = true
			for p := range places {
				p.tell(c, i)
			}
		}
	}
}

func (s *streams) signalAll() {
	for _, places := range s.places {
		for p := range places {
			p.signal()
		}
	}
}

// place is where one stream stands in the feed. It is all that a stream costs.
type place struct {
	feed   *feed
	target target
	labels map[string]string // that the target asks for
	only   []string          // names of the submitters that the caller has a right to, in order; nil: all
	epoch  int64
	wake   chan struct{} // there may be something to take; capacity 1

	// caughtUp, guarded by the lock of the feed, says that no event of the ring is for this stream. While it is set the tailer owns what follows, else the
	// stream does.
	caughtUp bool
	next     uint64          // index of the first event that was not looked at
	from     store.Position  // where that is in the ledger
	behind   bool            // the ring has no more of it: the ledger is read from there
	need     uint64          // the read after which the end of a batch is not older than from
	goal     *goal           // where the ring is met again
	told     *store.Position // the last that the caller was told or has come with; nil: none, or it may be told any
	ends     *ends           // of what the stream ends with; nil: it does not end by itself
}

// goal is the end of a batch: a snapshot, and the index of the first event after it.
type goal struct {
	snapshot string
	index    uint64
}

// placed is an event and where one stands after it.
type placed struct {
	store.EventInfo
	after store.Position
}

// join gives a stream its place, at the end of a batch. A fresh place is at the end of a batch whose snapshot was taken after the call: it sees whatever the
// caller has been told of. Leave must be called in the end.
func (f *feed) join(ctx context.Context, t target, fresh bool) (*place, error) {
	var p *place
	need := uint64(0)
	_ = apart(func() error {
		p = &place{
			feed:   f,
			target: t,
			labels: t.labelSet(),
			only:   rightsIn(ctx).only(),
			wake:   make(chan struct{}, 1),
		}
		f.metrics.watchers.Add(ctx, 1)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.streams.count++
		if fresh || f.boundary == "" {
			need = f.started + 1
			f.kick()
		}
		return nil
	})
	if err := p.enter(ctx, need); err != nil {
		p.leave()
		return nil, err
	}
	return p, nil
}

// enter takes the place at the end of the batch that the read of that number, or a later one, has brought.
func (p *place) enter(ctx context.Context, need uint64) error {
	f := p.feed
	return f.when(ctx, need, func() {
		p.epoch, p.next, p.from = f.epoch, f.edge, store.Position{Epoch: f.epoch, Seen: f.boundary}
		f.streams.add(p)
	})
}

// when calls then, under the lock, as soon as the read of that number, or a later one, has succeeded.
func (f *feed) when(ctx context.Context, need uint64, then func()) error {
	for {
		var advanced <-chan struct{}
		err := apart(func() (err error) {
			advanced, err = f.try(need, then)
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

// try calls then if that read has succeeded; else it returns what tells when to try again.
func (f *feed) try(need uint64, then func()) (advanced <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.down:
		return nil, store.ErrUnavailable
	case f.boundary == "" || f.finished < need:
		return f.advanced, nil
	}
	then()
	return nil, nil
}

func (p *place) leave() {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	p.feed.streams.count--
	p.feed.streams.remove(p)
	p.feed.metrics.watchers.Add(context.Background(), -1)
}

func (p *place) tell(c *chunk, i int) {
	if p.caughtUp {
		p.caughtUp, p.next, p.from = false, c.first+uint64(i), c.position(i-1)
	}
	p.signal()
}

func (p *place) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// resume puts the place at a position that a token named. The place must be fresh: then the batches that the ring continues with lie after the position.
func (p *place) resume(at store.Position) {
	p.from, p.behind = at, true
	p.tells(at)
}

// skip puts the place at the end of the ring.
func (p *place) skip() {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	p.caughtUp, p.behind, p.goal = true, false, nil
}

// takeChunks bounds how much of the ring is looked at in one go.
const takeChunks = 16

// take returns the next events, a page at most: they are all that a stream holds while its client is slow. Behind says that they have to be read from the
// ledger; without events and not behind, there is nothing to do but to wait.
func (p *place) take() (events []placed, behind bool, err error) {
	for len(events) == 0 {
		chunks, behind, err := p.look()
		if err != nil || behind || len(chunks) == 0 {
			return nil, behind, err
		}
		events = p.pick(chunks)
	}
	return events, false, nil
}

func (p *place) look() (chunks []chunk, behind bool, err error) {
	f := p.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.down:
		return nil, false, store.ErrUnavailable
	case p.epoch != f.epoch:
		return nil, false, store.ErrTokenExpired
	case p.caughtUp:
		return nil, false, nil
	case p.behind || p.next < f.ring.first:
		if !p.behind {
			p.behind, p.need = true, f.started // from may lie in the batch that is being read
		}
		return nil, true, nil
	case p.next == f.ring.end:
		p.caughtUp = true
		return nil, false, nil
	}
	return f.ring.from(p.next, takeChunks), false, nil
}

// pick takes what is for this stream out of the chunks, and moves behind what it looked at.
func (p *place) pick(chunks []chunk) (events []placed) {
	if n := p.count(chunks); n > 0 {
		events = make([]placed, 0, n) // they are large
	}
	next, from := p.next, p.from
	for i := range chunks {
		c := &chunks[i]
		for n := int(next - c.first); n < len(c.events); n++ {
			if len(events) == p.feed.limits.PageEvents {
				p.advance(next, from)
				return events
			}
			next, from = next+1, c.position(n)
			if p.matches(&c.events[n]) {
				events = append(events, placed{c.events[n], from})
			}
		}
	}
	p.advance(next, from)
	return events
}

// count is how many events of the chunks are for this stream, as far as they are on the next page.
func (p *place) count(chunks []chunk) (n int) {
	next := p.next
	for i := range chunks {
		c := &chunks[i]
		for at := int(next - c.first); at < len(c.events) && n < p.feed.limits.PageEvents; at++ {
			if next++; p.matches(&c.events[at]) {
				n++
			}
		}
	}
	return n
}

func (p *place) matches(e *store.EventInfo) bool {
	switch {
	case p.target.tx != txn.TxID{}:
		return e.Tx == p.target.tx
	case p.target.txs != nil && !p.names(e):
		return false
	case p.target.submitter != 0 && p.target.submitter != e.Submitter,
		!p.target.states.has(e.State):
		return false
	}
	if _, own := slices.BinarySearch(p.only, e.SubmitterName); p.only != nil && !own {
		return false
	}
	for key, value := range p.labels {
		if got, has := e.Labels[key]; !has || got != value {
			return false
		}
	}
	return true
}

// names tells whether the transaction is one of those that are named, and notes how far it has come: also if that is not told.
func (p *place) names(e *store.EventInfo) bool {
	_, has := p.target.txs.find(e.Tx)
	if has && p.ends != nil {
		p.ends.note(e.Tx, e.Seq, e.State)
	}
	return has
}

func (p *place) advance(next uint64, from store.Position) {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	p.next, p.from, p.caughtUp = next, from, next == p.feed.ring.end
}

// position is where the stream stands: whatever is for it up to there has been taken.
func (p *place) position() store.Position {
	f := p.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch last := len(f.ring.chunks) - 1; {
	case !p.caughtUp:
		return p.from
	case f.edge == f.ring.end:
		return store.Position{Epoch: f.epoch, Seen: f.boundary}
	default:
		return f.ring.chunks[last].after // inside of a batch that is being read
	}
}

// shown is a position as its caller may read it. Within a batch a position names the event that was looked at last, and that may be one of an account that is not
// the caller's. Between the last event that was delivered, or the place where the stream began, and that one there is nothing for the stream: so any place between
// them will do, such as before all that was written by the transaction of the database that wrote it.
func (p *place) shown(at store.Position) store.Position {
	told := store.Position{}
	if p.told != nil {
		told = *p.told
	}
	if p.only == nil || at.After == (store.EventKey{}) || at.After == told.After {
		return at
	}
	if told.Epoch == at.Epoch && told.Seen == at.Seen && told.Until == at.Until &&
		told.After.Xid == at.After.Xid {
		return told
	}
	at.After = store.EventKey{Xid: at.After.Xid}
	return at
}

// delivers notes that an event is delivered, and returns where the stream stands with it.
func (p *place) delivers(e placed) store.Position {
	p.tells(e.after)
	return e.after
}

// tells notes it for a caller who may not know every position.
func (p *place) tells(at store.Position) {
	if p.only != nil {
		told := at
		p.told = &told
	}
}

// upToDate tells whether the feed is being read at all.
func (p *place) upToDate() bool {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	return !p.feed.failing
}

// catchUp reads one page of the ledger for a stream of many transactions that is behind. When it has reached the end of a batch it goes on in the ring.
func (p *place) catchUp(ctx context.Context) (events []placed, err error) {
	until := p.from.Until // a batch is finished before the next one begins
	if until == "" {
		if until, err = p.aim(ctx); err != nil {
			return nil, err
		}
	}
	if p.from.Seen != until {
		p.feed.metrics.catchUps.Add(ctx, 1)
		before := p.from
		page, after, err := readPage(ctx, p.feed.store, nil, before, until, p.target,
			p.feed.limits.PageEvents)
		if err != nil {
			return nil, err
		}
		events, p.from = p.placeAll(before, after, until, page), after
	}
	if p.goal != nil && p.from.Until == "" && p.from.Seen == p.goal.snapshot {
		p.next, p.behind, p.goal = p.goal.index, false, nil
	}
	return events, nil
}

// aim chooses where the ring shall be met: at the end of a batch that is not older than where the stream stands.
func (p *place) aim(ctx context.Context) (snapshot string, err error) {
	f := p.feed
	if p.goal == nil {
		err := f.when(ctx, p.need, func() { p.goal = &goal{f.boundary, f.edge} })
		if err != nil {
			return "", err
		}
	}
	return p.goal.snapshot, nil
}

// placeAll gives each event of a page that is for this stream its place, as a chunk of the ring would.
func (p *place) placeAll(before, after store.Position, until string,
	page []store.EventInfo) (events []placed) {
	c := chunk{before: before, after: after, until: until, events: page}
	for i := range page {
		if p.matches(&page[i]) {
			events = append(events, placed{page[i], c.position(i)})
		}
	}
	return events
}
