package track

import (
	"slices"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// View is the published view of one moment. It does not change.
type View struct {
	Head      uint64              // number of its newest block; 0: nothing was read yet
	BlockAt   time.Time           // when that block arrived; zero: with the first view
	sightings []sighting          // lowest hash first
	window    window              // never changed in place
	below     map[uint64]txn.Hash // never changed in place
}

// Inclusion returns the inclusion of a hash in the view.
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

// sighting is a hash and its inclusion.
type sighting struct {
	hash txn.Hash
	txn.Inclusion
}
