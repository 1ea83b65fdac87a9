package track

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// This file tracks more than single hashes: the blocks above that of a receipt, the block tagged
// safe or finalized, and whether blocks of final transactions are still canonical.

// auditing is an owner with final transactions that a reorg could still reach.
type auditing struct {
	blocks []uint64 // of those transactions
	lowest uint64   // block
	wake   func()
}

// AuditDepth is the depth down to which final transactions are compared with the chain.
func (t *Tracker) AuditDepth() uint64 { return min(t.policy.AuditDepth, maxWindow-2) }

// Audit wakes an owner when blocks are replaced, and makes the view include these blocks. It
// replaces an earlier call for the submitter.
func (t *Tracker) Audit(id txn.SubmitterID, blocks []uint64, wake func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lowest := slices.Min(blocks)
	t.audits[id] = auditing{blocks, lowest, wake}
	if !t.window.empty() && lowest < t.window.first().Number {
		t.nudgeNow()
	}
}

// StopAudit undoes Audit.
func (t *Tracker) StopAudit(id txn.SubmitterID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.audits, id)
}

// AuditedAbove is the block up to which final transactions are no longer compared. known is false
// when the chain is not known yet, or stood still for that long: a chain without new blocks has no
// reorgs. After missed blocks, transactions that were compared before stay so for that time.
func (t *Tracker) AuditedAbove(still time.Duration) (number uint64, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if t.window.empty() || now.Sub(t.movedAt) >= still {
		return 0, false
	}
	tip := t.seenUpTo(now.Add(-still))
	return tip - min(tip, t.AuditDepth()), true
}

// Audited returns the blocks of the last call of Audit for a submitter; nil: none.
func (t *Tracker) Audited(id txn.SubmitterID) []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.audits[id].blocks
}

// AuditReach is how far below the newest block an owner reads final transactions to compare them:
// the audit depth, counted from before any blocks were missed.
func (t *Tracker) AuditReach(still time.Duration) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.window.empty() {
		return t.AuditDepth()
	}
	return t.window.tip().Number - t.seenUpTo(t.clock.Now().Add(-still)) + t.AuditDepth()
}

// seenUpTo is the newest block up to which none was missed since a moment.
func (t *Tracker) seenUpTo(since time.Time) uint64 {
	tip := t.window.tip().Number
	if t.outages = t.outages.since(since); len(t.outages) > 0 {
		tip = min(tip, t.outages[0].tip)
	}
	return tip
}

// wakeAuditors wakes them when the next view lacks blocks of this one, or has older ones.
func (t *Tracker) wakeAuditors(next window, below map[uint64]txn.Hash) {
	same := !t.window.empty() && next.contains(t.window.tip().Number, t.window.tip().Hash) &&
		next.first().Number >= t.window.first().Number
	for number := range below {
		_, known := t.below[number]
		same = same && known
	}
	if same {
		return
	}
	for _, a := range t.audits {
		a.wake()
		if a.lowest < next.first().Number {
			t.nudgeNow() // deeper blocks are read by the next update, without waiting for a block
		}
	}
}

// deepen extends the window down to audited blocks, a few in each update. A later update repeats
// reads that fail.
func (t *Tracker) deepen(ctx context.Context, next window) window {
	t.mu.Lock()
	lowest, deepest := next.first().Number, t.deepest(next)
	for _, a := range t.audits {
		lowest = min(lowest, max(a.lowest, deepest))
	}
	t.mu.Unlock()
	for range maxWalk {
		if next.first().Number <= lowest || len(next.blocks) >= next.limit {
			break
		}
		parent, err := t.chain.BlockByHash(ctx, next.first().Parent)
		if err != nil || parent == nil {
			break
		}
		next = next.withParent(*parent)
	}
	return next
}

// deepest is the lowest block to which the window is extended.
func (t *Tracker) deepest(next window) uint64 {
	return next.tip().Number - min(next.tip().Number, t.AuditDepth())
}

// readBelowWindow reads the canonical hashes of audited blocks below the window, a few in each
// update: the chain, or all nodes that follow it, were away for longer than the audit depth, and
// final transactions are released only once they were compared. The hashes hold until the next gap.
func (t *Tracker) readBelowWindow(ctx context.Context, next window, gap bool) map[uint64]txn.Hash {
	t.mu.Lock()
	known := t.below
	wanted := map[uint64]bool{}
	above := min(next.first().Number, t.deepest(next))
	for _, a := range t.audits {
		if a.lowest >= above {
			continue
		}
		for _, number := range a.blocks {
			if number < above {
				wanted[number] = true
			}
		}
	}
	t.mu.Unlock()
	below, left := map[uint64]txn.Hash{}, maxWalk
	for _, number := range slices.Sorted(maps.Keys(wanted)) {
		if hash, ok := known[number]; ok && !gap {
			below[number] = hash
			continue
		}
		if left--; left < 0 {
			break
		}
		if b, err := t.chain.BlockByNumber(ctx, number); err == nil && b != nil {
			below[number] = b.Hash
		}
	}
	return below
}

