package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func (v *chainHarness) info() store.SubmitterInfo {
	v.t.Helper()
	info, err := v.admin.Submitter(context.Background(), v.submitters[0])
	if err != nil {
		v.t.Fatal(err)
	}
	return info
}

func (v *chainHarness) protection() *txn.Protected {
	v.t.Helper()
	info := v.info()
	if info.Cursor == nil {
		return nil
	}
	return info.Cursor.Protected
}

// finalAndQueued creates a final transaction, and a queued one for which quotes fail.
func (v *chainHarness) finalAndQueued() (id, behind txn.TxID) {
	v.t.Helper()
	id = v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.final(id)
	v.setQuotes(false)
	return id, v.create(0, "behind", transfer())
}

// final mines until a transaction is exactly final.
func (v *chainHarness) final(id txn.TxID) {
	v.t.Helper()
	v.mine(1 + int(v.policy.Confirmations))
	v.awaitFinal(id)
}

func (v *chainHarness) loseBlockOf(id txn.TxID) {
	v.t.Helper()
	if err := v.reorg(v.blocksFrom(id)); err != nil {
		v.t.Fatal(err)
	}
}

// checkRestored verifies the events of a reorg after finality, and the automatic recovery.
func (v *chainHarness) checkRestored(id, behind txn.TxID) {
	v.t.Helper()
	tx := v.await(id, "it is reported", func(tx txn.Tx) bool { return tx.State == txn.Stuck })
	if tx.Reason != txn.ReasonReorgedFinal || tx.Executed != txn.Unknown || tx.Receipt != nil {
		v.t.Errorf("%+v", tx.Status)
	}
	if p := v.protection(); p == nil || p.Reason != txn.ReasonReorgedFinal || p.Evidence == "" {
		v.t.Fatalf("protection %+v", p)
	}
	v.setQuotes(true)
	v.eventually("it is rebroadcast", func() error {
		if all, _ := v.sent(0); len(all) < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if waiting, err := v.admin.Tx(v.t.Context(), behind); err != nil || waiting.Nonce != nil {
		v.t.Errorf("a nonce was taken: %+v %v", waiting.Status, err)
	}
	if again := v.finish(id); again.State != txn.Confirmed || again.TxHash != tx.TxHash {
		v.t.Errorf("%+v", again.Status)
	}
	if next := v.finish(behind); next.State != txn.Confirmed || *next.Nonce != 1 ||
		v.protection() != nil {
		v.t.Errorf("the next one is %+v, protection %+v", next.Status, v.protection())
	}
	v.checkLedger()
}

func TestReorgAfterFinality(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		v := newChainHarness(t, kind, quick, nil)
		v.node()
		id, behind := v.finalAndQueued()
		v.loseBlockOf(id)
		v.checkRestored(id, behind)
	})
}

// TestReorgAfterFinality_NoOwner_Detected reorgs while the submitter has no owner. The next owner
// detects it, at any depth.
func TestReorgAfterFinality_NoOwner_Detected(t *testing.T) {
	for _, blocks := range []int{0, 48} { // 48: more than is read one at a time
		t.Run(fmt.Sprint(blocks, " blocks later"), func(t *testing.T) {
			t.Parallel()
			p := quick
			p.AuditDepth = 100
			v := newChainHarness(t, "memory", p, nil)
			n := v.node()
			id, behind := v.finalAndQueued()
			n.stop()
			v.loseBlockOf(id)
			v.memory.MineEmpty(blocks)
			v.node()
			v.checkRestored(id, behind)
		})
	}
}

// TestReorgAfterFinality_IdleSubmitter_Detected verifies that a submitter without work has an owner
// while a reorg could revoke its final transactions.
func TestReorgAfterFinality_IdleSubmitter_Detected(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Basic, WorkerQueue} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			v := newChainHarness(t, "memory", quick, func(o *Options) { o.Mode = mode })
			n := v.node()
			id := v.create(0, "one", transfer())
			v.eventually("it is sent", v.is(id, txn.Pending))
			v.final(id)
			n.stop()
			v.node()
			v.eventually("it has an owner", func() error {
				if v.number("SELECT count(*) FROM submitter_lease WHERE released") == 1 {
					return errors.New("not yet")
				}
				return nil
			})
			v.loseBlockOf(id)
			v.await(id, "it is reported",
				func(tx txn.Tx) bool {
					return tx.State == txn.Stuck && tx.Reason == txn.ReasonReorgedFinal
				})
			if again := v.finish(id); again.State != txn.Confirmed {
				t.Errorf("%+v", again.Status)
			}
		})
	}
}

