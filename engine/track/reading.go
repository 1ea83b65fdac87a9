package track

import (
	"time"

	"github.com/fencepost/fencepost/txn"
)

// Reading is one call for receipts.
type Reading struct {
	Began, Ended time.Time
	Hashes       int // that it looked up
}

// LastReading returns the call that last looked up a hash; false if there was none.
func (t *Tracker) LastReading(hash txn.Hash) (Reading, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.follows[hash]
	if f == nil || f.read.Hashes == 0 {
		return Reading{}, false
	}
	return f.read, true
}
