package txn

import (
	"slices"
	"testing"
	"time"
)

// newPipelined is a world whose queue is allocated and broadcast, in one range.
func newPipelined(t *testing.T, queued, limit int, p Policy) *world {
	t.Helper()
	w := newWorld(queued, p)
	w.limit(limit)
	for range 20 {
		step := Decide(&w.view)
		if _, ok := step.(BroadcastRange); ok {
			w.do(t, step, Outcome{Class: Accepted}, accepted)
			return w
		}
		w.do(t, step, Outcome{Class: Accepted}, accepted)
	}
	t.Fatal("no range was broadcast")
	return nil
}

func TestRange_Backlog_OneChange(t *testing.T) {
	t.Parallel()
	w := newWorld(10, policy)
	w.limit(4)
	s := until[PrepareRange](t, w)
	if len(s.Items) != 4 {
		t.Fatalf("%d are prepared", len(s.Items))
	}
	c := PreparedRange(&w.view, s, w.prepareRange(s, accepted))
	if c.Take.Nonce != 0 || c.Take.More != 3 || len(c.Writes) != 4 {
		t.Fatalf("%+v", c.Take)
	}
	for i, x := range c.Writes {
		if *x.Next.Nonce != Nonce(i) || x.Next.Slot != int16(i) || x.Attempt.Nonce != Nonce(i) {
			t.Errorf("write %d: %+v", i, x.Next)
		}
	}
	w.apply(t, c)
	b, ok := Decide(&w.view).(BroadcastRange)
	if !ok || len(b.Items) != 4 {
		t.Fatalf("%+v", Decide(&w.view))
	}
	for i := range b.Items {
		if *b.Items[i].Tx.Nonce != Nonce(i) {
			t.Errorf("broadcast %d has nonce %d", i, *b.Items[i].Tx.Nonce)
		}
	}
}

func TestRange_LaterFails_FirstOnesTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(4, policy)
	w.limit(4)
	s := until[PrepareRange](t, w)
	done := w.prepareRange(s, accepted)
	done[2].Outcome = Outcome{Class: ExecutionReverted}
	c := PreparedRange(&w.view, s, done)
	if c.Take.More != 1 || len(c.Writes) != 2 {
		t.Fatalf("%+v", c)
	}
}

// TestRange_PreparedAboveOpen_ProvesNothing: an approval in the pool may be what the transfer
// needs.
func TestRange_PreparedAboveOpen_ProvesNothing(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{ExecutionReverted, InsufficientFunds, Invalid} {
		w := newPipelined(t, 3, 2, policy) // the third waits
		w.include(w.view.Open[0].newest().Hash, true)
		for range 2 * refusalBlocks {
			p := until[Prepare](t, w)
			w.do(t, p, Outcome{}, Preparation{Outcome: Outcome{Class: class}})
			w.head++
			w.view.Now = w.view.Now.Add(refusalAge)
		}
		if tx := w.view.Queue[0]; tx.Reason != ReasonLowerNonces || tx.Sub != BackingOff {
			t.Fatalf("%s: %+v", class, tx.Status)
		}
		w.include(w.view.Open[len(w.view.Open)-1].newest().Hash, true)
		for range 4 * refusalBlocks {
			if len(w.view.Queue) == 0 {
				break
			}
			if p, ok := Decide(&w.view).(Prepare); ok {
				w.do(t, p, Outcome{}, Preparation{Outcome: Outcome{Class: class}})
				w.head++
				w.view.Now = w.view.Now.Add(refusalAge)
				continue
			}
			if r, ok := Decide(&w.view).(Rest); ok {
				w.view.Now = r.Until
				continue
			}
			w.do(t, Decide(&w.view), Outcome{Class: Accepted}, accepted)
		}
		if funds := class == InsufficientFunds; funds != (len(w.view.Queue) == 1) {
			t.Errorf("%s: not judged as without lower nonces: %+v", class, w.view.Queue)
		}
	}
}

// TestRange_GapAbove_ProvesNothing: the lower ones are broadcast first, and no try is counted.
func TestRange_GapAbove_ProvesNothing(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{NonceGap, PoolFull, InsufficientFunds, ExecutionReverted} {
		w := newWorld(3, policy)
		w.limit(3)
		b := until[BroadcastRange](t, w)
		w.apply(t, SentRange(&w.view, b,
			[]Outcome{{Class: Accepted}, {Class: class}, {Class: class}}))
		for range 3 * policy.ResubmitMax {
			step := Decide(&w.view)
			switch s := step.(type) {
			case Rest:
				w.view.Now = s.Until
			case Broadcast:
				w.apply(t, Sent(&w.view, s, answerAbove(s.Tx, class)))
			case BroadcastRange:
				var answers []Outcome
				for _, item := range s.Items {
					answers = append(answers, answerAbove(item.Tx, class))
				}
				w.apply(t, SentRange(&w.view, s, answers))
			default:
				w.do(t, step, Outcome{Class: Accepted}, accepted)
			}
		}
		for _, tx := range w.view.Open[1:] {
			if tx.State != Allocated || tx.Sub != None || tx.Reason != "" ||
				tx.SubmitAttempts > 0 && !tx.Turn.Claimed {
				t.Errorf("%s: %+v", class, tx.Status)
			}
		}
		for i := range w.view.Open {
			w.include(w.view.Open[i].newest().Hash, true)
		}
		w.finishAll(t)
		if len(w.final) != 3 {
			t.Errorf("%s: %d final", class, len(w.final))
		}
	}
}

