package txn

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A transaction that a node rejects as invalid, and no node accepted, is cancelled. It is FAILED
// once the cancel is final, and the queue continues.
func TestInvalid_CancelledAndFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(2, policy)
	w.do(t, until[Broadcast](t, w),
		Outcome{Class: Invalid, Detail: "transaction type not supported"}, accepted)
	if tx := w.view.Open[0]; tx.State != Allocated || tx.Reason != ReasonRejected ||
		tx.Due.After(w.view.Now) {
		t.Fatalf("%+v", tx.Status)
	}
	s, ok := w.afterRead(t).(*Replace)
	if !ok || s.Kind != Cancel {
		t.Fatalf("%+v", Decide(&w.view))
	}
	w.do(t, s, Outcome{}, accepted)
	w.finishAll(t)
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

// The node was wrong, and the rejected transaction is included first.
func TestInvalid_Executed(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Invalid}, accepted)
	w.do(t, until[*Replace](t, w), Outcome{}, accepted)
	w.include(b.Attempt.Hash, true)
	w.finishAll(t)
	if got := w.final[0]; got.State != Confirmed || got.Executed != Success ||
		got.Reason != ReasonCancelLost {
		t.Fatalf("%+v", got.Status)
	}
}

// A transaction that may be in a pool is not abandoned on a rejection. The broadcasts count as
// usual, and their limit requires a decision.
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

// A rejected replacement is reported at once and requires a decision: earlier attempts in a pool
// may still be included.
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

// Another node accepts it before anything was signed on the rejection, which is then void.
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
	b, ok := w.afterClaim(t).(Broadcast)
	if !ok || b.Attempt.Kind != Original {
		t.Errorf("%+v", Decide(&w.view))
	}
	w.include(b.Attempt.Hash, true)
	w.mineBlocks(t, int(policy.Confirmations)+1)
	if end := w.final[0]; end.State != Confirmed || end.Reason != "" || end.LastError != "" {
		t.Errorf("%+v", end.Status)
	}
}

// A cancel that cannot be signed is reported after the limit of broadcasts and still retried.
// Nothing is broadcast meanwhile.
func TestInvalid_CancelUnsignable(t *testing.T) {
	t.Parallel()
	for name, reject := range map[string]bool{"rejected by a node": true,
		"cancelled by a client": false} {
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
			s, ok := w.afterRead(t).(*Replace)
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
		w.finishAll(t)
		if got := w.final[0]; got.Executed != No || (got.State == Failed) != reject ||
			(got.State == Cancelled) == reject {
			t.Fatalf("%s: %+v", name, got.Status)
		}
	}
}

// An outage or a protection does not count as a failure to cancel.
func TestInvalid_CancelWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
	for range 3 * policy.ResubmitMax {
		w.view.Now = w.view.Now.Add(time.Minute)
		w.do(t, w.afterRead(t).(*Replace), Outcome{},
			Preparation{Outcome: Outcome{Class: Unavailable}})
	}
	if w.kindCount(EventStuck) != 0 {
		t.Fatalf("%+v", w.view.Open[0].Status)
	}
	w.view.Cursor.Protected = &Protected{ID: 1}
	for range 3 {
		w.view.Now = w.view.Now.Add(time.Hour)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
		if _, ok := w.afterRead(t).(Rest); !ok {
			t.Fatalf("%+v is next at once", Decide(&w.view))
		}
	}
}

// An included transaction was in some pool, for any outcome of its broadcast. After a reorg no
// response abandons it, be it in flight, final before, or final by an attempt from before a
// REQUEUE.
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
			w.mineBlocks(t, 4)
			w.reorgAfterFinality(t, b.Attempt.Hash)
			return w
		},
		"requeued": func(t *testing.T) *world {
			w, _, old := requeuedWorld(t)
			w.include(old, true)
			w.mineBlocks(t, int(guarded.Confirmations)+1)
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

// A rejection is void when the transaction is included before a cancel can be signed.
func TestInvalid_Included(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Invalid}, accepted)
	w.do(t, until[*Replace](t, w), Outcome{},
		Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrUnavailable})
	w.include(b.Attempt.Hash, true)
	w.finishAll(t)
	if end := w.final[0]; end.State != Confirmed || end.Reason != "" || end.LastError != "" {
		t.Errorf("%+v", end.Status)
	}
}

// A rejected transaction that was executed before its cancel has the same reason when it is final
// again after a reorg.
func TestInvalid_ExecutedAndReorged_SameReason(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Invalid}, accepted)
	w.do(t, until[*Replace](t, w), Outcome{}, accepted)
	w.include(b.Attempt.Hash, true)
	w.mineBlocks(t, 4)
	before := w.final[0]
	w.reorgAfterFinality(t, b.Attempt.Hash)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.include(b.Attempt.Hash, true)
	w.mineBlocks(t, 4)
	if end := w.final[0]; end.State != before.State || end.Reason != before.Reason ||
		end.LastError != before.LastError {
		t.Errorf("%s %q, then %s %q", before.Reason, before.LastError, end.Reason, end.LastError)
	}
}

// A reorged final transaction keeps its reason until it is final again, for any response.
func TestReorgedFinal_Invalid_KeepsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.finishAll(t)
	w.reorgAfterFinality(t, w.final[0].TxHash)
	tx := &w.view.Open[0]
	tx.State = Tracking
	tx.Sub = Pending
	tx.Pooled = 0 // as in a ledger of an older version, after a RETRY
	w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid}, accepted)
	if tx := w.view.Open[0]; tx.Reason != ReasonReorgedFinal {
		t.Errorf("%+v", tx.Status)
	}
}

// While no cancel can be signed nothing is broadcast, so no response would reveal a foreign use of
// the nonce. The account is still read (L10).
func TestInvalid_CancelUnsignable_LostNonce(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 1)
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
