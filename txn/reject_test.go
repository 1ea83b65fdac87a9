package txn

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A node says of what no node ever took that it can never pass: a cancel uses its nonce up, it is
// failed once that is final, and those behind it go on.
func TestInvalid_CancelledAndFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(2, policy)
	w.do(t, until[Broadcast](t, w),
		Outcome{Class: Invalid, Detail: "transaction type not supported"}, accepted)
	if tx := w.view.Open[0]; tx.State != Allocated || tx.Reason != ReasonRejected ||
		tx.Due.After(w.view.Now) {
		t.Fatalf("%+v", tx.Status)
	}
	s, ok := w.looked(t).(*Replace)
	if !ok || s.Kind != Cancel {
		t.Fatalf("%+v", Decide(&w.view))
	}
	w.do(t, s, Outcome{}, accepted)
	w.clearUp(t)
	got := w.final[0]
	if got.State != Failed || got.Executed != No || got.Reason != ReasonRejected ||
		got.LastError != "transaction type not supported" ||
		got.Receipt.TxHash != got.Attempts[1].Hash {
		t.Fatalf("%+v", got.Status)
	}
	if kinds := w.kinds[got.ID]; !slices.Equal(kinds,
		[]Kind{EventAllocated, EventReplaced, EventSubmitted, EventIncluded, EventFailed}) {
		t.Errorf("%v", kinds)
	}
	if len(w.final) != 2 || w.final[1].State != Confirmed {
		t.Error("the one behind it does not go on")
	}
}

// The node was wrong, and what it rejected was in a block first.
func TestInvalid_Executed(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Invalid}, accepted)
	w.do(t, until[*Replace](t, w), Outcome{}, accepted)
	w.include(b.Attempt.Hash, true)
	w.clearUp(t)
	if got := w.final[0]; got.State != Confirmed || got.Executed != Success ||
		got.Reason != ReasonCancelLost {
		t.Fatalf("%+v", got.Status)
	}
}

// What a pool may have is not given up because a node rejects it: that is one more answer which
// settles nothing, and the limit of hand-overs asks for a decision.
func TestInvalid_Pooled_NotAbandoned(t *testing.T) {
	t.Parallel()
	for _, first := range []Class{Accepted, AlreadyKnown, Ambiguous, NonceTooLow} {
		w := newWorld(1, policy)
		w.do(t, until[Broadcast](t, w), Outcome{Class: first}, accepted)
		for n := 2; n < policy.ResubmitMax; n++ {
			b := until[Broadcast](t, w)
			w.do(t, b, Outcome{Class: Invalid, Detail: "type not supported"}, accepted)
			tx := w.view.Open[0]
			if tx.State == Stuck || tx.Rejected != "" || tx.abandoned() ||
				tx.Reason != string(Ambiguous) ||
				!strings.Contains(tx.LastError, "type not supported") {
				t.Fatalf("%s, then %d times INVALID: %+v", first, n-1, tx.Status)
			}
		}
		w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
		if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonResubmitExhausted ||
			len(tx.Attempts) != 1 {
			t.Fatalf("%s: %+v", first, tx.Status)
		}
		w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: w.view.Open[0].ID}}
		if s := until[*Replace](t, w); s.Kind != Cancel {
			t.Errorf("%s: an operator's cancel makes %+v", first, s)
		}
	}
}

// Another form that a node rejects is told at once, and needs a decision: what a pool has of it may
// be included all the same.
func TestInvalid_Replacement(t *testing.T) {
	t.Parallel()
	for _, first := range []Class{Accepted, Ambiguous} {
		w := newWorld(1, policy)
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: first}, accepted)
		w.view.Commands = []Command{{ID: 1, Kind: CommandSpeedUp, Tx: b.Tx.ID}}
		w.do(t, until[*Replace](t, w), Outcome{}, accepted)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
		if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonRejected ||
			tx.abandoned() {
			t.Fatalf("%s: %+v", first, tx.Status)
		}
	}
}

