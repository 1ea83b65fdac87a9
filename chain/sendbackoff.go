package chain

import (
	"sync"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// sendBackoff keeps transactions from an endpoint that responded that it accepts none: it is not
// synced, or does not serve the method, the account or this client. It is separate from health,
// because reads may still work. The refusal may concern one account only, so the endpoint is tried
// anyway if no other one processed the bytes.
type sendBackoff struct {
	mu       sync.Mutex
	failures int // consecutive
	until    time.Time
}

// note records the result of a send; nil means accepted. It reports whether a backoff starts.
func (s *sendBackoff) note(now time.Time, f *fault) (entered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f == nil || f.answered && !refusesService(f):
		s.failures, s.until = 0, time.Time{}
	case f.answered:
		s.until = now.Add(backoff(s.failures, f))
		s.failures++
		return s.failures == 1
	}
	return false // without a response nothing is known
}

func (s *sendBackoff) expired(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.until.After(now)
}

// refusesService reports whether a fault is about the endpoint rather than the request.
func refusesService(f *fault) bool {
	return f.class == txn.Unavailable ||
		f.class == txn.Unauthorized
}
