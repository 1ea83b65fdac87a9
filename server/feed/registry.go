package feed

import (
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// registry indexes the open subscriptions by target, so that an event costs only as much as there
// are streams that may want it.
type registry struct {
	count int // includes streams that are still joining
	index map[Target]map[*subscription]struct{}
	// accounts counts the subscriptions that end when their account moves to another ledger
	accounts map[txn.SubmitterID]int
}

func newRegistry() registry {
	return registry{index: map[Target]map[*subscription]struct{}{},
		accounts: map[txn.SubmitterID]int{}}
}

func (r *registry) add(s *subscription) {
	s.entered = true
	for id := range s.target.accounts() {
		r.accounts[id]++
	}
	for _, key := range s.target.indexKeys() {
		if r.index[key] == nil {
			r.index[key] = map[*subscription]struct{}{}
		}
		r.index[key][s] = struct{}{}
	}
}

func (r *registry) remove(s *subscription) {
	if !s.entered {
		return
	}
	for id := range s.target.accounts() {
		if r.accounts[id]--; r.accounts[id] == 0 {
			delete(r.accounts, id)
		}
	}
	for _, key := range s.target.indexKeys() {
		delete(r.index[key], s)
		if len(r.index[key]) == 0 {
			delete(r.index, key)
		}
	}
}

// notify wakes the subscriptions that may want an event of the chunk. One that was caught up now
// starts before the first such event, so that a stream with rare events does not fall behind.
func (r *registry) notify(c *chunk) {
	if c == nil {
		return
	}
	notified := map[Target]bool{} // only keys with subscriptions: few next to the keys of a page
	var keys []Target
	for i := range c.events {
		keys = appendEventKeys(keys[:0], &c.events[i])
		for _, key := range keys {
			found := r.index[key]
			if len(found) == 0 || notified[key] {
				continue
			}
			notified[key] = true
			for s := range found {
				s.notify(c, i)
			}
		}
	}
}

func (r *registry) wakeAll() {
	for _, found := range r.index {
		for s := range found {
			s.signal()
		}
	}
}

// cursor is the position of a subscription in the ring.
type cursor struct {
	// caughtUp, guarded by the lock of the feed, means that the ring has no event for the stream.
	// While it is set the feed owns the fields below, otherwise the stream does.
	caughtUp bool
	next     uint64         // index of the first event not examined yet
	from     store.Position // the same position in the ledger
}

// notify must be called with the lock of the feed.
func (s *subscription) notify(c *chunk, i int) {
	if s.caughtUp {
		s.caughtUp = false
		s.next, s.from = c.first+uint64(i), c.position(i-1)
	}
	s.signal()
}

func (s *subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
