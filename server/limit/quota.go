package limit

import "sync"

// quota is a room without a bound for all: each key may take the same.
type quota struct {
	max int64

	mu   sync.Mutex
	used map[string]int64
}

func newQuota(max int64) *quota { return &quota{max: max, used: map[string]int64{}} }

// Take implements room.
func (q *quota) Take(key string, weight int64) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[key]+weight > q.max {
		return ShareFull
	}
	q.used[key] += weight
	return Taken
}

// Add implements room.
func (q *quota) Add(key string, weight int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[key] += weight; q.used[key] == 0 {
		delete(q.used, key)
	}
}
