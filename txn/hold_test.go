package txn

import (
	"strings"
	"testing"
	"time"
)

// A transaction to be cancelled, by command or deadline, is not broadcast while the cancel may not
// be signed, in a pool or not (H29). A reorged final transaction is, because watchers must not see
// two outcomes (H22).
func TestProtected_CancelRequested_NotSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []Class
		reason  string
		held    bool
	}{
		"never broadcast": {nil, "", true},
		"unavailable":     {[]Class{Unavailable}, "", true},
		"refused":         {[]Class{Underpriced}, "", true},
		"ambiguous":       {[]Class{Ambiguous}, "", true}, "taken": {[]Class{Accepted}, "", true},
		"it was final": {[]Class{Accepted}, ReasonReorgedFinal, false},
	} {
		for _, late := range []bool{false, true} {
			w := newWorld(1, policy)
			w.view.Queue[0].Terms.CancelLate, w.view.Queue[0].Deadline = late, w.view.Now.Add(
				30*time.Minute)
			b := until[Broadcast](t, w)
			for _, class := range c.answers {
				w.do(t, b, Outcome{Class: class}, accepted)
			}
			w.view.Open[0].Reason = c.reason
			w.view.Cursor.Protected = &Protected{ID: 1}
			if !late {
				w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
				w.do(t, Decide(&w.view), Outcome{}, accepted)
			}
			w.view.Now = w.view.Now.Add(time.Hour)
			if held := !w.broadcasts(t); held != c.held {
				t.Errorf("%s, late %t: %T", name, late, Decide(&w.view))
			}
			w.view.Cursor.Protected, w.view.Open[0].Reason = nil, ""
			w.view.Now = w.view.Now.Add(time.Hour)
			if s, ok := w.afterRead(t).(*Replace); !ok || s.Kind != Cancel {
				t.Errorf("%s, late %t: %T once the protection is over", name, late, Decide(&w.view))
			}
		}
	}
}

// broadcasts reports whether anything is broadcast before the next Rest.
func (w *world) broadcasts(t *testing.T) bool {
	t.Helper()
	for range 20 {
		step := Decide(&w.view)
		switch step.(type) {
		case Rest:
			return false
		case Broadcast:
			return true
		}
		w.do(t, step, Outcome{}, accepted)
	}
	t.Fatalf("no end: %T", Decide(&w.view))
	return false
}

// cancelledUnderProtection is a world whose transaction is in no pool and has a requested cancel,
// under an operator's protection.
func cancelledUnderProtection(t *testing.T, answers ...Class) *world {
	t.Helper()
	w := newWorld(1, guarded)
	b := until[Broadcast](t, w)
	for _, class := range answers {
		w.do(t, b, Outcome{Class: class}, accepted)
	}
	w.apply(
		t,
		protectOnCommand(&w.view,
			Command{ID: 1, Kind: CommandProtect, Reason: "the key may be in wrong hands"}),
	)
	w.view.Commands = []Command{{ID: 2, Kind: CommandCancel, Tx: b.Tx.ID}}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	return w
}

