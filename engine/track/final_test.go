package track

import (
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// reporting finalizes after more blocks, with the blocks above a receipt reported.
var reporting = txn.Policy{Confirmations: 6, AuditDepth: 24, ReportConfirmations: true}

// TestMark: a tagged block counts while it is in the chain of the view; a lower one changes
// nothing.
func TestMark(t *testing.T) {
	t.Parallel()
	blocks := &tree{}
	a := blocks.child(txn.Block{Number: 5})
	b := blocks.child(a)
	other := blocks.child(a)
	w, _ := window{limit: 10}.join([]txn.Block{b, a})
	tr := &Tracker{tag: "safe", window: w}
	for _, c := range []struct {
		block  *txn.Block
		higher bool
		below  uint64 // highest that is beyond change; 0: none
	}{
		{nil, false, 0},
		{&other, false, 0},
		{&txn.Block{Number: 9}, false, 0}, // of a view that is not ours yet
		// below the window, where no reorg that we saw has reached
		{&txn.Block{Number: 3}, true, 3},
		{&b, true, 7},
		{&a, false, 7},
		{nil, false, 7},
	} {
		higher := tr.mark(c.block)
		if higher != c.higher || c.below > 0 && !tr.beyondChange(c.below) ||
			tr.beyondChange(c.below+1) {
			t.Errorf("after %+v: %v, %+v", c.block, higher, tr.tagged)
		}
	}
	tr.window, _ = w.join([]txn.Block{other, a})
	if tr.mark(nil); tr.beyondChange(1) {
		t.Error("a block that was tagged and left the chain still counts")
	}
}

// The blocks above one block prove nothing about the blocks above another.
func TestPublish_OtherReceiptBlock_DropsBlocksAbove(t *testing.T) {
	t.Parallel()
	w, _ := window{limit: 10}.join([]txn.Block{{Number: 20, Hash: txn.Hash{20}}})
	hash := txn.Hash{1}
	in := func(block uint64, of byte) *txn.Receipt {
		return &txn.Receipt{TxHash: hash, BlockNumber: block, BlockHash: txn.Hash{of}}
	}
	for name, c := range map[string]struct {
		receipt *txn.Receipt
		of      byte
		kept    int
	}{"the same": {in(10, 10), 10, 2}, "another": {in(10, 11), 11, 0}, "none": {nil, 10, 0}} {
		tr := &Tracker{policy: reporting, window: w, follows: map[txn.Hash]*follow{}}
		f := &follow{
			wake:    func() {},
			known:   true,
			receipt: in(10, 10),
			above:   []txn.BlockRef{{Number: 11}, {Number: 12}},
		}
		tr.follows[hash] = f
		tr.publish(
			update{
				next:    w,
				answers: []txn.ReceiptResult{{Hash: hash, Receipt: c.receipt}},
				older:   map[uint64]txn.Hash{10: {c.of}},
			},
		)
		if len(f.above) != c.kept {
			t.Errorf("%s: %v", name, f.above)
		}
	}
}

func TestWindowLimit_CoversAuditDepth(t *testing.T) {
	t.Parallel()
	for _, depth := range []uint64{0, 300, 100_000} {
		p := txn.Policy{Confirmations: 3, AuditDepth: depth}
		tr := &Tracker{policy: p}
		if limit := windowLimit(p); limit > maxWindow || uint64(limit) < tr.AuditDepth()+2 {
			t.Errorf("%d blocks for a depth of %d", limit, depth)
		}
	}
}
