package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// createUnsent creates a transaction that cannot be broadcast, after a final one.
func (w *sharedKeyHarness) createUnsent(terms txn.Terms) txn.TxID {
	w.t.Helper()
	w.node()
	w.confirmOne("one")
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		return chaintest.Fault{Down: call.Method == chaintest.MethodSend}
	})
	id := w.createWith("two", transfer(), terms)
	w.await(id, "allocated", func(tx txn.Tx) bool { return tx.State == txn.Allocated })
	w.want(w.decide(store.Ask{Kind: txn.CommandProtect}), txn.Applied)
	return id
}

// TestHold_NonceUsedElsewhere_Protects protects a submitter and cancels a transaction that no
// pool has, which puts it on hold. Another program then uses its nonce. This is detected although
// nothing is broadcast, and an operator can resolve it.
func TestHold_NonceUsedElsewhere_Protects(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	id := w.createUnsent(txn.Terms{})
	w.want(w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}), txn.Applied)
	w.chain.Intercept(nil)
	w.inject(w.foreignTx(1))
	w.chain.Mine(1)
	w.await(id, "its nonce is used elsewhere", func(tx txn.Tx) bool {
		w.chain.MineEmpty(1)
		return tx.State == txn.Stuck && tx.Reason == txn.ReasonNonceElsewhere
	})
	w.awaitProtected(txn.ProtectByOperator)
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, id), txn.ResultRefused, "FAIL")
	w.want(w.resolve(txn.ActionFail, id), txn.Applied)
	w.want(w.exit(txn.ActionResume), txn.Applied)
	w.confirmOne("three")
	if executed := w.executions(); !slices.Equal(executed, []txn.Nonce{0, 2}) {
		t.Errorf("executed under %v", executed)
	}
	w.checkInvariants()
}

// TestHold_PastDeadline_NotExecuted verifies that with cancel_late an unsent transaction is not
// broadcast after its deadline while a protection forbids its cancel.
func TestHold_PastDeadline_NotExecuted(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	late := time.Now().Add(1500 * time.Millisecond)
	id := w.createUnsent(txn.Terms{NotAfter: late, CancelLate: true})
	w.eventually("its deadline passes", func() error {
		if !time.Now().After(late.Add(100 * time.Millisecond)) {
			return errors.New("not yet")
		}
		return nil
	})
	w.chain.Intercept(nil)
	w.eventually("some intervals pass", func() error {
		w.chain.Mine(1)
		if time.Now().Before(late.Add(8 * w.policy.ResubmitInterval)) {
			return errors.New("not yet")
		}
		return nil
	})
	w.want(w.exit(txn.ActionResume), txn.Applied)
	if end := w.finish(id); end.State != txn.Cancelled || end.Reason != txn.ReasonDeadline {
		t.Errorf("%s %s %q", end.State, end.Reason, end.LastError)
	}
	if executed := w.executions(); !slices.Equal(executed, []txn.Nonce{0}) {
		t.Errorf("executed under %v", executed)
	}
}
