package track

import (
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// View is the published view of one moment. It does not change.
type View struct {
	Head      uint64              // number of its newest block; 0: nothing was read yet
	sightings []sighting          // lowest hash first
	window    window              // never changed in place
	below     map[uint64]txn.Hash // never changed in place
}

// Inclusion is what the view shows of a hash.
func (f *View) Inclusion(h txn.Hash) txn.Inclusion {
	i, ok := slices.BinarySearchFunc(f.sightings, h,
		func(s sighting, h txn.Hash) int { return s.hash.Cmp(h) })
	if !ok {
		return txn.Inclusion{}
	}
	return f.sightings[i].Inclusion
}

// Canonical is the canonical hash of a block; ok is false when the view does not have the block.
func (f *View) Canonical(number uint64) (hash txn.Hash, ok bool) {
	if hash, ok := f.window.hashAt(number); ok {
		return hash, true
	}
	hash, ok = f.below[number]
	return hash, ok
}

// Blocks are the newest blocks of the view, oldest first. They must not be changed.
func (f *View) Blocks() []txn.Block { return f.window.blocks }

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

// sighting is what was known of a hash.
type sighting struct {
	hash txn.Hash
	txn.Inclusion
}

func (t *Tracker) inclusion(hash txn.Hash) txn.Inclusion {
	f := t.follows[hash]
	if f == nil || !f.known || t.window.empty() {
		return txn.Inclusion{}
	}
	i := txn.Inclusion{Known: true, Receipt: f.receipt}
	if f.receipt != nil && t.window.tip().Number >= f.receipt.BlockNumber {
		i.Confirmations, i.Above = t.window.tip().Number-f.receipt.BlockNumber, f.above
		i.Final = i.Confirmations >= t.policy.Confirmations && t.beyondChange(f.receipt.BlockNumber)
	}
	return i
}
