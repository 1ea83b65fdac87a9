package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// includeRequeued includes an attempt from before the requeue, by a reorg deeper than the audit
// depth.
func (w *sharedKeyHarness) includeRequeued(before txn.Signed) {
	w.t.Helper()
	if err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number)-4, chaintest.Drop); err != nil {
		w.t.Fatal(err)
	}
	if o := w.chain.Send(w.t.Context(), before); o.Class != txn.Accepted {
		w.t.Fatalf("%+v", o)
	}
	w.chain.Mine(1)
	w.chain.MineEmpty(20) // the account matches the cursor again
}

// checkExecutedBefore checks a transaction that was executed before its requeue, and that the
// submitter continues.
func (w *sharedKeyHarness) checkExecutedBefore(id txn.TxID, nonce txn.Nonce, by txn.Hash) {
	w.t.Helper()
	tx := w.finish(id)
	if tx.State != txn.Confirmed || tx.Executed != txn.Success ||
		tx.Reason != txn.ProtectExecutedAfterRequeue ||
		*tx.Nonce != nonce || tx.Receipt.TxHash != by {
		w.t.Errorf("%+v", tx.Status)
	}
	if w.cursor().Protected != nil {
		w.want(w.exit(txn.ActionResume), txn.Applied)
	}
	next := w.create(0, "next", transfer())
	if tx := w.finish(next); tx.State != txn.Confirmed || *tx.Nonce != nonce+1 {
		w.t.Errorf("%+v", tx.Status)
	}
	if got := w.executions(); !slices.Equal(got, []txn.Nonce{0, 1, nonce + 1}) {
		w.t.Errorf("payloads executed under nonces %v", got)
	}
	if p := w.cursor().Protected; p != nil {
		w.t.Errorf("protected again: %+v", p)
	}
	w.checkInvariants()
	report, err := audit.Run(w.t.Context(),
		audit.Options{Store: w.admin, Chain: w.chain, Submitter: w.submitters[0]})
	if err != nil || len(report.Violations) > 0 || report.Unanswered > 0 {
		w.t.Errorf("%+v %v", report, err)
	}
}

// TestRequeued_ExecutedBefore includes an earlier attempt of a queued transaction. It becomes final
// with that receipt and its old nonce. Cases: under the protection and after it, after a takeover,
// and with a cancel.
func TestRequeued_ExecutedBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ takeover, exit, cancel bool }{
		"the same owner": {}, "its successor": {takeover: true}, "unprotected": {exit: true},
		"to be cancelled": {exit: true, cancel: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, id, n := protectedAfterLoss(t, 0)
			old := w.signed(w.attempts()[id.String()])
			w.chain.MineEmpty(int(w.policy.AuditDepth))
			w.want(w.resolve(txn.ActionRequeue, id), txn.Applied)
			if c.exit {
				w.want(w.decide(store.Ask{Kind: txn.CommandPause}), txn.Applied)
				w.want(w.exit(txn.ActionResume), txn.Applied)
			}
			if c.takeover {
				n.stop()
				w.node()
			}
			w.includeRequeued(old)
			if c.exit {
				p := w.awaitProtected(txn.ProtectExecutedAfterRequeue)
				if !strings.Contains(p.Evidence,
					id.String()) {
					t.Errorf("evidence %s", p.Evidence)
				}
				w.want(w.decide(store.Ask{Kind: txn.CommandResume}), txn.Applied)
			}
			if c.cancel {
				if done, err := w.admin.CancelQueued(t.Context(), id); err != nil || done {
					t.Fatalf("cancelled although executed: %t %v", done,
						err)
				}
				w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id})
			}
			w.awaitFinal(id)
			if p := w.cursor().Protected; (p == nil) ||
				c.exit != (p.Reason == txn.ProtectExecutedAfterRequeue) {
				t.Errorf("%+v", p)
			}
			w.checkExecutedBefore(id, 1, old.Hash)
			if got := w.gaps(); len(got) > 0 {
				t.Errorf("gaps %v", got)
			}
		})
	}
}

// TestRequeued_ExecutedBefore_WhenAllocated includes an earlier attempt after the transaction got a
// new nonce that no node has. A cancel transaction uses that nonce, and the transaction becomes
// final.
func TestRequeued_ExecutedBefore_WhenAllocated(t *testing.T) {
	t.Parallel()
	w, id, _ := protectedAfterLoss(t, 0)
	old := w.signed(w.attempts()[id.String()])
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, id), txn.Applied)
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		return chaintest.Fault{
			Down: call.Method == chaintest.MethodSend && call.Signed.Hash != old.Hash,
		}
	})
	w.want(w.exit(txn.ActionResume), txn.Applied)
	w.eventually("allocated again", func() error {
		tx, err := w.admin.Tx(context.Background(), id)
		if err == nil && tx.State != txn.Allocated {
			err = fmt.Errorf("%s", tx.State)
		}
		return err
	})
	w.includeRequeued(old)
	w.awaitProtected(txn.ProtectExecutedAfterRequeue)
	w.chain.Intercept(nil)
	w.want(w.resolve(txn.ActionFail, id), txn.ResultRefused, "nonce 2")
	w.checkExecutedBefore(id, 2, old.Hash)
	if got := w.gaps(); !slices.Equal(got, []string{"1-1 true"}) {
		t.Errorf("gaps %v", got)
	}
}

// TestCancel_Requeued_Applied verifies that the owner cancels a requeued transaction, also under
// protection.
func TestCancel_Requeued_Applied(t *testing.T) {
	t.Parallel()
	w, id, _ := protectedAfterLoss(t, 0)
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, id), txn.Applied)
	w.want(w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}), txn.Applied)
	if tx := w.awaitFinal(id); tx.State != txn.Cancelled || tx.Executed != txn.No ||
		tx.Nonce != nil || w.cursor().Protected == nil {
		t.Errorf("%+v", tx.Status)
	}
	w.checkInvariants()
}
