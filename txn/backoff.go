package txn

import "time"

const (
	backoffFirst = 500 * time.Millisecond
	backoffMax   = 15 * time.Second
)

// Backoff returns the delay after the n-th failed try in a row, n from 0: half a second, doubling,
// at most 15 seconds.
func Backoff(n int) time.Duration {
	if n > 5 {
		return backoffMax
	}
	return min(backoffFirst<<n, backoffMax)
}
