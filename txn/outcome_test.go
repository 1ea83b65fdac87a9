package txn

import (
	"testing"
	"time"
)

func TestSent_Pooled(t *testing.T) {
	t.Parallel()
	for class, pooled := range map[Class]int{NonceGap: 0, Underpriced: 0, FeeCapBelowBaseFee: 0,
		InsufficientFunds: 0, PoolFull: 0, ExecutionReverted: 0, WrongChain: 0, Invalid: 0,
		TypeNotSupported: 0, Unavailable: 0, RateLimited: 0, Unauthorized: 0, Accepted: 1,
		AlreadyKnown: 1, Ambiguous: 1, NonceTooLow: 1, ReplacementUnderpriced: 1} {
		b := until[Broadcast](t, newWorld(1, policy))
		if got := afterOutcome(&b, Outcome{Class: class}).Pooled; got != pooled {
			t.Errorf("%s: %d", class, got)
		}
	}
}

func TestSent_OlderAttempt_KeepsNewestAccepted(t *testing.T) {
	t.Parallel()
	b := until[Broadcast](t, newWorld(1, policy))
	b.Tx.Accepted, b.Tx.Pooled = 3, 3
	if next := afterOutcome(&b, Outcome{Class: Accepted}); next.Accepted != 3 || next.Pooled != 3 {
		t.Errorf("%+v", next)
	}
}

// A nonce-too-low response causes an account read, but not while a receipt of ours is unknown.
func TestSent_NonceTooLow_ReadsAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: NonceTooLow}, accepted)
	w.unknown[b.Attempt.Hash] = true
	if s, ok := Decide(&w.view).(Rest); !ok {
		t.Errorf("%T while the receipt is unknown", s)
	}
	delete(w.unknown, b.Attempt.Hash)
	if s, ok := Decide(&w.view).(ReadAccount); !ok {
		t.Errorf("%T", s)
	}
}

// A node's retry hint is honoured, up to the interval.
func TestSent_RetryAfter(t *testing.T) {
	t.Parallel()
	for hint, want := range map[time.Duration]time.Duration{20 * time.Second: 20 * time.Second,
		time.Hour: policy.ResubmitInterval} {
		w := newWorld(1, policy)
		w.do(t, until[Broadcast](t, w), Outcome{Class: RateLimited, RetryAfter: hint}, accepted)
		if got := w.view.Open[0].Due.Sub(w.view.Now); got != want {
			t.Errorf("%s: %s", hint, got)
		}
	}
}

// A node that still has an attempt causes no event, and neither does a failed first broadcast.
func TestSent_AlreadyKnown_NoEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Unavailable}, accepted)
	if n := w.view.Open[0].SubmitAttempts; n != 0 {
		t.Errorf("%d broadcasts are counted", n)
	}
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.do(t, until[Broadcast](t, w), Outcome{Class: AlreadyKnown}, accepted)
	if n := w.kindCount(EventResubmitted); n != 0 {
		t.Errorf("RESUBMITTED %d times", n)
	}
}

// An invalid transaction is cancelled at once. Under a protection it is rebroadcast an interval
// later. An invalid cancel does not make its transaction invalid.
func TestSent_Invalid_Delay(t *testing.T) {
	t.Parallel()
	for _, p := range []*Protected{nil, {ID: 1, Reason: ProtectByOperator}} {
		w := newWorld(1, policy)
		b := until[Broadcast](t, w)
		w.view.Cursor.Protected = p
		w.do(t, b, Outcome{Class: Invalid}, accepted)
		want := w.view.Now
		if p != nil {
			want = want.Add(policy.ResubmitInterval)
		}
		if tx := w.view.Open[0]; !tx.Due.Equal(want) || tx.Reason != ReasonRejected {
			t.Errorf("%+v: due in %s, %+v", p, tx.Due.Sub(w.view.Now), tx.Status)
		}
		if p != nil {
			continue
		}
		w.do(t, until[*Replace](t, w), Outcome{}, accepted)
		if tx := w.view.Open[0]; tx.Reason != ReasonRejected || tx.LastError == "" {
			t.Errorf("its cancel is signed without a reason: %+v", tx.Status)
		}
	}
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Unavailable}, accepted)
	w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
	c := until[Broadcast](t, w)
	w.do(t, c, Outcome{Class: Invalid, Detail: "no"}, accepted)
	if tx := w.view.Open[0]; c.Attempt.Kind != Cancel || tx.Rejected != "" {
		t.Errorf("%s %+v", c.Attempt.Kind, tx.Status)
	}
}

