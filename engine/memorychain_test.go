package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// onMemoryChain starts a node on an in-memory chain; only the test mines.
func onMemoryChain(t *testing.T, adjust func(*Options)) (*harness, *chaintest.Chain) {
	c := chaintest.New(chaintest.Options{})
	r := newLedger(t, 1, c.ID())
	c.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000000"))
	r.startNode("a", func(o *Options) {
		o.Chains[0].Chain = c
		if adjust != nil {
			adjust(o)
		}
	})
	return r, c
}

func (r *harness) is(id txn.TxID, sub txn.Sub) func() error {
	return func() error {
		tx, err := r.admin.Tx(context.Background(), id)
		if err == nil && tx.Sub != sub {
			err = fmt.Errorf("it is %s %s %s %q, attempts %d", tx.State, tx.Sub, tx.Reason,
				tx.LastError, tx.SubmitAttempts)
		}
		return err
	}
}

// TestReceipt_Late_NoProtection lists a transaction in a block while the first receipt lookup finds
// nothing, as load-balanced providers do. That does not count as missing.
func TestReceipt_Late_NoProtection(t *testing.T) {
	t.Parallel()
	r, c := onMemoryChain(t,
		func(o *Options) { o.Chains[0].Policy.ResubmitInterval = time.Minute }) // the default
	var late atomic.Bool
	late.Store(true)
	c.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodReceipts && late.CompareAndSwap(true, false) {
			return chaintest.Lag(1)
		}
		return chaintest.Fault{}
	})
	id := r.create(0, "one", transfer())
	r.eventually("sent", r.is(id, txn.Pending))
	c.Mine(1)
	r.eventually("the late lookup", func() error {
		if late.Load() {
			return errors.New("not yet")
		}
		return nil
	})
	c.MineEmpty(10)
	r.awaitFinal(id)
}

// TestReceipt_LateAndResendAccepted_NoProtection does the same with a provider that accepts bytes
// it already has.
func TestReceipt_LateAndResendAccepted_NoProtection(t *testing.T) {
	t.Parallel()
	r, c := onMemoryChain(t, func(o *Options) {
		o.Chains[0].Policy.ResubmitInterval = 50 * time.Millisecond
		o.Chains[0].Policy.ResubmitMax = 5
	})
	var late atomic.Bool
	late.Store(true)
	c.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		switch {
		case call.Method == chaintest.MethodReceipts && len(c.Included()) > 0 &&
			late.CompareAndSwap(true, false):
			return chaintest.Lag(1)
		case call.Method == chaintest.MethodSend && len(c.Included()) > 0:
			return chaintest.Swallow()
		}
		return chaintest.Fault{}
	})
	id := r.create(0, "one", transfer())
	r.eventually("sent", r.is(id, txn.Pending))
	c.Mine(1)
	r.eventually("the late lookup", func() error {
		if late.Load() {
			return errors.New("not yet")
		}
		return nil
	})
	c.MineEmpty(10)
	r.eventually("final", func() error {
		tx, err := r.admin.Tx(context.Background(), id)
		if err == nil && !tx.State.Final() {
			err = fmt.Errorf("%s %s %q after %d broadcasts; on chain since block %d", tx.State,
				tx.Reason, tx.LastError, tx.SubmitAttempts, c.Included()[0].Block.Number)
		}
		return err
	})
}

// TestTakeover_LateReceipt_NoReorgEvent returns the first lookup of a recorded receipt one block
// late.
func TestTakeover_LateReceipt_NoReorgEvent(t *testing.T) {
	t.Parallel()
	c := chaintest.New(chaintest.Options{})
	r := newLedger(t, 1, c.ID())
	c.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000000"))
	on := func(o *Options) { o.Chains[0].Chain = c }
	n := r.startNode("a", on)
	id := r.create(0, "one", transfer())
	r.eventually("sent", r.is(id, txn.Pending))
	c.Mine(1)
	r.eventually("included", r.is(id, txn.Included))
	n.stop()
	var late atomic.Int32
	c.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodReceipts && late.Add(1) == 1 {
			return chaintest.Lag(1)
		}
		return chaintest.Fault{}
	})
	r.startNode("b", on)
	r.eventually("the receipt is read", func() error {
		if late.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	c.MineEmpty(5)
	r.awaitFinal(id)
	if slices.Contains(r.events(id), txn.EventReorged) {
		t.Fatalf("%v", r.events(id))
	}
}

// TestCancel_Repeated_QueueProceeds repeats CancelTx for an included transaction while quotes for
// the next one are slow.
func TestCancel_Repeated_QueueProceeds(t *testing.T) {
	t.Parallel()
	r, c := onMemoryChain(t, func(o *Options) { o.Chains[0].Policy.Confirmations = 100 })
	a := r.create(0, "a", transfer())
	r.eventually("sent", r.is(a, txn.Pending))
	c.Mine(1)
	r.eventually("included", r.is(a, txn.Included))
	var quotes atomic.Int32
	c.Intercept(func(ctx context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodQuote { // a slow provider
			quotes.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
		return chaintest.Fault{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // as server.CancelTx for repeated calls
		for ctx.Err() == nil {
			_, _ = r.admin.AddCommand(ctx, r.submitters[0],
				store.Ask{Kind: txn.CommandCancel, Tx: &a})
			<-time.After(250 * time.Millisecond)
		}
	}()
	b := r.create(0, "b", transfer())
	r.eventually("the next one is sent", func() error {
		tx, err := r.admin.Tx(context.Background(), b)
		if err == nil && tx.Nonce == nil {
			err = fmt.Errorf("still %s after %d quotes", tx.State, quotes.Load())
		}
		return err
	})
}

// TestChain_HeadGoesBack_ReorgReported removes the newest block without a replacement.
func TestChain_HeadGoesBack_ReorgReported(t *testing.T) {
	t.Parallel()
	r, c := onMemoryChain(t,
		func(o *Options) { o.Chains[0].Policy.ResubmitInterval = 200 * time.Millisecond })
	id := r.create(0, "one", transfer())
	r.eventually("sent", r.is(id, txn.Pending))
	c.Mine(1)
	r.eventually("included", r.is(id, txn.Included))
	if err := c.Rollback(1, chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	r.eventually("the reorg is reported", func() error {
		if !slices.Contains(r.events(id), txn.EventReorged) {
			return fmt.Errorf("events %v; on chain: %d, pool: %d", r.events(id), len(c.Included()),
				len(c.Pool()))
		}
		return nil
	})
}

// TestTracker_FlakyNode_CatchesUp fails one block read in twenty while the tracker is sixty blocks
// behind.
func TestTracker_FlakyNode_CatchesUp(t *testing.T) {
	t.Parallel()
	r, c := onMemoryChain(t, nil)
	id := r.create(0, "one", transfer())
	r.eventually("sent", r.is(id, txn.Pending))
	var reads atomic.Int32
	c.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodBlockByHash && reads.Add(1)%20 == 0 {
			return chaintest.Unavailable()
		}
		return chaintest.Fault{}
	})
	c.Mine(60) // the first block has the transaction
	r.awaitFinal(id)
}
