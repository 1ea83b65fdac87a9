package engine

import (
	"sync"
	"time"

	"github.com/fencepost/fencepost/store"
)

// members is this node's view of the live nodes. Views may differ for a while, which only costs
// time.
type members struct {
	self string
	ttl  time.Duration // validity of a view, and lifetime of a heartbeat

	mu    sync.Mutex
	nodes placement
	at    time.Time            // of the view
	since map[string]time.Time // start of each node's current presence
}

func newMembers(self string, ttl time.Duration) *members {
	return &members{self: self, ttl: ttl, since: map[string]time.Time{}}
}

// saw stores the list of live nodes, and returns the changes. asked is the time of the request.
func (m *members) saw(nodes []store.NodeInfo, asked time.Time) (came, went []string) {
	candidates := make([]candidate, len(nodes))
	since := make(map[string]time.Time, len(nodes))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, n := range nodes {
		candidates[i] = newCandidate(n.ID, n.Chains, n.Accepting)
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
	m.nodes = placement{candidates}
	m.at, m.since = asked, since
	return came, went
}

// now returns the current placement; empty when the last view is too old to rely on.
func (m *members) now(at time.Time) placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Sub(m.at) > m.ttl {
		return placement{}
	}
	return m.nodes
}

// settled reports whether a node has been live for a while: a process that restarts in a loop gets
// no submitters.
func (m *members) settled(node string, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, known := m.since[node]
	return known && at.Sub(since) >= m.ttl
}
