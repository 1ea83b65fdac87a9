package store

import (
	"sync"

	"github.com/fencepost/fencepost/txn"
)

// maxWoken bounds the names that a wake-up holds; one more makes it a look.
const maxWoken = 1 << 16

// wakes signal work to owners and to the reader of the feed on this node. They carry no data: a
// lost one only costs time.
type wakes struct {
	mu     sync.Mutex
	ids    map[txn.SubmitterID]struct{} // written for on this node
	queued map[txn.SubmitterID]struct{} // got more transactions on this node
	heard  map[txn.SubmitterID]struct{} // from another node
	look   bool
	woken  chan struct{}
	events chan struct{}
}

func newWakes() *wakes {
	return &wakes{
		ids:    map[txn.SubmitterID]struct{}{},
		queued: map[txn.SubmitterID]struct{}{},
		heard:  map[txn.SubmitterID]struct{}{},
		woken:  make(chan struct{}, 1),
		events: make(chan struct{}, 1),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is on its way already
	}
}

func (w *wakes) signalEvents() { signal(w.events) }

func (w *wakes) wake(ids ...txn.SubmitterID) { w.note(w.ids, ids) }

func (w *wakes) queue(ids ...txn.SubmitterID) { w.note(w.queued, ids) }

func (w *wakes) hear(ids ...txn.SubmitterID) { w.note(w.heard, ids) }

func (w *wakes) note(into map[txn.SubmitterID]struct{}, ids []txn.SubmitterID) {
	w.mu.Lock()
	for _, id := range ids {
		if len(into) >= maxWoken {
			w.look = true
			break
		}
		into[id] = struct{}{}
	}
	w.mu.Unlock()
	signal(w.woken)
}

// wakeAll signals that any submitter may have work.
func (w *wakes) wakeAll() {
	w.mu.Lock()
	w.look = true
	w.mu.Unlock()
	signal(w.woken)
}

// Woken signals that TakeWoken or TakeQueued has something.
func (s *Store) Woken() <-chan struct{} { return s.wakes.woken }

// TakeQueued returns the submitters for which transactions were created on this node since the last
// call. Their owners need not look before they can take one.
func (s *Store) TakeQueued() []txn.SubmitterID {
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	return drain(s.wakes.queued)
}

// TakeWoken returns the submitters with new intents since the last call: those written on this
// node, and those heard on another one that did not own them. Only the first are worth a Notify;
// two nodes that forwarded wake-ups would wake each other for ever. look reports that there may be
// more: submitters without an owner, and inboxes.
func (s *Store) TakeWoken() (ids, heard []txn.SubmitterID, look bool) {
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	ids, heard = drain(s.wakes.ids), drain(s.wakes.heard)
	look, s.wakes.look = s.wakes.look, false
	return ids, heard, look
}

func drain(set map[txn.SubmitterID]struct{}) []txn.SubmitterID {
	ids := make([]txn.SubmitterID, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	clear(set)
	return ids
}

// EventsWritten signals that something on this node wrote events. It has one reader.
func (s *Store) EventsWritten() <-chan struct{} { return s.wakes.events }
