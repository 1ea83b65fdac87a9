package engine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// tracker follows the canonical chain and knows, for every hash that somebody follows, whether it is in a canonical block. It makes one pass per head:
// extend the window of parent-linked blocks (a reorg shows as a parent that is not the tip), match the hashes in the new blocks, fetch the receipts of what
// matched in one batch, publish everything at once. So actors always see one frozen head.
//
// A hash that was never sent before it is followed is known to be absent from the start; of any other the receipt is looked up first. "Could not be looked
// up" leaves it unknown, from which nobody concludes anything.
type tracker struct {
	chain  Chain
	policy txn.Policy
	tag    string // of the block above which nothing is final; empty: none
	poll   time.Duration
	clock  clock.Clock
	log    *slog.Logger
	nudge  chan struct{} // somebody wants a look-up before the next poll
	looked func(context.Context, []txn.ReceiptResult, time.Duration)

	// The goroutine of run has these to itself.
	walked map[txn.Hash]txn.Block // read on the way to a branch's root by a pass that failed: the next one need not begin anew
	noTags bool                   // that the chain's nodes do not know the tag was told
	lower  int                    // passes in a row in which the head was one that the view has below its tip

	mu      sync.Mutex
	window  window              // published view
	beneath map[uint64]txn.Hash // audited blocks below it; never changed in place
	movedAt time.Time           // when its tip became another
	outages outages             // those that still matter
	follows map[txn.Hash]*follow
	wanted  map[txn.Hash]bool // followed hashes whose receipt has to be asked for: those not known, and whatever blocks put in doubt
	checked window            // no receipt was seen to contradict it
	tagged  *place
	waits   map[txn.SubmitterID]func() // who wants to be woken by the next head, whatever it has
	audits  map[txn.SubmitterID]auditing
	healthy bool
}

// follow is one hash and who wants to know.
type follow struct {
	wake    func()
	known   bool
	receipt *txn.Receipt
	above   []txn.BlockRef // the receipt's block, where the policy has them told; never changed in place
	listed  *place         // the block that was seen to have it: while that is canonical, "no receipt" is an answer that comes too early
}

// place is a block.
type place struct {
	number uint64
	hash   txn.Hash
}

const (
	// maxWalk is how many blocks are read one by one to close a gap. What is further behind begins a new view: one look-up of receipts instead.
	maxWalk = 16
	// lowerPasses is how often a head below the tip must be told before the chain is taken to have gone back. Until then it is an older view of the same chain.
	lowerPasses = 20
)

const (
	// auditFactor times the confirmations is how deep a block must be before a reorg of it is not believed possible any more.
	auditFactor = 4
	// lagGrace is how long an endpoint may lack what the ledger has before that is no lag: twice what a chain's client waits for a better endpoint.
	lagGrace = time.Minute
)

// complete fills in what the configuration left open.
func complete(p txn.Policy) txn.Policy {
	if p.AuditDepth == 0 {
		p.AuditDepth = min(auditFactor*p.Confirmations, maxWindow-2)
	}
	p.LagGrace = orDefault(p.LagGrace, lagGrace)
	return p
}

func newTracker(o ChainOptions, c clock.Clock, log *slog.Logger) *tracker {
	policy := complete(o.Policy)
	return &tracker{
		chain: o.Chain, policy: policy, tag: o.FinalTag, poll: o.PollInterval, clock: c, log: log.With("chain_id", uint64(o.Chain.ID())),
		nudge: make(chan struct{},
			1), follows: map[txn.Hash]*follow{}, wanted: map[txn.Hash]bool{}, waits: map[txn.SubmitterID]func(){}, audits: map[txn.SubmitterID]auditing{}, healthy: true, walked: map[txn.Hash]txn.Block{},
		window: window{
			limit: windowLimit(policy),
		}, looked: func(context.Context, []txn.ReceiptResult, time.Duration) {},
	}
}

// followNew begins to follow a hash whose bytes were never sent by anybody: it is known to be in no block.
func (t *tracker) followNew(hash txn.Hash, wake func()) {
	t.begin(hash, &follow{wake: wake, known: true})
}

// followOld begins to follow a hash that may be in a block, and was in the one of the recorded receipt, if there is one.
func (t *tracker) followOld(hash txn.Hash, recorded *txn.Receipt, wake func()) {
	f := &follow{wake: wake}
	if recorded != nil && recorded.TxHash == hash {
		f.listed = &place{recorded.BlockNumber, recorded.BlockHash}
	}
	t.begin(hash, f)
	t.nudgeNow()
}

func (t *tracker) begin(hash txn.Hash, f *follow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.follows[hash]; before != nil {
		before.wake = f.wake
		return
	}
	t.follows[hash] = f
	t.know(hash, f, f.known)
}

// know notes whether it is known whether a hash is in a block.
func (t *tracker) know(hash txn.Hash, f *follow, known bool) {
	if f.known = known; known {
		delete(t.wanted, hash)
	} else {
		t.wanted[hash] = true
	}
}

