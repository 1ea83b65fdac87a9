// Package track follows chains for the owners of submitters: the head, the receipts of followed
// transactions, their confirmations and finality, and reorgs.
//
// A [Tracker] reads a chain and publishes a consistent view of it. An owner takes a [View] at the
// beginning of a step and decides by that alone.
package track

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

// Options configure a [Tracker].
type Options struct {
	Chain        Chain
	Policy       txn.Policy
	FinalTag     string        // blocks above the tagged one are not final; empty: depth alone
	PollInterval time.Duration // between two reads of the head when the chain does not push
	Clock        clock.Clock
	Logger       *slog.Logger
	// LookedUp is called after each lookup of receipts, with its duration; may be nil.
	LookedUp func(context.Context, []txn.ReceiptResult, time.Duration)
	// Updated is called after each update; may be nil.
	Updated func(context.Context, Progress)
}

// Progress is the result of one update.
type Progress struct {
	Up      bool // the head was read
	Backlog int  // followed hashes whose receipt is unknown
	Removed int  // blocks of the earlier view that left the chain
}

// Tracker follows the canonical chain. For every followed hash it knows whether the hash is in a
// canonical block. Each update reads one head: it extends the window of parent-linked blocks (a
// reorg shows as a parent that is not the tip), matches the hashes in the new blocks, fetches the
// receipts of the matches in one batch, and publishes all of it at once. So every owner sees one
// consistent head.
//
// A hash that was never sent before it is followed is known to be absent from the start; for any
// other, the receipt is looked up first. A failed lookup leaves it unknown, and nothing follows
// from that.
type Tracker struct {
	chain  Chain
	policy txn.Policy
	tag    string // of the block above which nothing is final; empty: none
	poll   time.Duration
	clock  clock.Clock
	log    *slog.Logger
	nudge  chan struct{} // requests an update before the next poll
	looked func(context.Context, []txn.ReceiptResult, time.Duration)
	report func(context.Context, Progress)

	// Only the goroutine of Run uses these.
	walked map[txn.Hash]txn.Block // blocks read by an update that failed, for the next one
	noTags bool                   // it was logged that the chain's nodes do not know the tag
	lower  int                    // updates in a row whose head is below the tip of the view

	mu       sync.Mutex
	window   window              // published view
	below    map[uint64]txn.Hash // audited blocks below the window; never changed in place
	movedAt  time.Time           // when the tip of the view last changed
	blockAt  time.Time           // when the newest block arrived; zero: with the first view
	warnedAt time.Time           // when a failed look-up was last logged
	outages  outages             // those that still matter
	follows  map[txn.Hash]*follow
	wanted   map[txn.Hash]bool // followed hashes whose receipt has to be looked up
	checked  window            // the window that all known receipts were compared with
	tagged   *txn.BlockRef
	waits    map[txn.SubmitterID]func() // owners to wake by the next head
	audits   map[txn.SubmitterID]auditing
	healthy  bool
}

// follow is a followed hash and its owner.
type follow struct {
	wake  func()
	known bool
	// since when look-ups have failed, and why; zero: the last one did not
	failingSince time.Time
	fault        string
	receipt      *txn.Receipt
	above        []txn.BlockRef // above the receipt's block, if the policy reports them; immutable
	listed       *txn.BlockRef  // block seen to have it: while canonical, "no receipt" is premature
	// the receipt reports a failure, or an earlier one of the same block reported another result
	doubted bool
	agreed  bool // of a doubted receipt: the reading at its final depth reported the same
	read    Reading
}

// lowerUpdates is how many updates in a row must see a head below the tip before it counts as a
// rollback. Until then it is an older view of the same chain.
const lowerUpdates = 20

const (
	// auditFactor times the confirmations is the default audit depth.
	auditFactor = 4
	// lagGrace is how long an endpoint may lack blocks of the ledger before that is no longer lag:
	// twice the time that a chain's client waits for a better endpoint.
	lagGrace = time.Minute
)

// complete sets the defaults of a policy.
func complete(p txn.Policy) txn.Policy {
	if p.AuditDepth == 0 {
		p.AuditDepth = min(auditFactor*p.Confirmations, maxWindow-2)
	}
	if p.LagGrace <= 0 {
		p.LagGrace = lagGrace
	}
	return p
}

