package chain

import (
	"sync"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// sendBackoff is how long an endpoint gets no transactions because it answered, in words of its own, that it takes none: it is not synced, or does not serve
// the method, the account or us. It may read well all the while, so it is kept apart from its health; and as the refusal may have been of one account alone,
// it is asked all the same when no other endpoint has looked at the bytes.
type sendBackoff struct {
	mu       sync.Mutex
	failures int // in a row
	until    time.Time
}

// note keeps what the endpoint said of a send; nil: it was taken. It tells whether a rest begins that was none before.
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
	return false // no answer says nothing of what it takes
}

func (s *sendBackoff) expired(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.until.After(now)
}

// refusesService tells whether an answer is about the endpoint, and not about what it was asked.
func refusesService(f *fault) bool { return f.class == txn.Unavailable || f.class == txn.Unauthorized }