func answerAbove(tx *Tx, class Class) Outcome {
	if *tx.Nonce > 0 {
		return Outcome{Class: class}
	}
	return Outcome{Class: AlreadyKnown}
}

func TestRange_GapAbove_LowerBroadcastAgain(t *testing.T) {
	t.Parallel()
	w := newPipelined(t, 2, 2, policy)
	w.view.Now = w.view.Now.Add(policy.ResubmitInterval / 2)
	w.view.Open[1].LastOutcome, w.view.Open[1].Due = NonceGap, w.view.Now
	r, ok := Decide(&w.view).(Record)
	if !ok || len(r.Change.Writes) != 2 || r.Change.Writes[0].Tx != w.view.Open[0].ID {
		t.Fatalf("%+v", Decide(&w.view))
	}
}

// TestRange_Evicted_AllBroadcastAgain: a node that accepts the lowest again has lost them all.
func TestRange_Evicted_AllBroadcastAgain(t *testing.T) {
	t.Parallel()
	w := newPipelined(t, 4, 4, policy)
	for i := range w.view.Open[1:] {
		w.view.Open[i+1].Due = w.view.Now.Add(2 * policy.ResubmitInterval)
	}
	w.view.Now = w.view.Now.Add(policy.ResubmitInterval)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	b := until[BroadcastRange](t, w)
	if len(b.Items) != 3 || *b.Items[0].Tx.Nonce != 1 {
		t.Fatalf("%+v", b)
	}
}

func TestRange_Reorged_SuccessorsBroadcastNothingTaken(t *testing.T) {
	t.Parallel()
	w := newPipelined(t, 6, 4, policy)
	for i := range 2 {
		w.include(w.view.Open[i].newest().Hash, true)
	}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	for i := range 2 {
		delete(w.included, w.view.Open[i].newest().Hash)
	}
	b := until[BroadcastRange](t, w)
	for i := range 4 {
		if len(b.Items) != 4 || *b.Items[i].Tx.Nonce != Nonce(i) {
			t.Fatalf("%+v", b)
		}
	}
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	if _, ok := Decide(&w.view).(Rest); !ok || len(w.nonces) != 4 {
		t.Fatalf("%d nonces, then %+v", len(w.nonces), Decide(&w.view))
	}
}

// TestRange_InvalidInTheMiddle_FilledAtOnce: the nonces above keep their numbers and bytes.
func TestRange_InvalidInTheMiddle_FilledAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(3, policy)
	w.limit(3)
	b := until[BroadcastRange](t, w)
	above := b.Items[2].Attempt.Hash
	w.apply(t, SentRange(&w.view, b,
		[]Outcome{{Class: Accepted}, {Class: Invalid, Detail: "no"}, {Class: Accepted}}))
	s, ok := Decide(&w.view).(*Replace)
	if !ok || s.Kind != Cancel || *s.Tx.Nonce != 1 {
		t.Fatalf("%+v", Decide(&w.view))
	}
	w.finishAll(t)
	if len(w.final) != 3 || !w.final[2].State.Final() {
		t.Fatalf("%+v", w.final)
	}
	for _, tx := range w.final {
		switch *tx.Nonce {
		case 1:
			if tx.State != Failed || tx.Executed != No || tx.Reason != ReasonRejected {
				t.Errorf("%+v", tx.Status)
			}
		case 2:
			if tx.State != Confirmed || tx.TxHash != above {
				t.Errorf("%+v", tx.Status)
			}
		}
	}
}

