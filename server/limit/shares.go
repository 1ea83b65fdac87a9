package limit

import (
	"maps"
	"sync"
)

// Shares divides the room for calls, or for streams, among callers.
//
// Half of the room is guaranteed: it is divided among the callers by weight, and a caller always
// gets its part, regardless of the others. The other half is common. There, a caller may hold at
// most lead times as much as is free, so some room is always left for callers that come later: an
// eighth after one greedy caller, a fifteenth after two. If there is only one caller, it has all
// the room.
//
// Callers without a weight share the common part. If no caller has a weight, all room is common.
type Shares struct {
	room int64

	mu         sync.Mutex
	guaranteed map[string]int64
	used       map[string]int64
	common     int64 // room that is not guaranteed to anyone
	commonUsed int64
}

// lead bounds the part of the common room that one caller may hold, as a multiple of the free part.
const lead = 7

// Outcome is the result of Take.
type Outcome int

// Outcomes of Take.
const (
	Taken     Outcome = iota
	RoomFull          // for everyone
	ShareFull         // for this caller
)

// NewShares divides room among the callers with the given weights. Weights must be positive.
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
	guaranteed := s.room / 2
	if len(weights) == 1 {
		guaranteed = s.room
	}
	var sum int64
	for _, weight := range weights {
		sum += weight
	}
	for caller, weight := range weights {
		s.guaranteed[caller] = guaranteed * weight / sum
		s.common -= s.guaranteed[caller]
	}
	s.commonUsed = 0
	for caller, used := range s.used {
		s.commonUsed += s.beyond(caller, used)
	}
}

// Take takes room for a caller, if there is enough.
func (s *Shares) Take(caller string, weight int64) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.beyond(caller, s.used[caller])
	after := s.beyond(caller, s.used[caller]+weight)
	free := s.common - s.commonUsed
	switch {
	case after > before && after-before > free:
		return RoomFull
	case after > before && after > lead*free:
		return ShareFull
	}
	s.addLocked(caller, weight)
	return Taken
}

// Add takes room that must be counted even beyond the limit, or releases room if weight is
// negative.
func (s *Shares) Add(caller string, weight int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(caller, weight)
}

func (s *Shares) addLocked(caller string, weight int64) {
	before := s.used[caller]
	s.commonUsed += s.beyond(caller, before+weight) - s.beyond(caller, before)
	if s.used[caller] = before + weight; s.used[caller] == 0 {
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

// Total returns the room taken by all callers.
func (s *Shares) Total() (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, used := range s.used {
		sum += used
	}
	return sum
}