// New returns a tracker that has seen nothing yet.
func New(o Options) *Tracker {
	policy := complete(o.Policy)
	t := &Tracker{
		chain:   o.Chain,
		policy:  policy,
		tag:     o.FinalTag,
		poll:    o.PollInterval,
		clock:   o.Clock,
		log:     o.Logger.With("chain_id", uint64(o.Chain.ID())),
		nudge:   make(chan struct{}, 1),
		looked:  o.LookedUp,
		report:  o.Updated,
		walked:  map[txn.Hash]txn.Block{},
		window:  window{limit: windowLimit(policy)},
		follows: map[txn.Hash]*follow{},
		wanted:  map[txn.Hash]bool{},
		waits:   map[txn.SubmitterID]func(){},
		audits:  map[txn.SubmitterID]auditing{},
		healthy: true,
	}
	if t.looked == nil {
		t.looked = func(context.Context, []txn.ReceiptResult, time.Duration) {}
	}
	if t.report == nil {
		t.report = func(context.Context, Progress) {}
	}
	return t
}

// Policy is the policy of the chain, with its defaults.
func (t *Tracker) Policy() txn.Policy { return t.policy }

// FollowNew follows a hash whose bytes were never sent: it is known to be in no block.
func (t *Tracker) FollowNew(hash txn.Hash, wake func()) {
	t.begin(hash, &follow{wake: wake, known: true})
}

// Follow follows a hash that may be in a block, and was in the block of the recorded receipt, if
// there is one.
func (t *Tracker) Follow(hash txn.Hash, recorded *txn.Receipt, wake func()) {
	f := &follow{wake: wake}
	if recorded != nil && recorded.TxHash == hash {
		f.listed = &txn.BlockRef{Number: recorded.BlockNumber, Hash: recorded.BlockHash}
	}
	t.begin(hash, f)
	t.nudgeNow()
}

func (t *Tracker) begin(hash txn.Hash, f *follow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.follows[hash]; before != nil {
		before.wake = f.wake
		return
	}
	t.follows[hash] = f
	t.setKnown(hash, f, f.known)
}

// setKnown records whether it is known if a hash is in a block.
func (t *Tracker) setKnown(hash txn.Hash, f *follow, known bool) {
	if f.known = known; known {
		delete(t.wanted, hash)
	} else {
		t.wanted[hash] = true
	}
}

// Unfollow ends the following of hashes.
func (t *Tracker) Unfollow(hashes ...txn.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range hashes {
		delete(t.follows, h)
		delete(t.wanted, h)
	}
}

// Recheck looks up the receipt of a hash that is believed absent.
func (t *Tracker) Recheck(hash txn.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.follows[hash]; f != nil && f.receipt == nil {
		t.setKnown(hash, f, false)
		t.nudgeNow()
	}
}

// Locate records the block that has a hash: while it is canonical, "no receipt" proves nothing.
func (t *Tracker) Locate(hash txn.Hash, number uint64, block txn.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.follows[hash]; f != nil && f.receipt == nil {
		t.setKnown(hash, f, false)
		f.listed = &txn.BlockRef{Number: number, Hash: block}
		t.nudgeNow()
	}
}

// WakeOnHead wakes a submitter's owner by the next head, once. An owner that calls it before it
// takes a view misses no head.
func (t *Tracker) WakeOnHead(id txn.SubmitterID, wake func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits[id] = wake
}

// CancelWake undoes WakeOnHead.
func (t *Tracker) CancelWake(id txn.SubmitterID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waits, id)
}

func (t *Tracker) nudgeNow() {
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}

// maxOutagePoll is the longest wait between two reads of an unreachable chain, unless the poll
// interval is longer.
const maxOutagePoll = time.Second

// Run updates the view until ctx ends.
func (t *Tracker) Run(ctx context.Context) {
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
		err := t.Update(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			// The client backs off from its endpoints; a longer wait here would outlast the outage.
			wait = max(t.poll, min(txn.Backoff(failures), maxOutagePoll))
			failures++
			t.health(err)
		} else {
			failures = 0
			t.health(nil)
		}
		timer.Reset(wait)
	}
}