// A transaction on hold is not broadcast, so no response would reveal the loss of its nonce. The
// account is still read once per interval, which makes a decision possible.
func TestHold_LostNonce(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*testing.T) *world{
		"cancelled, unavailable": func(t *testing.T) *world {
			return cancelledUnderProtection(t, Unavailable)
		},
		"cancelled, never broadcast": func(t *testing.T) *world {
			return cancelledUnderProtection(t)
		},
		"nonce to be filled": func(t *testing.T) *world {
			w, _, old := reallocated(t, false)
			w.apply(t, protectOnCommand(&w.view,
				Command{ID: 1, Kind: CommandProtect, Reason: "moving keys"}))
			w.include(old, true)
			w.mineBlocks(t, int(guarded.Confirmations))
			return w
		},
	} {
		w := hold(t)
		nonce := *w.view.Open[0].Nonce
		w.elsewhere, w.consumer = nonce+1, &Consumer{
			Block:     50,
			BlockHash: Hash{5},
			TxHash:    Hash{0xee},
		}
		reads, begun := 0, w.view.Now
		for range 200 {
			step := Decide(&w.view)
			switch s := step.(type) {
			case Broadcast:
				t.Fatalf("%s: %s is broadcast", name, s.Attempt.Kind)
			case ReadAccount:
				reads++
			case Rest:
				w.head++
				w.view.Head = w.head
				w.view.Now = s.Until
			}
			w.do(t, step, Outcome{}, accepted)
			if w.view.Now.Sub(begun) > 10*guarded.ResubmitInterval {
				break
			}
		}
		tx := w.view.Open[0]
		if tx.State != Stuck || tx.Reason != ReasonNonceElsewhere ||
			protected(w).Reason != ProtectByOperator ||
			reads > 12 {
			t.Fatalf("%s: %+v, %+v, %d reads", name, tx.Status, protected(w), reads)
		}
		for _, c := range []Command{{Kind: CommandResolve, Action: ActionFail, Tx: tx.ID},
			{Kind: CommandExitProtect, Action: ActionResume, Expect: protected(w).ID}} {
			if got := w.runCommand(t, c, Account{Latest: nonce + 1, Pending: nonce + 1,
				Settled: nonce + 1}); got != Applied {
				t.Errorf("%s: %s: %s", name, c.Kind, got)
			}
		}
	}
}

// Under another protection the loss of a nonce is reported once. After a RETRY it is broadcast
// before the event repeats.
func TestLostNonce_OtherProtection_Event(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 1)
	w.apply(t, protectOnCommand(&w.view,
		Command{ID: 1, Kind: CommandProtect, Reason: "moving keys"}))
	w.elsewhere = 1
	for range 5 {
		w.head++
		w.view.Head = w.head
		w.view.Now = w.view.Now.Add(time.Hour)
		w.broadcastNonceTooLow(t)
	}
	if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonNonceElsewhere ||
		w.kindCount(EventStuck) != 1 ||
		protected(w).Reason != ProtectByOperator {
		t.Fatalf("%+v, %d times", tx.Status, w.kindCount(EventStuck))
	}
	if got := w.runCommand(t, Command{Kind: CommandResolve, Action: ActionRetry, Tx: b.Tx.ID},
		ahead); !strings.HasPrefix(got, Applied) {
		t.Fatal(got)
	}
	if _, ok := Decide(&w.view).(Broadcast); !ok {
		t.Errorf("%T", Decide(&w.view))
	}
}

// broadcastNonceTooLow takes each step that does not wait; every broadcast finds the nonce used.
func (w *world) broadcastNonceTooLow(t *testing.T) {
	t.Helper()
	for range 20 {
		step := Decide(&w.view)
		if _, ok := step.(Rest); ok {
			return
		}
		w.do(t, step, Outcome{Class: NonceTooLow}, accepted)
	}
	t.Fatalf("no end: %T", Decide(&w.view))
}

// A lost nonce is free again after a reorg undid the other use, and an operator resumes. A
// transaction with a cancel requested meanwhile, by command or deadline, is cancelled, not sent
// (H29).
func TestLostNonce_FreeAgain(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*world, *Tx){
		"command": func(_ *world, tx *Tx) { tx.CancelRequested = true },
		"its deadline": func(w *world, tx *Tx) {
			tx.Terms.CancelLate, tx.Deadline = true,
				w.view.Now
		},
	} {
		w := lostNonce(t)
		give(w, &w.view.Open[0])
		w.elsewhere = 0
		if got := w.runCommand(t,
			Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 1},
			Account{}); got != Applied {
			t.Fatalf("%s: %s", name, got)
		}
		w.view.Now = w.view.Now.Add(time.Hour)
		if b := until[Broadcast](t, w); b.Attempt.Kind != Cancel {
			t.Errorf("%s: the %s is broadcast: %+v", name, b.Attempt.Kind, b.Tx.Status)
		}
	}
}
