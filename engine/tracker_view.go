package engine

import (
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// view freezes what the published view shows of the attempts of these transactions, the number of its head, and its blocks.
func (t *tracker) view(lists ...[]txn.Tx) *frozen {
	n := 0
	for _, txs := range lists {
		for i := range txs {
			n += len(txs[i].Attempts)
		}
	}
	f := &frozen{sightings: make([]sighting, 0, n)}
	t.freeze(f, lists)
	if n > 1 {
		slices.SortFunc(f.sightings, func(a, b sighting) int { return a.hash.Cmp(b.hash) })
	}
	return f
}

func (t *tracker) freeze(f *frozen, lists [][]txn.Tx) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.window, f.beneath = t.window, t.beneath; !f.window.empty() {
		f.head = f.window.tip().Number
	}
	for _, txs := range lists {
		for i := range txs {
			for _, a := range txs[i].Attempts {
				f.sightings = append(f.sightings, sighting{a.Hash, t.inclusion(a.Hash)})
			}
		}
	}
}

// frozen is what the published view showed at one moment.
type frozen struct {
	head      uint64
	sightings []sighting          // lowest hash first
	window    window              // neither it
	beneath   map[uint64]txn.Hash // nor this is changed in place
}

// sighting is what was known of a hash.
type sighting struct {
	hash txn.Hash
	txn.Inclusion
}

func (f *frozen) seen(h txn.Hash) txn.Inclusion {
	i, ok := slices.BinarySearchFunc(f.sightings, h,
		func(s sighting, h txn.Hash) int { return s.hash.Cmp(h) })
	if !ok {
		return txn.Inclusion{}
	}
	return f.sightings[i].Inclusion
}

func (f *frozen) canonical(number uint64) (txn.Hash, bool) {
	if hash, ok := f.window.hashAt(number); ok {
		return hash, true
	}
	hash, ok := f.beneath[number]
	return hash, ok
}

func (t *tracker) inclusion(hash txn.Hash) txn.Inclusion {
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
