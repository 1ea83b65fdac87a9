package txn

import (
	"strings"
	"testing"
)

// failedOverWorld is an idle world after a fail-over, under a protection from before it. Its next
// nonce is 5.
func failedOverWorld(t *testing.T, reason string) *world {
	t.Helper()
	w := idle(t)
	w.view.FailedOver = true
	w.protectedFor(reason)
	return w
}

func (w *world) protectedFor(reason string) {
	cursor := *w.view.Cursor
	cursor.Protections++
	cursor.Protected = &Protected{ID: cursor.Protections, Reason: reason, Evidence: "seen before"}
	w.view.Cursor = &cursor
}

// decide has an operator decide on the protection in force, by this state of the account.
func (w *world) decide(t *testing.T, action Action, n Nonce) string {
	t.Helper()
	got := w.runCommand(t, Command{Kind: CommandExitProtect, Action: action,
		Expect: protected(w).ID}, Account{Latest: n, Pending: n, Settled: n})
	code, _, _ := strings.Cut(got, ":")
	return code
}

// checkRestored fails unless the protection was replaced by one for lost commits, and nothing was
// skipped.
func (w *world) checkRestored(t *testing.T, name, former string) {
	t.Helper()
	p := protected(w)
	if p == nil || p.Reason != ProtectRestored || !strings.Contains(p.Evidence, former) ||
		!strings.Contains(p.Evidence, "seen before") || len(w.gaps) > 0 || !w.view.FailedOver {
		t.Fatalf("%s: %+v, gaps %v", name, p, w.gaps)
	}
}

var (
	formerReasons = []string{ProtectByOperator, ProtectByAudit, ReasonNonceElsewhere,
		ReasonChainBehind, ReasonReorgedFinal}
	exits = []Action{ActionResume, ActionResumeKeep, ActionAlign, ActionAlignKeep}
)

// The end of a protection may be lost with all that was sent after it. After a fail-over, no
// decision ends one in force while the account has used nonces that the ledger never took.
func TestFailedOver_OtherProtection_GivesWay(t *testing.T) {
	t.Parallel()
	modes := map[Mode]int{Strict: 1, Pipelined: 4, External: 4}
	for mode, limit := range modes {
		for _, reason := range formerReasons {
			for _, action := range exits {
				name := strings.Join([]string{string(mode), reason, string(action)}, " ")
				w := failedOverWorld(t, reason)
				w.view.Submitter.Mode, w.view.Submitter.Limit = mode, limit
				if got := w.decide(t, action, 7); got != ResultRefused {
					t.Fatalf("%s: %s", name, got)
				}
				w.checkRestored(t, name, reason)
				for _, action := range []Action{ActionResume, ActionAlign, ActionResumeKeep} {
					if got := w.decide(t, action, 7); got != ResultRefused {
						t.Errorf("%s, then %s: %s", name, action, got)
					}
				}
				if got := w.decide(t, ActionAlignKeep, 7); got != Applied || w.view.FailedOver ||
					protected(w) != nil || w.view.Cursor.Next != 7 {
					t.Errorf("%s, compared: %s %+v", name, got, w.view.Cursor)
				}
			}
		}
	}
}

// Transactions in the pool count as used too.
func TestFailedOver_UsedInPool_GivesWay(t *testing.T) {
	t.Parallel()
	w := failedOverWorld(t, ProtectByOperator)
	got := w.runCommand(t, Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 1},
		Account{Latest: 5, Pending: 6, Settled: 5})
	if !strings.Contains(got, "6 in the pool") || !strings.Contains(got, ProtectRestored) {
		t.Error(got)
	}
	w.checkRestored(t, "pool", ProtectByOperator)
}

// An endpoint that lags shows the account where the ledger is. The decision is applied, but the
// account does not count as compared: the first nonce taken then proves it.
func TestFailedOver_OneRead_NotCompared(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Strict, Pipelined} {
		for _, reason := range formerReasons {
			for _, action := range exits {
				w := failedOverWorld(t, reason)
				w.view.Submitter.Mode = mode
				if got := w.decide(t, action, 5); got != Applied || !w.view.FailedOver {
					t.Errorf("%s %s %s: %s, failed over: %v", mode, reason, action, got,
						w.view.FailedOver)
				}
			}
		}
	}
	w := failedOverWorld(t, ProtectByOperator)
	w.view.Submitter.Mode = External // no read shows the nonces that clients hold
	if got := w.decide(t, ActionResumeKeep, 5); got != ResultRefused {
		t.Error(got)
	}
	w.checkRestored(t, "external", ProtectByOperator)
	if got := w.decide(t, ActionResumeKeep, 5); got != Applied || w.view.FailedOver {
		t.Error(got)
	}
}

