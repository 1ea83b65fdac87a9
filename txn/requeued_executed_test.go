package txn

import (
	"strings"
	"testing"
	"time"
)

// A requeued transaction is late by the database clock, and only once it is proven not executed.
func TestDeadline_Requeued_DatabaseClock(t *testing.T) {
	t.Parallel()
	for _, settled := range []Nonce{0, 1} {
		w, _, _ := requeuedWorld(t)
		w.view.Queue[0].Deadline = w.view.Now
		w.setAccount(Account{Latest: 1, Pending: 1, Settled: settled})
		r, ok := Decide(&w.view).(Record)
		if !ok || len(r.Change.Writes) != 1 {
			t.Fatalf("%#v", Decide(&w.view))
		}
		if x, sure := r.Change.Writes[0], settled == 1; x.PastDeadline != sure ||
			(x.Next.State == Failed) != sure ||
			(x.Next.Reason == ReasonDeadline) != sure {
			t.Errorf("settled %d: %+v", settled, x)
		}
	}
	w, _, _ := reallocated(t, true)
	w.view.Open[0].Deadline, w.view.Open[0].Terms.CancelLate = w.view.Now, true
	w.view.Now = w.view.Now.Add(time.Hour)
	if s := until[*Replace](t, w); s.Kind != Cancel || !s.ForDeadline {
		t.Errorf("%+v", s)
	}
}

// A requeued transaction behind the queue head is final at its deadline.
func TestCancel_SecondRequeued(t *testing.T) {
	t.Parallel()
	w, id, _ := requeuedWorld(t)
	w.view.Submitter.Status = Paused
	w.view.Queue[0].CancelRequested, w.view.Queue[0].Due = true, w.view.Now.Add(time.Minute)
	first, _ := NewTxID(noon, 1)
	w.view.Queue = append(
		[]Tx{{ID: first, Status: Status{State: Queued, Version: 1, Executed: Unknown}}},
		w.view.Queue...)
	w.events[first] = 1
	for range 4 {
		step := Decide(&w.view)
		if r, ok := step.(Rest); ok && !r.Until.IsZero() {
			w.view.Now = r.Until
		}
		w.do(t, step, Outcome{}, accepted)
	}
	if len(w.final) != 1 || w.final[0].ID != id || w.final[0].State != Cancelled {
		t.Errorf("%+v", w.final)
	}
}

// Responses to attempts of the released nonce do not apply to the next one.
func TestRequeue_ClearsOutcomes(t *testing.T) {
	t.Parallel()
	w := lostNonce(t)
	if tx := w.view.Open[0]; tx.Accepted == 0 || tx.Pooled == 0 || tx.LastOutcome == "" {
		t.Fatalf("%+v", tx.Status)
	}
	if got := w.runCommand(t,
		Command{Kind: CommandResolve, Action: ActionRequeue, Tx: w.view.Open[0].ID},
		ahead); got != Applied {
		t.Fatal(got)
	}
	if tx := w.view.Queue[0]; tx.TxHash != (Hash{}) || tx.SubmitAttempts != 0 || tx.Accepted != 0 ||
		tx.Pooled != 0 ||
		tx.LastOutcome != "" ||
		tx.Rejected != "" ||
		tx.Turn != (Turn{}) {
		t.Errorf("%+v", tx.Status)
	}
}

// An executed attempt decides the outcome, also where a node rejects the new one as invalid.
func TestRequeuedExecuted_Invalid(t *testing.T) {
	t.Parallel()
	for name, ran := range map[string]bool{"it ran": true, "it did not": false} {
		w, _, old := reallocated(t, false)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid, Detail: "never"}, accepted)
		if w.view.Open[0].Rejected == "" {
			t.Fatalf("%+v", w.view.Open[0].Status)
		}
		b := until[Broadcast](t, w)
		if b.Attempt.Kind != Cancel {
			t.Fatalf("%+v", b.Attempt)
		}
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		if ran {
			w.include(old, true)
		}
		w.include(b.Attempt.Hash, true)
		w.mineBlocks(t, 2*int(guarded.Confirmations))
		want := map[bool]Status{true: {State: Confirmed, Executed: Success,
			Reason: ProtectExecutedAfterRequeue},
			false: {State: Failed, Executed: No, Reason: ReasonRejected}}[ran]
		if end := w.final[0]; end.State != want.State || end.Executed != want.Executed ||
			end.Reason != want.Reason {
			t.Errorf("%s: %+v", name, end.Status)
		}
	}
}

// Nothing is broadcast while the cancel of the second nonce cannot be signed. A requested cancel
// causes no hold, and reported state stays.
func TestRequeuedExecuted_WaitsForCancel(t *testing.T) {
	t.Parallel()
	w, id, old := reallocated(t, false)
	if got := w.runCommand(t, Command{Kind: CommandCancel, Tx: id}, ahead); got != Applied {
		t.Fatal(got)
	}
	w.include(old, true)
	for range 2 * guarded.ResubmitMax {
		w.do(t, until[*Replace](t, w), Outcome{},
			Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrKeyMissing})
		if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ProtectExecutedAfterRequeue ||
			len(tx.Attempts) != 2 ||
			!tx.Due.After(w.view.Now) ||
			protected(w) == nil {
			t.Fatalf("%+v, %d attempts", tx.Status, len(tx.Attempts))
		}
	}
	if b := until[Broadcast](t, w); b.Attempt.Kind != Cancel ||
		w.view.Open[0].Reason != ProtectExecutedAfterRequeue {
		t.Errorf("%+v", b.Attempt)
	}
}

