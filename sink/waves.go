package sink

import "github.com/fencepost/fencepost/txn"

// inWaves delivers events so that an event is sent only after those before it of its transaction
// were accepted: each wave has at most one event of each transaction. send returns a result for
// each index that it gets.
func inWaves(events []*Event, send func(wave []int) []Result) []Result {
	results := make([]Result, len(events))
	rest := make([]int, len(events))
	for i := range events {
		rest[i] = i
	}
	failed := map[txn.TxID]Result{}
	for len(rest) > 0 {
		var wave, later []int
		seen := map[txn.TxID]bool{}
		for _, i := range rest {
			id := events[i].Tx
			if before, is := failed[id]; is {
				results[i] = before
			} else if seen[id] {
				later = append(later, i)
			} else {
				seen[id] = true
				wave = append(wave, i)
			}
		}
		for n, result := range send(wave) {
			results[wave[n]] = result
			if result.Verdict != Done {
				failed[events[wave[n]].Tx] = result
			}
		}
		rest = later
	}
	return results
}
