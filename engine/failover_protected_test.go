package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/engine/funds"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// lostUnderProtection is an account after a fail-over that lost the end of a protection by an
// operator, and the execution of two transactions after it.
func lostUnderProtection(t *testing.T) (w *sharedKeyHarness, queued [2]txn.TxID, before uint64) {
	t.Helper()
	w = newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("zero")
	n.stop()
	for i, request := range []string{"one", "two"} {
		queued[i] = w.create(0, request, transfer())
	}
	if _, err := w.admin.AddCommand(t.Context(), w.submitters[0], store.Ask{
		Kind: txn.CommandProtect, Reason: "check", Operator: "kim"}); err != nil {
		t.Fatal(err)
	}
	n = w.node()
	w.awaitProtected(txn.ProtectByOperator)
	restore := w.backup()
	before = w.chain.MineEmpty(1).Number
	w.want(w.exit(txn.ActionResume), txn.Applied)
	for _, id := range queued {
		w.finish(id)
	}
	n.stop()
	restore()
	w.failedOver()
	w.chain.SetBaseFee(*uint256.NewInt(5e9)) // other bytes than before
	return w, queued, before
}

// TestFailedOver_EndOfProtectionLost_NotSentAgain: the protection still in force gives way to one
// for the loss, so that no decision sends the executed transactions again.
func TestFailedOver_EndOfProtectionLost_NotSentAgain(t *testing.T) {
	t.Parallel()
	for _, first := range []txn.Action{txn.ActionResume, txn.ActionResumeKeep, txn.ActionAlign,
		txn.ActionAlignKeep} {
		t.Run(string(first), func(t *testing.T) {
			t.Parallel()
			w, queued, _ := lostUnderProtection(t)
			w.chain.MineEmpty(int(w.policy.AuditDepth) + 2)
			w.node()
			w.awaitProtected(txn.ProtectByOperator)
			w.want(w.exit(first), txn.ResultRefused, txn.ProtectRestored)
			p := w.awaitProtected(txn.ProtectRestored)
			if !strings.Contains(p.Evidence, txn.ProtectByOperator) {
				t.Errorf("evidence %q", p.Evidence)
			}
			for _, id := range queued {
				w.await(id, "it is marked", func(tx txn.Tx) bool { return tx.Restored })
			}
			w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "KEEP_QUEUE")
			for _, id := range queued {
				if done, err := w.admin.CancelQueued(t.Context(), id); err != nil || !done {
					t.Fatal(done, err)
				}
			}
			w.want(w.exit(txn.ActionAlign), txn.Applied)
			w.finish(w.create(0, "three", transfer()))
			if executed := w.executions(); !slices.Equal(executed, []txn.Nonce{0, 1, 2, 3}) {
				t.Errorf("executed under %v", executed)
			}
			w.checkInvariants()
		})
	}
}

// TestFailedOver_LaggingExit_NotSentAgain: the same, decided by an endpoint that
// shows the account where the ledger is. The first nonce taken then turns out to be used.
func TestFailedOver_LaggingExit_NotSentAgain(t *testing.T) {
	t.Parallel()
	w, queued, before := lostUnderProtection(t)
	behind := w.chain.MineEmpty(1).Number - before
	w.chain.Intercept(
		func(context.Context, chaintest.Call) chaintest.Fault { return chaintest.Lag(behind) })
	w.node()
	w.awaitProtected(txn.ProtectByOperator)
	w.want(w.exit(txn.ActionResume), txn.Applied)
	w.await(queued[0], "it has a nonce", func(tx txn.Tx) bool { return tx.Nonce != nil })
	w.chain.Intercept(nil)
	w.awaitProtected(txn.ProtectRestored)
	w.await(queued[1], "it is marked", func(tx txn.Tx) bool { return tx.Restored })
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, queued[0]), txn.ResultRefused)
	w.want(w.resolve(txn.ActionFail, queued[0]), txn.Applied)
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "KEEP_QUEUE")
	if executed := w.executions(); !slices.Equal(executed, []txn.Nonce{0, 1, 2}) {
		t.Errorf("executed under %v", executed)
	}
}

// TestTopUp_LostUnderOtherProtection_NotSentAgain: a standby has the decision of a top-up, and the
// protection of the treasury by an operator, but neither its end nor the payment.
func TestTopUp_LostUnderOtherProtection_NotSentAgain(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	n := r.startNode("a", func(o *Options) { o.Chains[0].Chain = r.chain })
	r.awaitFinalMining(r.create(0, "before", transfer()))
	r.chain.Drain(devchain.Address(1))
	r.decideOnly()
	if got := r.decide(store.Ask{Kind: txn.CommandProtect, Reason: "check"}); got != txn.Applied {
		t.Fatal(got)
	}
	exit := func(action txn.Action) string {
		info, err := r.admin.Submitter(t.Context(), r.submitters[0])
		if err != nil || info.Cursor.Protected == nil {
			t.Fatal(err, info.Cursor)
		}
		return r.decide(store.Ask{Kind: txn.CommandExitProtect, Action: action,
			Expect: info.Cursor.Protected.ID})
	}
	restore := r.backup()
	if got := exit(txn.ActionResume); got != txn.Applied {
		t.Fatal(got)
	}
	w := r.watch("x", nil)
	r.look(w)
	r.settle(1)
	n.stop()
	restore()
	r.failedOver()
	r.startNode("b", func(o *Options) { o.Chains[0].Chain = r.chain })
	r.chain.MineEmpty(int(r.policy.AuditDepth) + 2)
	r.eventually("aligned", func() error {
		r.chain.MineEmpty(1)
		if got := exit(txn.ActionAlign); got != txn.Applied {
			return errors.New(got)
		}
		return nil
	})
	r.look(w)
	r.heldBy(1, 1, funds.HeldRestored)
}
