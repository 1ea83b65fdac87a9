package engine

import (
	"github.com/fencepost/fencepost/txn"
)

// window is the newest part of the canonical chain: blocks of consecutive numbers, each the parent of the next. It is a value: a pass makes a new one.
type window struct {
	blocks []txn.Block // oldest first
	limit  int
}

// maxWindow bounds what is kept of a chain.
const maxWindow = 4096

// windowLimit is enough to see a block from its inclusion past its finality, with as much again for reorgs, and for as long as it is audited, however
// many blocks a pass adds; at least 128.
func windowLimit(p txn.Policy) int {
	const least = 128
	return int(min(max(least, 2*p.Confirmations+2, p.AuditDepth+2+maxWalk), maxWindow))
}

// Blocks are not copied to be looked at: each pass asks for them once for every hash that is followed.
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

// holds tells whether the window has this block.
func (w window) holds(number uint64, hash txn.Hash) bool {
	b := w.at(number)
	return b != nil && b.Hash == hash
}

// mayHold tells whether a receipt that was canonical can still be: its block is in the window, or below it where no reorg that we saw has reached.
func (w window) mayHold(r *txn.Receipt) bool {
	return !w.empty() && (r.BlockNumber < w.first().Number || w.holds(r.BlockNumber, r.BlockHash))
}

// goesOn tells whether the window has all that an earlier one had, but what has left it at its lower end, and nothing below that.
func (w window) goesOn(from window) bool {
	return !from.empty() && !w.empty() && w.holds(from.tip().Number, from.tip().Hash) &&
		w.first().Number >= from.first().Number
}

// same tells whether two windows have the same blocks.
func (w window) same(as window) bool {
	return as.goesOn(w) && w.goesOn(as)
}

// links tells whether the parent of a block (or the block itself) is in the window.
func (w window) links(b txn.Block) bool {
	return w.holds(b.Number, b.Hash) || b.Number > 0 && w.holds(b.Number-1, b.Parent)
}

// join puts a branch, newest first, on the window: above the common ancestor its blocks replace what was there. A branch that does not meet the window
// replaces it whole. added are the blocks that are new in the view, oldest first.
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
		if !w.holds(b.Number, b.Hash) {
			added = append(added, b)
		}
		b.Txs = nil // matched once, when it is added
		blocks = append(blocks, b)
	}
	if over := len(blocks) - w.limit; over > 0 {
		blocks = blocks[over:]
	}
	return window{blocks: blocks, limit: w.limit}, added
}

// upTo is the window without the blocks above a number that it has.
func (w window) upTo(number uint64) window {
	return window{blocks: w.blocks[:number-w.first().Number+1], limit: w.limit}
}

// below puts the parent of its oldest block under the window.
func (w window) below(parent txn.Block) window {
	parent.Txs = nil
	return window{blocks: append([]txn.Block{parent}, w.blocks...), limit: w.limit}
}

// judge says what an answer proves under the view: only a receipt of a canonical block is inclusion, and "no receipt" is absence only when no canonical block
// was seen to have the hash. Everything else proves nothing yet and is asked for again.
func judge(view window, older map[uint64]txn.Hash, listed *place,
	a txn.ReceiptResult) (known bool, receipt *txn.Receipt) {
	canonical := func(number uint64, hash txn.Hash) bool {
		if number < view.first().Number {
			return older[number] == hash
		}
		return view.holds(number, hash)
	}
	switch {
	case a.Err != nil:
		return false, nil
	case a.Receipt != nil && canonical(a.Receipt.BlockNumber, a.Receipt.BlockHash):
		return true, a.Receipt
	case a.Receipt != nil:
		return false, nil
	case listed != nil && canonical(listed.number, listed.hash):
		return false, nil
	}
	return true, nil
}
