package txn

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// After any fork, a watcher has the chain's blocks above the receipt. A change of reported blocks
// is reported as one complete new list.
func TestConfirmations_Events(t *testing.T) {
	t.Parallel()
	p := policy
	p.ReportConfirmations = true
	w := newWorld(1, p)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.include(b.Attempt.Hash, true)
	w.head++
	w.settle(t)
	w.head++
	w.settle(t)
	first := w.included[b.Attempt.Hash].BlockNumber + 1
	want := []BlockRef{{first, w.blockHash(first)}, {first + 1, w.blockHash(first + 1)}}
	if got := w.reported[b.Tx.ID]; !slices.Equal(got, want) ||
		w.kindCount(EventConfirmations) != 2 {
		t.Fatalf("%v, want %v", got, want)
	}
	w.forkAt = first + 1 // the newest block is replaced
	step := Decide(&w.view).(Record)
	if write := step.Change.Writes[0]; !write.NewFork || len(write.Above) != 2 ||
		write.Above[1].Hash != w.blockHash(first+1) {
		t.Fatalf("%+v", write)
	}
	w.settle(t)
	want[1].Hash = w.blockHash(first + 1)
	if got := w.reported[b.Tx.ID]; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	delete(w.included, b.Attempt.Hash) // now its own block is reorged out
	w.settle(t)
	if got := w.reported[b.Tx.ID]; len(got) != 0 || len(w.view.Open[0].Above) != 0 {
		t.Fatalf("%v", got)
	}
	w.finishAll(t)
	if got := w.reported[b.Tx.ID]; len(got) != int(policy.Confirmations) ||
		w.final[0].State != Confirmed {
		t.Fatalf("%v", got)
	}
}

func TestConfirmations_AnyForks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		reported := []BlockRef{}
		tx := Tx{Status: Status{State: Tracking, Sub: Included, Version: 1}}
		v := View{Policy: Policy{ReportConfirmations: true}}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			var above []BlockRef
			for n := range rapid.IntRange(0, 5).Draw(t, "length") {
				above = append(above,
					BlockRef{uint64(n), Hash{byte(rapid.IntRange(0, 1).Draw(t, "branch"))}})
			}
			w := reportConfirmations(&v, &tx, &Inclusion{Above: above})
			if w == nil {
				continue
			}
			if w[0].NewFork {
				reported = nil
			}
			reported = append(reported, w[0].Above...)
			tx.Status = w[0].Next
			if !slices.Equal(reported, above) {
				t.Fatalf("reported %v, on chain %v", reported, above)
			}
		}
	})
}

// reorgedFinal is a world whose first transaction was final before a reorg removed its block.
func reorgedFinal(t *testing.T) *world {
	t.Helper()
	w := newWorld(1, policy)
	w.finishAll(t)
	tx := w.final[0]
	w.final = nil
	w.setAudited(tx)
	w.forkAt = tx.Receipt.BlockNumber
	w.view.Canonical = func(n uint64) (Hash, bool) { return w.blockHash(n), n >= w.forkAt-10 }
	delete(w.included, tx.newest().Hash)
	return w
}

func TestReorgedFinal(t *testing.T) {
	t.Parallel()
	w := reorgedFinal(t)
	hash := w.audited[0].newest().Hash
	id, _ := NewTxID(noon, 1)
	w.view.Queue = []Tx{
		{ID: id, Submitter: 1, QueueSeq: 9, Status: Status{State: Queued, Version: 1}},
	}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	tx := w.view.Open[0]
	if tx.State != Stuck || tx.Reason != ReasonReorgedFinal || tx.Executed != Unknown ||
		!tx.Released ||
		protected(w) == nil ||
		protected(w).Reason != ReasonReorgedFinal {
		t.Fatalf("%+v %+v", tx.Status, protected(w))
	}
	w.view.Now = w.view.Now.Add(time.Hour)
	b, ok := Decide(&w.view).(Broadcast)
	if !ok || b.Attempt.Hash != hash {
		t.Fatalf("%T", Decide(&w.view))
	}
	w.finishAll(t) // it is included and final again; then the queue continues
	if len(w.final) != 2 || w.final[0].TxHash != hash || w.final[0].State != Confirmed ||
		protected(w) != nil ||
		w.final[1].ID != id {
		t.Fatalf("%+v %+v", w.final, protected(w))
	}
}