// health logs when the chain becomes unreachable or reachable.
func (t *Tracker) health(err error) {
	t.mu.Lock()
	was := t.healthy
	t.healthy = err == nil
	t.mu.Unlock()
	switch {
	case err != nil && was:
		t.log.Warn("chain unreachable; retrying", "error", err)
	case err == nil && !was:
		t.log.Info("chain reachable again")
	}
}

// Update brings the view to the newest head. Run calls it; tests may.
func (t *Tracker) Update(ctx context.Context) error {
	t.mu.Lock()
	before := t.window
	t.mu.Unlock()
	err := t.update(ctx)
	if err != nil && ctx.Err() != nil {
		return err // interrupted: it says nothing about the chain
	}
	t.mu.Lock()
	p := Progress{Up: err == nil, Backlog: len(t.wanted), Removed: before.removed(t.window)}
	tip := t.window
	t.mu.Unlock()
	if p.Removed > 0 {
		t.log.Info("chain reorganized", "removed", p.Removed, "head", tip.tip().Number)
	}
	t.report(ctx, p)
	return err
}

func (t *Tracker) update(ctx context.Context) error {
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
	answers, read := t.lookUp(ctx, t.hashesToLookUp(next, added, gap))
	next, older := t.reachDown(ctx, next, t.heights(added, answers))
	next = t.deepen(ctx, next)
	below := t.readBelowWindow(ctx, next, gap)
	t.publish(update{next, added, gap, answers, read, older, below, tagged})
	return nil
}

// extend returns the window that ends in head: blocks are fetched by parent hash until they reach
// the current window. gap reports that they did not reach it: blocks were missed.
func (t *Tracker) extend(ctx context.Context,
	head txn.Block) (next window, added []txn.Block, gap bool, err error) {
	t.mu.Lock()
	current := t.window
	t.mu.Unlock()
	if current.contains(head.Number, head.Hash) {
		return t.rollBack(current, head), nil, false, nil
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

// rollBack is the window when the head is a block that it contains. A head below the tip is an
// older view of the same chain, unless it stays: then blocks were removed and not replaced.
func (t *Tracker) rollBack(current window, head txn.Block) window {
	if head.Hash == current.tip().Hash {
		t.lower = 0
		return current
	}
	if t.lower++; t.lower < lowerUpdates {
		return current
	}
	t.log.Warn("chain rolled back", "from", current.tip().Number, "to", head.Number)
	return current.upTo(head.Number)
}

// parent reads a block's parent, once for all updates that need it.
func (t *Tracker) parent(ctx context.Context, of txn.Block) (txn.Block, error) {
	if b, ok := t.walked[of.Parent]; ok {
		return b, nil
	}
	b, err := t.chain.BlockByHash(ctx, of.Parent)
	if err != nil {
		return txn.Block{}, err
	}
	if b == nil { // the branch is gone; the next update sees another head
		clear(t.walked)
		return txn.Block{}, fmt.Errorf("track: chain %d: block %s vanished: %w",
			t.chain.ID(), of.Parent, txn.ErrUnavailable)
	}
	if len(t.walked) >= 2*t.window.limit { // heads of many branches: only the newest can be of use
		clear(t.walked)
	}
	t.walked[of.Parent] = *b
	return *b, nil
}

// hashesToLookUp are the followed hashes whose receipt must be looked up: found in a new block,
// removed with an old one, unknown, or possibly in a missed block. While the view only grows, no
// block leaves it, so no known receipt has to be compared again.
func (t *Tracker) hashesToLookUp(next window, added []txn.Block, gap bool) []txn.Hash {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range added {
		for _, h := range b.Txs {
			if t.follows[h] != nil {
				t.wanted[h] = true
			}
		}
	}
	if gap || !next.extends(t.checked) {
		for h, f := range t.follows {
			if gap || f.receipt != nil && !next.mayContain(f.receipt) {
				t.wanted[h] = true
			}
		}
	}
	for h, f := range t.follows {
		if r := f.receipt; r != nil && f.doubted && !f.agreed && t.deepEnough(f, next) {
			t.wanted[h] = true
			// no receipt proves nothing while the block of the first reading is canonical
			f.listed = &txn.BlockRef{Number: r.BlockNumber, Hash: r.BlockHash}
		}
	}
	t.checked = next
	hashes := slices.Collect(maps.Keys(t.wanted))
	slices.SortFunc(hashes,
		func(a, b txn.Hash) int { return a.Cmp(b) }) // a deterministic order of calls
	return hashes
}

func (t *Tracker) lookUp(ctx context.Context,
	hashes []txn.Hash) (answers []txn.ReceiptResult, r Reading) {
	if len(hashes) == 0 {
		return nil, r
	}
	r.Began = t.clock.Now()
	answers = t.chain.Receipts(ctx, hashes)
	r.Ended, r.Hashes = t.clock.Now(), len(hashes)
	t.looked(ctx, answers, r.Ended.Sub(r.Began))
	return answers, r
}

// heights are the block numbers that the answers depend on: of the receipt, or without one, of the
// block that was seen to have the hash.
func (t *Tracker) heights(added []txn.Block, answers []txn.ReceiptResult) []uint64 {
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
			numbers = append(numbers, f.listed.Number)
		}
	}
	return numbers
}

