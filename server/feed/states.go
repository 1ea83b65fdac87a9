package feed

import (
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// StateSet is a set of requested states; the empty set means all. It is comparable, so that a
// [Target] is: one bit per state in the order of [txn.States], above the lowest bit, which stands
// for states that only newer nodes know and no client can request here.
type StateSet uint8

// States returns the set of these states.
func States(states ...txn.State) (set StateSet) {
	for _, s := range states {
		set |= 1 << (1 + slices.Index(txn.States, s))
	}
	return set
}

// has reports whether the state was requested.
func (set StateSet) has(s txn.State) bool { return set == 0 || set&States(s) != 0 }

// filter returns the requested ones of these states.
func (set StateSet) filter(states []txn.State) (requested []txn.State) {
	for _, s := range states {
		if set.has(s) {
			requested = append(requested, s)
		}
	}
	return requested
}