// TestOwnership_FullNode_WorkBeforeAudits verifies that a full node acquires submitters only for
// work, not for audits.
func TestOwnership_FullNode_WorkBeforeAudits(t *testing.T) {
	t.Parallel()
	c := chaintest.New(chaintest.Options{})
	tracker := newTracker(c, quick, clock.Real{})
	e := &Engine{
		Options:  Options{MaxSubmitters: 8, IdleAfter: time.Hour},
		trackers: map[txn.ChainID]*track.Tracker{c.ID(): tracker},
	}
	r := newRouter(e)
	if got := r.auditedAbove(c.ID()); got != txn.UnreachableBlock {
		t.Errorf("before the first head: %d", got)
	}
	c.MineEmpty(20)
	if err := tracker.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	for owned, want := range map[int]uint64{0: 8, 5: 8, 6: txn.UnreachableBlock} {
		clear(r.actors)
		for id := range owned {
			r.actors[txn.SubmitterID(id)] = &actor{}
		}
		if got := r.auditedAbove(c.ID()); got != want {
			t.Errorf("with %d owned: %d, want %d", owned, got, want)
		}
	}
	e.IdleAfter = 0
	clear(r.actors)
	if got := r.auditedAbove(c.ID()); got != txn.UnreachableBlock {
		t.Errorf("on a halted chain: %d", got)
	}
}

// TestAudited_BelowAuditDepth_Dropped verifies that a final transaction below the audit depth is
// not compared any more and needs no owner.
func TestAudited_BelowAuditDepth_Dropped(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick,
		func(o *Options) { o.IdleAfter = 250 * time.Millisecond })
	v.node()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.final(id)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = v.memory.Run(ctx, clock.Real{}, 100*time.Millisecond) }()
	v.eventually("it is released", func() error {
		if v.number("SELECT count(*) FROM submitter_lease WHERE NOT released") == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	if deep := v.blocksFrom(id) - 1; deep < int(v.policy.AuditDepth) {
		t.Errorf("released at depth %d", deep)
	}
}

// TestAudited_HaltedChain_OwnerLeaves verifies that a chain without new blocks needs no owners for
// audits.
func TestAudited_HaltedChain_OwnerLeaves(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick,
		func(o *Options) { o.IdleAfter = 100 * time.Millisecond })
	v.node()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.final(id)
	v.eventually("it is released", func() error {
		if v.number("SELECT count(*) FROM submitter_lease WHERE NOT released") == 1 {
			return errors.New("not yet")
		}
		return nil
	})
}

