package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// The log lines about an account that differs from the ledger: at the first read, and at a later
// block.
const (
	firstSuspicion    = "account differs from the ledger; checking at a later block"
	repeatedSuspicion = "account still differs from the ledger; allocation paused"
)

// loggedNode starts a node with a log.
func (w *sharedKeyHarness) loggedNode(name string, log *jsonLog) *testNode {
	w.t.Helper()
	return w.startNode(name, func(o *Options) {
		o.Chains[0].Chain = w.chain
		o.Logger = log.logger()
		o.AuditInterval = NoAudit
	})
}

// TestSuspicion_OwnInclusion_NoProtection mines a transaction between the receipt lookup and the
// account read of a new owner: no other program used the nonce.
func TestSuspicion_OwnInclusion_NoProtection(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	var quiet, log jsonLog
	first := w.loggedNode("first", &quiet)
	id := w.create(0, "one", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	first.stop()
	var once atomic.Bool
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodAccount && once.CompareAndSwap(false, true) {
			w.chain.Mine(1)
		}
		return chaintest.Fault{}
	})
	w.loggedNode("second", &log)
	w.eventually("it is in a block", w.is(id, txn.Included))
	w.chain.MineEmpty(int(w.policy.Confirmations))
	if tx := w.awaitFinal(id); tx.State != txn.Confirmed {
		t.Fatalf("%s %s", tx.State, tx.LastError)
	}
	if !once.Load() {
		t.Fatal("the account was not read")
	}
	if lines := log.find(t, firstSuspicion, repeatedSuspicion); len(lines) > 0 {
		t.Errorf("%v", lines)
	}
}

// TestSuspicion_ConfirmedByLaterBlock_Warned uses the nonce of a transaction elsewhere: the first
// read is logged at debug level, the second as a warning.
func TestSuspicion_ConfirmedByLaterBlock_Warned(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	var log jsonLog
	w.loggedNode("a", &log)
	id := w.create(0, "one", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	w.inject(w.foreignTx(0))
	w.chain.Mine(1)
	w.eventually("it is suspected", func() error {
		if len(log.find(t, firstSuspicion)) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if warned := log.find(t, repeatedSuspicion); len(warned) > 0 {
		t.Errorf("warned at one block: %v", warned)
	}
	w.chain.MineEmpty(1)
	w.eventually("it is reported", func() error {
		if len(log.find(t, repeatedSuspicion)) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	w.awaitProtected(txn.ReasonNonceElsewhere)
	once, twice := log.find(t, firstSuspicion), log.find(t, repeatedSuspicion)
	if len(once) != 1 || once[0]["level"] != "DEBUG" || len(twice) != 1 ||
		twice[0]["level"] != "WARN" {
		t.Errorf("logged %v, then %v", once, twice)
	}
}