// readOlder reads the canonical hash of a block far below the window, and of the blocks above it
// that are reported with it. A partial result is useless and is read again.
func (t *Tracker) readOlder(ctx context.Context, number, first uint64, older map[uint64]txn.Hash) {
	last := number
	if t.policy.ReportConfirmations {
		last = min(number+t.policy.Confirmations, first-1)
	}
	read := map[uint64]txn.Hash{}
	for n := number; n <= last; n++ {
		b, err := t.chain.BlockByNumber(ctx, n)
		if err != nil || b == nil || n > number && b.Parent != read[n-1] {
			return
		}
		read[n] = b.Hash
	}
	for n, hash := range read {
		older[n] = hash
	}
}

// aboveOf are the blocks above that of a followed hash, lowest first, as many as make it final.
// Those below the window are known from when they were in it.
func (t *Tracker) aboveOf(f *follow, older map[uint64]txn.Hash) []txn.BlockRef {
	if !t.policy.ReportConfirmations || f.receipt == nil {
		return nil
	}
	var above []txn.BlockRef
	at := f.receipt.BlockNumber
	for i := range t.policy.Confirmations {
		number := at + 1 + i
		hash, ok := t.window.hashAt(number)
		if !ok && number < t.window.first().Number {
			if hash, ok = older[number]; !ok && i < uint64(len(f.above)) {
				hash, ok = f.above[i].Hash, true
			}
		}
		if !ok {
			break
		}
		above = append(above, txn.BlockRef{Number: number, Hash: hash})
	}
	if slices.Equal(above, f.above) {
		return f.above
	}
	return above
}

// inclusion returns where an attempt is, and whether it is final there.
func (t *Tracker) inclusion(hash txn.Hash) txn.Inclusion {
	f := t.follows[hash]
	switch {
	case f == nil || t.window.empty():
		return txn.Inclusion{}
	case !f.known:
		return txn.Inclusion{FailingSince: f.failingSince, Fault: f.fault}
	}
	i := txn.Inclusion{Known: true, Receipt: f.receipt}
	if f.receipt != nil && t.window.tip().Number >= f.receipt.BlockNumber {
		i.Confirmations, i.Above = t.window.tip().Number-f.receipt.BlockNumber, f.above
		i.Final = t.deepEnough(f, t.window) && (!f.doubted || f.agreed)
	}
	return i
}

// deep reports whether a block has enough blocks on top of it.
func (t *Tracker) deep(number uint64) bool {
	return t.window.tip().Number >= number+t.policy.Confirmations
}

// deepEnough reports whether the block of a receipt is final. A doubted receipt is then read again,
// and counts if both readings report the same.
func (t *Tracker) deepEnough(f *follow, at window) bool {
	return at.tip().Number >= f.receipt.BlockNumber+t.policy.Confirmations &&
		t.beyondChange(f.receipt.BlockNumber)
}

// doubt notes whether the next reading of a receipt has to report the same before it counts as
// final, and reports whether this one did.
func (t *Tracker) doubt(f *follow, next *txn.Receipt, at window) (agreed bool) {
	was, now := f.receipt, next
	switch {
	case now == nil:
		f.doubted, f.agreed = false, false
	case was == nil || was.BlockHash != now.BlockHash:
		f.doubted, f.agreed = !now.Success, false
	case was.Success != now.Success:
		f.doubted, f.agreed = true, false
	case f.doubted && !f.agreed && t.deepEnough(f, at):
		f.agreed = true
		return true
	}
	return false
}

// beyondChange reports whether a block is at or below the one that the chain calls safe or
// finalized, where the policy requires that.
func (t *Tracker) beyondChange(number uint64) bool {
	return t.tag == "" || t.tagged != nil && number <= t.tagged.Number
}

// readTag reads the tagged block while a transaction that is deep enough waits for it.
func (t *Tracker) readTag(ctx context.Context) *txn.Block {
	if !t.awaitsTag() {
		return nil
	}
	b, err := t.chain.Tagged(ctx, t.tag)
	switch {
	case err == nil:
		t.noTags = false
		return b
	case errors.Is(err, txn.ErrUnavailable):
		t.log.Debug("tagged block unavailable", "tag", t.tag, "error", err)
	case !t.noTags:
		t.noTags = true
		t.log.Error(
			"finality tag unknown to the chain's nodes: nothing becomes final; "+
				"configure another tag, or depth alone",
			"tag", t.tag, "error", err)
	}
	return nil
}

func (t *Tracker) awaitsTag() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tag == "" || t.window.empty() {
		return false
	}
	for _, f := range t.follows {
		if f.receipt != nil && t.deep(f.receipt.BlockNumber) &&
			!t.beyondChange(f.receipt.BlockNumber) {
			return true
		}
	}
	return false
}

// mark keeps the highest tagged block while it is in the view's chain, and reports whether it rose.
func (t *Tracker) mark(b *txn.Block) (higher bool) {
	onView := func(number uint64, hash txn.Hash) bool {
		return number < t.window.first().Number || t.window.contains(number, hash)
	}
	if t.tagged != nil && !onView(t.tagged.Number, t.tagged.Hash) {
		t.tagged = nil
	}
	if b == nil || !onView(b.Number, b.Hash) || t.tagged != nil && b.Number <= t.tagged.Number {
		return false
	}
	t.tagged = &txn.BlockRef{Number: b.Number, Hash: b.Hash}
	return true
}