// Before anything was signed on the word of one node another takes it: that word is void.
func TestInvalid_AcceptedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
	w.view.Cursor.Protected = &Protected{ID: 1} // nothing is signed
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.view.Cursor.Protected = nil
	if tx := w.view.Open[0]; tx.State != Tracking || tx.Rejected != "" || tx.abandoned() {
		t.Fatalf("%+v", tx.Status)
	}
	w.view.Now = w.view.Now.Add(time.Hour)
	b, ok := w.claimed(t).(Broadcast)
	if !ok || b.Attempt.Kind != Original {
		t.Errorf("%+v", Decide(&w.view))
	}
	w.include(b.Attempt.Hash, true)
	w.blocks(t, int(policy.Confirmations)+1)
	if end := w.final[0]; end.State != Confirmed || end.Reason != "" || end.LastError != "" {
		t.Errorf("%+v", end.Status)
	}
}

// A cancel that cannot be signed is told after as many tries as hand-overs, and goes on being
// tried; nothing else is handed over meanwhile.
func TestInvalid_CancelUnsignable(t *testing.T) {
	t.Parallel()
	for name, reject := range map[string]bool{"what a node rejects": true,
		"what a caller cancels": false} {
		w := newWorld(1, policy)
		if b := until[Broadcast](t, w); reject {
			w.do(t, b, Outcome{Class: Invalid}, accepted)
		} else {
			w.do(t, b, Outcome{Class: Accepted}, accepted)
			w.do(t, until[Broadcast](t, w), Outcome{Class: AlreadyKnown}, accepted)
			w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
			w.do(t, Decide(&w.view), Outcome{}, accepted)
		}
		for n := range 3 * policy.ResubmitMax {
			if stuck := w.view.Open[0].State == Stuck; stuck != (n >= policy.ResubmitMax) {
				t.Fatalf("%s: after %d tries: %+v", name, n, w.view.Open[0].Status)
			}
			w.view.Now = w.view.Now.Add(time.Minute)
			s, ok := w.looked(t).(*Replace)
			if !ok || s.Kind != Cancel {
				t.Fatalf("%s: %+v", name, Decide(&w.view))
			}
			w.do(t, s, Outcome{},
				Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrUnavailable})
		}
		if tx := w.view.Open[0]; tx.Reason != ReasonSignerUnavailable ||
			w.kindCount(EventStuck) != 1 ||
			len(tx.Attempts) != 1 {
			t.Fatalf("%s: %+v", name, tx.Status)
		}
		w.do(t, until[*Replace](t, w), Outcome{}, accepted)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		if tx := w.view.Open[0]; tx.State != Tracking || w.kindCount(EventUnstuck) != 1 {
			t.Fatalf("%s: %+v", name, tx.Status)
		}
		w.clearUp(t)
		if got := w.final[0]; got.Executed != No || (got.State == Failed) != reject ||
			(got.State == Cancelled) == reject {
			t.Fatalf("%s: %+v", name, got.Status)
		}
	}
}

// A chain that is away, and a protection, are no failures of a cancel.
func TestInvalid_CancelWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
	for range 3 * policy.ResubmitMax {
		w.view.Now = w.view.Now.Add(time.Minute)
		w.do(t, w.looked(t).(*Replace), Outcome{},
			Preparation{Outcome: Outcome{Class: Unavailable}})
	}
	if w.kindCount(EventStuck) != 0 {
		t.Fatalf("%+v", w.view.Open[0].Status)
	}
	w.view.Cursor.Protected = &Protected{ID: 1}
	for range 3 {
		w.view.Now = w.view.Now.Add(time.Hour)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
		if _, ok := w.looked(t).(Rest); !ok {
			t.Fatalf("%+v is next at once", Decide(&w.view))
		}
	}
}

