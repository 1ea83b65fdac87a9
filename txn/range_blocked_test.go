package txn

import (
	"testing"
	"time"
)

// drive takes steps for a time. Broadcasts get the answer of their nonce.
func (w *world) drive(t *testing.T, d time.Duration, answer func(*Tx) Class) {
	t.Helper()
	end := w.view.Now.Add(d)
	for steps := 0; w.view.Now.Before(end); steps++ {
		if steps == 9999 {
			t.Fatal("no rest")
		}
		step := Decide(&w.view)
		var items []Broadcast
		switch s := step.(type) {
		case Rest:
			if s.Until.IsZero() {
				return
			}
			w.view.Now = s.Until
			continue
		case Broadcast:
			items = []Broadcast{s}
		case BroadcastRange:
			items = s.Items
		default:
			w.do(t, step, Outcome{Class: Accepted}, accepted)
			continue
		}
		answers := make([]Outcome, len(items))
		for i := range items {
			answers[i].Class = answer(items[i].Tx)
		}
		w.apply(t, SentRange(&w.view, BroadcastRange{items}, answers))
	}
}

// TestRange_BlockedLong_TriesNotCounted: a transaction is not given up for the time that it was
// blocked by a lower nonce.
func TestRange_BlockedLong_TriesNotCounted(t *testing.T) {
	t.Parallel()
	w := newPipelined(t, 3, 3, policy)
	known := func(*Tx) Class { return AlreadyKnown }
	w.drive(t, time.Duration(2*policy.ResubmitMax)*policy.ResubmitInterval, known)
	w.include(w.view.Open[0].newest().Hash, true)
	w.drive(t, 2*policy.ResubmitInterval, known)
	for i := range w.view.Open {
		if tx := &w.view.Open[i]; tx.State == Stuck {
			t.Errorf("nonce %d: %s after %d tries", *tx.Nonce, tx.Reason, tx.SubmitAttempts)
		}
	}
}

// TestRange_GapAbove_LowerNotExhausted: the early broadcasts for a node that lacks the lowest nonce
// do not make that STUCK before its own ones would.
func TestRange_GapAbove_LowerNotExhausted(t *testing.T) {
	t.Parallel()
	p := policy
	p.ResubmitInterval = time.Minute
	w := newPipelined(t, 2, 2, p)
	w.view.Open[1].LastOutcome, w.view.Open[1].Due = NonceGap, w.view.Now
	gap := func(tx *Tx) Class {
		if *tx.Nonce == 1 {
			return NonceGap
		}
		return AlreadyKnown
	}
	w.drive(t, time.Duration(p.ResubmitMax-2)*p.ResubmitInterval, gap)
	if tx := &w.view.Open[0]; tx.State == Stuck {
		t.Errorf("%s after %d tries", tx.Reason, tx.SubmitAttempts)
	}
	w.drive(t, 3*p.ResubmitInterval, gap)
	if tx := &w.view.Open[0]; tx.State != Stuck || tx.SubmitAttempts > p.ResubmitMax+1 {
		t.Errorf("%s after %d tries", tx.State, tx.SubmitAttempts)
	}
}

// TestRange_GapAboveDiagnosed_LowerNotRepeated: a lookup before the broadcast of the higher nonce
// does not repeat the response of the lower one at once.
func TestRange_GapAboveDiagnosed_LowerNotRepeated(t *testing.T) {
	t.Parallel()
	p := policy
	p.Diagnose = true
	w := newPipelined(t, 2, 2, p)
	w.view.Open[1].LastOutcome, w.view.Open[1].Due = NonceGap, w.view.Now
	w.drive(t, 2*p.ResubmitInterval, func(tx *Tx) Class {
		if *tx.Nonce == 1 {
			return NonceGap
		}
		return AlreadyKnown
	})
}

// TestRange_LargeData_Bounded: neither an allocation nor a broadcast grows with the data.
func TestRange_LargeData_Bounded(t *testing.T) {
	t.Parallel()
	w := newWorld(8, policy)
	w.limit(8)
	for i := range w.view.Queue {
		w.view.Queue[i].Payload.Data = make([]byte, maxRangeBytes/2)
	}
	s := until[PrepareRange](t, w)
	if len(s.Items) != 2 {
		t.Errorf("%d are prepared together", len(s.Items))
	}
	w = newWorld(8, policy)
	w.limit(8)
	until[BroadcastRange](t, w)
	for i := range w.view.Open {
		w.view.Open[i].Attempts[0].Raw = make([]byte, maxRangeBytes/3)
	}
	if b := until[BroadcastRange](t, w); len(b.Items) != 3 {
		t.Errorf("%d are broadcast together", len(b.Items))
	}
}
