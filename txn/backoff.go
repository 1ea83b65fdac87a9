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

// maxOutageTries ends the growth of the delay while no call leaves the node. Such a try costs a
// write and no request, and a longer delay would outlast the outage.
const maxOutageTries = 2

func outageBackoff(n int) time.Duration { return Backoff(min(n, maxOutageTries)) }
