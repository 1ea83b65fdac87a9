package feed

import (
	"slices"
	"sort"

	"github.com/fencepost/fencepost/store"
)

// ring holds the newest events in feed order. An index counts events since the node started. A ring
// is not safe for concurrent use; the events in it never change.
type ring struct {
	capacity int // events
	chunks   []chunk
	first    uint64 // index of the oldest event kept
	end      uint64 // index of the next event
}

// chunk is one page of a batch.
type chunk struct {
	first  uint64
	before store.Position
	after  store.Position // after the last event
	until  string         // snapshot that ends the batch
	events []store.EventInfo
}

// position returns the position after event i of the chunk; i = -1 is before the first.
func (c *chunk) position(i int) store.Position {
	switch i {
	case -1:
		return c.before
	case len(c.events) - 1:
		return c.after
	}
	return store.Position{
		Epoch:    c.before.Epoch,
		Timeline: c.before.Timeline,
		Seen:     c.before.Seen,
		Until:    c.until,
		After:    c.events[i].Key(),
	}
}

// add appends a page, drops the oldest pages beyond the capacity, and returns the new chunk; nil
// for a page without events.
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
		r.chunks[0] = chunk{} // the array behind the slice would keep its events alive
		r.chunks = r.chunks[1:]
	}
	r.first = r.chunks[0].first
	return &r.chunks[len(r.chunks)-1]
}

func (r *ring) clear() { r.chunks, r.first = nil, r.end }

// from returns up to limit chunks, starting with the one that holds the index, which must be in the
// ring or its end.
func (r *ring) from(index uint64, limit int) []chunk {
	at := sort.Search(len(r.chunks), func(i int) bool {
		return r.chunks[i].first+uint64(len(r.chunks[i].events)) > index
	})
	return slices.Clone(r.chunks[at:min(at+limit, len(r.chunks))])
}
