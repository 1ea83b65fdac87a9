package txn

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkUnfunded checks the law of the sub-state: exactly the transactions that wait for money have
// it, and each change of it has an event.
func checkUnfunded(t fataler, tx Tx, x Write) {
	t.Helper()
	next := x.Next
	switch {
	case (tx.Sub == Unfunded) != (next.Sub == Unfunded) && x.Kind == "":
		t.Fatalf("%s/%s becomes %s/%s without an event", tx.State, tx.Sub, next.State, next.Sub)
	case next.Reason == ReasonInsufficientFunds && next.Sub != Unfunded:
		t.Fatalf("it waits for money and is %s/%s: %s", next.State, next.Sub, next.LastError)
	case next.Sub != Unfunded:
	case next.State.Final(),
		next.Receipt != nil,
		next.Nonce == nil && next.Reason != ReasonInsufficientFunds,
		next.Nonce != nil && next.LastOutcome != InsufficientFunds && x.Kind != EventReplaced &&
			next.LastOutcome != "" && !unexamined(next.LastOutcome):
		t.Fatalf("%s %s waits for money: %+v", x.Kind, next.State, next)
	case !strings.Contains(next.LastError, "insufficient funds for"):
		t.Fatalf("%s/%s %s without the reason of its wait: %q", next.State, next.Sub, next.Reason,
			next.LastError)
	}
}

var poor = Outcome{Class: InsufficientFunds, Detail: "insufficient funds"}

// refuseUntilStuck has the next attempt refused for lack of money until STUCK, and as often again.
func (w *world) refuseUntilStuck(t *testing.T) {
	t.Helper()
	for n := range 2 * w.view.Policy.ResubmitMax {
		w.do(t, until[Broadcast](t, w), poor, accepted)
		tx := w.view.Open[0]
		want := Allocated
		if n+1 >= w.view.Policy.ResubmitMax {
			want = Stuck
		}
		if tx.State != want || tx.Sub != Unfunded || tx.Reason != ReasonInsufficientFunds ||
			!strings.Contains(tx.LastError,
				"insufficient funds for this transaction (insufficient funds)") ||
			!strings.Contains(tx.LastError, "proceeds once the account is funded") ||
			w.view.Now.Add(backoffMax).Before(tx.Due) {
			t.Fatalf("after %d refusals: %s/%s %s %q, due in %s", n+1, tx.State, tx.Sub, tx.Reason,
				tx.LastError, tx.Due.Sub(w.view.Now))
		}
	}
}

// More refusals for lack of money than the limit of broadcasts hide nothing: the reason stays, and
// the transaction continues automatically once funded.
func TestUnfunded_KeepsReason(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{Accepted, AlreadyKnown} {
		w := newWorld(2, policy)
		id := w.view.Queue[0].ID
		w.refuseUntilStuck(t)
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: class}, accepted)
		if tx := w.view.Open[0]; tx.State != Tracking || tx.Sub != Pending || tx.Reason != "" ||
			tx.LastError != "" ||
			tx.SubmitAttempts != 1 {
			t.Errorf("%s: %+v", class, tx.Status)
		}
		w.include(b.Attempt.Hash, true)
		w.finishAll(t)
		if got := w.kinds[id]; !slices.Equal(
			got,
			[]Kind{
				EventAllocated,
				EventDelayed,
				EventStuck,
				EventUnstuck,
				EventIncluded,
				EventConfirmed,
			},
		) ||
			len(w.final) != 2 {
			t.Errorf("reported %v, %d final", got, len(w.final))
		}
	}
}

// It is funded before the limit of broadcasts: from then on they are counted again.
func TestUnfunded_FundedInTime(t *testing.T) {
	t.Parallel()
	for name, first := range map[string][]Class{
		"never accepted":        nil,
		"accepted, and dropped": {Accepted},
	} {
		w := newWorld(1, policy)
		for _, class := range first {
			w.do(t, until[Broadcast](t, w), Outcome{Class: class}, accepted)
		}
		id := until[Broadcast](t, w).Tx.ID
		for w.view.Open[0].SubmitAttempts < policy.ResubmitMax-1 {
			w.do(t, until[Broadcast](t, w), poor, accepted)
		}
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		if tx := w.view.Open[0]; tx.State != Tracking || tx.Sub != Pending || tx.Reason != "" ||
			tx.SubmitAttempts != 1 {
			t.Errorf("%s: %+v, %v", name, tx.Status, w.kinds[id])
		}
	}
}

