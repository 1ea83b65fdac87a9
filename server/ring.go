package server

import (
	"slices"
	"sort"

	"github.com/fencepost/fencepost/store"
)

// ring holds the newest events of the feed in the order of the feed. An event's index counts from the start of the node. The ring is not safe for
// concurrent use; the events in it never change.
type ring struct {
	capacity int // most events
	chunks   []chunk
	first    uint64 // index of the oldest event that is kept
	end      uint64 // index of the event that comes next
}

// chunk is one page of a batch.
type chunk struct {
	first  uint64
	before store.Position
	after  store.Position // after the last event
	until  string         // the snapshot of the batch
	events []store.EventInfo
}

// position is where one stands after the event i of the chunk; -1 stands for before all of them.
func (c *chunk) position(i int) store.Position {
	switch i {
	case -1:
		return c.before
	case len(c.events) - 1:
		return c.after
	}
	return store.Position{
		Epoch: c.before.Epoch,
		Seen:  c.before.Seen,
		Until: c.until,
		After: c.events[i].Key(),
	}
}

// add appends a page and lets go of the oldest ones. A page without events leaves nothing to keep.
func (r *ring) add(before, after store.Position, events []store.EventInfo) *chunk {
	if len(events) == 0 {
		return nil
	}
	until := after.Until
	if until == "" {
		until = after.Seen
	}
	r.chunks = append(r.chunks,
		chunk{first: r.end, before: before, after: after, until: until, events: events})
	r.end += uint64(len(events))
	for len(r.chunks) > 1 && r.end-r.chunks[0].first > uint64(r.capacity) {
		r.chunks[0] = chunk{} // lets go of its memory, which the array behind the slice would keep
		r.chunks = r.chunks[1:]
	}
	r.first = r.chunks[0].first
	return &r.chunks[len(r.chunks)-1]
}

func (r *ring) clear() { r.chunks, r.first = nil, r.end }

// from copies up to most chunks that hold the events from an index on, which must not be older than first.
func (r *ring) from(index uint64, most int) []chunk {
	at := sort.Search(len(r.chunks), func(i int) bool {
		return r.chunks[i].first+uint64(len(r.chunks[i].events)) > index
	})
	return slices.Clone(r.chunks[at:min(at+most, len(r.chunks))])
}
