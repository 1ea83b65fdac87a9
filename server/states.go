package server

import (
	"slices"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// stateSet is a set of states that somebody asks for, so that targets can be compared: a bit for each state in the order of life, after the lowest, which stands for
// states that only newer nodes know and nobody can ask for here. The empty set asks for all.
type stateSet uint8

func setOf(s txn.State) stateSet { return 1 << (1 + slices.Index(txn.States, s)) }

func setOfWire(states []pb.TxState) (set stateSet) {
	for _, s := range states {
		set |= setOf(stateOfWire(s))
	}
	return set
}

// has tells whether a state is asked for.
func (set stateSet) has(s txn.State) bool { return set == 0 || set&setOf(s) != 0 }

// of are those of some states that are asked for.
func (set stateSet) of(states []txn.State) (asked []txn.State) {
	for _, s := range states {
		if set.has(s) {
			asked = append(asked, s)
		}
	}
	return asked
}
