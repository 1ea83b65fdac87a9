package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// pipeline makes a submitter pipelined.
func (r *harness) pipeline(i, limit int) {
	r.t.Helper()
	mode := txn.Pipelined
	if err := r.admin.SetPolicies(r.t.Context(), r.submitters[i],
		store.PolicyChange{Mode: &mode, MaxInFlight: &limit}); err != nil {
		r.t.Fatal(err)
	}
}

// pipelinedChain is a ledger with one pipelined submitter and an in-memory chain; no node runs yet.
func pipelinedChain(t *testing.T, limit int, o chaintest.Options) (*harness, *chaintest.Chain) {
	t.Helper()
	c := chaintest.New(o)
	r := newLedger(t, 1, c.ID())
	r.pipeline(0, limit)
	c.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000000"))
	return r, c
}

func (r *harness) startOn(c *chaintest.Chain, name string, adjust func(*Options)) *testNode {
	return r.startNode(name, func(o *Options) {
		o.Chains[0].Chain = c
		if adjust != nil {
			adjust(o)
		}
	})
}

// awaitExecuted mines until all transactions are confirmed, and checks that they were executed in
// the order of the queue under the nonces from 0 on.
func (r *harness) awaitExecuted(c *chaintest.Chain, ids []txn.TxID) {
	r.t.Helper()
	r.eventually("all are confirmed", func() error {
		c.Mine(1)
		n := r.number("SELECT count(*) FROM managed_tx WHERE state = 'CONFIRMED'")
		if n < len(ids) {
			return fmt.Errorf("%d of %d", n, len(ids))
		}
		return nil
	})
	for i, id := range ids {
		tx, err := r.admin.Tx(context.Background(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if tx.Nonce == nil || *tx.Nonce != txn.Nonce(i) {
			r.t.Fatalf("transaction %d of the queue has nonce %v", i, tx.Nonce)
		}
	}
	if n := len(c.Included()); n != len(ids) {
		r.t.Fatalf("%d transactions on chain, want %d", n, len(ids))
	}
	if found, _, err := r.admin.AuditWhole(context.Background(), r.submitters[0]); err != nil ||
		len(found) > 0 {
		r.t.Fatalf("audit: %v %v", found, err)
	}
}

func (r *harness) createMany(n int) []txn.TxID {
	r.t.Helper()
	ids := make([]txn.TxID, n)
	for i := range ids {
		ids[i] = r.create(0, fmt.Sprint("r", i), transfer())
	}
	return ids
}

func TestPipelined_Backlog_ExecutedInOrder(t *testing.T) {
	t.Parallel()
	const calls, limit = 200, 16
	r, c := pipelinedChain(t, limit, chaintest.Options{})
	ids := r.createMany(calls)
	r.startOn(c, "a", nil)
	r.eventually("the limit is in the pool", func() error {
		if n := len(c.Pool()); n != limit {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	r.awaitExecuted(c, ids)
	if n := r.number(`SELECT count(DISTINCT xid::TEXT) FROM tx_event WHERE kind = 'ALLOCATED'`); n >
		2*calls/limit {
		t.Errorf("%d commits took %d nonces", n, calls)
	}
	if n := r.number(`SELECT max(slot) FROM managed_tx`); n != limit-1 {
		t.Errorf("highest slot is %d", n)
	}
}

// TestPipelined_CodeAccepted_OneInPool: pools keep one transaction of an account with code. A queue
// is executed in its order, and no broadcast is refused for that.
func TestPipelined_CodeAccepted_OneInPool(t *testing.T) {
	t.Parallel()
	r, c := pipelinedChain(t, 16, chaintest.Options{})
	code := txn.Address{0xac}
	r.policy.AllowCode = []txn.Address{code}
	c.Delegate(devchain.Address(0), code)
	ids := r.createMany(20)
	r.startOn(c, "a", nil)
	r.awaitExecuted(c, ids)
	if n := r.number("SELECT max(slot) FROM managed_tx"); n != 0 {
		t.Errorf("highest slot is %d", n)
	}
	if n := r.number("SELECT count(*) FROM tx_event WHERE reason <> ''"); n > 0 {
		t.Errorf("%d events have a reason", n)
	}
}

// TestPipelined_ModeChanged_Applied changes the mode under an owner: it is fenced, because it could
// be an older program, and the limit counts from then on. Back in mode STRICT, nothing is taken
// until one nonce may be.
func TestPipelined_ModeChanged_Applied(t *testing.T) {
	t.Parallel()
	r, c := onMemoryChain(t, nil)
	first := r.create(0, "first", transfer())
	r.eventually("the first one is in the pool", r.is(first, txn.Pending))
	change := func(mode txn.Mode) {
		if err := r.admin.SetPolicies(t.Context(), r.submitters[0],
			store.PolicyChange{Mode: &mode}); err != nil {
			t.Fatal(err)
		}
		id, err := r.admin.AddCommand(t.Context(), r.submitters[0],
			store.Ask{Kind: txn.CommandUpdate})
		if err != nil {
			t.Fatal(err)
		}
		r.eventually("the change is applied", func() error {
			if r.number("SELECT count(*) FROM submitter_command WHERE command_id = $1 AND "+
				"result = 'APPLIED'", id) == 0 {
				return fmt.Errorf("%s is not applied", mode)
			}
			return nil
		})
	}
	change(txn.Pipelined)
	ids := append([]txn.TxID{first}, r.createMany(40)...)
	inPool := func(want int) {
		r.eventually("so many are in the pool", func() error {
			if n := len(c.Pool()); n != want {
				return fmt.Errorf("%d, want %d", n, want)
			}
			return nil
		})
	}
	inPool(txn.DefaultInFlight)
	change(txn.Strict)
	c.Mine(1)
	inPool(1)
	c.Mine(1)
	inPool(1)
	r.awaitExecuted(c, ids)
}
