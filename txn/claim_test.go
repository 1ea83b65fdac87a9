package txn

import (
	"strings"
	"testing"
	"time"
)

// A rebroadcast is counted and scheduled in the ledger before it starts, so the owner after a crash
// waits for an interval. It is counted once, and not at all if no node examined the bytes.
func TestBroadcast_ClaimedFirst(t *testing.T) {
	t.Parallel()
	for class, count := range map[Class]int{Accepted: 2, Ambiguous: 2, Unavailable: 1} {
		w := newWorld(1, policy)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		version := w.view.Open[0].Version
		w.view.Now = w.view.Now.Add(time.Hour)
		b, ok := w.afterClaim(t).(Broadcast)
		if tx := w.view.Open[0]; !ok || tx.SubmitAttempts != 2 || tx.Version != version ||
			!tx.Due.Equal(w.view.Now.Add(policy.ResubmitInterval)) {
			t.Fatalf("%T %+v due %s", Decide(&w.view), tx.Status, tx.Due)
		}
		crashed := w.view
		crashed.Open = []Tx{w.view.Open[0]}
		crashed.Open[0].Turn = Turn{} // memory of the old owner
		if r, ok := Decide(&crashed).(Rest); !ok ||
			!r.Until.Equal(w.view.Now.Add(policy.ResubmitInterval)) {
			t.Errorf("%T after a crash", Decide(&crashed))
		}
		w.do(t, b, Outcome{Class: class}, accepted)
		if tx := w.view.Open[0]; tx.SubmitAttempts != count || tx.Turn != (Turn{}) {
			t.Errorf("%s: %+v %+v", class, tx.Status, tx.Turn)
		}
	}
}

// A stuck policy whose action fails is asked once per interval, for each kind of failure.
func TestStuckPolicy_NoEffect_AskedOncePerInterval(t *testing.T) {
	t.Parallel()
	for _, action := range []StuckAction{StuckBump, StuckCancel} {
		for name, p := range map[string]Preparation{
			"no fees":    {Outcome: Outcome{Class: Ambiguous}},
			"no signer":  {Outcome: Outcome{Class: Accepted}, SignErr: ErrUnavailable},
			"at the cap": {Outcome: Outcome{Class: FeeCapBelowBaseFee}},
		} {
			w := newWorld(1, policy)
			w.untilStuck(t, AlreadyKnown)
			w.view.Policy.Stuck, w.answer = true, action
			begun, steps := w.view.Now, 0
			for w.view.Now.Before(begun.Add(10 * policy.ResubmitInterval)) {
				step := Decide(&w.view)
				if r, ok := step.(Rest); ok {
					w.view.Now = r.Until
				}
				if steps++; steps > 200 {
					t.Fatalf("%s, %s: a loop without rest", action, name)
				}
				w.do(t, step, Outcome{Class: AlreadyKnown}, p)
			}
			if len(w.policyAsked) > 11 {
				t.Errorf("%s, %s: asked %d times in ten intervals", action, name,
					len(w.policyAsked))
			}
		}
	}
}

