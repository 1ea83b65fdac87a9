//go:build race

package txn

// raceEnabled reports that the race detector is on, which enlarges stack frames.
const raceEnabled = true
