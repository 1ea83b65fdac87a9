package engine

import (
	"hash/fnv"
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// Mode is how nodes share submitters. Both modes use the same leases and differ only in speed.
type Mode string

const (
	// Basic lets every node take any free submitter with work.
	Basic Mode = "basic"
	// WorkerQueue prefers one node per submitter, by rendezvous hashing. Other nodes release the
	// submitter to it.
	WorkerQueue Mode = "worker-queue"
)

// placement decides which live node should own a submitter, by rendezvous hashing: each node has a
// weight for each submitter, and the highest wins. This needs no shared table. Nodes agree as far
// as they see the same nodes. A node that leaves passes each of its submitters to the next best
// node and moves no others; a node that joins takes only those for which it is now the best.
type placement struct{ candidates []candidate }

// candidate is a node as placement sees it.
type candidate struct {
	node      string
	hash      uint64
	chains    []txn.ChainID
	accepting bool
}

func newCandidate(node string, chains []txn.ChainID, accepting bool) candidate {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node)) // hash writes never fail
	return candidate{node: node, hash: mix(h.Sum64()), chains: chains, accepting: accepting}
}

// preferred returns the node that should own a submitter of a chain, or an empty string if no node
// accepts it. The owner counts even if it accepts no others: a full node keeps its submitters.
func (p placement) preferred(id txn.SubmitterID, chain txn.ChainID, owner string) string {
	best, most := "", uint64(0)
	for _, s := range p.candidates {
		if !s.accepting && s.node != owner || !slices.Contains(s.chains, chain) {
			continue
		}
		if w := s.weight(id); best == "" || w > most || w == most && s.node > best {
			best, most = s.node, w
		}
	}
	return best
}

// weight is pseudorandom for each pair of node and submitter. FNV-1a alone is not: for inputs that
// differ only in their last bytes, as submitter ids do, its high bits, which decide the maximum,
// are nearly equal. So each part is mixed separately, and then both together.
func (s candidate) weight(id txn.SubmitterID) uint64 {
	return mix(s.hash ^ mix(uint64(uint32(id))+0x9e3779b97f4a7c15))
}

// mix is the finalizer of SplitMix64: each input bit flips each output bit with probability 1/2.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