// A node that did not examine the bytes clears nothing; one that did and returns another outcome
// does.
func TestUnfunded_Cleared(t *testing.T) {
	t.Parallel()
	for class, c := range map[Class]struct {
		unfunded bool
		reason   string
	}{
		Unavailable: {true, ReasonInsufficientFunds}, RateLimited: {true, ReasonInsufficientFunds},
		Unauthorized: {true, ReasonInsufficientFunds},
		Underpriced:  {false, string(Underpriced)}, Ambiguous: {false, string(Ambiguous)},
		NonceTooLow: {false, string(NonceTooLow)}, Invalid: {false, ReasonRejected},
	} {
		for _, stuck := range []bool{false, true} {
			w := newWorld(1, policy)
			if stuck {
				w.refuseUntilStuck(t)
			} else {
				w.do(t, until[Broadcast](t, w), poor, accepted)
			}
			id := w.view.Open[0].ID
			before := len(w.kinds[id])
			w.do(t, until[Broadcast](t, w), Outcome{Class: class, Detail: "said so"}, accepted)
			tx, reason := w.view.Open[0], c.reason
			if stuck && !c.unfunded && class != Invalid {
				reason = ReasonResubmitExhausted
			}
			if (tx.Sub == Unfunded) != c.unfunded || tx.Reason != reason ||
				(len(w.kinds[id]) == before) != c.unfunded {
				t.Errorf("%s, stuck %t: %s/%s %s %q, %v", class, stuck, tx.State, tx.Sub, tx.Reason,
					tx.LastError, w.kinds[id])
			}
			if c.unfunded &&
				!strings.HasSuffix(tx.LastError,
					"is funded; since then "+string(class)+": said so") {
				t.Errorf("%s, stuck %t: %q", class, stuck, tx.LastError)
			}
			if w.do(t, until[Broadcast](t, w), poor, accepted); w.view.Open[0].Sub != Unfunded &&
				class != Invalid {
				t.Errorf("%s, stuck %t: without money again it is %+v", class, stuck,
					w.view.Open[0].Status)
			}
		}
	}
}

// Past its maximum age it is STUCK as well, with both reasons.
func TestUnfunded_PastMaxAge(t *testing.T) {
	t.Parallel()
	p := policy
	p.ResubmitMaxAge, p.ResubmitMax = time.Hour, 1000
	w := newWorld(1, p)
	w.do(t, until[Broadcast](t, w), poor, accepted)
	w.view.Now = w.view.Now.Add(2 * time.Hour)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	tx := w.view.Open[0]
	if tx.State != Stuck || tx.Sub != Unfunded || tx.Reason != ReasonInsufficientFunds ||
		!strings.Contains(tx.LastError, "not included for more than 1h0m0s") ||
		!strings.Contains(tx.LastError, "insufficient funds for this transaction") {
		t.Errorf("%+v", tx.Status)
	}
	w.do(t, until[Broadcast](t, w), Outcome{Class: Underpriced}, accepted)
	if tx := w.view.Open[0]; tx.State != Stuck || tx.Sub != None || tx.Reason != ReasonMaxAge {
		t.Errorf("%+v", tx.Status)
	}
}

// A transaction that the account cannot afford is not bumped, neither automatically nor by the
// stuck policy. A cancel is signed once, and waits for money as well (H72).
func TestUnfunded_NoReplacements(t *testing.T) {
	t.Parallel()
	for _, says := range []StuckAction{StuckWait, StuckBump, StuckCancel} {
		p := policy
		p.Bump = DefaultBumpPolicy{
			Enabled:     true,
			MinInterval: 10 * time.Minute,
			MaxAttempts: 5,
		}
		p.BumpPermille = 1125
		p.Stuck = true
		w := newWorld(1, p)
		w.answer = says
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted},
			accepted) // and dropped when the money went
		attempts := 0
		for range 40 {
			w.view.Now = w.view.Now.Add(time.Minute)
			w.do(t, until[Broadcast](t, w), poor, accepted)
			attempts = len(w.view.Open[0].Attempts)
		}
		tx, want := w.view.Open[0], map[StuckAction]int{StuckWait: 1, StuckBump: 1,
			StuckCancel: 2}[says]
		if attempts != want || tx.State != Stuck || tx.Sub != Unfunded ||
			tx.Reason != ReasonInsufficientFunds {
			t.Errorf("%s: %d attempts, %s/%s %s", says, attempts, tx.State, tx.Sub, tx.Reason)
		}
		if cancels := "insufficient funds for the cancel transaction"; strings.Contains(
			tx.LastError, cancels) != (says == StuckCancel) {
			t.Errorf("%s: %q", says, tx.LastError)
		}
		w.finishAll(t)
		if len(w.final) != 1 {
			t.Errorf("%s: it did not end", says)
		}
	}
}

