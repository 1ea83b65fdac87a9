package txn

import (
	"testing"
	"time"
)

// capped is a world whose first transaction is accepted and at its fee cap.
func capped(t *testing.T) *world {
	t.Helper()
	p := bumping(policy)
	p.BumpMaxFee = wei(100)
	w := newWorld(1, p)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.view.Open[0].Attempts[0].Fees = Fees{Cap: wei(95), Tip: wei(1)}
	w.view.Now = w.view.Now.Add(time.Hour)
	return w
}

// At the cap the newest attempt is rebroadcast on schedule, and bumping resumes automatically when
// the cap is raised.
func TestFeeCap_Reached_RebroadcastAndResumes(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]Preparation{"by arithmetic": accepted,
		"by the chain": {Outcome: Outcome{Class: FeeCapBelowBaseFee}}} {
		w := capped(t)
		for range 3 {
			w.do(t, w.afterRead(t), Outcome{}, refused)
			if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonFeeCapReached ||
				tx.LastError == "" {
				t.Fatalf("%s: %+v", name, tx.Status)
			}
			b, ok := Decide(&w.view).(Broadcast)
			if !ok || b.Attempt.No != 1 {
				t.Fatalf("%s: %T", name, Decide(&w.view))
			}
			w.do(t, b, Outcome{Class: AlreadyKnown}, accepted)
			w.view.Now = w.view.Now.Add(time.Hour)
		}
		w.view.Policy.BumpMaxFee = wei(1000)
		w.do(t, w.afterRead(t), Outcome{}, accepted)
		b := Decide(&w.view).(Broadcast)
		if b.Attempt.No != 2 || w.view.Open[0].State != Stuck {
			t.Fatalf("%s: %+v", name, b)
		}
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		if tx := w.view.Open[0]; tx.State != Tracking || tx.Sub != Pending || tx.Reason != "" ||
			w.kindCount(EventUnstuck) != 1 {
			t.Fatalf("%s: %+v", name, tx.Status)
		}
	}
}

func TestFeeCap_NeverAccepted_Resumes(t *testing.T) {
	t.Parallel()
	w := capped(t)
	w.view.Open[0].Accepted = 0
	w.view.Open[0].LastOutcome = Underpriced
	w.do(t, Decide(&w.view), Outcome{}, Preparation{Outcome: Outcome{Class: FeeCapBelowBaseFee}})
	w.do(t, Decide(&w.view), Outcome{Class: Underpriced}, accepted)
	w.view.Now = w.view.Now.Add(time.Hour)
	if s, ok := w.afterRead(t).(*Replace); !ok || s.Kind != Bump {
		t.Fatalf("%T %+v", Decide(&w.view), w.view.Open[0].Status)
	}
}

// An outage of the signer or the chain prevents no rebroadcast, and does not hide why a transaction
// is STUCK.
func TestReplace_Failure_Rebroadcasts(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Preparation{
		"no fees":   {Outcome: Outcome{Class: Unavailable}},
		"no signer": {Outcome: Outcome{Class: Accepted}, SignErr: ErrUnavailable},
		"no key":    {Outcome: Outcome{Class: Accepted}, SignErr: ErrKeyMissing},
		"another":   {Outcome: Outcome{Class: Accepted}, SignErr: ErrSignerFault},
	} {
		w := newWorld(1, bumping(policy))
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
		w.do(t, Decide(&w.view).(*Replace), Outcome{}, p)
		if _, ok := Decide(&w.view).(Broadcast); !ok || len(w.view.Open[0].Attempts) != 1 ||
			w.view.Open[0].Reason == "" {
			t.Errorf("%s: %T %+v", name, Decide(&w.view), w.view.Open[0].Status)
		}
		stuck := &w.view.Open[0]
		stuck.State = Stuck
		stuck.Sub = None
		stuck.Reason = ReasonRejected
		stuck.Turn = Turn{}
		w.view.Now = w.view.Now.Add(time.Hour)
		w.do(t, Decide(&w.view), Outcome{}, p)
		if w.view.Open[0].Reason != ReasonRejected {
			t.Errorf("%s: %+v", name, w.view.Open[0].Status)
		}
	}
}

