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

// silence keeps the chain from answering, and waits until that is noticed.
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

// While the chain cannot be asked it loses a block that was final, and grows by more than is
// audited: by so much that the view reaches down there, by more, and by so much that blocks go by
// unseen. What was final is compared all the same before anybody lets go of it.
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

// What ended as never run is let go of only once all that was signed for it is known to be in no
// block, as seen from there.
func TestEnded_AfterOutage_ComparedBeforeDropped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seen txn.Inclusion
		head uint64
		kept int
	}{
		"not deep":         {txn.Inclusion{Known: true}, 100 + quick.AuditDepth - 1, 1},
		"deep":             {txn.Inclusion{Known: true}, 100 + quick.AuditDepth, 0},
		"not looked for":   {txn.Inclusion{}, 1000, 1},
		"it is in a block": {txn.Inclusion{Known: true, Receipt: &txn.Receipt{}}, 1000, 1},
	} {
		tracker := newTracker(chaintest.New(chaintest.Options{}), quick, clock.Real{})
		a := &actor{
			e:     &Engine{Options: Options{Clock: clock.Real{}}},
			track: tracker,
			ended: []txn.Tx{
				{Status: txn.Status{FinalBlock: 100}, Attempts: []txn.Attempt{{No: 1}}},
			},
		}
		a.letGo(&txn.View{Head: c.head, Inclusion: func(txn.Hash) txn.Inclusion { return c.seen }})
		if len(a.ended) != c.kept {
			t.Errorf("%s: %d kept", name, len(a.ended))
		}
	}
}

// The tracker is told of audited blocks whenever these are others: after all of them were let go of
// it knows of none, and of those that come later again.
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
			t.Errorf("the tracker knows of %v, not of %v", tracker.Audited(1), want)
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
	a.letGo(
		// of what cannot be compared nothing is let go
		&txn.View{Head: 13 + quick.AuditDepth, Canonical: canonical})
	known(12)
	a.letGo(
		&txn.View{
			Head:      13 + quick.AuditDepth,
			Canonical: func(number uint64) (txn.Hash, bool) { return txn.Hash{byte(number)}, true },
		},
	)
	known()
	final(14)
	known(14)
}

// During an outage the block of what was final goes, somebody else uses its nonce, and what was
// sent after it is included far above. The owner crashes right after it has written that down,
// before it has compared anything; whoever comes next on a node that has seen the outage compares
// as far down as before.
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
				once.Do(func() { close(crashed); err = errors.New("a crash") })
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
	w.await(first, "its end is taken back", func(tx txn.Tx) bool { return tx.State == txn.Stuck })
}
