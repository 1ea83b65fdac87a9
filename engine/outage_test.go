package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// silence makes the chain unavailable and waits until calls have failed.
func (v *chainHarness) silence() {
	v.t.Helper()
	asked := make(chan struct{}, 1)
	v.memory.Intercept(func(context.Context, chaintest.Call) chaintest.Fault {
		select {
		case asked <- struct{}{}:
		default:
		}
		return chaintest.Fault{Down: true}
	})
	for range 3 {
		<-asked
	}
}

// TestReorgAfterFinality_DuringOutage_Detected removes a final block during an outage, and mines
// more than the audit depth: within the view, below it, and with blocks that are never read. Final
// transactions are still compared before they are dropped.
func TestReorgAfterFinality_DuringOutage_Detected(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{5, 14, 500} {
		t.Run(fmt.Sprint(blocks, " blocks"), func(t *testing.T) {
			t.Parallel()
			v := newChainHarness(t, "memory", quick, nil)
			v.node()
			id, behind := v.finalAndQueued()
			above := v.blocksFrom(id)
			v.silence()
			if err := v.reorg(above); err != nil {
				t.Fatal(err)
			}
			v.memory.MineEmpty(blocks)
			v.memory.Intercept(nil)
			v.checkRestored(id, behind)
		})
	}
}

// TestEnded_AfterOutage_ComparedBeforeDropped verifies that a transaction that ended as not
// executed is dropped only when no attempt is in a block at the required depth.
func TestEnded_AfterOutage_ComparedBeforeDropped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seen txn.Inclusion
		head uint64
		kept int
	}{
		"not deep":  {txn.Inclusion{Known: true}, 100 + quick.AuditDepth - 1, 1},
		"deep":      {txn.Inclusion{Known: true}, 100 + quick.AuditDepth, 0},
		"not known": {txn.Inclusion{}, 1000, 1},
		"included":  {txn.Inclusion{Known: true, Receipt: &txn.Receipt{}}, 1000, 1},
	} {
		tracker := newTracker(chaintest.New(chaintest.Options{}), quick, clock.Real{})
		a := &actor{
			e:     &Engine{Options: Options{Clock: clock.Real{}}},
			track: tracker,
			ended: []txn.Tx{
				{Status: txn.Status{FinalBlock: 100}, Attempts: []txn.Attempt{{No: 1}}},
			},
		}
		a.dropSettled(&txn.View{Head: c.head,
			Inclusion: func(txn.Hash) txn.Inclusion { return c.seen }})
		if len(a.ended) != c.kept {
			t.Errorf("%s: %d kept", name, len(a.ended))
		}
	}
}

// TestTracker_AuditedBlocks_Known verifies that the tracker has the current audited blocks: none
// after all were dropped, and later ones again.
func TestTracker_AuditedBlocks_Known(t *testing.T) {
	t.Parallel()
	tracker := newTracker(chaintest.New(chaintest.Options{}), quick, clock.Real{})
	a := &actor{e: &Engine{Options: Options{Clock: clock.Real{}}}, id: 1, track: tracker}
	final := func(block uint64) {
		a.put(
			&txn.Tx{
				Status: txn.Status{
					State:   txn.Confirmed,
					Receipt: &txn.Receipt{BlockNumber: block, BlockHash: txn.Hash{byte(block)}},
				},
			},
			nil,
		)
	}
	known := func(want ...uint64) {
		t.Helper()
		if a.awaitReorgs(); !slices.Equal(tracker.Audited(1), want) {
			t.Errorf("the tracker has %v, want %v", tracker.Audited(1), want)
		}
	}
	canonical := func(number uint64) (txn.Hash, bool) {
		return txn.Hash{byte(number)},
			number != 12
	}
	known()
	final(11)
	known(11)
	final(12)
	final(13)
	known(11, 12, 13)
	a.dropSettled(
		// a block that differs is kept
		&txn.View{Head: 13 + quick.AuditDepth, Cursor: &txn.Cursor{}, Canonical: canonical})
	known(12)
	a.dropSettled(
		&txn.View{
			Head: 13 + quick.AuditDepth, Cursor: &txn.Cursor{},
			Canonical: func(number uint64) (txn.Hash, bool) { return txn.Hash{byte(number)}, true },
		},
	)
	known()
	final(14)
	known(14)
}

// TestOutage_CrashAfter_ReorgDetected reorgs a final transaction during an outage, uses its nonce
// elsewhere, and includes the next transaction far above. The owner crashes after it recorded that
// inclusion, before the comparison. The next owner on a node that saw the outage compares to the
// same depth.
func TestOutage_CrashAfter_ReorgDetected(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	crashed := make(chan struct{})
	var once sync.Once
	w.startNode("a", func(o *Options) {
		o.Chains[0].Chain, o.AuditInterval = w.chain, NoAudit
		o.Gate = func(_ context.Context, p Point, _ txn.SubmitterID) (err error) {
			select {
			case <-crashed:
				return nil
			default:
			}
			if p == AfterRecord &&
				w.number(
					"SELECT count(*) FROM managed_tx WHERE receipt_block > 300 AND terminal_at "+
						"IS NULL") > 0 {
				once.Do(func() { close(crashed); err = errors.New("crash") })
			}
			return err
		}
	})
	first := w.create(0, "one", transfer())
	w.eventually("it is sent", w.is(first, txn.Pending))
	w.chain.Mine(1)
	w.chain.MineEmpty(int(w.policy.Confirmations))
	final := w.awaitFinal(first)
	second := w.create(0, "two", transfer())
	w.eventually("the next is sent", w.is(second, txn.Pending))
	var behind types.Transaction
	if err := behind.UnmarshalBinary(w.attempts()[second.String()]); err != nil {
		t.Fatal(err)
	}
	(&chainHarness{harness: w.harness, memory: w.chain}).silence()
	if err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number-final.Receipt.BlockNumber)+1,
		chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	w.chain.ForgetPool()
	w.inject(w.foreignTx(0))
	w.chain.Mine(1)
	w.chain.MineEmpty(300)
	w.inject(&behind)
	w.chain.Mine(1)
	w.chain.Intercept(nil)
	<-crashed
	w.await(first, "the outcome is revoked", func(tx txn.Tx) bool { return tx.State == txn.Stuck })
}
