package txn

import (
	"strings"
	"testing"
	"time"
)

// What shall be cancelled, by somebody's wish or by its deadline, is not handed over because the
// cancel may not be signed now, whether or not a pool may have it (H29). What was final is, for
// nobody is told of two ends (H22).
func TestProtected_CancelRequested_NotSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []Class
		reason  string
		held    bool
	}{
		"never handed over": {nil, "", true}, "nobody was reached": {[]Class{Unavailable}, "",
			true}, "refused": {[]Class{Underpriced}, "", true},
		"no answer": {[]Class{Ambiguous}, "", true}, "taken": {[]Class{Accepted}, "", true},
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
			if held := !w.handsOver(t); held != c.held {
				t.Errorf("%s, late %t: %T", name, late, Decide(&w.view))
			}
			w.view.Cursor.Protected, w.view.Open[0].Reason = nil, ""
			w.view.Now = w.view.Now.Add(time.Hour)
			if s, ok := w.looked(t).(*Replace); !ok || s.Kind != Cancel {
				t.Errorf("%s, late %t: %T once the protection is over", name, late, Decide(&w.view))
			}
		}
	}
}

// handsOver tells whether anything is handed over before there is nothing to do but to wait.
func (w *world) handsOver(t *testing.T) bool {
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

// cancelledUnderProtection is a world whose transaction is in no pool and shall be cancelled, under
// an operator's protection.
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

// What a protection holds back is handed to nobody, so no node would ever say that somebody else
// has used its nonce. The account is looked at all the same, once an interval, and then it can be
// decided on.
func TestOnHold_LostNonce(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*testing.T) *world{
		"cancelled, and nobody was " +
			"reached": func(t *testing.T) *world {
			return cancelledUnderProtection(t,
				Unavailable)
		},
		"cancelled before anybody " +
			"had it": func(t *testing.T) *world { return cancelledUnderProtection(t) },
		"its nonce shall be filled": func(t *testing.T) *world {
			w, _, old := takenAnew(t, false)
			w.apply(t, protectOnCommand(&w.view,
				Command{ID: 1, Kind: CommandProtect, Reason: "moving keys"}))
			w.include(old, true)
			w.blocks(t, int(guarded.Confirmations))
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
		looks, begun := 0, w.view.Now
		for range 200 {
			step := Decide(&w.view)
			switch s := step.(type) {
			case Broadcast:
				t.Fatalf("%s: %s is handed over", name, s.Attempt.Kind)
			case ReadAccount:
				looks++
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
			looks > 12 {
			t.Fatalf("%s: %+v, %+v, %d looks", name, tx.Status, protected(w), looks)
		}
		for _, c := range []Command{{Kind: CommandResolve, Action: ActionFail, Tx: tx.ID},
			{Kind: CommandExitProtect, Action: ActionResume, Expect: protected(w).ID}} {
			if got := w.exit(t, c, Account{Latest: nonce + 1, Pending: nonce + 1,
				Settled: nonce + 1}); got != Applied {
				t.Errorf("%s: %s: %s", name, c.Kind, got)
			}
		}
	}
}

// Under another protection the loss of a nonce is told of the transaction, once; after a RETRY it
// is handed over before that is told again.
func TestLostNonce_OtherProtection_Event(t *testing.T) {
	t.Parallel()
	w, b := sent(t, 1)
	w.apply(t, protectOnCommand(&w.view,
		Command{ID: 1, Kind: CommandProtect, Reason: "moving keys"}))
	w.elsewhere = 1
	for range 5 {
		w.head++
		w.view.Head = w.head
		w.view.Now = w.view.Now.Add(time.Hour)
		w.lookedAndSent(t)
	}
	if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonNonceElsewhere ||
		w.kindCount(EventStuck) != 1 ||
		protected(w).Reason != ProtectByOperator {
		t.Fatalf("%+v, %d times", tx.Status, w.kindCount(EventStuck))
	}
	if got := w.exit(t, Command{Kind: CommandResolve, Action: ActionRetry, Tx: b.Tx.ID}, ahead); !strings.HasPrefix(
		got, Applied) {
		t.Fatal(got)
	}
	if _, ok := Decide(&w.view).(Broadcast); !ok {
		t.Errorf("%T", Decide(&w.view))
	}
}

// lookedAndSent takes each step that does not wait; whatever is handed over finds the nonce used.
func (w *world) lookedAndSent(t *testing.T) {
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

// A nonce that was lost is free again, since a reorg undid the other use, and an operator resumes:
// what was to be cancelled meanwhile, by somebody or by its deadline, is cancelled, and not sent
// (H29).
func TestLostNonce_FreeAgain(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*world, *Tx){
		"somebody's wish": func(_ *world, tx *Tx) { tx.CancelRequested = true },
		"its deadline": func(w *world, tx *Tx) {
			tx.Terms.CancelLate, tx.Deadline = true,
				w.view.Now
		},
	} {
		w := lost(t)
		give(w, &w.view.Open[0])
		w.elsewhere = 0
		if got := w.exit(t, Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 1},
			Account{}); got != Applied {
			t.Fatalf("%s: %s", name, got)
		}
		w.view.Now = w.view.Now.Add(time.Hour)
		if b := until[Broadcast](t, w); b.Attempt.Kind != Cancel {
			t.Errorf("%s: the %s is handed over: %+v", name, b.Attempt.Kind, b.Tx.Status)
		}
	}
}