func TestReorgedFinal_BelowView_Ignored(t *testing.T) {
	t.Parallel()
	w := reorgedFinal(t)
	w.view.Canonical = func(uint64) (Hash, bool) { return Hash{}, false }
	if _, ok := Decide(&w.view).(Rest); !ok {
		t.Fatalf("%T", Decide(&w.view))
	}
}

func TestStuckPolicy(t *testing.T) {
	t.Parallel()
	for answer, done := range map[StuckAction]func(*world, Step) bool{
		"":         func(_ *world, s Step) bool { _, ok := s.(Broadcast); return ok },
		StuckWait:  func(_ *world, s Step) bool { _, ok := s.(Broadcast); return ok },
		StuckRetry: func(w *world, s Step) bool { return w.view.Open[0].State == Tracking },
		StuckBump: func(_ *world, s Step) bool {
			r, ok := s.(*Replace)
			return ok &&
				r.Kind == Bump
		},
		StuckCancel: func(w *world, s Step) bool {
			r, ok := s.(*Replace)
			return ok &&
				r.Kind == Cancel
		},
	} {
		w := newWorld(1, policy)
		w.untilStuck(t, Ambiguous)
		w.view.Policy.Stuck, w.answer = true, answer
		w.view.Now = w.view.Now.Add(time.Hour)
		claim, ok := w.afterRead(t).(Record)
		if !ok || claim.Change.Writes[0].Delay != policy.ResubmitInterval ||
			claim.Change.Writes[0].Kind != "" {
			t.Fatalf("the asking is not claimed first: %+v", Decide(&w.view))
		}
		w.do(t, claim, Outcome{}, accepted)
		w.do(t, Decide(&w.view), Outcome{}, accepted)
		if len(w.policyAsked) != 1 {
			t.Fatalf("asked %v", w.policyAsked)
		}
		step := Decide(&w.view)
		if _, ok := step.(Record); ok {
			w.do(t, step, Outcome{}, accepted)
			step = Decide(&w.view)
		}
		if !done(w, step) || len(w.policyAsked) != 1 {
			t.Errorf("%q leads to %T, asked %v", answer, step, w.policyAsked)
		}
		w.finishAll(t)
		if len(w.final) != 1 {
			t.Errorf("%q: %d attempts", answer, len(w.view.Open[0].Attempts))
		}
	}
}

func TestFailurePolicy_Pause(t *testing.T) {
	t.Parallel()
	for choice, want := range map[OnFailure]SubmitterStatus{Continue: Active, "": Active,
		PauseOnFailure: Paused} {
		w := newWorld(1, policy)
		w.view.Submitter.OnFailure = choice
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		w.include(b.Attempt.Hash, false)
		w.finishAll(t)
		if w.final[0].Executed != Reverted || w.view.Submitter.Status != want {
			t.Errorf("%q: %s", choice, w.view.Submitter.Status)
		}
	}
}

// The inclusion pauses the submitter, because the slot is free long before the revert is final. A
// reverted cancel does not pause.
func TestFailurePolicy_Pause_NextNotSent(t *testing.T) {
	t.Parallel()
	for name, headsBefore := range map[string]uint64{"seen at once": 0,
		"final before an owner read it": policy.Confirmations + 1} {
		w := newWorld(2, policy)
		w.view.Submitter.OnFailure = PauseOnFailure
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		w.include(b.Attempt.Hash, false)
		w.head += headsBefore
		for range 20 {
			step := Decide(&w.view)
			if _, ok := step.(Rest); ok {
				w.head++
			}
			w.do(t, step, Outcome{Class: Accepted}, accepted)
		}
		if len(w.final) != 1 || w.final[0].Executed != Reverted ||
			w.view.Submitter.Status != Paused ||
			len(w.nonces) != 1 {
			t.Errorf("%s: %s with nonces %v taken", name, w.view.Submitter.Status, w.nonces)
		}
	}
	w := newWorld(1, policy)
	w.view.Submitter.OnFailure = PauseOnFailure
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.view.Open[0].Attempts[0].Kind = Cancel
	w.include(b.Attempt.Hash, false)
	if w.finishAll(t); w.view.Submitter.Status != Active {
		t.Error("a cancel that reverted pauses the queue")
	}
}