// reportedBlocks returns the blocks above a transaction as its events report them.
func (r *harness) reportedBlocks(id txn.TxID) (blocks []txn.BlockRef, forks int) {
	r.t.Helper()
	events, err := r.admin.EventsOfTx(r.t.Context(), id, 0, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events {
		if e.NewFork {
			blocks = nil
			if e.Kind == txn.EventConfirmations {
				forks++
			}
		}
		blocks = append(blocks, e.Above...)
	}
	return blocks, forks
}

// blocksAbove returns n blocks of the chain above a receipt.
func (v *chainHarness) blocksAbove(receipt txn.Receipt, n uint64) (blocks []txn.BlockRef) {
	v.t.Helper()
	for i := range n {
		b, err := v.memory.BlockByNumber(v.t.Context(), receipt.BlockNumber+1+i)
		if err != nil || b == nil {
			v.t.Fatal("no block", err)
		}
		blocks = append(blocks, txn.BlockRef{Number: b.Number, Hash: b.Hash})
	}
	return blocks
}

// reportingPolicy reports confirmations.
func reportingPolicy() txn.Policy {
	p := quick
	p.ReportConfirmations = true
	p.Confirmations = 6
	p.AuditDepth = 24
	return p
}

func (v *chainHarness) awaitReported(id txn.TxID, n int) {
	v.t.Helper()
	v.eventually(fmt.Sprintf("%d blocks are reported", n), func() error {
		if blocks, _ := v.reportedBlocks(id); len(blocks) != n {
			return fmt.Errorf("%d are", len(blocks))
		}
		return nil
	})
}

// TestConfirmations_Fork_ListReplaced verifies that a fork sends new_fork with the whole list, and
// that a watcher ends with the blocks of the chain.
func TestConfirmations_Fork_ListReplaced(t *testing.T) {
	t.Parallel()
	var counted reading
	v := newChainHarness(t, "memory", reportingPolicy(),
		func(o *Options) { counted = measure(t, o) })
	v.node()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.mine(1)
	v.eventually("it is included", v.is(id, txn.Included))
	for n := 1; n <= 3; n++ {
		v.mine(1)
		v.awaitReported(id, n)
	}
	if err := v.memory.Reorg(2, chaintest.Drop); err != nil { // replaces two blocks with three
		t.Fatal(err)
	}
	v.awaitReported(id, 4)
	events, err := v.admin.EventsOfTx(t.Context(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	if last := events[len(events)-1]; !last.NewFork || len(last.Above) != 4 {
		t.Errorf("the fork is reported as %+v", last)
	}
	// its own block as well
	if err := v.memory.Reorg(v.blocksFrom(id), chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	v.awaitEvent(id, txn.EventReorged, 1)
	v.awaitCount(counted, 2, "fencepost_confirmations_fork")
	tx := v.finish(id)
	got, forks := v.reportedBlocks(id)
	if want := v.blocksAbove(*tx.Receipt, 6); !slices.Equal(got, want) || forks != 1 ||
		!slices.Equal(tx.Above, want) {
		t.Errorf("reported %v with %d forks, in the ledger %v, on chain %v", got, forks, tx.Above,
			want)
	}
}

// TestConfirmations_Takeover_EventsContinue verifies that the next owner continues the list of
// confirmations, wherever its view begins.
func TestConfirmations_Takeover_EventsContinue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reorg  bool
		blocks int
	}{"the same chain": {false, 1}, "another chain": {true, 1}, "long after": {false, 48},
		"long after, another chain": {true, 48}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newChainHarness(t, "memory", reportingPolicy(), nil)
			n := v.node()
			id := v.create(0, "one", transfer())
			v.eventually("it is sent", v.is(id, txn.Pending))
			v.mine(1)
			v.eventually("it is included", v.is(id, txn.Included))
			v.mine(2)
			v.awaitReported(id, 2)
			n.stop()
			if c.reorg {
				if err := v.memory.Reorg(1, chaintest.Drop); err != nil {
					t.Fatal(err)
				}
			}
			v.memory.MineEmpty(c.blocks)
			v.node()
			tx := v.finish(id)
			got, forks := v.reportedBlocks(id)
			if want := v.blocksAbove(*tx.Receipt, 6); !slices.Equal(got, want) ||
				(forks > 0) != c.reorg {
				t.Errorf("reported %v with %d forks, on chain %v", got, forks, want)
			}
		})
	}
}

// TestFinality_AboveTag_Waits verifies that nothing above the tagged block is final, however many
// confirmations it has.
func TestFinality_AboveTag_Waits(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"safe", "finalized"} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			p := reportingPolicy()
			v := newChainHarness(t, "memory", p, func(o *Options) { o.Chains[0].FinalTag = tag })
			v.memory.SetTags(0, 0)
			v.node()
			id := v.create(0, "one", transfer())
			v.eventually("it is sent", v.is(id, txn.Pending))
			in := v.memory.Mine(1).Number
			v.memory.MineEmpty(200) // past the window
			v.awaitReported(id, 6)
			v.awaitCalls(v.memory, chaintest.MethodTagged, 3)
			if tx, err := v.admin.Tx(t.Context(), id); err != nil || tx.Sub != txn.Included {
				t.Fatalf("%+v %v", tx.Status, err)
			}
			if safe := tag == "safe"; safe {
				v.memory.SetTags(in, 0)
			} else {
				v.memory.SetTags(in+9, in)
			}
			tx := v.awaitFinal(id)
			if got, forks := v.reportedBlocks(id); tx.State != txn.Confirmed || forks != 0 ||
				!slices.Equal(got, v.blocksAbove(*tx.Receipt, 6)) {
				t.Errorf("%s, reported %v", tx.State, got)
			}
			var asked atomic.Int32
			v.memory.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
				if call.Method == chaintest.MethodTagged {
					asked.Add(1)
				}
				return chaintest.Fault{}
			})
			v.memory.SetTags(1<<40, 1<<40)               // the head
			v.finish(v.create(0, "another", transfer())) // not deep enough to need the tag
			if n := asked.Load(); n > 4 {
				t.Errorf("the tag is read %d times", n)
			}
		})
	}
}

// awaitCalls waits for more calls of a method.
func (v *chainHarness) awaitCalls(c *chaintest.Chain, method chaintest.Method, more int32) {
	v.t.Helper()
	(&sharedKeyHarness{harness: v.harness, chain: c}).awaitCalls(method, more)
}

