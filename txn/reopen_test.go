package txn

import (
	"strings"
	"testing"
	"time"
)

// unexecutedOutcomes are the ways to a final state as not executed despite signed attempts.
var unexecutedOutcomes = map[string]func(t *testing.T) (w *world, old Hash, nonce *Nonce){
	"failed": func(t *testing.T) (*world, Hash, *Nonce) {
		w := lostNonce(t)
		old := w.view.Open[0].newest().Hash
		if got := w.runCommand(t, Command{Kind: CommandResolve, Action: ActionFail,
			Tx: w.view.Open[0].ID}, ahead); got != Applied {
			t.Fatal(got)
		}
		return w, old, new(Nonce)
	},
	"failed, unproven": func(t *testing.T) (*world, Hash, *Nonce) {
		w := lostNonce(t)
		w.consumer = nil
		old := w.view.Open[0].newest().Hash
		if got := w.runCommand(t, Command{Kind: CommandResolve, Action: ActionFailUnproven,
			Tx: w.view.Open[0].ID}, ahead); got != Applied {
			t.Fatal(got)
		}
		return w, old, new(Nonce)
	},
	"requeued, and cancelled in the queue": func(t *testing.T) (*world, Hash, *Nonce) {
		w, id, old := requeuedWorld(t)
		if got := w.runCommand(t, Command{Kind: CommandCancel, Tx: id}, ahead); got != Applied {
			t.Fatal(got)
		}
		w.settle(t)
		return w, old, nil
	},
	"requeued, and too late": func(t *testing.T) (*world, Hash, *Nonce) {
		w, _, old := requeuedWorld(t)
		w.view.Queue[0].Deadline = w.view.Now.Add(-time.Second)
		w.settle(t)
		return w, old, nil
	},
}

// leaveProtection ends a protection as an operator does, if one is in force.
func (w *world) leaveProtection(t *testing.T) {
	t.Helper()
	if p := protected(w); p != nil {
		if got := w.runCommand(t,
			Command{Kind: CommandExitProtect, Action: ActionResume, Expect: p.ID},
			ahead); got != Applied {
			t.Fatal(got)
		}
	}
}

// A transaction that was final as not executed is found in a block. It is reopened with an alert
// and becomes final again by the chain's outcome; nothing is sent meanwhile.
func TestExecutedAfterFinal(t *testing.T) {
	t.Parallel()
	for name, begin := range unexecutedOutcomes {
		for _, success := range []bool{true, false} {
			w, old, nonce := begin(t)
			end := w.final[0]
			if end.Executed != No || end.FinalBlock == 0 || (end.Nonce == nil) != (nonce == nil) {
				t.Fatalf("%s: %+v", name, end.Status)
			}
			w.leaveProtection(t)
			w.view.Queue = nil
			w.include(old, success)
			w.settle(t)
			p := protected(w)
			if p == nil || p.Reason != ProtectExecutedAfterFinal ||
				!strings.Contains(p.Evidence, end.ID.String()) ||
				!strings.Contains(p.Evidence, old.Hex()) ||
				len(w.view.NotExecuted) > 0 {
				t.Fatalf("%s: %+v", name, p)
			}
			tx := w.view.Open[0]
			if tx.Reason != ProtectExecutedAfterFinal || tx.Executed != Unknown || *tx.Nonce != 0 ||
				tx.Sub != Included ||
				tx.FinalBlock != 0 ||
				w.kindCount(EventReorged) != 1 {
				t.Fatalf("%s: %+v", name, tx.Status)
			}
			w.mineBlocks(t, int(guarded.Confirmations))
			last := w.final[1]
			want := map[bool]Status{true: {State: Confirmed, Executed: Success},
				false: {State: Failed, Executed: Reverted}}[success]
			if last.ID != end.ID || last.State != want.State || last.Executed != want.Executed ||
				last.Reason != ProtectExecutedAfterFinal ||
				last.Receipt.TxHash != old ||
				!strings.Contains(last.LastError, "final as not executed") {
				t.Errorf("%s: %+v", name, last.Status)
			}
			if len(w.gaps) > 0 || protected(w) == nil {
				t.Errorf("%s: gaps %v, %+v", name, w.gaps, protected(w))
			}
		}
	}
}

// A reorg removes the block before it is final. A cancel fills the nonce and loses, and an operator
// can decide again.
func TestExecutedAfterFinal_Reorged(t *testing.T) {
	t.Parallel()
	w, old, _ := unexecutedOutcomes["failed"](t)
	w.leaveProtection(t)
	w.view.Queue = nil
	w.include(old, true)
	w.settle(t)
	delete(w.included, old)
	b := until[Broadcast](t, w)
	if b.Attempt.Kind != Cancel || *b.Tx.Nonce != 0 {
		t.Fatalf("%+v", b)
	}
	w.elsewhere = 1
	for range 2 {
		w.do(t, b, Outcome{Class: NonceTooLow}, accepted)
		w.head++
		w.view.Now = w.view.Now.Add(time.Hour)
		w.setAccount(ahead)
		w.do(t, Decide(&w.view), Outcome{Class: NonceTooLow}, accepted)
		if w.view.Open[0].Reason == ReasonNonceElsewhere {
			break
		}
		b = until[Broadcast](t, w)
	}
	tx := w.view.Open[0]
	if tx.State != Stuck || tx.Reason != ReasonNonceElsewhere || protected(w) == nil ||
		protected(w).Reason != ProtectExecutedAfterFinal {
		t.Fatalf("%+v %+v", tx.Status, protected(w))
	}
	if got := w.runCommand(t, Command{Kind: CommandResolve, Action: ActionFail, Tx: tx.ID},
		ahead); got != Applied ||
		w.final[1].Executed != No ||
		len(w.view.NotExecuted) != 1 {
		t.Errorf("%s %+v", got, w.final)
	}
}

// Its cancel is found in a block: the payload was not executed, but the ledger did not know the
// consumer of the nonce.
func TestExecutedAfterFinal_Cancelled(t *testing.T) {
	t.Parallel()
	w, old, _ := unexecutedOutcomes["failed"](t)
	w.view.NotExecuted[0].Attempts[0].Kind = Cancel
	w.include(old, true)
	w.settle(t)
	w.mineBlocks(t, int(guarded.Confirmations))
	if end := w.final[1]; end.State != Cancelled || end.Executed != No ||
		end.Receipt.TxHash != old {
		t.Errorf("%+v", end.Status)
	}
}

// A transaction without signed bytes cannot run, and one final by a receipt is audited by that.
func TestFinalBlock_NotTracked(t *testing.T) {
	t.Parallel()
	w := newWorld(2, guarded)
	if got := w.runCommand(t, Command{Kind: CommandCancel, Tx: w.view.Queue[1].ID},
		ahead); got != Applied {
		t.Fatal(got)
	}
	w.include(until[Broadcast](t, w).Attempt.Hash, true)
	w.mineBlocks(t, int(guarded.Confirmations))
	if len(w.final) != 2 || len(w.view.NotExecuted) > 0 {
		t.Errorf("%+v", w.view.NotExecuted)
	}
}