// A failure to sign a cancel is the reason, not money; nothing is broadcast meanwhile.
func TestUnfunded_CancelUnsignable(t *testing.T) {
	t.Parallel()
	for name, often := range map[string]bool{"on its way": false, "stuck": true} {
		w := newWorld(1, policy)
		if often {
			w.refuseUntilStuck(t)
		} else {
			w.do(t, until[Broadcast](t, w), poor, accepted)
		}
		w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: w.view.Open[0].ID}}
		w.do(t, Decide(&w.view), Outcome{}, accepted)
		w.do(t, until[*Replace](t, w), Outcome{},
			Preparation{Outcome: Outcome{Class: Accepted}, SignErr: errors.New("timeout")})
		if tx := w.view.Open[0]; tx.Sub == Unfunded || tx.Reason != ReasonSignerUnavailable {
			t.Errorf("%s: %+v", name, tx.Status)
		}
		w.do(t, until[*Replace](t, w), Outcome{}, accepted)
		w.do(t, until[Broadcast](t, w), poor, accepted)
		if tx := w.view.Open[0]; tx.Sub != Unfunded || tx.newest().Kind != Cancel {
			t.Errorf("%s: %+v", name, tx.Status)
		}
	}
}

// A transaction that is STUCK for another reason reports both. A lost nonce needs a decision, not
// money.
func TestUnfunded_StuckForOtherReason(t *testing.T) {
	t.Parallel()
	for reason, unfunded := range map[string]bool{ReasonReorgedFinal: true,
		ReasonFeeCapReached: true, ReasonNonceElsewhere: false} {
		w := newWorld(1, policy)
		b := until[Broadcast](t, w)
		b.Tx.State = Stuck
		b.Tx.Reason = reason
		b.Tx.LastError = "as it was"
		next := Sent(&w.view, b, poor).Writes[0]
		if (next.Next.Sub == Unfunded) != unfunded || next.Next.Reason != reason ||
			strings.Contains(next.Next.LastError,
				"as it was; since then insufficient funds") != unfunded ||
			(next.Kind == EventStuck) != unfunded {
			t.Errorf("%s: %s %+v", reason, next.Kind, next.Next)
		}
		b.Tx.Status, b.Tx.Accepted = next.Next, b.Attempt.No
		if next = Sent(&w.view, b, Outcome{Class: Accepted}).Writes[0]; next.Next.Sub != None ||
			next.Next.Reason != reason ||
			next.Next.LastError != "as it was" {
			t.Errorf("%s, once it is funded: %+v", reason, next.Next)
		}
	}
}

// An earlier attempt that a pool may have is reported: it may be included without more money.
func TestUnfunded_EarlierAttemptAffordable(t *testing.T) {
	t.Parallel()
	b := until[Broadcast](t, newWorld(1, policy))
	for pooled, want := range map[int]bool{0: false, 1: true, 2: false} {
		b.Tx.Pooled, b.Attempt.No = pooled, 2
		if said := b.unfundedMessage(poor); strings.Contains(said, "an earlier attempt") != want {
			t.Errorf("%d: %q", pooled, said)
		}
	}
}

// A queue head that waits for money has the sub-state, also where an older version recorded another
// wait.
func TestUnfunded_QueueHead(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	id := w.view.Queue[0].ID
	try := func(class Class) Tx {
		t.Helper()
		w.do(t, until[Prepare](t, w), Outcome{}, Preparation{Outcome: Outcome{Class: class}})
		return w.view.Queue[0]
	}
	if tx := try(InsufficientFunds); tx.Sub != Unfunded || tx.Reason != ReasonInsufficientFunds {
		t.Errorf("%+v", tx.Status)
	}
	if tx := try(Unavailable); tx.Sub != BackingOff || tx.Reason != ReasonChainUnavailable {
		t.Errorf("%+v", tx.Status)
	}
	try(InsufficientFunds)
	w.view.Queue[0].Sub = BackingOff
	if tx := try(InsufficientFunds); tx.Sub != Unfunded {
		t.Errorf("%+v", tx.Status)
	}
	try(InsufficientFunds)
	if got := w.kinds[id]; !slices.Equal(got,
		[]Kind{EventDelayed, EventDelayed, EventDelayed, EventDelayed}) {
		t.Errorf("reported %v", got)
	}
	w.finishAll(t)
	if len(w.final) != 1 || w.final[0].State != Confirmed {
		t.Errorf("%+v", w.final)
	}
}

