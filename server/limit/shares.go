package limit

import (
	"maps"
	"sync"
)

// Shares divides the room for calls, or for streams, among callers.
//
// Half of the room is guaranteed: it is divided among the callers by weight, and a caller always
// gets its part, whatever the others do. The other half is for whoever comes first. So one caller
// can take at most its guarantee and the common half, and a node with a single caller, or with
// none configured, has all of its room for everyone.
type Shares struct {
	room int64

	mu         sync.Mutex
	guaranteed map[string]int64
	used       map[string]int64
	common     int64 // room that is not guaranteed to anyone
	commonUsed int64
}

// NewShares divides room among the callers with the given weights. Weights must be positive.
// Callers without a weight, and calls without a caller, have the common part alone.
func NewShares(room int64, weights map[string]int64) *Shares {
	s := &Shares{room: room, used: map[string]int64{}}
	s.Divide(weights)
	return s
}

// Divide replaces the weights. Room that is taken stays taken.
func (s *Shares) Divide(weights map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guaranteed, s.common = map[string]int64{}, s.room
	if len(weights) > 1 {
		var sum int64
		for _, weight := range weights {
			sum += weight
		}
		for caller, weight := range weights {
			s.guaranteed[caller] = s.room / 2 * weight / sum
			s.common -= s.guaranteed[caller]
		}
	}
	s.commonUsed = 0
	for caller, used := range s.used {
		s.commonUsed += max(0, used-s.guaranteed[caller])
	}
}

// Take takes room for a caller and reports whether there was enough.
func (s *Shares) Take(caller string, weight int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.used[caller]
	beyond := s.beyond(caller, before+weight) - s.beyond(caller, before)
	if beyond > 0 && s.commonUsed+beyond > s.common {
		return false
	}
	s.commonUsed += beyond
	s.used[caller] = before + weight
	return true
}

// Give gives back what Take has taken.
func (s *Shares) Give(caller string, weight int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.used[caller]
	s.commonUsed -= s.beyond(caller, before) - s.beyond(caller, before-weight)
	if s.used[caller] = before - weight; s.used[caller] == 0 {
		delete(s.used, caller)
	}
}

// beyond returns how much of used is above a caller's guarantee.
func (s *Shares) beyond(caller string, used int64) int64 {
	return max(0, used-s.guaranteed[caller])
}

// Used returns the room taken by each caller that has any.
func (s *Shares) Used() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.used)
}