func TestFeeCap_SubmitterLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	tx := w.view.Open[0]
	tx.Terms.MaxFee = wei(50)
	w.view.Submitter.MaxFee, w.view.Policy.BumpMaxFee = wei(70), wei(90)
	if s := replace(&w.view, &tx, Bump, 0); s.Limit != wei(50) {
		t.Errorf("a bump: %s", s.Limit.Dec())
	}
	if s := replace(&w.view, &tx, Cancel, 0); s.Limit != wei(
		70) { // the client's limit applies to its own payload only
		t.Errorf("a cancel: %s", s.Limit.Dec())
	}
	for _, c := range [][3]uint64{{0, 0, 0}, {0, 3, 3}, {3, 0, 3}, {3, 4, 3}, {4, 3, 3}} {
		if got := LowerLimit(wei(c[0]), wei(c[1])); got != wei(c[2]) {
			t.Errorf("%v: %s", c, got.Dec())
		}
	}
}

// The cancelled transaction may be gone from the pool, so a cancel at the cap can be accepted.
// After a refusal it is not signed again with the same fees.
func TestFeeCap_Cancel(t *testing.T) {
	t.Parallel()
	w := capped(t)
	w.view.Open[0].CancelRequested = true
	w.do(t, Decide(&w.view).(*Replace), Outcome{}, accepted)
	b, ok := Decide(&w.view).(Broadcast)
	if !ok || b.Attempt.Kind != Cancel || b.Attempt.Fees.Cap != wei(100) {
		t.Fatalf("%+v", Decide(&w.view))
	}
	w.do(t, b, Outcome{Class: ReplacementUnderpriced}, accepted)
	for range 5 {
		w.view.Now = w.view.Now.Add(time.Hour)
		w.do(t, w.afterRead(t), Outcome{Class: ReplacementUnderpriced}, accepted)
	}
	if tx := w.view.Open[0]; len(tx.Attempts) != 2 || tx.State != Stuck ||
		tx.Reason != ReasonFeeCapReached {
		t.Fatalf("%d attempts, %+v", len(tx.Attempts), tx.Status)
	}
	w.include(w.view.Open[0].Attempts[0].Hash, true)
	w.finishAll(t)
	if w.final[0].State != Confirmed || w.final[0].Reason != ReasonCancelLost {
		t.Fatalf("%+v", w.final[0].Status)
	}
}

// An attempt that was never broadcast is broadcast before another is signed, under any policy.
func TestReplace_EachAttemptIsBroadcast(t *testing.T) {
	t.Parallel()
	p := bumping(policy)
	p.Bump = always{}
	w := newWorld(1, p)
	if b := until[Broadcast](t, w); b.Attempt.No != 1 {
		t.Fatalf("attempt %d first", b.Attempt.No)
	}
	for no := 1; no < 5; no++ {
		b, ok := Decide(&w.view).(Broadcast)
		if !ok || b.Attempt.No != no {
			t.Fatalf("%+v, want broadcast of attempt %d", Decide(&w.view), no)
		}
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
		w.do(t, w.afterRead(t).(*Replace), Outcome{}, accepted)
	}
}

type always struct{}

func (always) Bump(time.Time, *Tx, *Attempt, int) bool { return true }

// New blocks during a pool check do not delay the broadcast.
func TestDiagnose_OncePerBroadcast(t *testing.T) {
	t.Parallel()
	p := policy
	p.Diagnose = true
	w := newWorld(1, p)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	for range 3 {
		w.do(t, until[Diagnose](t, w), Outcome{}, accepted)
		w.view.Head++
		b, ok := w.afterClaim(t).(Broadcast)
		if !ok {
			t.Fatalf("%T", Decide(&w.view))
		}
		w.do(t, b, Outcome{Class: Accepted}, accepted)
	}
}