// What was in a block some pool had, whatever was answered when it was handed over: once the block
// is gone no node's word gives it up, be it on its way, final before, or final by a form that it
// had before it was given back to the queue.
func TestInvalid_Reorged_NotAbandoned(t *testing.T) {
	t.Parallel()
	for name, reorged := range map[string]func(*testing.T) *world{
		"on its way": func(t *testing.T) *world {
			w := newWorld(1, policy)
			b := until[Broadcast](t, w)
			w.do(t, b, Outcome{Class: Unavailable}, accepted)
			w.include(b.Attempt.Hash, true)
			w.settle(t)
			delete(w.included, b.Attempt.Hash)
			return w
		},
		"final": func(t *testing.T) *world {
			w := newWorld(1, policy)
			b := until[Broadcast](t, w)
			w.do(t, b, Outcome{Class: Unavailable}, accepted)
			w.include(b.Attempt.Hash, true)
			w.blocks(t, 4)
			w.reorgAfterFinality(t, b.Attempt.Hash)
			return w
		},
		"given back": func(t *testing.T) *world {
			w, _, old := givenBack(t)
			w.include(old, true)
			w.blocks(t, int(guarded.Confirmations)+1)
			w.reorgAfterFinality(t, old)
			return w
		},
	} {
		w := reorged(t)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid, Detail: "type not supported"},
			accepted)
		if tx := w.view.Open[0]; tx.Rejected != "" || tx.abandoned() {
			t.Errorf("%s: %+v", name, tx.Status)
		}
	}
}

// A node says that it can never pass, no cancel can be signed, and it is in a block: that word is
// void then as well.
func TestInvalid_Included(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Invalid}, accepted)
	w.do(t, until[*Replace](t, w), Outcome{},
		Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrUnavailable})
	w.include(b.Attempt.Hash, true)
	w.clearUp(t)
	if end := w.final[0]; end.State != Confirmed || end.Reason != "" || end.LastError != "" {
		t.Errorf("%+v", end.Status)
	}
}

// What was rejected, and ran before its cancel, says the same of itself when it is final again
// after a reorg.
func TestInvalid_ExecutedAndReorged_SameReason(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Invalid}, accepted)
	w.do(t, until[*Replace](t, w), Outcome{}, accepted)
	w.include(b.Attempt.Hash, true)
	w.blocks(t, 4)
	before := w.final[0]
	w.reorgAfterFinality(t, b.Attempt.Hash)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.include(b.Attempt.Hash, true)
	w.blocks(t, 4)
	if end := w.final[0]; end.State != before.State || end.Reason != before.Reason ||
		end.LastError != before.LastError {
		t.Errorf("%s %q, then %s %q", before.Reason, before.LastError, end.Reason, end.LastError)
	}
}

// What was final says so until it is final again, whatever a node says of it meanwhile.
func TestReorgedFinal_Invalid_KeepsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.clearUp(t)
	w.reorgAfterFinality(t, w.final[0].TxHash)
	tx := &w.view.Open[0]
	tx.State = Tracking
	tx.Sub = Pending
	tx.Pooled = 0 // as a ledger of before has it, after a RETRY
	w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
	if tx := w.view.Open[0]; tx.Reason != ReasonReorgedFinal {
		t.Errorf("%+v", tx.Status)
	}
}

// As long as no cancel can be signed nothing is handed over, so no answer would tell that somebody
// else has used the nonce. The account is looked at meanwhile (L10).
func TestInvalid_CancelUnsignable_LostNonce(t *testing.T) {
	t.Parallel()
	w, b := sent(t, 1)
	w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	w.elsewhere, w.consumer = 1, &Consumer{Block: 50, TxHash: Hash{0xee}}
	for range 5 {
		w.head++
		w.view.Head, w.view.Now = w.head, w.view.Now.Add(time.Hour)
		for range 10 {
			step := Decide(&w.view)
			if _, ok := step.(Rest); ok {
				break
			}
			w.do(t, step, Outcome{},
				Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrUnavailable})
		}
	}
	if tx := w.view.Open[0]; tx.Reason != ReasonNonceElsewhere || protected(w) == nil {
		t.Errorf("%+v, %+v", tx.Status, protected(w))
	}
}