func (t *tracker) forget(hashes ...txn.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range hashes {
		delete(t.follows, h)
		delete(t.wanted, h)
	}
}

// doubt asks for the receipt of a hash that is thought to be absent.
func (t *tracker) doubt(hash txn.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.follows[hash]; f != nil && f.receipt == nil {
		t.know(hash, f, false)
		t.nudgeNow()
	}
}

// located tells where a hash is that somebody has found in a block: while that block is canonical, "no receipt" says nothing.
func (t *tracker) located(hash txn.Hash, number uint64, block txn.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.follows[hash]; f != nil && f.receipt == nil {
		t.know(hash, f, false)
		f.listed = &place{number, block}
		t.nudgeNow()
	}
}

// awaitHead has the next head wake a submitter's owner, once. Whoever asks before it takes its view misses none.
func (t *tracker) awaitHead(id txn.SubmitterID, wake func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits[id] = wake
}

// awaitNoHead takes that back.
func (t *tracker) awaitNoHead(id txn.SubmitterID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waits, id)
}

func (t *tracker) nudgeNow() {
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}

func (t *tracker) run(ctx context.Context) {
	heads := t.chain.Heads(ctx)
	timer := t.clock.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case _, ok := <-heads:
			if !ok {
				heads = nil
			}
		case <-t.nudge:
		}
		wait := t.poll
		err := t.pass(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = max(t.poll, txn.Backoff(failures))
			failures++
			t.health(err)
		} else {
			failures = 0
			t.health(nil)
		}
		timer.Reset(wait)
	}
}

// health tells a change for the worse or the better, once.
func (t *tracker) health(err error) {
	t.mu.Lock()
	was := t.healthy
	t.healthy = err == nil
	t.mu.Unlock()
	switch {
	case err != nil && was:
		t.log.Warn("the chain cannot be followed; trying again", "error", err)
	case err == nil && !was:
		t.log.Info("the chain is followed again")
	}
}

// pass brings the view up to the newest head.
func (t *tracker) pass(ctx context.Context) error {
	tagged := t.readTag(ctx) // before the head, so that the view reaches up to it
	head, err := t.chain.Head(ctx)
	if err != nil {
		return err
	}
	next, added, gap, err := t.extend(ctx, head)
	if err != nil {
		return err
	}
	clear(t.walked)
	answers := t.lookUp(ctx, t.toLookUp(next, added, gap))
	next, older := t.reachDown(ctx, next, t.heights(added, answers))
	next = t.deepen(ctx, next)
	t.publish(news{next, added, gap, answers, older, t.readBeneath(ctx, next, gap), tagged})
	return nil
}

// extend makes the window that ends in head: blocks are fetched by parent hash until they meet what is known. gap says that they did not meet: then blocks
// went by unseen.
func (t *tracker) extend(ctx context.Context,
	head txn.Block) (next window, added []txn.Block, gap bool, err error) {
	t.mu.Lock()
	current := t.window
	t.mu.Unlock()
	if current.holds(head.Number, head.Hash) {
		return t.goBack(current, head), nil, false, nil
	}
	t.lower = 0
	branch := []txn.Block{head} // newest first
	for !current.empty() && !current.links(branch[len(branch)-1]) {
		oldest := branch[len(branch)-1]
		if head.Number > current.tip().Number+maxWalk || oldest.Number <= current.first().Number {
			gap = true
			break
		}
		parent, err := t.parent(ctx, oldest)
		if err != nil {
			return window{}, nil, false, err
		}
		branch = append(branch, parent)
	}
	next, added = current.join(branch)
	return next, added, gap, nil
}

// goBack is the view when the head is one that it has. Below the tip that is an older view of the same chain, and no news, unless it stays: then blocks were
// taken back and nothing has come in their place.
func (t *tracker) goBack(current window, head txn.Block) window {
	if head.Hash == current.tip().Hash {
		t.lower = 0
		return current
	}
	if t.lower++; t.lower < lowerPasses {
		return current
	}
	t.log.Warn("the chain has gone back", "from", current.tip().Number, "to", head.Number)
	return current.upTo(head.Number)
}

// parent reads a block's parent, once for all passes that need it on their way.
func (t *tracker) parent(ctx context.Context, of txn.Block) (txn.Block, error) {
	if b, ok := t.walked[of.Parent]; ok {
		return b, nil
	}
	b, err := t.chain.BlockByHash(ctx, of.Parent)
	if err != nil {
		return txn.Block{}, err
	}
	if b == nil { // the branch that we were walking down is gone; the next pass sees another head
		clear(t.walked)
		return txn.Block{}, fmt.Errorf("engine: track chain %d: block %s vanished: %w",
			t.chain.ID(), of.Parent, txn.ErrUnavailable)
	}
	if len(t.walked) >= 2*t.window.limit { // heads of many branches: only the newest can be of use
		clear(t.walked)
	}
	t.walked[of.Parent] = *b
	return *b, nil
}

