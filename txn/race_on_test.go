//go:build race

package txn

// raced tells that the race detector is on, whose frames are larger.
const raced = true
