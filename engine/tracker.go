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
	poll   time.Duration
	clock  clock.Clock
	log    *slog.Logger
	nudge  chan struct{} // somebody wants a look-up before the next poll

	mu      sync.Mutex
	window  window // published view
	follows map[txn.Hash]*follow
	healthy bool
}

// follow is one hash and who wants to know.
type follow struct {
	wake    func()
	known   bool
	receipt *txn.Receipt
}

func newTracker(o ChainOptions, c clock.Clock, log *slog.Logger) *tracker {
	return &tracker{
		chain: o.Chain, policy: o.Policy, poll: o.PollInterval, clock: c, log: log.With("chain_id", uint64(o.Chain.ID())),
		nudge: make(chan struct{}, 1), follows: map[txn.Hash]*follow{}, healthy: true,
		window: window{limit: windowLimit(o.Policy)},
	}
}

// follow begins to follow a hash. fresh says that its bytes were never sent by anybody.
func (t *tracker) follow(hash txn.Hash, fresh bool, wake func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.follows[hash] != nil {
		t.follows[hash].wake = wake
		return
	}
	t.follows[hash] = &follow{wake: wake, known: fresh}
	if !fresh {
		t.nudgeNow()
	}
}

func (t *tracker) forget(hashes ...txn.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range hashes {
		delete(t.follows, h)
	}
}

// doubt asks for the receipt of a hash that is thought to be absent.
func (t *tracker) doubt(hash txn.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.follows[hash]; f != nil && f.receipt == nil {
		f.known = false
		t.nudgeNow()
	}
}

// view freezes what the published view shows of the attempts of these transactions, and the number of its head.
func (t *tracker) view(txs []txn.Tx) (head uint64, seen func(txn.Hash) txn.Inclusion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.window.empty() {
		head = t.window.tip().Number
	}
	frozen := make(map[txn.Hash]txn.Inclusion, len(txs))
	for _, tx := range txs {
		for _, a := range tx.Attempts {
			frozen[a.Hash] = t.inclusion(a.Hash)
		}
	}
	return head, func(h txn.Hash) txn.Inclusion { return frozen[h] }
}