// A broadcast is counted when claimed, once for repeated claims. An accepted one takes a
// transaction out of STUCK and starts the count again.
func TestSent_SubmitAttempts(t *testing.T) {
	t.Parallel()
	w, _ := sentWorld(t, 1)
	tx := w.view.Open[0]
	first := w.view.claim(&tx, &tx.Status, "", time.Minute)[0]
	tx.Status, tx.Turn = first.Next, first.Turn
	if again := w.view.claim(&tx, &tx.Status, "", time.Minute)[0]; first.Next.SubmitAttempts != 2 ||
		again.Next.SubmitAttempts != 2 {
		t.Errorf("%d, then %d", first.Next.SubmitAttempts, again.Next.SubmitAttempts)
	}
	tx.State = Stuck
	tx.Reason = ReasonFeeCapReached
	tx.Accepted = 0
	tx.SubmitAttempts = 9
	if next := Sent(&w.view, Broadcast{Tx: &tx, Attempt: tx.newest()},
		Outcome{Class: Accepted}).Writes[0].Next; next.State != Tracking ||
		next.SubmitAttempts != 1 {
		t.Errorf("%+v", next)
	}
}

// TestWasBroadcast: attempts that a new owner assumes broadcast, so that it reads the account
// first.
func TestWasBroadcast(t *testing.T) {
	t.Parallel()
	original, bump := []Attempt{
		{No: 1, Kind: Original},
	}, []Attempt{
		{No: 1, Kind: Original},
		{No: 2, Kind: Bump},
	}
	for name, c := range map[string]struct {
		tx   Tx
		want bool
	}{
		"nothing signed": {Tx{Status: Status{SubmitAttempts: 1}}, false},
		"recorded":       {Tx{Attempts: original}, false},
		"counted":        {Tx{Attempts: original, Status: Status{SubmitAttempts: 1}}, true},
		"answered, not counted": {Tx{Attempts: original, Status: Status{LastOutcome: Unavailable}},
			true},
		"replaced, not answered": {Tx{Attempts: bump}, true},
		"in a block": {Tx{Attempts: bump,
			Status: Status{Sub: Included, SubmitAttempts: 1}}, false},
	} {
		for i := range c.tx.Attempts {
			c.tx.Nonce = &c.tx.Attempts[i].Nonce
		}
		if got := c.tx.WasBroadcast(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A transaction that no node examined is not bumped: the policy is not asked.
func TestBump_Unexamined_NotAsked(t *testing.T) {
	t.Parallel()
	for class, bumped := range map[Class]bool{Unavailable: false, RateLimited: false,
		Unauthorized: false, Ambiguous: true} {
		p := policy
		p.Bump, p.BumpPermille = always{}, 1125
		w := newWorld(1, p)
		w.do(t, until[Broadcast](t, w), Outcome{Class: class}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
		if _, ok := w.afterRead(t).(*Replace); ok != bumped {
			t.Errorf("%s: %T", class, Decide(&w.view))
		}
	}
}

// A transaction with a lost nonce is not replaced under the protection that this causes. When it
// ends, the chain has shown that the nonce is free, and normal rules apply.
func TestBump_LostNonce_NotReplaced(t *testing.T) {
	t.Parallel()
	w := lostNonce(t)
	w.view.Policy.Bump, w.view.Policy.BumpPermille = always{}, 1125
	for _, lost := range []bool{true, false} {
		w.view.Now = w.view.Now.Add(time.Hour)
		if _, ok := w.afterRead(t).(*Replace); ok == lost {
			t.Errorf("lost %t: %T", lost, Decide(&w.view))
		}
		w.view.Cursor.Protected = nil
	}
}

// A protection allows none of the actions of a stuck policy, so it is not asked.
func TestStuckPolicy_Protected_NotAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.untilStuck(t, AlreadyKnown)
	w.view.Policy.Stuck, w.answer = true, StuckCancel
	w.view.Cursor.Protected = &Protected{ID: 1, Reason: ProtectByOperator}
	w.view.Now = w.view.Now.Add(time.Hour)
	w.do(t, until[Broadcast](t, w), Outcome{Class: AlreadyKnown}, accepted)
	if len(w.policyAsked) > 0 {
		t.Errorf("asked %v", w.policyAsked)
	}
}