func TestPrepareMaxAge(t *testing.T) {
	t.Parallel()
	p := policy
	p.PrepareMaxAge = time.Hour
	w := newWorld(2, p)
	for len(w.final) == 0 {
		w.do(t, until[Prepare](t, w), Outcome{},
			Preparation{Outcome: Outcome{Class: InsufficientFunds}})
		w.view.Now = w.view.Now.Add(time.Minute)
	}
	if f := w.final[0]; f.Reason != ReasonPrepareTimeout || f.Executed != No || f.Nonce != nil {
		t.Fatalf("%+v", f.Status)
	}
	w.finishAll(t)
	if len(w.final) != 2 || w.final[1].State != Confirmed {
		t.Fatal("the one behind it does not go on")
	}
}

// Time paused or protected does not count.
func TestPrepareMaxAge_Paused_NotCounted(t *testing.T) {
	t.Parallel()
	p := policy
	p.PrepareMaxAge = time.Hour
	for name, stop := range map[string]func(w *world, on bool){
		"paused": func(w *world, on bool) {
			w.view.Submitter.Status = map[bool]SubmitterStatus{true: Paused, false: Active}[on]
		},
		"protected": func(w *world, on bool) {
			if w.view.Cursor.Protected = nil; on {
				w.view.Cursor.Protected = &Protected{ID: 1, Reason: ProtectByOperator}
			}
		},
	} {
		w := newWorld(1, p)
		poor := Preparation{Outcome: Outcome{Class: InsufficientFunds}}
		wait := func(total time.Duration) {
			end := w.view.Now.Add(total)
			for w.view.Now.Before(end) && len(w.final) == 0 {
				w.do(t, Decide(&w.view), Outcome{}, poor)
				w.do(t, Decide(&w.view), Outcome{}, poor)
				w.view.Now = w.view.Now.Add(time.Minute)
			}
		}
		wait(50 * time.Minute)
		stop(w, true)
		wait(10 * time.Hour)
		if _, ok := Decide(&w.view).(Rest); !ok {
			t.Errorf("%s: %T", name, Decide(&w.view))
		}
		stop(w, false)
		wait(50 * time.Minute)
		if len(w.final) > 0 || len(w.view.Queue) != 1 {
			t.Errorf("%s: %+v", name, w.final)
		}
		if wait(20 * time.Minute); len(w.final) != 1 || w.final[0].Reason != ReasonPrepareTimeout {
			t.Errorf("%s: it waits for ever", name)
		}
	}
}

func TestDiagnose_BeforeRebroadcast(t *testing.T) {
	t.Parallel()
	p := policy
	p.Diagnose = true
	w := newWorld(1, p)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted) // the first has none
	w.view.Head++
	until[Diagnose](t, w)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if _, ok := w.afterClaim(t).(Broadcast); !ok || w.view.Open[0].Diagnosis != InPool {
		t.Fatalf("%T", Decide(&w.view))
	}
}

// No command replaces a reorged final transaction before it is included again, also after an
// operator ends the protection.
func TestReorgedFinal_NotReplaced(t *testing.T) {
	t.Parallel()
	w := reorgedFinal(t)
	hash := w.audited[0].newest().Hash
	w.view.Policy = bumping(policy)
	w.view.Policy.Stuck, w.answer = true, StuckBump
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	w.view.Cursor.Protected = nil
	for _, c := range []Command{{ID: 1, Kind: CommandSpeedUp}, {ID: 2, Kind: CommandCancel}} {
		c.Tx = w.view.Open[0].ID
		w.view.Commands = []Command{c}
		w.do(t, Decide(&w.view), Outcome{}, accepted)
	}
	for range 3 {
		w.view.Now = w.view.Now.Add(time.Hour)
		if b := until[Broadcast](t, w); b.Attempt.Hash != hash {
			t.Fatalf("%+v", b.Attempt)
		}
		w.do(t, Decide(&w.view), Outcome{Class: AlreadyKnown}, accepted)
	}
	if tx := w.view.Open[0]; len(tx.Attempts) != 1 || tx.Reason != ReasonReorgedFinal ||
		len(w.policyAsked) > 0 {
		t.Fatalf("%+v, asked %v", tx.Status, w.policyAsked)
	}
}