// A reorged final transaction rebroadcasts the attempt that was included.
func TestReorgedFinal_RebroadcastsSameAttempt(t *testing.T) {
	t.Parallel()
	w := reorgedFinal(t)
	was := w.audited[0].newest()
	w.audited[0].Attempts = append(w.audited[0].Attempts,
		Attempt{No: 2, Kind: Cancel, Hash: Hash{9}, Nonce: was.Nonce})
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if b, ok := Decide(&w.view).(Broadcast); !ok || b.Attempt.No != was.No {
		t.Fatalf("%+v", Decide(&w.view))
	}
}

// A lagging endpoint is not a fork.
func TestConfirmations_LaggingView_NoFork(t *testing.T) {
	t.Parallel()
	tx := Tx{Status: Status{Above: []BlockRef{{1, Hash{1}}, {2, Hash{2}}}}}
	v := View{Policy: Policy{ReportConfirmations: true}}
	for n := range 3 {
		if w := reportConfirmations(&v, &tx, &Inclusion{Above: tx.Above[:n]}); w != nil {
			t.Errorf("%d of two: %+v", n, w)
		}
	}
	if w := reportConfirmations(&v, &tx, &Inclusion{Above: []BlockRef{{1, Hash{3}}}}); w == nil ||
		!w[0].NewFork ||
		len(w[0].Above) != 1 {
		t.Errorf("another block: %+v", w)
	}
}

// An outage hides neither a reached cap nor a node's response: lower fees still cause a bump.
func TestFeeCap_OutageMeanwhile_KeepsBumping(t *testing.T) {
	t.Parallel()
	away := Preparation{Outcome: Outcome{Class: Unavailable}}
	for name, answers := range map[string][]Preparation{"before the cap": {away,
		{Outcome: Outcome{Class: FeeCapBelowBaseFee}}}, "after it": {accepted, away}} {
		w := capped(t)
		w.view.Policy.FixedPrice = true // only the bump policy replaces
		w.view.Open[0].Accepted = 0
		w.view.Open[0].LastOutcome = Underpriced
		w.view.Open[0].Attempts[0].Fees.Cap = wei(100)
		for _, p := range answers {
			w.do(t, w.dueReplace(t), Outcome{}, p)
			w.do(t, until[Broadcast](t, w), Outcome{Class: Underpriced}, accepted)
			w.do(t, until[Broadcast](t, w), Outcome{Class: Unavailable}, away)
		}
		if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonFeeCapReached {
			t.Errorf("%s: %+v", name, tx.Status)
		}
		w.view.Policy.BumpMaxFee = wei(1000)
		w.do(t, w.dueReplace(t), Outcome{}, accepted)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		if tx := w.view.Open[0]; tx.State != Tracking || len(tx.Attempts) != 2 {
			t.Errorf("%s: %+v", name, tx.Status)
		}
	}
}

// dueReplace is the next replacement once the schedule allows one, before any rebroadcast.
func (w *world) dueReplace(t *testing.T) *Replace {
	t.Helper()
	w.view.Now = w.view.Now.Add(time.Hour)
	s, ok := w.afterRead(t).(*Replace)
	if !ok {
		t.Fatalf("%T %+v", Decide(&w.view), w.view.Open[0].Status)
	}
	return s
}

// An attempt refused for its fees is bumped, although its broadcasts were used up before the policy
// allowed a bump.
func TestFeeCap_Exhausted_KeepsBumping(t *testing.T) {
	t.Parallel()
	p := bumping(policy)
	p.ResubmitMax, p.ResubmitInterval = 2, time.Second
	p.FixedPrice = true // without the replacement of refused attempts
	w := newWorld(1, p)
	w.untilStuck(t, Underpriced)
	if tx := w.view.Open[0]; tx.Reason != ReasonResubmitExhausted || len(tx.Attempts) != 1 {
		t.Fatalf("%+v", tx.Status)
	}
	if s := w.dueReplace(t); s.Kind != Bump {
		t.Fatalf("%+v", s)
	}
}
