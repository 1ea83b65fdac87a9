package engine

import (
	"context"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// prune makes the node keep the state of the newest blocks only, enough for finality.
func (w *sharedKeyHarness) prune() {
	if w.policy.Confirmations+1 >= w.policy.AuditDepth {
		w.t.Fatalf("%+v leaves nothing to lose", w.policy)
	}
	w.chain.Intercept(func(context.Context, chaintest.Call) chaintest.Fault {
		return chaintest.KeepState(w.policy.Confirmations + 1)
	})
}

// TestResolve_NoOldState_NeedsUnproven verifies that a decision for which no endpoint has the state
// is rejected with advice, and applied in its UNPROVEN form.
func TestResolve_NoOldState_NeedsUnproven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		proven, unproven txn.Action
		want             txn.State
	}{{txn.ActionFail, txn.ActionFailUnproven, txn.Failed},
		{txn.ActionRequeue, txn.ActionRequeueUnproven, txn.Confirmed}} {
		w := newSharedKeyHarness(t)
		w.node()
		w.prune()
		w.confirmOne("one")
		w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
			return chaintest.Fault{
				Lost:      call.Method == chaintest.MethodSend,
				KeepState: w.policy.Confirmations + 1,
			}
		})
		id := w.createWith("two", transfer(), txn.Terms{})
		w.await(id, "reported as accepted",
			func(tx txn.Tx) bool { return tx.State == txn.Tracking })
		w.inject(w.foreignTx(1))
		w.chain.Mine(1)
		w.await(id, "its nonce is used elsewhere", func(tx txn.Tx) bool {
			w.chain.MineEmpty(1)
			return tx.State == txn.Stuck && tx.Reason == txn.ReasonNonceElsewhere
		})
		w.chain.MineEmpty(int(w.policy.AuditDepth))
		w.prune()
		w.want(w.resolve(c.proven, id), txn.ResultRefused, "older state", string(c.unproven))
		w.want(w.resolve(c.unproven, id), txn.Applied)
		w.want(w.exit(txn.ActionResume), txn.Applied)
		if end := w.finish(id); end.State != c.want {
			t.Errorf("%s: %s %s", c.unproven, end.State, end.LastError)
		}
		w.checkInvariants()
	}
}

// TestFailUnproven_StillIncludable_Rejected verifies that UNPROVEN does not skip the checks that
// are possible.
func TestFailUnproven_StillIncludable_Rejected(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.node()
	w.prune()
	w.confirmOne("one")
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		return chaintest.Fault{
			Lost:      call.Method == chaintest.MethodSend,
			KeepState: w.policy.Confirmations + 1,
		}
	})
	id := w.createWith("two", transfer(), txn.Terms{})
	w.await(id, "reported as accepted", func(tx txn.Tx) bool { return tx.State == txn.Tracking })
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionFailUnproven, id), txn.ResultRefused, "is unused",
		"may still be included")
}

// TestAlign_NoOldState_Applied verifies that nonces used elsewhere can be skipped without the state
// before them.
func TestAlign_NoOldState_Applied(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.node()
	w.prune()
	w.confirmOne("one")
	w.want(w.decide(store.Ask{Kind: txn.CommandProtect}), txn.Applied)
	w.inject(w.foreignTx(1))
	w.chain.Mine(1)
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "not settled")
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.exit(txn.ActionAlign), txn.Applied)
	if tx := w.finish(w.create(0, "two", transfer())); *tx.Nonce != 2 {
		t.Errorf("%+v", tx.Status)
	}
}

// TestFail_ChainUnavailable_Rejected fails the read of the user of a nonce: this is not missing
// state.
func TestFail_ChainUnavailable_Rejected(t *testing.T) {
	t.Parallel()
	w, id, _ := protectedAfterLoss(t, 12)
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		return chaintest.Fault{Down: call.Method == chaintest.MethodConsumer}
	})
	w.want(w.resolve(txn.ActionFail, id), txn.ResultRefused, "retry later")
	w.chain.Intercept(nil)
	w.want(w.resolve(txn.ActionFail, id), txn.Applied)
}