// Without a fail-over nothing changes: an operator decides on the protection in force.
func TestExitProtect_NoFailOver_Decided(t *testing.T) {
	t.Parallel()
	for _, reason := range formerReasons {
		w := failedOverWorld(t, reason)
		w.view.FailedOver = false
		if got := w.decide(t, ActionAlign, 7); got != Applied || len(w.gaps) != 2 {
			t.Errorf("%s: %s, gaps %v", reason, got, w.gaps)
		}
	}
}

// A lost attempt of a transaction in flight may have used its nonce. Two reads, or a decision on
// it, replace the protection in force, and nothing is requeued or reported as not executed.
func TestFailedOver_LostAttempt_GivesWay(t *testing.T) {
	t.Parallel()
	found := func(t *testing.T, reason string) *world {
		w, _ := sentWorld(t, 2)
		w.view.FailedOver = true
		w.protectedFor(reason)
		for range 2 {
			w.head++
			w.setAccount(ahead)
		}
		w.settle(t)
		return w
	}
	for _, reason := range formerReasons[:4] { // one for a reorg ends here by itself
		w := found(t, reason)
		w.checkRestored(t, reason, reason)
		if tx := w.view.Open[0]; tx.Reason != ReasonNonceElsewhere || !tx.Restored {
			t.Errorf("%s: %+v", reason, tx.Status)
		}
	}
	for _, action := range []Action{ActionRequeue, ActionRequeueUnproven, ActionFail,
		ActionFailUnproven} {
		for _, reason := range formerReasons {
			w := lostNonce(t)
			w.view.FailedOver = true
			w.protectedFor(reason)
			ask := Command{Kind: CommandResolve, Action: action, Tx: w.view.Open[0].ID}
			if got := w.runCommand(t, ask, ahead); !strings.Contains(got, ProtectRestored) {
				t.Fatalf("%s %s: %s", reason, action, got)
			}
			w.checkRestored(t, reason, reason)
			got := w.runCommand(t, ask, ahead)
			if action == ActionRequeue != strings.HasPrefix(got, ResultRefused) {
				t.Errorf("%s %s, then: %s", reason, action, got)
			}
			if len(w.final) > 0 && w.final[0].Executed != Unknown {
				t.Errorf("%s %s: %+v", reason, action, w.final[0].Status)
			}
		}
	}
}

// A node that knows lost commits protects for them, also under another protection.
func TestLost_OtherProtection_GivesWay(t *testing.T) {
	t.Parallel()
	for _, reason := range formerReasons {
		w := idle(t)
		w.protectedFor(reason)
		w.view.Lost = "the ledger lost commits"
		w.do(t, Decide(&w.view), Outcome{}, accepted)
		w.view.FailedOver = true
		w.checkRestored(t, reason, reason)
	}
}

// The lost part may have used the first nonce by the very bytes that are signed again, and higher
// ones too. An endpoint that lags does not show that. So the account is read again once the first
// nonce is final, and counts as compared with the next one.
func TestFailedOver_FirstNonceFinal_ReadAgain(t *testing.T) {
	t.Parallel()
	for _, used := range []Nonce{1, 2} {
		w := newWorld(2, guarded)
		w.view.FailedOver = true
		sent := until[Broadcast](t, w)
		w.include(sent.Attempt.Hash, true)
		w.head += guarded.Confirmations
		w.elsewhere = used
		until[ReadAccount](t, w)
		if len(w.final) != 1 || !w.view.FailedOver {
			t.Fatalf("%d final, failed over: %t", len(w.final), w.view.FailedOver)
		}
		for range 2 {
			w.head++
			w.setAccount(Account{Latest: used, Pending: used, Settled: used})
			w.settle(t)
		}
		switch p := protected(w); {
		case used == 1 && (p != nil || w.view.FailedOver || len(w.order) != 2):
			t.Errorf("nothing is lost: %+v, failed over: %t", p, w.view.FailedOver)
		case used == 2 && (p == nil || p.Reason != ProtectRestored || len(w.order) != 1):
			t.Errorf("the next nonce is used: %+v", p)
		}
	}
}

// A failed read ends no comparison, and is not repeated at once.
func TestFailedOver_AccountUnreadable_AnotherTrial(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.view.Queue = nil
	w.view.FailedOver, w.view.TrialOver = true, true
	read, ok := Decide(&w.view).(ReadAccount)
	if !ok {
		t.Fatalf("decided %+v", Decide(&w.view))
	}
	if c := AccountReadFailed(&w.view, read, "down"); !c.Empty() {
		t.Errorf("%+v", c)
	}
	w.view.TrialOver = false
	if step, ok := Decide(&w.view).(Rest); !ok || !w.view.FailedOver {
		t.Errorf("decided %+v", step)
	}
}