// The attempt's block is reorged out after an operator decided: reports and the decision stay, for
// any response.
func TestRequeuedExecuted_OneEvent(t *testing.T) {
	t.Parallel()
	for name, filled := range map[string]bool{"cancel": true,
		"its payload": false} {
		w, _, old := reallocated(t, true)
		w.view.Policy.ResubmitMaxAge = time.Hour
		own := w.view.Open[0].newest().Hash
		if filled {
			w.include(old, true)
			own = until[Broadcast](t, w).Attempt.Hash
		}
		w.include(own, true)
		w.include(old, true)
		w.settle(t)
		if got := w.runCommand(t,
			Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 2},
			Account{Latest: 2, Pending: 2, Settled: 2}); got != Applied {
			t.Fatalf("%s: %s", name, got)
		}
		stuck := w.kindCount(EventStuck)
		delete(w.included, own)
		w.head++
		if !filled {
			w.do(t, until[*Replace](t, w), Outcome{},
				Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrSignerFault})
			w.settle(t)
		}
		for range 2 * guarded.ResubmitMax {
			w.view.Now = w.view.Now.Add(time.Hour)
			b := until[Broadcast](t, w)
			if b.Attempt.Kind != Cancel {
				t.Fatalf("%s: %+v", name, b.Attempt)
			}
			w.do(t, b, Outcome{Class: Accepted}, accepted)
			if tx := w.view.Open[0]; tx.Reason != ProtectExecutedAfterRequeue ||
				protected(w) != nil ||
				w.kindCount(EventStuck) != stuck {
				t.Fatalf("%s: %+v %+v", name, tx.Status, protected(w))
			}
		}
		w.include(w.view.Open[0].newest().Hash, true)
		w.mineBlocks(t, 2*int(guarded.Confirmations))
		if end := w.final[0]; end.State != Confirmed || end.Receipt.TxHash != old {
			t.Errorf("%s: %+v", name, end.Status)
		}
	}
}

// An earlier execution that reverted pauses the submitter if its policy requires that: once, with
// the final state.
func TestRequeuedExecuted_Reverted_Pauses(t *testing.T) {
	t.Parallel()
	for name, queued := range map[string]bool{"queued": true, "filled": false} {
		w, _, old := requeuedWorld(t)
		if !queued {
			w, _, old = reallocated(t, false)
		}
		w.view.Submitter.OnFailure = PauseOnFailure
		w.include(old, false)
		if w.settle(t); !queued {
			w.include(w.view.Open[0].newest().Hash, true)
		}
		w.mineBlocks(t, 2*int(guarded.Confirmations))
		if len(w.final) != 1 || w.final[0].Executed != Reverted ||
			w.view.Submitter.Status != Paused {
			t.Errorf("%s: %s, %+v", name, w.view.Submitter.Status, w.final)
		}
	}

	w, b := sentWorld(t, 1) // its inclusion was reported, and an operator has resumed since
	w.view.Submitter.OnFailure = PauseOnFailure
	w.include(b.Attempt.Hash, false)
	if w.settle(t); w.view.Submitter.Status != Paused {
		t.Error("a revert does not pause")
	}
	w.view.Submitter.Status = Active
	if w.mineBlocks(t, 2*int(guarded.Confirmations)); len(w.final) != 1 ||
		w.view.Submitter.Status != Active {
		t.Errorf("%s, %+v", w.view.Submitter.Status, w.final)
	}
}

// The payload is included instead of the cancel, and the chain has undone the earlier execution: no
// deadline is reported.
func TestRequeuedExecuted_CancelLoses(t *testing.T) {
	t.Parallel()
	w, _, old := reallocated(t, true)
	payload := w.view.Open[0].newest().Hash
	w.include(old, true)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	delete(w.included, old)
	w.include(payload, true)
	w.mineBlocks(t, 2*int(guarded.Confirmations))
	if end := w.final[0]; end.Executed != Success || end.Reason != ReasonCancelLost ||
		!strings.Contains(end.LastError, "requeued") {
		t.Errorf("%+v", end.Status)
	}
}

// A requeued transaction under a protection for foreign key use turns out to be executed: it is
// reported, and final by that attempt.
func TestRequeuedExecuted_ProtectedQueue(t *testing.T) {
	t.Parallel()
	w, _, old := requeuedWorld(t)
	w.view.Account = nil
	for range 12 { // foreign transactions use nonces 1 and 2
		w.elsewhere = 3
		w.head++
		w.view.Head = w.head
		w.do(t, Decide(&w.view), Outcome{}, accepted)
		w.view.Now = w.view.Now.Add(20 * time.Second)
	}
	if p, tx := protected(w), w.view.Queue[0]; p == nil || p.Reason != ReasonNonceElsewhere ||
		tx.Reason != ReasonNonceElsewhere {
		t.Fatalf("%+v %+v", p, tx.Status)
	}
	w.include(old, true)
	w.mineBlocks(t, 5)
	if len(w.final) != 1 || w.final[0].State != Confirmed ||
		w.final[0].Reason != ProtectExecutedAfterRequeue {
		t.Errorf("%+v, queue %+v", w.final, w.view.Queue)
	}
}