// The next nonce is free at the release depth of the policy; 1 is the newest block. A depth of 0,
// or equal to the confirmations, means "only when final", by the finality tag as well. A final
// transaction never blocks.
func TestReleaseDepth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		depth, confirmations uint64
		above                uint64 // blocks above the receipt's
		final, want          bool
	}{
		{1, 5, 0, false, true},
		{2, 5, 0, false, false}, {2, 5, 1, false, true},
		{4, 5, 2, false, false}, {4, 5, 3, false, true},
		{5, 5, 4, false, false}, {5, 5, 5, true, true}, // one block after the depth would be
		{5, 5, 7, false, false}, // deep enough, and above the chain's finalized block
		{4, 5, 7, false, true},  // a smaller depth ignores the tag
		{0, 5, 4, false, false}, {0, 5, 9, false, false}, {0, 5, 5, true, true},
		{1, 1, 0, false, true}, // 1 is the first block, for every kind of finality
		{0, 1, 0, false, false}, {0, 1, 1, true, true},
		{7, 5, 5, true, true}, {7, 5, 6, false, false}, // never after it is final
	} {
		p := Policy{ReleaseDepth: c.depth, Confirmations: c.confirmations}
		if got := p.releases(&Inclusion{Known: true, Receipt: &Receipt{}, Confirmations: c.above,
			Final: c.final}); got != c.want {
			t.Errorf("depth %d of %d with %d above, final %t: %t", c.depth, c.confirmations,
				c.above, c.final, got)
		}
	}
}

// A nonce that is released only when final is taken in the commit of the final state or later.
func TestReleaseDepth_Final(t *testing.T) {
	t.Parallel()
	for _, depth := range []uint64{0, policy.Confirmations} {
		p := policy
		p.ReleaseDepth = depth
		w := newWorld(2, p)
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		w.include(b.Attempt.Hash, true)
		for len(w.nonces) < 2 {
			if len(w.final) == 0 && w.view.Cursor.Next != 1 {
				t.Fatalf("depth %d: the next nonce is taken %d blocks above", depth,
					w.head-w.included[b.Attempt.Hash].BlockNumber)
			}
			step := Decide(&w.view)
			if _, ok := step.(Rest); ok {
				w.head++
			}
			w.do(t, step, Outcome{Class: Accepted}, accepted)
		}
		if above := w.head - w.included[b.Attempt.Hash].BlockNumber; above != p.Confirmations {
			t.Errorf("depth %d: released with %d above, final with %d", depth, above,
				p.Confirmations)
		}
	}
}

// TestTrack_ReceiptCorrected_SameBlock changes the result of a receipt of the same block before it
// is final.
func TestTrack_ReceiptCorrected_SameBlock(t *testing.T) {
	t.Parallel()
	for _, success := range []bool{true, false} {
		w, b := sentWorld(t, 1)
		w.include(b.Attempt.Hash, !success)
		for w.view.Open[0].Sub != Included {
			w.do(t, Decide(&w.view), Outcome{Class: Accepted}, accepted)
		}
		corrected := *w.included[b.Attempt.Hash]
		corrected.Success = success
		w.included[b.Attempt.Hash] = &corrected
		w.finishAll(t)
		want := map[bool]Executed{true: Success, false: Reverted}[success]
		if tx := w.final[0]; tx.Executed != want || tx.Receipt.Success != success {
			t.Errorf("%s %s, want %s", tx.State, tx.Executed, want)
		}
	}
}
