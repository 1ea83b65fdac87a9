package engine

import (
	"testing"
	"time"
)

// TestCount_SlowCount_Rare verifies that transactions are counted every ten seconds, and less
// often where counting takes more than a hundredth of the time.
func TestCount_SlowCount_Rare(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{0: 10 * time.Second,
		100 * time.Millisecond: 10 * time.Second, 300 * time.Millisecond: 30 * time.Second} {
		if got := untilNextCount(took); got != want {
			t.Errorf("after a count of %s: %s, want %s", took, got, want)
		}
	}
}
