package track

import (
	"github.com/fencepost/fencepost/txn"
)

// window is the newest part of the canonical chain: blocks of consecutive numbers, each the parent
// of the next. It is a value: each update makes a new one.
type window struct {
	blocks []txn.Block // oldest first
	limit  int
}

// maxWindow bounds the blocks that are kept of a chain.
const maxWindow = 4096

// maxWalk is how many blocks are read one at a time to close a gap. A larger gap starts a new view,
// with one lookup of all receipts.
const maxWalk = 16

// windowLimit is enough to keep a block from its inclusion past its finality, with as much again
// for reorgs, and for as long as it is audited, however many blocks an update adds; at least 128.
func windowLimit(p txn.Policy) int {
	const least = 128
	return int(min(max(least, 2*p.Confirmations+2, p.AuditDepth+2+maxWalk), maxWindow))
}

// These return pointers, because each update uses them for every followed hash.
func (w window) empty() bool       { return len(w.blocks) == 0 }
func (w window) first() *txn.Block { return &w.blocks[0] }
func (w window) tip() *txn.Block   { return &w.blocks[len(w.blocks)-1] }

// at is the block of a number; nil outside the window.
func (w window) at(number uint64) *txn.Block {
	if w.empty() || number < w.first().Number || number > w.tip().Number {
		return nil
	}
	return &w.blocks[number-w.first().Number]
}

// hashAt is the hash of the block of a number; ok is false outside the window.
func (w window) hashAt(number uint64) (hash txn.Hash, ok bool) {
	if b := w.at(number); b != nil {
		return b.Hash, true
	}
	return txn.Hash{}, false
}

// contains reports whether the window has this block.
func (w window) contains(number uint64, hash txn.Hash) bool {
	b := w.at(number)
	return b != nil && b.Hash == hash
}

// mayContain reports whether a receipt that was canonical may still be: its block is in the window,
// or below it, where no reorg that we saw has reached.
func (w window) mayContain(r *txn.Receipt) bool {
	return !w.empty() && (r.BlockNumber < w.first().Number ||
		w.contains(r.BlockNumber, r.BlockHash))
}

// extends reports whether the window has all blocks of an earlier one except those that left it at
// its lower end, and none below those.
func (w window) extends(from window) bool {
	return !from.empty() && !w.empty() && w.contains(from.tip().Number, from.tip().Hash) &&
		w.first().Number >= from.first().Number
}

// same reports whether two windows have the same blocks.
func (w window) same(as window) bool {
	return as.extends(w) && w.extends(as)
}

// removed is the number of blocks that a later window lacks although it reaches as far down. A
// window that begins above this one proves nothing: blocks were missed.
func (w window) removed(later window) (n int) {
	if w.empty() || later.empty() {
		return 0
	}
	for i := len(w.blocks) - 1; i >= 0; i-- {
		b := &w.blocks[i]
		if b.Number < later.first().Number || later.contains(b.Number, b.Hash) {
			break
		}
		n++
	}
	return n
}

// links reports whether the window has the parent of a block, or the block itself.
func (w window) links(b txn.Block) bool {
	return w.contains(b.Number, b.Hash) || b.Number > 0 && w.contains(b.Number-1, b.Parent)
}

// join adds a branch, newest block first: its blocks replace those above the common ancestor. A
// branch without a common ancestor replaces the window. added are the new blocks, oldest first.
func (w window) join(branch []txn.Block) (joined window, added []txn.Block) {
	oldest := branch[len(branch)-1]
	var kept []txn.Block
	if w.links(oldest) {
		kept = w.blocks[:oldest.Number-w.first().Number] // those below the branch
	}
	blocks := make([]txn.Block, 0, len(kept)+len(branch))
	blocks = append(blocks, kept...)
	for i := len(branch) - 1; i >= 0; i-- {
		b := branch[i]
		if !w.contains(b.Number, b.Hash) {
			added = append(added, b)
		}
		b.Txs = nil // they are matched once, when the block is added
		blocks = append(blocks, b)
	}
	if over := len(blocks) - w.limit; over > 0 {
		blocks = blocks[over:]
	}
	return window{blocks: blocks, limit: w.limit}, added
}

// upTo is the window without the blocks above a number in it.
func (w window) upTo(number uint64) window {
	return window{blocks: w.blocks[:number-w.first().Number+1], limit: w.limit}
}

// withParent adds the parent of the oldest block.
func (w window) withParent(parent txn.Block) window {
	parent.Txs = nil
	return window{blocks: append([]txn.Block{parent}, w.blocks...), limit: w.limit}
}

// judge returns the result of a lookup under the view: only a receipt of a canonical block proves
// inclusion, and "no receipt" proves absence only if no canonical block was seen to have the hash.
// Anything else proves nothing yet and is looked up again.
func judge(view window, older map[uint64]txn.Hash, listed *txn.BlockRef,
	a txn.ReceiptResult) (known bool, receipt *txn.Receipt) {
	canonical := func(number uint64, hash txn.Hash) bool {
		if number < view.first().Number {
			return older[number] == hash
		}
		return view.contains(number, hash)
	}
	switch {
	case a.Err != nil:
		return false, nil
	case a.Receipt != nil && canonical(a.Receipt.BlockNumber, a.Receipt.BlockHash):
		return true, a.Receipt
	case a.Receipt != nil:
		return false, nil
	case listed != nil && canonical(listed.Number, listed.Hash):
		return false, nil
	}
	return true, nil
}