// TestRange_InvalidAfterLostReply_Filled: no node has ever accepted it, and it blocks the others.
func TestRange_InvalidAfterLostReply_Filled(t *testing.T) {
	t.Parallel()
	p := policy
	p.ResubmitMax = 100
	w := newWorld(2, p)
	w.limit(2)
	w.apply(t, SentRange(&w.view, until[BroadcastRange](t, w),
		[]Outcome{{Class: Ambiguous}, {Class: Accepted}}))
	invalid := 0
	for range 100 {
		step := w.afterRead(t)
		if s, ok := step.(*Replace); ok {
			if s.Kind != Cancel || *s.Tx.Nonce != 0 {
				t.Fatalf("%+v", s)
			}
			break
		}
		answers := map[Nonce]Class{0: Invalid, 1: AlreadyKnown}
		switch s := step.(type) {
		case Broadcast:
			w.do(t, s, Outcome{Class: answers[*s.Tx.Nonce]}, accepted)
			if *s.Tx.Nonce == 0 {
				invalid++
			}
		case BroadcastRange:
			invalid++
			w.apply(t, SentRange(&w.view, s, []Outcome{{Class: Invalid}, {Class: AlreadyKnown}}))
		case Rest:
			w.view.Now = w.view.Now.Add(p.ResubmitInterval)
		default:
			w.do(t, step, Outcome{}, accepted)
		}
	}
	if invalid != maxUncertain-1 { // the first response was lost
		t.Fatalf("%d times invalid before the cancel, want %d", invalid, maxUncertain-1)
	}
	w.finishAll(t)
	for _, tx := range w.final {
		if want := map[Nonce]State{0: Failed, 1: Confirmed}[*tx.Nonce]; tx.State != want {
			t.Errorf("nonce %d: %+v", *tx.Nonce, tx.Status)
		}
	}
}

func TestRange_Bump_LowestWithinBudget(t *testing.T) {
	t.Parallel()
	p := policy
	p.BumpBudget, p.BumpPermille = 2, 1125
	p.Bump = DefaultBumpPolicy{Enabled: true, MinInterval: time.Second, MaxAttempts: 9}
	w := newPipelined(t, 4, 4, p)
	w.market = Fees{Cap: *new(Wei).SetUint64(9), Tip: *new(Wei).SetUint64(9)}
	w.view.Now = w.view.Now.Add(p.ResubmitInterval)
	var bumped []Nonce
	for range 12 {
		step := Decide(&w.view)
		if s, ok := step.(*Replace); ok {
			bumped = append(bumped, *s.Tx.Nonce)
		}
		w.do(t, step, Outcome{Class: Accepted}, accepted)
	}
	if !slices.Equal(bumped, []Nonce{0, 1}) {
		t.Errorf("bumped %v", bumped)
	}
}

// TestRange_HigherIncluded_LowerDoubted: its nonce is used, and not by its attempts.
func TestRange_HigherIncluded_LowerDoubted(t *testing.T) {
	t.Parallel()
	w := newPipelined(t, 3, 3, policy)
	w.include(w.view.Open[1].newest().Hash, true)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if look, ok := Decide(&w.view).(ReadAccount); !ok || *look.Tx.Nonce != 0 {
		t.Fatalf("%+v", Decide(&w.view))
	}
}

// TestRange_SeveralLost_EachRecorded: another program used two nonces in flight.
func TestRange_SeveralLost_EachRecorded(t *testing.T) {
	t.Parallel()
	w := newPipelined(t, 4, 4, policy)
	w.elsewhere = 2
	w.include(w.view.Open[2].newest().Hash, true)
	for range 60 {
		step := Decide(&w.view)
		if r, ok := step.(Rest); ok {
			if w.head++; !r.Until.IsZero() {
				w.view.Now = r.Until
			}
		}
		w.do(t, step, Outcome{Class: NonceTooLow}, accepted)
	}
	if w.view.Cursor.Protected == nil || w.view.Cursor.Protected.Reason != ReasonNonceElsewhere {
		t.Fatalf("%+v", w.view.Cursor)
	}
	for i := range 2 {
		if tx := w.view.Open[i]; tx.State != Stuck || tx.Reason != ReasonNonceElsewhere {
			t.Errorf("nonce %d: %+v", *tx.Nonce, tx.Status)
		}
	}
}

func TestRange_LimitLowered_WaitsForRelease(t *testing.T) {
	t.Parallel()
	w := newPipelined(t, 8, 4, policy)
	w.limit(2)
	w.include(w.view.Open[0].newest().Hash, true)
	w.include(w.view.Open[1].newest().Hash, true)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if _, ok := Decide(&w.view).(Rest); !ok {
		t.Fatalf("%+v", Decide(&w.view))
	}
	w.include(w.view.Open[2].newest().Hash, true)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if s, ok := Decide(&w.view).(Prepare); !ok || s.Slot > 1 {
		t.Fatalf("%+v", Decide(&w.view))
	}
}

func TestRange_FailedOver_OneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(4, policy)
	w.limit(4)
	w.view.FailedOver = true
	w.do(t, until[Prepare](t, w), Outcome{}, accepted)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	if _, ok := Decide(&w.view).(Rest); !ok {
		t.Fatalf("%+v", Decide(&w.view))
	}
}

func TestCommitted(t *testing.T) {
	t.Parallel()
	w := newPipelined(t, 3, 3, policy)
	for i := range w.view.Open {
		w.view.Open[i].Attempts[0].Fees.Cap.SetUint64(2)
		w.view.Open[i].Payload.Value.SetUint64(5)
	}
	w.view.Open[0].Sub = Included
	if got := w.view.Committed(); got.Uint64() != 2*(21000*2+5) {
		t.Errorf("committed %s", got.Dec())
	}
}
