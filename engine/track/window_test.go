package track

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/txn"
)

// tree makes blocks of one number on any parent, each with a hash of its own.
type tree struct{ made uint64 }

func (t *tree) child(of txn.Block) txn.Block {
	t.made++
	b := txn.Block{Number: of.Number + 1, Parent: of.Hash}
	binary.BigEndian.PutUint64(b.Hash[:], t.made)
	return b
}

// TestJoin_AnyForks_LinkedChain grows a chain with forks of any depth and checks, after every join,
// that the window is a linked piece of the branch that it was given, no longer than its limit, and
// that it reports exactly the new blocks.
func TestJoin_AnyForks_LinkedChain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		blocks := &tree{}
		genesis := txn.Block{Hash: txn.Hash{0xff}}
		canonical := []txn.Block{genesis}
		w := window{limit: rapid.IntRange(2, 12).Draw(t, "limit")}
		for range rapid.IntRange(1, 30).Draw(t, "passes") {
			depth := rapid.IntRange(0, min(5, len(canonical)-1)).Draw(t, "reorged")
			canonical = canonical[:len(canonical)-depth]
			for range depth + rapid.IntRange(0, 6).Draw(t, "grown") {
				canonical = append(canonical, blocks.child(canonical[len(canonical)-1]))
			}
			had := w
			var added []txn.Block
			w, added = w.join(branchTo(w, canonical))
			checkLinked(t, w, canonical)
			for _, b := range added {
				if had.contains(b.Number, b.Hash) {
					t.Fatalf("block %d was there before and is called new", b.Number)
				}
			}
			for _, b := range w.blocks {
				if !had.contains(b.Number, b.Hash) && !containsBlock(added, b) {
					t.Fatalf("block %d is new and not called so", b.Number)
				}
			}
		}
	})
}

// branchTo is the branch that a pass would fetch: from the head down until it meets the window, or
// as long as the window may be.
func branchTo(w window, canonical []txn.Block) []txn.Block {
	var branch []txn.Block
	for i := len(canonical) - 1; i >= 0; i-- {
		branch = append(branch, canonical[i])
		if w.empty() || w.links(canonical[i]) || len(branch) == w.limit ||
			canonical[i].Number <= w.first().Number {
			break
		}
	}
	return branch
}

func checkLinked(t *rapid.T, w window, canonical []txn.Block) {
	if len(w.blocks) > w.limit || w.tip().Hash != canonical[len(canonical)-1].Hash {
		t.Fatalf("%d blocks of at most %d, tip %d", len(w.blocks), w.limit, w.tip().Number)
	}
	for i, b := range w.blocks {
		if canonical[b.Number].Hash != b.Hash {
			t.Fatalf("block %d is not canonical", b.Number)
		}
		if i > 0 && (b.Number != w.blocks[i-1].Number+1 || b.Parent != w.blocks[i-1].Hash) {
			t.Fatalf("block %d does not link", b.Number)
		}
	}
}

func containsBlock(all []txn.Block, b txn.Block) bool {
	for _, a := range all {
		if a.Hash == b.Hash {
			return true
		}
	}
	return false
}

func TestJudge_Receipt_OnlyInCanonicalBlock(t *testing.T) {
	t.Parallel()
	blocks := &tree{}
	w := window{limit: 10}
	genesis := txn.Block{Number: 5, Hash: txn.Hash{0xff}}
	one := blocks.child(genesis)
	w, _ = w.join([]txn.Block{one, genesis})
	in := func(number uint64, hash txn.Hash) txn.ReceiptResult {
		return txn.ReceiptResult{Receipt: &txn.Receipt{BlockNumber: number, BlockHash: hash}}
	}
	for name, c := range map[string]struct {
		answer  txn.ReceiptResult
		known   bool
		receipt bool
	}{
		"in the window":          {in(6, one.Hash), true, true},
		"of another branch":      {in(6, txn.Hash{1}), false, false},
		"ahead of the view":      {in(7, txn.Hash{2}), false, false},
		"below, canonical":       {in(4, txn.Hash{4}), true, true},
		"below, not canonical":   {in(4, txn.Hash{3}), false, false},
		"below, not asked for":   {in(3, txn.Hash{3}), false, false},
		"not there":              {txn.ReceiptResult{}, true, false},
		"could not be looked up": {txn.ReceiptResult{Err: txn.ErrUnavailable}, false, false},
		"error beside a receipt": {txn.ReceiptResult{Err: txn.ErrUnavailable,
			Receipt: in(6, one.Hash).Receipt}, false, false},
		"the oldest of the window": {in(5, genesis.Hash), true, true},
	} {
		known, receipt := judge(w, map[uint64]txn.Hash{4: {4}}, nil, c.answer)
		if known != c.known || (receipt != nil) != c.receipt {
			t.Errorf("%s: known %v, receipt %v", name, known, receipt)
		}
	}
}

func TestJudge_NoReceipt_AbsentOnlyWithoutListing(t *testing.T) {
	t.Parallel()
	w, _ := window{limit: 10}.join([]txn.Block{{Number: 5, Hash: txn.Hash{5}}})
	for name, c := range map[string]struct {
		listed *txn.BlockRef
		known  bool
	}{
		"in no block":                {nil, true},
		"in a canonical block":       {&txn.BlockRef{Number: 5, Hash: txn.Hash{5}}, false},
		"in a block that was lost":   {&txn.BlockRef{Number: 5, Hash: txn.Hash{6}}, true},
		"in an older block":          {&txn.BlockRef{Number: 4, Hash: txn.Hash{4}}, false},
		"in an older one, lost":      {&txn.BlockRef{Number: 4, Hash: txn.Hash{9}}, true},
		"in one above a chain's end": {&txn.BlockRef{Number: 6, Hash: txn.Hash{6}}, true},
	} {
		known, receipt := judge(w, map[uint64]txn.Hash{4: {4}}, c.listed, txn.ReceiptResult{})
		if known != c.known ||
			receipt != nil {
			t.Errorf("%s: known %v, receipt %v", name, known, receipt)
		}
	}
}

// TestAuditDepth verifies that the configuration never promises a greater depth than a view has.
func TestAuditDepth(t *testing.T) {
	t.Parallel()
	for configured, want := range map[uint64]uint64{
		0:                        80,
		20:                       20,
		config.MaxAuditDepth:     config.MaxAuditDepth,
		config.MaxAuditDepth + 1: config.MaxAuditDepth,
	} {
		tr := newTracker(chaintest.New(chaintest.Options{}),
			txn.Policy{Confirmations: 20, AuditDepth: configured}, clock.Real{})
		if got := tr.AuditDepth(); got != want {
			t.Errorf("depth %d is used as %d, want %d", configured, got, want)
		}
	}
	for confirmations, want := range map[uint64]uint64{20: 80, 2000: config.MaxAuditDepth} {
		decided := complete(txn.Policy{Confirmations: confirmations}).AuditDepth
		if depth := (config.Finality{}).Depth(confirmations); depth != want || decided != want {
			t.Errorf("%d confirmations: %d configured and %d used, want %d",
				confirmations, depth, decided, want)
		}
	}
}
