package track

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// branches is a chain that grows, forks and goes back. Its blocks have some of a few transactions.
type branches struct {
	t      *rapid.T
	blocks []txn.Block // canonical
	made   uint64
}

func (b *branches) grow(n int) {
	for range n {
		b.made++
		number := uint64(len(b.blocks))
		block := txn.Block{Number: number}
		binary.BigEndian.PutUint64(block.Hash[:], b.made)
		if number > 0 {
			block.Parent = b.blocks[number-1].Hash
		}
		if h := rapid.IntRange(0, 7).Draw(b.t, "has"); h > 0 {
			block.Txs = []txn.Hash{{byte(h)}}
		}
		b.blocks = append(b.blocks, block)
	}
}

// lookup draws the receipt lookup of a hash; some fail.
func (b *branches) lookup(h txn.Hash) txn.ReceiptResult {
	if rapid.IntRange(0, 5).Draw(b.t, "silent") == 0 {
		return txn.ReceiptResult{Hash: h, Err: txn.ErrUnavailable}
	}
	for _, block := range slices.Backward(b.blocks) {
		if slices.Contains(block.Txs, h) {
			return txn.ReceiptResult{
				Hash: h,
				Receipt: &txn.Receipt{TxHash: h, BlockNumber: block.Number, BlockHash: block.Hash,
					Success: true},
			}
		}
	}
	return txn.ReceiptResult{Hash: h}
}

// next returns the view of the newest head, and its new blocks.
func (b *branches) next(from window) (next window, added []txn.Block, gap bool) {
	head := b.blocks[len(b.blocks)-1]
	if from.contains(head.Number, head.Hash) {
		return from.upTo(head.Number), nil, false
	}
	branch := []txn.Block{head}
	for !from.empty() && !from.links(branch[len(branch)-1]) {
		oldest := branch[len(branch)-1]
		if oldest.Number <= from.first().Number || len(branch) > maxWalk {
			gap = true
			break
		}
		branch = append(branch, b.blocks[oldest.Number-1])
	}
	next, added = from.join(branch)
	return next, added, gap
}

// TestHashesToLookUp_AnyChain_AsIfAllCompared verifies that an update looks up every hash that is
// unknown, in a new block, or whose block left the view: the same hashes as a comparison of all.
func TestHashesToLookUp_AnyChain_AsIfAllCompared(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &branches{t: t}
		b.grow(3)
		track := newTracker(chaintest.New(chaintest.Options{}),
			txn.Policy{Confirmations: 2}, clock.Real{})
		track.window.limit = 8
		for h := range byte(7) {
			track.Follow(txn.Hash{h + 1}, nil, func() {})
		}
		for range rapid.IntRange(1, 30).Draw(t, "passes") {
			if back := rapid.IntRange(-6, 3).Draw(t, "back"); back > 0 {
				b.blocks = b.blocks[:max(1, len(b.blocks)-back)]
			}
			b.grow(rapid.IntRange(0, 3).Draw(t, "grown"))
			if rapid.IntRange(0, 9).Draw(t, "away") == 0 {
				b.grow(maxWalk + 2)
			}
			next, added, gap := b.next(track.window)
			want := map[txn.Hash]bool{}
			for h, f := range track.follows {
				if !f.known || gap || f.receipt != nil && !next.mayContain(f.receipt) ||
					slices.ContainsFunc(added,
						func(b txn.Block) bool { return slices.Contains(b.Txs, h) }) {
					want[h] = true
				}
			}
			asked := track.hashesToLookUp(next, added, gap)
			if sorted := slices.SortedFunc(maps.Keys(want), txn.Hash.Cmp); !slices.Equal(asked,
				sorted) {
				t.Fatalf("asked for %v, not for %v", asked, sorted)
			}
			n := update{next: next, added: added, gap: gap, older: map[uint64]txn.Hash{}}
			for _, h := range asked {
				n.answers = append(n.answers, b.lookup(h))
			}
			track.heights(added, n.answers)
			if first := n.next.first().Number; first > 0 && rapid.Bool().Draw(t, "deeper") &&
				len(n.next.blocks) < n.next.limit {
				n.next = n.next.withParent(b.blocks[first-1])
			}
			for _, block := range b.blocks[:n.next.first().Number] {
				n.older[block.Number] = block.Hash
			}
			track.publish(n)
		}
	})
}