func (t *tracker) inclusion(hash txn.Hash) txn.Inclusion {
	f := t.follows[hash]
	if f == nil || !f.known || t.window.empty() {
		return txn.Inclusion{}
	}
	i := txn.Inclusion{Known: true, Receipt: f.receipt}
	if f.receipt != nil && t.window.tip().Number >= f.receipt.BlockNumber {
		i.Confirmations = t.window.tip().Number - f.receipt.BlockNumber
	}
	return i
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
		if err := t.pass(ctx); err != nil {
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
	head, err := t.chain.Head(ctx)
	if err != nil {
		return err
	}
	next, added, gap, err := t.extend(ctx, head)
	if err != nil {
		return err
	}
	answers := t.lookUp(ctx, t.toLookUp(next, added, gap))
	next, older, err := t.reachDown(ctx, next, answers)
	if err != nil {
		return err
	}
	t.publish(next, answers, older, len(added) > 0)
	return nil
}

// extend makes the window that ends in head: blocks are fetched by parent hash until they meet what is known. gap says that they did not meet: then blocks
// went by unseen. A head that the window already has below its tip is an older view of the same chain and no news.
func (t *tracker) extend(ctx context.Context, head txn.Block) (next window, added []txn.Block, gap bool, err error) {
	t.mu.Lock()
	current := t.window
	t.mu.Unlock()
	if current.holds(head.Number, head.Hash) {
		return current, nil, false, nil
	}
	branch := []txn.Block{head} // newest first
	for !current.empty() && !current.links(branch[len(branch)-1]) {
		oldest := branch[len(branch)-1]
		if len(branch) == current.limit || oldest.Number <= current.first().Number {
			gap = true
			break
		}
		parent, err := t.chain.BlockByHash(ctx, oldest.Parent)
		if err != nil {
			return window{}, nil, false, err
		}
		if parent == nil { // the branch that we were walking down is gone; the next pass sees another head
			return window{}, nil, false, fmt.Errorf("engine: track chain %d: block %s vanished: %w", t.chain.ID(), oldest.Parent, txn.ErrUnavailable)
		}
		branch = append(branch, *parent)
	}
	next, added = current.join(branch)
	return next, added, gap, nil
}

// toLookUp is every followed hash whose receipt must be asked for: found in a new block, removed with an old one, unknown, or possibly in a block that went
// by unseen.
func (t *tracker) toLookUp(next window, added []txn.Block, gap bool) []txn.Hash {
	t.mu.Lock()
	defer t.mu.Unlock()
	wanted := map[txn.Hash]bool{}
	for _, b := range added {
		for _, h := range b.Txs {
			if t.follows[h] != nil {
				wanted[h] = true
			}
		}
	}
	for h, f := range t.follows {
		if !f.known || gap || f.receipt != nil && !next.mayHold(f.receipt) {
			wanted[h] = true
		}
	}
	hashes := slices.Collect(maps.Keys(wanted))
	slices.SortFunc(hashes, func(a, b txn.Hash) int { return a.Cmp(b) }) // the same calls for the same facts
	return hashes
}

func (t *tracker) lookUp(ctx context.Context, hashes []txn.Hash) []txn.ReceiptAnswer {
	if len(hashes) == 0 {
		return nil
	}
	return t.chain.Receipts(ctx, hashes)
}

// reachDown extends the window, parent by parent, to the oldest block that a receipt names. For receipts deeper than the window's limit it asks for the
// canonical hash at that height instead.
func (t *tracker) reachDown(ctx context.Context, next window, answers []txn.ReceiptAnswer) (window, map[uint64]txn.Hash, error) {
	older := map[uint64]txn.Hash{}
	for _, a := range answers {
		if a.Receipt == nil || a.Receipt.BlockNumber >= next.first().Number {
			continue
		}
		n := a.Receipt.BlockNumber
		if next.tip().Number-n >= uint64(next.limit) {
			b, err := t.chain.BlockByNumber(ctx, n)
			if err != nil {
				return window{}, nil, err
			}
			if b != nil {
				older[n] = b.Hash
			}
			continue
		}
		for next.first().Number > n {
			parent, err := t.chain.BlockByHash(ctx, next.first().Parent)
			if err != nil {
				return window{}, nil, err
			}
			if parent == nil {
				return window{}, nil, fmt.Errorf("engine: track chain %d: block %s vanished: %w", t.chain.ID(), next.first().Parent, txn.ErrUnavailable)
			}
			next = next.below(*parent)
		}
	}
	return next, older, nil
}

// publish replaces the view and wakes whoever it concerns: those whose facts changed, and with every new block those who count confirmations.
func (t *tracker) publish(next window, answers []txn.ReceiptAnswer, older map[uint64]txn.Hash, moved bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.window = next
	changed := map[*follow]bool{}
	for _, a := range answers {
		f := t.follows[a.Hash]
		if f == nil {
			continue
		}
		known, receipt := judge(next, older, a)
		if known != f.known || (receipt == nil) != (f.receipt == nil) || receipt != nil && *receipt != *f.receipt {
			changed[f] = true
		}
		f.known, f.receipt = known, receipt
	}
	for _, f := range t.follows {
		if changed[f] || moved && f.receipt != nil {
			f.wake()
		}
	}
}

// judge says what an answer proves under the view: only a receipt of a canonical block is inclusion. One that is ahead of the view, or of a block that is
// not canonical, proves nothing yet and is asked for again.
func judge(view window, older map[uint64]txn.Hash, a txn.ReceiptAnswer) (known bool, receipt *txn.Receipt) {
	switch {
	case a.Err != nil:
		return false, nil
	case a.Receipt == nil:
		return true, nil
	case a.Receipt.BlockNumber < view.first().Number:
		known = older[a.Receipt.BlockNumber] == a.Receipt.BlockHash
	default:
		known = view.holds(a.Receipt.BlockNumber, a.Receipt.BlockHash)
	}
	if !known {
		return false, nil
	}
	return true, a.Receipt
}
