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
		f.Head, f.BlockAt = f.window.tip().Number, t.blockAt
	}
	for _, txs := range lists {
		for i := range txs {
			for _, a := range txs[i].Attempts {
				f.sightings = append(f.sightings, sighting{a.Hash, t.inclusion(a.Hash)})
			}
		}
	}
}
