package engine

import (
	"hash/fnv"
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// Mode is how nodes share the submitters among themselves. Both stand on the same leases, and nothing but speed rests on the choice.
type Mode string

const (
	// Basic has every node take what is free and has work.
	Basic Mode = "basic"
	// WorkerQueue has each submitter taken by the node that rendezvous hashing prefers, and handed over to it by any other.
	WorkerQueue Mode = "worker-queue"
)

// placement tells which of the live nodes should own a submitter, by rendezvous hashing: each node has a weight for each submitter, and the highest wins. So
// nobody keeps a table, the nodes agree as far as they know of the same nodes, a node that leaves gives each of its submitters to whoever is next for it and
// moves no other, and one that joins takes only those for which it is now the first.
type placement struct{ seats []seat }

// seat is a node as placement sees it.
type seat struct {
	node      string
	hash      uint64
	chains    []txn.ChainID
	accepting bool
}

func newSeat(node string, chains []txn.ChainID, accepting bool) seat {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node)) // a hash takes everything
	return seat{node: node, hash: mix(h.Sum64()), chains: chains, accepting: accepting}
}

// preferred is the node that should own a submitter of a chain; empty when no node takes it. The owner counts even if it accepts no others: that it is full is
// no reason to give up what it has.
func (p placement) preferred(id txn.SubmitterID, chain txn.ChainID, owner string) string {
	best, most := "", uint64(0)
	for _, s := range p.seats {
		if !s.accepting && s.node != owner || !slices.Contains(s.chains, chain) {
			continue
		}
		if w := s.weight(id); best == "" || w > most || w == most && s.node > best {
			best, most = s.node, w
		}
	}
	return best
}

// weight is as good as random for each pair of node and submitter. FNV-1a alone is not: of texts that differ in their last bytes, as the ids of submitters do,
// its high bits, which decide who has the most, are nearly the same. So each part is mixed by itself, and both together once more.
func (s seat) weight(id txn.SubmitterID) uint64 {
	return mix(s.hash ^ mix(uint64(uint32(id))+0x9e3779b97f4a7c15))
}

// mix is the finaliser of SplitMix64: each bit of the input changes each of the output with a chance of one half.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