// TestFinality_ChainWithoutTags_NeverFinal verifies that nothing is final on nodes that do not know
// the tag, and that the log reports it once.
func TestFinality_ChainWithoutTags_NeverFinal(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick, nil)
	v.onMemory(chaintest.New(chaintest.Options{NoTags: true}))
	log := &textLog{}
	v.adjust = func(o *Options) { o.Chains[0].FinalTag, o.Logger = "finalized", log.logger() }
	v.node()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.mine(10)
	v.awaitCalls(v.memory, chaintest.MethodTagged, 3)
	if tx, err := v.admin.Tx(t.Context(), id); err != nil || tx.State.Final() {
		t.Errorf("%+v %v", tx.Status, err)
	}
	if n := strings.Count(log.String(), "finality tag unknown"); n != 1 {
		t.Errorf("logged %d times, want 1", n)
	}
}

// TestReorg_AuditingOwner_Woken disables polling: only the tracker wakes the owner.
func TestReorg_AuditingOwner_Woken(t *testing.T) {
	t.Parallel()
	var counted reading
	v := newChainHarness(t, "memory", quick, func(o *Options) {
		o.PollInterval, o.IdleAfter = time.Hour, time.Hour
		counted = measure(t, o)
	})
	v.node()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.final(id)
	v.loseBlockOf(id)
	v.await(id, "it is reported", func(tx txn.Tx) bool { return tx.State == txn.Stuck })
	v.awaitCount(counted, 1, "fencepost_tx_reorged_final")
}

// awaitCount waits for the value of a metric, which follows the commit.
func (r *harness) awaitCount(of reading, want float64, name string, label ...string) {
	r.t.Helper()
	r.eventually(name, func() error {
		if got := of.sum(name, label...); got != want {
			return fmt.Errorf("%v is %v, want %v", label, got, want)
		}
		return nil
	})
}

// flippedReceipts is a chain whose endpoint reports the opposite result of transactions.
type flippedReceipts struct {
	Chain
	flip func() bool
}

func (c flippedReceipts) Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	all := c.Chain.Receipts(ctx, hashes)
	for i := range all {
		if all[i].Receipt != nil && c.flip() {
			flipped := *all[i].Receipt
			flipped.Success = !flipped.Success
			all[i].Receipt = &flipped
		}
	}
	return all
}

// TestQuirk_ReceiptCorrected_OutcomeFollows first reports a failed receipt and then a successful
// one of the same block, and the other way round. The outcome is what the last two readings agree
// on.
func TestQuirk_ReceiptCorrected_OutcomeFollows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrong    int32 // readings that report the opposite
		reverts  bool
		executed txn.Executed
	}{
		"failed at first":         {1, false, txn.Success},
		"failed":                  {0, true, txn.Reverted},
		"failed in every reading": {1 << 20, false, txn.Reverted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newChainHarness(t, "memory", quick, nil)
			v.onMemory(chaintest.New(chaintest.Options{TrustGasLimits: true}))
			var readings atomic.Int32
			v.adjust = func(o *Options) {
				o.Chains[0].Chain = flippedReceipts{o.Chains[0].Chain, func() bool {
					return readings.Add(1) <= c.wrong
				}}
			}
			v.node()
			payload := transfer()
			if c.reverts {
				payload = v.reverting()
				payload.GasLimit = 100_000
			}
			tx := v.finish(v.create(0, "one", payload))
			if tx.Executed != c.executed || tx.Receipt.Success != (c.executed == txn.Success) {
				t.Errorf("%s %s %s after %d readings", tx.State, tx.Executed, tx.Reason,
					readings.Load())
			}
		})
	}
}

// missingReceipts is a chain whose endpoint has no receipt when missing returns true.
type missingReceipts struct {
	Chain
	missing func() bool
}

func (c missingReceipts) Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	all := c.Chain.Receipts(ctx, hashes)
	for i := range all {
		if all[i].Receipt != nil && c.missing() {
			all[i].Receipt = nil
		}
	}
	return all
}

// TestQuirk_RevertedReceiptMissingOnce_NoReorg has an endpoint that lacks the receipt of a reverted
// transaction when it is read for the second time. Its block is still canonical, so that proves
// nothing.
func TestQuirk_RevertedReceiptMissingOnce_NoReorg(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick, nil)
	v.onMemory(chaintest.New(chaintest.Options{TrustGasLimits: true}))
	var readings atomic.Int32
	v.adjust = func(o *Options) {
		o.Chains[0].Chain = missingReceipts{o.Chains[0].Chain, func() bool {
			return readings.Add(1) == 2
		}}
	}
	v.node()
	payload := v.reverting()
	payload.GasLimit = 100_000
	id := v.create(0, "one", payload)
	tx := v.finish(id)
	if kinds := v.events(id); tx.Executed != txn.Reverted || readings.Load() < 3 ||
		slices.Contains(kinds, txn.EventReorged) {
		t.Errorf("%s %s after %d readings: %v", tx.State, tx.Executed, readings.Load(), kinds)
	}
}
