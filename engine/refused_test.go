package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func gwei(n uint64) txn.Wei {
	var w txn.Wei
	return *w.Mul(uint256.NewInt(n), uint256.NewInt(1e9))
}

const capGwei = 500 // the default

// pickyChain is a chain whose nodes refuse transactions at usual fees or of the usual type.
type pickyChain struct {
	*harness
	chain *chaintest.Chain
	node  *testNode
}

// onPickyChain starts a node with the default policies for refused attempts.
func onPickyChain(t *testing.T, o chaintest.Options) *pickyChain {
	t.Helper()
	o.Fees, o.Now = chain.FeeOptions{MaxFee: gwei(capGwei)}, time.Now
	c := &pickyChain{chain: chaintest.New(o)}
	c.harness = newLedger(t, 2, c.chain.ID())
	c.policy = quick
	c.policy.Bump, c.policy.BumpPermille = txn.DefaultBumpPolicy{MaxAttempts: 10}, 1125
	c.policy.MaxFee, c.policy.BumpMaxFee = gwei(capGwei), gwei(capGwei)
	for i := range c.submitters {
		c.chain.Fund(devchain.Address(i), gwei(1e12))
	}
	c.start()
	return c
}

func (c *pickyChain) start() {
	c.t.Helper()
	c.node = c.startNode("a", func(o *Options) { o.Chains[0].Chain = c.chain })
}

// restart replaces the node by one that knows only the ledger.
func (c *pickyChain) restart() {
	c.t.Helper()
	c.node.stop()
	c.chain.ForgetPoolRules()
	c.start()
}

// confirm queues a transfer and returns it once it is confirmed, with its attempts.
func (c *pickyChain) confirm(i int, request string) (store.TxInfo, []txn.Attempt) {
	c.t.Helper()
	return c.finish(c.create(i, request, transfer()))
}

func (c *pickyChain) finish(id txn.TxID) (tx store.TxInfo, attempts []txn.Attempt) {
	c.t.Helper()
	c.eventually("final", func() (err error) {
		c.chain.Mine(1)
		if tx, err = c.admin.Tx(context.Background(), id); err == nil && !tx.State.Final() {
			err = fmt.Errorf("%s %s %q after %d broadcasts", tx.State, tx.Reason, tx.LastError,
				tx.SubmitAttempts)
		}
		return err
	})
	attempts, err := c.admin.Attempts(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return tx, attempts
}

// TestLegacyPool has blocks with base fees and nodes that take legacy transactions only.
func TestLegacyPool(t *testing.T) {
	t.Parallel()
	c := onPickyChain(t, chaintest.Options{LegacyPool: true})
	tx, attempts := c.confirm(0, "one")
	if tx.State != txn.Confirmed || len(attempts) != 2 || attempts[0].Fees.Legacy ||
		!attempts[1].Fees.Legacy || tx.TxHash != attempts[1].Hash {
		t.Fatalf("%s with %+v", tx.State, attempts)
	}
	if old, price := attempts[0].Fees, attempts[1].Fees.Cap; !price.Gt(&old.Cap) {
		t.Errorf("gas price %s after %+v", price.Dec(), old)
	}
	c.restart()
	for i := range 2 { // of both accounts, now that the type is known
		tx, attempts = c.confirm(i, "next")
		if limit := gwei(3); tx.State != txn.Confirmed || len(attempts) != 1 ||
			!attempts[0].Fees.Legacy || attempts[0].Fees.Cap.Gt(&limit) {
			t.Errorf("%s with %+v", tx.State, attempts)
		}
	}
}

// TestLegacyPool_Cancel cancels a transaction whose type every node refuses.
func TestLegacyPool_Cancel(t *testing.T) {
	t.Parallel()
	c := onPickyChain(t, chaintest.Options{LegacyPool: true})
	c.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodFees {
			return chaintest.Unavailable() // it stays as it is until the cancel
		}
		return chaintest.Fault{}
	})
	id := c.create(0, "one", transfer())
	c.eventually("refused", func() error {
		tx, err := c.admin.Tx(context.Background(), id)
		if err == nil && tx.LastOutcome != txn.TypeNotSupported {
			err = fmt.Errorf("%s %s", tx.State, tx.LastOutcome)
		}
		return err
	})
	if _, err := c.admin.AddCommand(t.Context(), c.submitters[0],
		store.Ask{Kind: txn.CommandCancel, Tx: &id}); err != nil {
		t.Fatal(err)
	}
	c.eventually("cancelled", func() error {
		tx, err := c.admin.Tx(context.Background(), id)
		if err == nil && !tx.CancelRequested {
			err = errors.New("not yet")
		}
		return err
	})
	c.chain.Intercept(nil)
	tx, attempts := c.finish(id)
	last := attempts[len(attempts)-1]
	if tx.State != txn.Cancelled || last.Kind != txn.Cancel || !last.Fees.Legacy {
		t.Errorf("%s with %+v", tx.State, attempts)
	}
	if tx, _ := c.confirm(0, "next"); tx.State != txn.Confirmed || *tx.Nonce != 1 {
		t.Errorf("the next one is %s", tx.State)
	}
}

// TestTipFloor has nodes that want far more tip than the fee history shows, with and without the
// number in their refusal, and with a suggestion that is enough, too low, or missing.
func TestTipFloor(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]chaintest.Options{
		"stated":                {},
		"suggested":             {TerseFloor: true, TipHint: gwei(26)},
		"suggestion is too low": {TerseFloor: true, TipHint: gwei(4)},
		"unknown":               {TerseFloor: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.MinTip = gwei(25)
			if o.TipHint.IsZero() && o.TerseFloor {
				o.MinTip = *uint256.NewInt(25e6) // else it takes minutes
			}
			c := onPickyChain(t, o)
			tx, attempts := c.confirm(0, "one")
			last := attempts[len(attempts)-1]
			var twice txn.Wei
			twice.Lsh(&o.MinTip, 1)
			if tx.State != txn.Confirmed || last.Fees.Tip.Lt(&o.MinTip) ||
				last.Fees.Tip.Gt(&twice) || tx.Reason != "" {
				t.Fatalf("%s %s with %+v", tx.State, tx.Reason, attempts)
			}
			for _, kind := range c.events(tx.ID) {
				if kind == txn.EventStuck {
					t.Error("it was STUCK")
				}
			}
			c.restart()
			for i := range 2 {
				if _, attempts = c.confirm(i, "next"); len(attempts) != 1 {
					t.Errorf("the next one of account %d has %d attempts", i, len(attempts))
				}
			}
		})
	}
}

// TestTipFloor_AboveCap has nodes that want more than the cap allows.
func TestTipFloor_AboveCap(t *testing.T) {
	t.Parallel()
	c := onPickyChain(t, chaintest.Options{MinTip: gwei(2 * capGwei)})
	id := c.create(0, "one", transfer())
	c.eventually("STUCK at the cap", func() error {
		tx, err := c.admin.Tx(context.Background(), id)
		if err == nil && (tx.State != txn.Stuck || tx.Reason != txn.ReasonFeeCapReached) {
			err = fmt.Errorf("%s %s %s", tx.State, tx.Reason, tx.LastError)
		}
		return err
	})
	for _, r := range c.chain.Received() {
		if limit := gwei(capGwei); r.Fees.Cap.Gt(&limit) {
			t.Errorf("offered %s", r.Fees.Cap.Dec())
		}
	}
	c.chain.SetMinTip(gwei(1))
	if tx, _ := c.finish(id); tx.State != txn.Confirmed {
		t.Errorf("%s", tx.State)
	}
}