// An attempt recorded after a refusal for lack of money may cost less: its own outcome decides.
func TestUnfunded_NewAttempt_OwnOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.do(t, until[Broadcast](t, w), poor, accepted)
	w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: w.view.Open[0].ID}}
	b := until[Broadcast](t, w)
	if tx := b.Tx; tx.Sub != Unfunded || tx.Reason != ReasonInsufficientFunds ||
		b.Attempt.Kind != Cancel {
		t.Errorf("%s, %+v", b.Attempt.Kind, tx.Status)
	}
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	if tx := w.view.Open[0]; tx.State != Tracking || tx.Sub != Pending || tx.Reason != "" {
		t.Errorf("%+v", tx.Status)
	}
}

// Each attempt starts the count of broadcasts again, and true reports stay. For the newest attempt,
// an outcome unrelated to money ends the wait for money, but not the exhausted limit of broadcasts.
// A node that did not examine it ends neither.
func TestUnfunded_Stuck_NewAttempt(t *testing.T) {
	t.Parallel()
	const aged = time.Hour
	for class, c := range map[Class]struct {
		unfunded bool
		age      time.Duration
		reason   string
		message  string
	}{
		Ambiguous: {false, 0, ReasonResubmitExhausted, "last response to the newest: AMBIGUOUS"},
		Underpriced: {false, aged, ReasonResubmitExhausted, "last response to the newest: " +
			"UNDERPRICED"},
		NonceGap:    {false, time.Nanosecond, ReasonMaxAge, "not included for more than 1ns"},
		Unavailable: {true, 0, ReasonInsufficientFunds, "insufficient funds for this transaction"},
	} {
		p := policy
		p.ResubmitMaxAge = c.age
		w := newWorld(1, policy)
		w.refuseUntilStuck(t)
		w.view.Policy = p
		w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: w.view.Open[0].ID}}
		w.do(t, until[Broadcast](t, w), Outcome{Class: class, Detail: "said so"}, accepted)
		if tx := w.view.Open[0]; tx.State != Stuck || (tx.Sub == Unfunded) != c.unfunded ||
			tx.Reason != c.reason ||
			!strings.Contains(tx.LastError, c.message) {
			t.Errorf("%s: %s/%s %s %q", class, tx.State, tx.Sub, tx.Reason, tx.LastError)
		}
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		if tx := w.view.Open[0]; c.unfunded && tx.State != Tracking {
			t.Errorf("%s, once it is funded: %+v", class, tx.Status)
		}
		w.finishAll(t)
	}
}

// A bump that the account cannot afford does not prevent the rebroadcast of the affordable attempt
// before it that a pool has lost.
func TestUnfunded_Bump(t *testing.T) {
	t.Parallel()
	for _, lost := range []Class{Accepted, AlreadyKnown, Unavailable, Ambiguous,
		InsufficientFunds} {
		p := policy
		p.Bump = DefaultBumpPolicy{
			Enabled:     true,
			MinInterval: 10 * time.Minute,
			MaxAttempts: 5,
		}
		p.BumpPermille = 1125
		p.ResubmitMax = 6
		w := newWorld(1, p)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
		attempts := map[int]int{}
		for range 20 {
			b := until[Broadcast](t, w)
			attempts[b.Attempt.No]++
			answer := poor
			if b.Attempt.No == 1 {
				answer = Outcome{Class: lost}
			}
			w.do(t, b, answer, accepted)
			if tx := w.view.Open[0]; tx.Sub != Unfunded ||
				w.view.Now.Add(backoffMax).Before(tx.Due) {
				t.Fatalf("%s: %+v, due in %s", lost, tx.Status, tx.Due.Sub(w.view.Now))
			}
		}
		id := w.view.Open[0].ID
		if got := w.kinds[id]; attempts[1] < 8 || attempts[2] < 8 || len(attempts) != 2 ||
			w.view.Open[0].State != Stuck ||
			len(got) != 5 {
			t.Errorf("%s: attempts %v, reported %v", lost, attempts, got)
		}
		b := until[Broadcast](t, w)
		if b.Attempt.No == 1 {
			w.do(t, b, Outcome{Class: lost}, accepted)
			b = until[Broadcast](t, w)
		}
		if w.do(t, b, Outcome{Class: Accepted}, accepted); w.view.Open[0].State != Tracking ||
			w.view.Open[0].Sub != Pending {
			t.Errorf("%s: once it is funded: %+v", lost, w.view.Open[0].Status)
		}
	}
}