// A transaction past its maximum age is STUCK once, although no broadcast was counted. It is still
// rebroadcast, and an operator's RETRY broadcasts before the event repeats.
func TestMaxAge_Event(t *testing.T) {
	t.Parallel()
	p := policy
	p.ResubmitMaxAge = time.Hour
	for class, unseen := range map[Class]bool{Unavailable: true, RateLimited: false,
		Accepted: false} {
		w := newWorld(1, p)
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: class}, accepted)
		w.view.Policy.ResubmitMax = 1000
		w.unknown[b.Attempt.Hash] = unseen // receipts are unknown during an outage
		for w.kindCount(EventStuck) == 0 {
			step := Decide(&w.view)
			if r, ok := step.(Rest); ok {
				if !r.Until.After(w.view.Now) {
					t.Fatalf("%s: no time to wait for", class)
				}
				w.view.Now = r.Until
			}
			w.do(t, step, Outcome{Class: class}, accepted)
		}
		tx := w.view.Open[0]
		if tx.Reason != ReasonMaxAge || tx.LastError == "" ||
			!w.view.Now.Equal(tx.Attempts[0].At.Add(time.Hour)) {
			t.Fatalf("%s: %+v after %s", class, tx.Status, w.view.Now.Sub(tx.Attempts[0].At))
		}
		w.unknown[b.Attempt.Hash] = false
		w.do(t, until[Broadcast](t, w), Outcome{Class: Unavailable}, accepted)
		w.view.Commands = []Command{{ID: 1, Kind: CommandResolve, Action: ActionRetry, Tx: tx.ID}}
		w.do(t, w.afterRead(t), Outcome{}, accepted)
		w.do(t, w.afterRead(t).(Broadcast), Outcome{Class: Accepted}, accepted)
		w.do(t, w.afterRead(t), Outcome{}, accepted)
		if w.kindCount(EventStuck) != 2 {
			t.Errorf("%s: %v", class, w.kinds)
		}
		w.include(b.Attempt.Hash, true)
		w.finishAll(t)
		if w.final[0].State != Confirmed {
			t.Errorf("%s: %+v", class, w.final[0].Status)
		}
	}
	w := newWorld(1, policy) // no limit
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.view.Now = w.view.Now.Add(10000 * time.Hour)
	if w.afterRead(t); w.kindCount(EventStuck) > 0 {
		t.Error("past its maximum age without a limit")
	}
}

// A policy that returns RETRY past the maximum age is asked and causes a broadcast once per
// interval.
func TestMaxAge_RetryPolicy_OncePerInterval(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{AlreadyKnown, InsufficientFunds, Underpriced, Ambiguous,
		Unavailable} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			p := policy
			p.ResubmitMaxAge, p.ResubmitMax = time.Hour, 1000
			w := newWorld(1, p)
			w.view.Policy.Stuck, w.answer = true, StuckRetry
			w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
			w.view.Now = w.view.Now.Add(2 * time.Hour)
			begun := w.view.Now
			steps := 0
			sends := 0
			for w.view.Now.Before(begun.Add(10 * p.ResubmitInterval)) {
				step := Decide(&w.view)
				if r, ok := step.(Rest); ok {
					w.view.Now = r.Until
				}
				if _, ok := step.(Broadcast); ok {
					sends++
				}
				if steps++; steps > 300 {
					t.Fatalf("no rest: %d broadcasts, policy asked %d times after %s", sends,
						len(w.policyAsked), w.view.Now.Sub(begun))
				}
				w.do(t, step, Outcome{Class: class}, accepted)
			}
			if len(w.policyAsked) < 9 || len(w.policyAsked) > 11 || sends < 9 || sends > 11 {
				t.Errorf("asked %d times, %d broadcasts in ten intervals", len(w.policyAsked),
					sends)
			}
		})
	}
}

// Endpoints that contradict each other about the queue head cause no faster retries or events.
func TestPrepare_ContradictingEndpoints(t *testing.T) {
	t.Parallel()
	for _, turns := range [][]Class{{InsufficientFunds, Unavailable},
		{InsufficientFunds, FeeCapBelowBaseFee}, {InsufficientFunds, ExecutionReverted},
		{ExecutionReverted, Invalid}} {
		w := newWorld(1, policy)
		id := w.view.Queue[0].ID
		begun := w.view.Now
		tries := 0
		for w.view.Now.Before(begun.Add(time.Hour)) {
			step := Decide(&w.view)
			if r, ok := step.(Rest); ok {
				w.view.Now = r.Until
			}
			if _, ok := step.(Prepare); ok {
				tries++
				w.view.Head++
			}
			w.do(t, step, Outcome{}, Preparation{Outcome: Outcome{Class: turns[tries%2]}})
		}
		if events := len(w.kinds[id]); len(w.view.Queue) != 1 || events > 1000 {
			t.Errorf("%v: %d events and %d tries in an hour, %d in the queue", turns, events, tries,
				len(w.view.Queue))
		}
	}
}