// list records which new block has which hash.
func (t *Tracker) list(added []txn.Block) {
	for _, b := range added {
		for _, h := range b.Txs {
			if f := t.follows[h]; f != nil {
				f.listed = &txn.BlockRef{Number: b.Number, Hash: b.Hash}
			}
		}
	}
}

// reachDown extends the window, parent by parent, to the blocks that the answers depend on. For
// blocks far below it reads the canonical hash at that height instead. A failed read leaves the
// answer unproven, and it is looked up again.
func (t *Tracker) reachDown(ctx context.Context, next window,
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
			next = next.withParent(*parent)
		}
	}
	return next, older
}

// update is the result of one update.
type update struct {
	next    window
	added   []txn.Block
	gap     bool // blocks were missed
	answers []txn.ReceiptResult
	read    Reading             // of the answers
	older   map[uint64]txn.Hash // canonical blocks below the window
	below   map[uint64]txn.Hash // audited blocks below the window
	tagged  *txn.Block          // nil: not read
}

// publish replaces the view and wakes the owners that it concerns: those whose facts changed, with
// every new block those that count confirmations, and with the first view all.
func (t *Tracker) publish(n update) {
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
	if moved && !first {
		t.blockAt = t.clock.Now()
	}
	t.wakeAuditors(n.next, n.below)
	if n.gap {
		t.outages = t.outages.and(outage{t.window.tip().Number, t.clock.Now()})
	}
	t.window, t.below = n.next, n.below
	moved = t.mark(n.tagged) || moved
	changed := t.take(n)
	if still && !moved { // nothing changed for any other owner
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

// warnInterval is how often failed look-ups are logged.
const warnInterval = time.Minute

// noteFault remembers since when the look-ups of a hash have failed.
func (t *Tracker) noteFault(f *follow, a txn.ReceiptResult) {
	if a.Err == nil {
		f.failingSince, f.fault = time.Time{}, ""
		return
	}
	now := t.clock.Now()
	if f.fault = a.Err.Error(); f.failingSince.IsZero() {
		f.failingSince = now
	}
	if now.Sub(t.warnedAt) >= warnInterval {
		t.warnedAt = now
		t.log.Warn("receipt look-up failed; retrying", "tx_hash", a.Hash.Hex(), "error", a.Err)
	}
}

// take applies the answers to the view and returns the hashes for which they changed anything.
func (t *Tracker) take(n update) (changed map[*follow]bool) {
	changed = map[*follow]bool{}
	for _, a := range n.answers {
		f := t.follows[a.Hash]
		if f == nil {
			continue
		}
		t.noteFault(f, a)
		known, receipt := judge(n.next, n.older, f.listed, a)
		if known != f.known || (receipt == nil) != (f.receipt == nil) ||
			receipt != nil && *receipt != *f.receipt {
			changed[f] = true
		}
		if receipt == nil || f.receipt == nil || receipt.BlockHash != f.receipt.BlockHash {
			f.above = nil
		}
		if t.doubt(f, receipt, n.next) {
			changed[f] = true
		}
		f.receipt, f.read = receipt, n.read
		if t.setKnown(a.Hash, f, known); known {
			f.listed = nil
		}
	}
	return changed
}
