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

// runsBefore changes the chain below the depth at which anybody believed in it: the form of before
// a REQUEUE gets into a block.
func (w *sharedKeyHarness) includeRequeued(before txn.Signed) {
	w.t.Helper()
	if err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number)-4, chaintest.Drop); err != nil {
		w.t.Fatal(err)
	}
	if o := w.chain.Send(w.t.Context(), before); o.Class != txn.Accepted {
		w.t.Fatalf("%+v", o)
	}
	w.chain.Mine(1)
	w.chain.MineEmpty(20) // so that the account agrees with the cursor again
}

// ranBefore checks the end of a transaction that ran before its REQUEUE, and that the submitter
// goes on.
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

// While it waits in the queue again, it turns out to have run: it ends by that receipt, under its
// old nonce, and is not sent anew. So under the protection of its loss and after it, also when
// another node takes over, and when somebody wants it cancelled.
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
				if p := w.awaitProtected(txn.ProtectExecutedAfterRequeue); !strings.Contains(p.Evidence,
					id.String()) {
					t.Errorf("evidence %s", p.Evidence)
				}
				w.want(w.decide(store.Ask{Kind: txn.CommandResume}), txn.Applied)
			}
			if c.cancel {
				if done, err := w.admin.CancelQueued(t.Context(), id); err != nil || done {
					t.Fatalf("a caller's node says of what ran that it never will: %t %v", done,
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

// It has a nonce again, and no node has the bytes for it, when it turns out to have run. That nonce
// is filled by a form that does nothing, and then it ends.
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

// What was given back and did not run is cancelled by its owner, under protection too.
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
