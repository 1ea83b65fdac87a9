package txn

import (
	"testing"
	"time"
)

// Attempts from before a REQUEUE are not replacements of the current ones.
func TestBump_Requeued_CountsFromNonce(t *testing.T) {
	t.Parallel()
	w, _, _ := reallocated(t, true)
	tx := &w.view.Open[0]
	for no := range 3 { // earlier attempts, with other hashes
		tx.Attempts = append(
			[]Attempt{{No: 10 + no, Kind: Bump, Nonce: 0, Hash: Hash{0xcc, byte(no)}}},
			tx.Attempts...)
	}
	w.view.Policy.Bump = DefaultBumpPolicy{Enabled: true, MaxAttempts: 2, MinInterval: time.Second}
	for n := range 3 {
		w.view.Now = w.view.Now.Add(time.Hour)
		s, ok := w.afterRead(t).(*Replace)
		if ok != (n < 2) {
			t.Fatalf("after %d replacements: %T", n, Decide(&w.view))
		}
		if ok {
			w.do(t, s, Outcome{}, accepted)
			w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		}
	}
}

// A speed-up of a cancelled transaction bumps its cancel, signed or not.
func TestSpeedUp_Cancelled_BumpsCancel(t *testing.T) {
	t.Parallel()
	for name, together := range map[string]bool{"in one look": true, "right after it": false} {
		w := newWorld(1, policy)
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		cancel, faster := Command{
			ID:   1,
			Kind: CommandCancel,
			Tx:   b.Tx.ID,
		}, Command{
			ID:   2,
			Kind: CommandSpeedUp,
			Tx:   b.Tx.ID,
		}
		w.view.Commands = []Command{cancel}
		if together {
			w.view.Commands = []Command{cancel, faster}
		}
		w.do(t, Decide(&w.view), Outcome{}, accepted)
		w.view.Commands = []Command{faster}
		first, ok := Decide(&w.view).(*Replace)
		if !ok || first.Kind != Cancel || first.CommandID != 2 {
			t.Fatalf("%s: %+v", name, Decide(&w.view))
		}
		w.do(t, first, Outcome{}, accepted)
		if got := w.results[len(w.results)-1]; got != (CommandResult{ID: 2, Result: Applied}) {
			t.Errorf("%s: %+v", name, got)
		}
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		faster.ID = 3
		w.view.Commands = []Command{faster}
		w.do(t, until[*Replace](t, w), Outcome{}, accepted)
		attempts := w.view.Open[0].Attempts
		if len(attempts) != 3 || attempts[2].Kind != Cancel ||
			!attempts[1].Fees.Cap.Gt(&attempts[0].Fees.Cap) ||
			!attempts[2].Fees.Cap.Gt(&attempts[1].Fees.Cap) {
			t.Errorf("%s: %+v", name, attempts)
		}
	}
}

func TestCancel_Requeued_OneEvent(t *testing.T) {
	t.Parallel()
	w, id, old := requeuedWorld(t)
	w.unknown[old] = true // not final yet
	for range 2 {
		if got := w.runCommand(t, Command{Kind: CommandCancel, Tx: id}, ahead); got != Applied {
			t.Fatal(got)
		}
	}
	if n := w.kindCount(EventCancelRequested); n != 1 {
		t.Errorf("%d events", n)
	}
}

// Work held by a protection is due as soon as the protection ends, automatically or by a decision.
func TestExitProtect_MakesHeldDue(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *world){
		"resumed": func(t *testing.T, w *world) {
			w.view.Cursor.Protections, w.view.Cursor.Protected = 1,
				&Protected{ID: 1, Reason: ProtectByOperator}
			w.view.Now = w.view.Now.Add(time.Hour)
			if w.broadcasts(t) { // reads the account instead, and is due after an interval
				t.Fatalf("%+v", Decide(&w.view))
			}
			if got := w.runCommand(t,
				Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 1},
				Account{Latest: 0, Pending: 1}); got != Applied {
				t.Fatal(got)
			}
		},
		"automatically": func(t *testing.T, w *world) {
			w.view.Cursor.Protections, w.view.Cursor.Protected = 1,
				&Protected{ID: 1, Reason: ReasonReorgedFinal}
			w.do(t, Decide(&w.view), Outcome{}, accepted)
		},
	} {
		w := newWorld(1, policy)
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		w.setAccount(Account{Latest: 0, Pending: 1})
		w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
		w.do(t, Decide(&w.view), Outcome{}, accepted)
		w.view.Open[0].Due = w.view.Now.Add(policy.ResubmitInterval)
		end(t, w)
		if protected(w) != nil {
			t.Fatalf("%s: %+v", name, protected(w))
		}
		s, ok := w.afterRead(t).(*Replace)
		if !ok || s.Kind != Cancel {
			t.Errorf("%s: %#v", name, Decide(&w.view))
		}
	}
}