// TestHasUnusedSlot: hasUnusedSlot agrees with the allocation under any limit. It does not know of
// reorgs of released transactions: then it returns true and nothing is allocated.
func TestHasUnusedSlot(t *testing.T) {
	t.Parallel()
	at := func(slot int16,
		released bool) Tx {
		return Tx{Status: Status{Slot: slot, Released: released}}
	}
	for name, c := range map[string]struct {
		limit int
		open  []Tx
		slot  int16
		want  bool
	}{
		"nothing open":      {1, nil, 0, true},
		"in flight":         {1, []Tx{at(0, false)}, 0, false},
		"released":          {1, []Tx{at(0, true), at(0, true)}, 0, true},
		"one after another": {1, []Tx{at(0, true), at(0, false)}, 0, false},
		"two of three":      {3, []Tx{at(0, false), at(1, true), at(2, false)}, 1, true},
		"all of three":      {3, []Tx{at(2, false), at(0, false), at(1, false)}, 0, false},
	} {
		s := Submitter{Limit: c.limit}
		if slot, got := unusedSlot(s, c.open); slot != c.slot || got != c.want ||
			HasUnusedSlot(s, c.open) != c.want {
			t.Errorf("%s: slot %d, %v; want %d, %v", name, slot, got, c.slot, c.want)
		}
	}
}

// A transaction whose receipt cannot be read is STUCK with that reason and the fault, once, also
// without a maximal age. It is final as soon as the receipt is readable.
func TestReceiptUnreadable_Stuck(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.view.Policy.ResubmitMax = 1000
	w.unknown[b.Attempt.Hash], w.failing = true, w.view.Now
	for w.kindCount(EventStuck) == 0 {
		step := Decide(&w.view)
		if r, ok := step.(Rest); ok {
			if !r.Until.After(w.view.Now) {
				t.Fatal("no time to wait for")
			}
			w.view.Now = r.Until
		}
		w.do(t, step, Outcome{Class: AlreadyKnown}, accepted)
	}
	tx := w.view.Open[0]
	if tx.State != Stuck || tx.Reason != ReasonReceiptUnreadable ||
		!strings.Contains(tx.LastError, "no status") ||
		!w.view.Now.Equal(w.failing.Add(unreadableAge)) {
		t.Fatalf("%+v after %s", tx.Status, w.view.Now.Sub(w.failing))
	}
	for range 50 { // it is still rebroadcast, without further events
		step := Decide(&w.view)
		if r, ok := step.(Rest); ok {
			w.view.Now = r.Until
		}
		w.do(t, step, Outcome{Class: AlreadyKnown}, accepted)
	}
	if w.kindCount(EventStuck) != 1 {
		t.Errorf("%v", w.kinds)
	}
	w.include(b.Attempt.Hash, true)
	w.finishAll(t)
	if w.final[0].State != Confirmed {
		t.Errorf("%+v", w.final[0].Status)
	}
}

// A receipt that becomes readable in time has no effect.
func TestReceiptUnreadable_ShortFault_NoEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.unknown[b.Attempt.Hash], w.failing = true, w.view.Now
	w.view.Now = w.view.Now.Add(unreadableAge - time.Second)
	if at, _ := w.view.unreadableDueAt(&w.view.Open[0]); !at.Equal(w.failing.Add(unreadableAge)) {
		t.Errorf("due at %s", at)
	}
	w.include(b.Attempt.Hash, true)
	w.finishAll(t)
	if w.kindCount(EventStuck) != 0 || w.final[0].State != Confirmed {
		t.Errorf("%v, %+v", w.kinds, w.final[0].Status)
	}
}
