package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// What the tracker knows beyond single hashes: the blocks above a receipt's, the block that the chain calls safe or finalized, and whether blocks of final
// transactions are still canonical.

// auditing is an owner of final transactions that a reorg could still reach.
type auditing struct {
	blocks []uint64 // of them
	lowest uint64   // of the blocks
	wake   func()
}

// auditDepth is how deep final transactions are compared with the chain.
func (t *tracker) auditDepth() uint64 { return min(t.policy.AuditDepth, maxWindow-2) }

// audit has an owner woken when blocks are replaced, and the view tell of these blocks.
func (t *tracker) audit(id txn.SubmitterID, blocks []uint64, wake func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lowest := slices.Min(blocks)
	t.audits[id] = auditing{blocks, lowest, wake}
	if !t.window.empty() && lowest < t.window.first().Number {
		t.nudgeNow()
	}
}

// auditNoMore takes that back.
func (t *tracker) auditNoMore(id txn.SubmitterID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.audits, id)
}

// auditedAbove is the last block that is audited no more; txn.UnreachableBlock when the chain has stood still for so long, or is not known yet: one that makes no blocks
// makes no reorgs either. Where blocks went by unseen, what was audited before is for so long more: an owner shall compare it.
func (t *tracker) auditedAbove(still time.Duration) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if t.window.empty() || now.Sub(t.movedAt) >= still {
		return txn.UnreachableBlock
	}
	tip := t.seenUpTo(now.Add(-still))
	return tip - min(tip, t.auditDepth())
}

// auditReach is how far below the newest block an owner reads what was final, to compare it: as deep as is audited, from before blocks went by unseen.
func (t *tracker) auditReach(still time.Duration) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.window.empty() {
		return t.auditDepth()
	}
	return t.window.tip().Number - t.seenUpTo(t.clock.Now().Add(-still)) + t.auditDepth()
}

// seenUpTo is the newest block up to which none went by unseen since a moment.
func (t *tracker) seenUpTo(since time.Time) uint64 {
	tip := t.window.tip().Number
	if t.outages = t.outages.since(since); len(t.outages) > 0 {
		tip = min(tip, t.outages[0].tip)
	}
	return tip
}

// wakeAudits wakes them when the next view lacks blocks that this one has, or has older ones.
func (t *tracker) wakeAudits(next window, beneath map[uint64]txn.Hash) {
	same := !t.window.empty() && next.holds(t.window.tip().Number, t.window.tip().Hash) &&
		next.first().Number >= t.window.first().Number
	for number := range beneath {
		_, known := t.beneath[number]
		same = same && known
	}
	if same {
		return
	}
	for _, a := range t.audits {
		a.wake()
		if a.lowest < next.first().Number {
			t.nudgeNow() // what is deeper is read in the next pass, which need not wait for a block
		}
	}
}

// deepen extends the window down to what is audited, a few blocks in each pass. What cannot be read is read in a later one.
func (t *tracker) deepen(ctx context.Context, next window) window {
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
		next = next.below(*parent)
	}
	return next
}

// deepest is the lowest block that the window is extended to.
func (t *tracker) deepest(next window) uint64 {
	return next.tip().Number - min(next.tip().Number, t.auditDepth())
}

// readBeneath reads the canonical hashes of audited blocks that are lower still, a few in each pass: the chain, or all who followed it, were away for longer than is
// audited, and what was final is let go of only once it was compared. What was read holds as long as the view goes on without a gap.
func (t *tracker) readBeneath(ctx context.Context, next window, gap bool) map[uint64]txn.Hash {
	t.mu.Lock()
	known, wanted, above := t.beneath, map[uint64]bool{}, min(next.first().Number, t.deepest(next))
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
	beneath, left := map[uint64]txn.Hash{}, maxWalk
	for _, number := range slices.Sorted(maps.Keys(wanted)) {
		if hash, ok := known[number]; ok && !gap {
			beneath[number] = hash
			continue
		}
		if left--; left < 0 {
			break
		}
		if b, err := t.chain.BlockByNumber(ctx, number); err == nil && b != nil {
			beneath[number] = b.Hash
		}
	}
	return beneath
}

// readOlder reads the canonical hash of a block far below the window, and of those above it that are told with it. Only whole is it any use: it is read again
// otherwise.
func (t *tracker) readOlder(ctx context.Context, number, first uint64, older map[uint64]txn.Hash) {
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

// aboveOf are the blocks above that of a followed hash, lowest first, as many as make it final. Those that have left the window at its lower end are known from
// when they were in it.
func (t *tracker) aboveOf(f *follow, older map[uint64]txn.Hash) []txn.BlockRef {
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

// beyondChange tells whether a block is not above the one that the chain calls safe or finalized, where the policy asks for that.
func (t *tracker) beyondChange(number uint64) bool {
	return t.tag == "" || t.tagged != nil && number <= t.tagged.number
}

// readTag asks for the tagged block, while something that is deep enough waits for it.
func (t *tracker) readTag(ctx context.Context) *txn.Block {
	if !t.awaitsTag() {
		return nil
	}
	b, err := t.chain.Tagged(ctx, t.tag)
	switch {
	case err == nil:
		t.noTags = false
		return b
	case errors.Is(err, txn.ErrUnavailable):
		t.log.Debug("the tagged block cannot be read", "tag", t.tag, "error", err)
	case !t.noTags:
		t.noTags = true
		t.log.Error(
			"the chain's nodes do not know the block that finality is to rest on, so nothing becomes final; configure another tag, or depth alone",
			"tag", t.tag, "error", err)
	}
	return nil
}

func (t *tracker) awaitsTag() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tag == "" || t.window.empty() {
		return false
	}
	tip := t.window.tip().Number
	for _, f := range t.follows {
		if f.receipt != nil && tip >= f.receipt.BlockNumber+t.policy.Confirmations &&
			!t.beyondChange(f.receipt.BlockNumber) {
			return true
		}
	}
	return false
}

// mark remembers the highest tagged block, while it is on the chain of the view, and tells whether it is a higher one.
func (t *tracker) mark(b *txn.Block) (higher bool) {
	onView := func(number uint64, hash txn.Hash) bool {
		return number < t.window.first().Number || t.window.holds(number, hash)
	}
	if t.tagged != nil && !onView(t.tagged.number, t.tagged.hash) {
		t.tagged = nil
	}
	if b == nil || !onView(b.Number, b.Hash) || t.tagged != nil && b.Number <= t.tagged.number {
		return false
	}
	t.tagged = &place{b.Number, b.Hash}
	return true
}