// toLookUp is every followed hash whose receipt must be asked for: found in a new block, removed with an old one, unknown, or possibly in a block that went
// by unseen. As long as the view only goes on, no block leaves it, and so no receipt has to be compared with it again.
func (t *tracker) toLookUp(next window, added []txn.Block, gap bool) []txn.Hash {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range added {
		for _, h := range b.Txs {
			if t.follows[h] != nil {
				t.wanted[h] = true
			}
		}
	}
	if gap || !next.goesOn(t.checked) {
		for h, f := range t.follows {
			if gap || f.receipt != nil && !next.mayHold(f.receipt) {
				t.wanted[h] = true
			}
		}
	}
	t.checked = next
	hashes := slices.Collect(maps.Keys(t.wanted))
	slices.SortFunc(hashes,
		func(a, b txn.Hash) int { return a.Cmp(b) }) // the same calls for the same facts
	return hashes
}

func (t *tracker) lookUp(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	if len(hashes) == 0 {
		return nil
	}
	began := t.clock.Now()
	answers := t.chain.Receipts(ctx, hashes)
	t.looked(ctx, answers, t.clock.Now().Sub(began))
	return answers
}

// heights are the numbers of the blocks that the answers are about: that of the receipt, or where there is none, that of the block that was seen to have it.
func (t *tracker) heights(added []txn.Block, answers []txn.ReceiptResult) []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list(added)
	var numbers []uint64
	for _, a := range answers {
		f := t.follows[a.Hash]
		switch {
		case a.Receipt != nil:
			numbers = append(numbers, a.Receipt.BlockNumber)
		case f != nil && f.listed != nil:
			numbers = append(numbers, f.listed.number)
		}
	}
	return numbers
}

// list remembers which of the new blocks has which hash.
func (t *tracker) list(added []txn.Block) {
	for _, b := range added {
		for _, h := range b.Txs {
			if f := t.follows[h]; f != nil {
				f.listed = &place{b.Number, b.Hash}
			}
		}
	}
}

// reachDown extends the window, parent by parent, to the blocks that the answers are about. For those far below it asks for the canonical hash at that height
// instead. What could not be read leaves the answer about it unproven, and it is asked for again.
func (t *tracker) reachDown(ctx context.Context, next window,
	heights []uint64) (window, map[uint64]txn.Hash) {
	older, asked := map[uint64]txn.Hash{}, map[uint64]bool{}
	for _, n := range heights {
		if asked[n] || n >= next.first().Number {
			continue
		}
		asked[n] = true
		if next.first().Number-n > maxWalk {
			t.readOlder(ctx, n, next.first().Number, older)
			continue
		}
		for next.first().Number > n {
			parent, err := t.chain.BlockByHash(ctx, next.first().Parent)
			if err != nil || parent == nil {
				break
			}
			next = next.below(*parent)
		}
	}
	return next, older
}

// news is what a pass has found.
type news struct {
	next    window
	added   []txn.Block
	gap     bool // blocks went by unseen
	answers []txn.ReceiptResult
	older   map[uint64]txn.Hash // canonical blocks below the window
	beneath map[uint64]txn.Hash // and those that are audited
	tagged  *txn.Block          // nil: not asked for, or not told
}

// publish replaces the view and wakes whoever it concerns: those whose facts changed, with every new block those who count confirmations, and with the first
// view everybody.
func (t *tracker) publish(n news) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, moved := t.window.empty(), len(n.added) > 0
	still := t.window.same(n.next) && len(n.older) == 0
	if first || n.next.tip().Hash != t.window.tip().Hash {
		for _, wake := range t.waits {
			wake()
		}
		clear(t.waits)
		t.movedAt = t.clock.Now()
	}
	t.wakeAudits(n.next, n.beneath)
	if n.gap {
		t.outages = t.outages.and(outage{t.window.tip().Number, t.clock.Now()})
	}
	t.window, t.beneath = n.next, n.beneath
	moved = t.mark(n.tagged) || moved
	changed := t.take(n)
	if still && !moved { // it is for these alone that anything is another
		for f := range changed {
			f.above = t.aboveOf(f, n.older)
			f.wake()
		}
		return
	}
	for _, f := range t.follows {
		f.above = t.aboveOf(f, n.older)
		if first || changed[f] || moved && f.receipt != nil {
			f.wake()
		}
	}
}

// take puts into the view what the answers prove, and tells what is new by that.
func (t *tracker) take(n news) (changed map[*follow]bool) {
	changed = map[*follow]bool{}
	for _, a := range n.answers {
		f := t.follows[a.Hash]
		if f == nil {
			continue
		}
		known, receipt := judge(n.next, n.older, f.listed, a)
		if known != f.known || (receipt == nil) != (f.receipt == nil) ||
			receipt != nil && *receipt != *f.receipt {
			changed[f] = true
		}
		if receipt == nil || f.receipt == nil || receipt.BlockHash != f.receipt.BlockHash {
			f.above = nil
		}
		f.receipt = receipt
		if t.know(a.Hash, f, known); known {
			f.listed = nil
		}
	}
	return changed
}
