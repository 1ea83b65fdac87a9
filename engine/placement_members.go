package engine

import (
	"sync"
	"time"

	"github.com/fencepost/fencepost/store"
)

// members is what this node knows of the nodes that live. Nodes may know different things for a while; that costs time alone.
type members struct {
	self string
	ttl  time.Duration // how long a view is good; a node's own row lasts as long

	mu    sync.Mutex
	place placement
	at    time.Time            // of the view
	since map[string]time.Time // when each node was first seen, unless it was away since
}

func newMembers(self string, ttl time.Duration) *members {
	return &members{self: self, ttl: ttl, since: map[string]time.Time{}}
}

// saw takes over what the database told of the live nodes, and tells what is new in it. asked is when it was asked.
func (m *members) saw(nodes []store.NodeInfo, asked time.Time) (came, went []string) {
	seats := make([]seat, len(nodes))
	since := make(map[string]time.Time, len(nodes))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, n := range nodes {
		seats[i] = newSeat(n.ID, n.Chains, n.Accepting)
		before, known := m.since[n.ID]
		if !known {
			before = asked
			came = append(came, n.ID)
		}
		since[n.ID] = before
	}
	for id := range m.since {
		if _, lives := since[id]; !lives {
			went = append(went, id)
		}
	}
	m.place, m.at, m.since = placement{seats}, asked, since
	return came, went
}

// now is the placement that holds; empty when the last view is too old to rest anything on.
func (m *members) now(at time.Time) placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Sub(m.at) > m.ttl {
		return placement{}
	}
	return m.place
}

// settled tells whether a node has been there for a while: a process that starts and dies again and again shall not be handed anything.
func (m *members) settled(node string, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, known := m.since[node]
	return known && at.Sub(since) >= m.ttl
}
