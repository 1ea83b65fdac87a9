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

// notSent creates a transaction that no node can be handed, with one before it that is final.
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

// An operator protects, since the key may be in wrong hands, and cancels what no pool has, which is
// held back from then on. Then whoever has the key uses its nonce. That is found out although
// nothing of ours is handed over, and there is a way on.
func TestOnHold_NonceUsedElsewhere_Protects(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	id := w.createUnsent(txn.Terms{})
	w.want(w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}), txn.Applied)
	w.chain.Intercept(nil)
	w.inject(w.foreignTx(1))
	w.chain.Mine(1)
	w.await(id, "known to have lost its nonce", func(tx txn.Tx) bool {
		w.chain.MineEmpty(1)
		return tx.State == txn.Stuck && tx.Reason == txn.ReasonNonceElsewhere
	})
	w.awaitProtected(txn.ProtectByOperator)
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, id), txn.ResultRefused, "FAIL")
	w.want(w.resolve(txn.ActionFail, id), txn.Applied)
	w.want(w.exit(txn.ActionResume), txn.Applied)
	w.confirmOne("three")
	if ran := w.executions(); !slices.Equal(ran, []txn.Nonce{0, 2}) {
		t.Errorf("executed under %v", ran)
	}
	w.checkInvariants()
}

// With cancel_late, what nobody has is not brought to a pool after its deadline because a
// protection forbids to sign its cancel.
func TestOnHold_PastDeadline_NotExecuted(t *testing.T) {
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
	w.chain.Intercept(nil) // the nodes are back
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
	if ran := w.executions(); !slices.Equal(ran, []txn.Nonce{0}) {
		t.Errorf("executed under %v", ran)
	}
}
