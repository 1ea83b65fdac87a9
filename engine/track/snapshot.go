package track

import (
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// View returns the published view of the attempts of these transactions, and its blocks.
func (t *Tracker) View(lists ...[]txn.Tx) *View {
	n := 0
	for _, txs := range lists {
		for i := range txs {
			n += len(txs[i].Attempts)
		}
	}
	f := &View{sightings: make([]sighting, 0, n)}
	t.freeze(f, lists)
	if n > 1 {
		slices.SortFunc(f.sightings, func(a, b sighting) int { return a.hash.Cmp(b.hash) })
	}
	return f
}

func (t *Tracker) freeze(f *View, lists [][]txn.Tx) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.window, f.below = t.window, t.below; !f.window.empty() {
		f.Head = f.window.tip().Number
	}
	for _, txs := range lists {
		for i := range txs {
			for _, a := range txs[i].Attempts {
				f.sightings = append(f.sightings, sighting{a.Hash, t.inclusion(a.Hash)})
			}
		}
	}
}

func (t *Tracker) inclusion(hash txn.Hash) txn.Inclusion {
	f := t.follows[hash]
	switch {
	case f == nil || t.window.empty():
		return txn.Inclusion{}
	case !f.known:
		return txn.Inclusion{FailingSince: f.failingSince, Fault: f.fault}
	}
	i := txn.Inclusion{Known: true, Receipt: f.receipt}
	if f.receipt != nil && t.window.tip().Number >= f.receipt.BlockNumber {
		i.Confirmations, i.Above = t.window.tip().Number-f.receipt.BlockNumber, f.above
		i.Final = i.Confirmations >= t.policy.Confirmations && t.beyondChange(f.receipt.BlockNumber)
	}
	return i
}

// beyondChange reports whether a block is at or below the one that the chain calls safe or
// finalized, where the policy requires that.
func (t *Tracker) beyondChange(number uint64) bool {
	return t.tag == "" || t.tagged != nil && number <= t.tagged.Number
}
