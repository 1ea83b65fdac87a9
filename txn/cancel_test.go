package txn

import (
	"strings"
	"testing"
	"time"
)

// cancelling is a transaction in flight with a requested cancel; its first cancel is signed next.
func cancelling(t *testing.T, p Policy, first Class) *world {
	t.Helper()
	w := newWorld(1, p)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: first}, accepted)
	w.view.Open[0].Attempts[0].Fees = Fees{Cap: wei(100), Tip: wei(10)}
	w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	return w
}

func TestCancel_Gas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last, estimate, want uint64 // last: of the newest cancel; 0: none
	}{
		"no estimate":                  {0, 0, 21_000},
		"no further estimate":          {90_000, 0, 90_000},
		"estimated":                    {0, 500_000, 500_000},
		"lower estimate":               {90_000, 60_000, 60_000},
		"no less than any transfer":    {0, 20_999, 21_000},
		"no more than is reasonable":   {90_000, 1 << 60, 10_000_000},
		"the original's is no measure": {0, 0, 21_000},
	} {
		w := newWorld(1, policy)
		until[Broadcast](t, w)
		tx := w.view.Open[0]
		tx.Attempts[0].GasLimit = 777_777
		if c.last > 0 {
			tx.Attempts = append(tx.Attempts, Attempt{No: 2, Kind: Cancel, GasLimit: c.last})
		}
		s := replace(&w.view, &tx, Cancel, 0)
		s.Estimate = c.estimate
		if u := s.Unsigned(&w.view, Fees{}); u.GasLimit != c.want || !u.Payload.Value.IsZero() ||
			*u.Payload.To != w.view.Submitter.Address {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// A node rejects a cancel for good. Another is signed once the chain estimates more gas than it
// has.
func TestCancel_TooLittleGas_ReplacedWithMore(t *testing.T) {
	t.Parallel()
	w := cancelling(t, policy, Accepted)
	w.do(t, until[*Replace](t, w), Outcome{}, accepted)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Invalid, Detail: "intrinsic gas too low"},
		accepted)
	if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonRejected ||
		tx.LastError != "intrinsic gas too low" {
		t.Fatalf("%+v", tx.Status)
	}
	for _, estimate := range []uint64{0, 21_000} { // no estimate, and an unchanged one
		s := until[*Replace](t, w)
		s.Estimate = estimate
		if !s.RepeatsInvalid() || s.Kind != Cancel {
			t.Fatalf("%+v", s)
		}
		w.do(t, s, Outcome{}, accepted)
		b, ok := Decide(&w.view).(Broadcast)
		if !ok || len(b.Tx.Attempts) != 2 || b.Attempt.Kind != Cancel {
			t.Fatalf("%+v", Decide(&w.view))
		}
		w.do(t, b, Outcome{Class: Invalid, Detail: "intrinsic gas too low"}, accepted)
	}
	s := until[*Replace](t, w)
	s.Estimate, s.Limit = 60_000, wei(1) // however low the cap: no pool has a transaction to outbid
	w.do(t, s, Outcome{}, accepted)
	b, ok := Decide(&w.view).(Broadcast)
	if !ok || b.Attempt.No != 3 || b.Attempt.Kind != Cancel || b.Attempt.GasLimit != 60_000 {
		t.Fatalf("%+v", Decide(&w.view))
	}
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	if tx := w.view.Open[0]; tx.State != Tracking || tx.Reason != "" ||
		w.kindCount(EventUnstuck) != 1 {
		t.Fatalf("%+v", tx.Status)
	}
	w.include(b.Attempt.Hash, true)
	w.finishAll(t)
	if w.final[0].State != Cancelled {
		t.Fatalf("%+v", w.final[0].Status)
	}
}

// Cancels refused for another reason, each with a higher estimate, are bounded in number.
func TestCancel_RisingGas_Bounded(t *testing.T) {
	t.Parallel()
	w := cancelling(t, policy, Accepted)
	for gas := uint64(30_000); gas < 30_100; gas++ {
		step := Decide(&w.view)
		for _, rests := step.(Rest); rests; _, rests = step.(Rest) {
			w.view.Now = step.(Rest).Until
			step = Decide(&w.view)
		}
		if s, ok := step.(*Replace); ok {
			s.Estimate = gas
			step = s
		}
		w.do(t, step, Outcome{Class: Invalid, Detail: "not supported"}, accepted)
	}
	if n := w.view.Open[0].replacements(); n != maxCancelRetries {
		t.Errorf("%d cancels after the first", n)
	}
}

// A cancel is bumped with time under any policy, up to the cap of replacements, which it reports.
func TestCancel_Bumped(t *testing.T) {
	t.Parallel()
	off := DefaultBumpPolicy{MinInterval: 3 * time.Minute, MaxAttempts: 2}
	for name, c := range map[string]struct {
		bump     BumpPolicy
		limit    uint64
		attempts int // cancels in the end
		stuck    bool
		pause    time.Duration // minimum between two of them
	}{
		"with replacements off": {off, 0, 3, false, 3 * time.Minute},
		"without a policy":      {nil, 0, 1, false, 0},
		"with replacements on": {DefaultBumpPolicy{Enabled: true, MinInterval: time.Minute,
			MaxAttempts: 1}, 0, 2, false, time.Minute},
		"up to the cap":             {off, 130, 2, true, 0},
		"not below the first one's": {off, 115, 1, true, 0},
	} {
		p := policy
		p.Bump = c.bump
		p.BumpPermille = 1125
		p.BumpMaxFee = wei(c.limit)
		p.ResubmitMax = 1000
		w := cancelling(t, p, Accepted)
		w.do(t, until[*Replace](t, w), Outcome{}, accepted)
		for range 300 {
			step := Decide(&w.view)
			if _, ok := step.(Rest); ok {
				w.view.Now = w.view.Now.Add(20 * time.Second)
				continue
			}
			w.do(t, step, Outcome{Class: Accepted}, accepted)
		}
		tx := w.view.Open[0]
		if tx.replacements()+1 != c.attempts || (tx.State == Stuck) != c.stuck ||
			c.stuck != (tx.Reason == ReasonFeeCapReached) {
			t.Errorf("%s: %d cancels; %+v", name, tx.replacements()+1, tx.Status)
		}
		for i, a := range tx.Attempts[1:] {
			before := tx.Attempts[i]
			if a.Kind != Cancel || !a.Fees.Cap.Gt(&before.Fees.Cap) ||
				!a.Fees.Tip.Gt(&before.Fees.Tip) ||
				i > 0 && a.At.Sub(before.At) < c.pause {
				t.Errorf("%s: %s at %s after %s at %s", name, a.Fees.Cap.Dec(), a.At,
					before.Fees.Cap.Dec(), before.At)
			}
			if c.limit > 0 && a.Fees.Cap.Gt(&p.BumpMaxFee) {
				t.Errorf("%s: %s is above the cap", name, a.Fees.Cap.Dec())
			}
		}
	}
}

// Earlier bumps of the transaction do not count against its cancel.
func TestCancel_AfterBumps_Bumped(t *testing.T) {
	t.Parallel()
	p := policy
	p.Bump, p.BumpPermille = DefaultBumpPolicy{Enabled: true, MaxAttempts: 2}, 1125
	w := newWorld(1, p)
	for range 40 {
		step := Decide(&w.view)
		if _, ok := step.(Rest); ok {
			w.view.Now = w.view.Now.Add(policy.ResubmitInterval)
			continue
		}
		w.do(t, step, Outcome{Class: Accepted}, accepted)
		if len(w.view.Open) > 0 && len(w.view.Open[0].Attempts) == 3 &&
			!w.view.Open[0].CancelRequested {
			w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: w.view.Open[0].ID}}
		}
	}
	if tx := w.view.Open[0]; len(tx.Attempts) != 6 || tx.replacements() != 2 ||
		tx.Attempts[3].Kind != Cancel {
		t.Errorf("%d attempts, %d bumps of the cancel", len(tx.Attempts), tx.replacements())
	}
}

// originalSent is a STUCK transaction with a refused cancel and an operator's RETRY.
func originalSent(t *testing.T) *world {
	t.Helper()
	w := cancelling(t, policy, Underpriced) // no pool has it
	w.do(t, until[*Replace](t, w), Outcome{}, accepted)
	for range 100 {
		switch step := Decide(&w.view).(type) {
		case Rest:
			w.view.Now = step.Until
		case Broadcast:
			if step.Attempt.Kind != Cancel {
				t.Fatal("the original is rebroadcast automatically")
			}
			w.do(t, step, Outcome{Class: PoolFull, Detail: "txpool is full"}, accepted)
		default:
			w.do(t, step, Outcome{}, accepted)
		}
	}
	if tx := w.view.Open[0]; tx.State != Stuck || !tx.CancelRequested ||
		tx.newest().Kind != Cancel {
		t.Fatalf("%+v", tx.Status)
	}
	w.view.Commands = []Command{
		{ID: 2, Kind: CommandResolve, Action: ActionRetry, Tx: w.view.Open[0].ID},
	}
	return w
}

// A RETRY broadcasts the original of a cancelled transaction whose cancel every node refuses: once,
// and the event reports the race.
func TestRetry_Cancelled_BroadcastsOriginal(t *testing.T) {
	t.Parallel()
	for name, wins := range map[string]int{"the original wins": 0, "the cancel wins": 1} {
		w := originalSent(t)
		b, ok := Decide(&w.view).(Broadcast)
		if !ok || b.CommandID != 2 || b.Attempt.Kind != Original {
			t.Fatalf("%s: %+v", name, Decide(&w.view))
		}
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		tx := w.view.Open[0]
		if tx.State != Tracking || tx.Accepted != 1 || tx.Pooled != 1 || !tx.CancelRequested ||
			w.kindCount(EventUnstuck) != 1 ||
			w.results[1].Result != Applied ||
			len(w.view.Commands) > 0 {
			t.Fatalf("%s: %+v, %+v", name, tx.Status, w.results)
		}
		if !strings.Contains(tx.LastError, "first of the two") {
			t.Errorf("%s: %q does not report the race", name, tx.LastError)
		}
		for range 5 { // only the cancel is broadcast automatically
			if next := until[Broadcast](t, w); next.Attempt.Kind != Cancel ||
				w.view.Now.Before(tx.Due) {
				t.Fatalf("%s: %+v is next", name, next)
			} else {
				w.do(t, next, Outcome{Class: PoolFull}, accepted)
			}
		}
		w.include(w.view.Open[0].Attempts[wins].Hash, true)
		w.finishAll(t)
		got := w.final[0]
		if wins == 0 && (got.State != Confirmed || got.Reason != ReasonCancelLost) ||
			wins == 1 && (got.State != Cancelled || got.Executed != No) {
			t.Errorf("%s: %+v", name, got.Status)
		}
	}
}

// The result reports that no node accepted the original.
func TestRetry_OriginalRefused_CancelContinues(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{Unavailable, RateLimited, Underpriced, InsufficientFunds, Invalid,
		NonceTooLow, ReplacementUnderpriced} {
		w := originalSent(t)
		before := w.view.Open[0]
		w.do(t, Decide(&w.view), Outcome{Class: class, Detail: "words"}, accepted)
		if tx := w.view.Open[0]; tx.State != Stuck || tx.Version != before.Version ||
			!strings.HasPrefix(w.results[1].Result, ResultRefused+": ") ||
			!strings.Contains(w.results[1].Result, string(class)+": words") {
			t.Errorf("%s: %+v, %+v", class, tx.Status, w.results)
		}
	}
	w := originalSent(t)
	w.do(t, Decide(&w.view), Outcome{Class: Ambiguous}, accepted)
	if tx := w.view.Open[0]; tx.State != Tracking || tx.Accepted != 0 || tx.Pooled != 1 ||
		w.results[1].Result != Applied {
		t.Errorf("outcome unknown: %+v, %+v", tx.Status, w.results)
	}
}

// RETRY is refused while inclusion is unknown, and for an included transaction.
func TestRetry_Cancelled_Refused(t *testing.T) {
	t.Parallel()
	w := originalSent(t)
	w.unknown[w.view.Open[0].Attempts[0].Hash] = true
	for _, a := range w.view.Open[0].Attempts {
		w.unknown[a.Hash] = true
	}
	if b, ok := Decide(&w.view).(Broadcast); ok {
		t.Errorf("%+v", b)
	}
	w = originalSent(t)
	w.include(w.view.Open[0].Attempts[0].Hash, true)
	step, _ := retry(&w.view, w.view.Commands[0])
	if r, ok := step.(Record); !ok ||
		!strings.Contains(r.Change.Commands[0].Result,
			"already included") {
		t.Errorf("%+v", step)
	}
}

// A flaky node refuses the queue head each time it responds. Outages in between neither count nor
// reset the count.
func TestPrepare_RefusalsWithOutages_Counted(t *testing.T) {
	t.Parallel()
	reverts := Preparation{Outcome: Outcome{Class: ExecutionReverted, Detail: "no"}}
	for name, silence := range map[string]func(w *world) Change{
		"no quote": func(w *world) Change {
			return Prepared(&w.view, until[Prepare](t, w),
				&Preparation{Outcome: Outcome{Class: Unavailable, Detail: "away"}})
		},
		"a riddle": func(w *world) Change {
			return Prepared(&w.view, until[Prepare](t, w),
				&Preparation{Outcome: Outcome{Class: Ambiguous}})
		},
		"limited": func(w *world) Change {
			return Prepared(&w.view, until[Prepare](t, w),
				&Preparation{Outcome: Outcome{Class: RateLimited, RetryAfter: time.Minute}})
		},
		"no account": func(w *world) Change {
			return AccountReadFailed(&w.view,
				ReadAccount{Tx: &w.view.Queue[0]}, "down")
		},
		"lags behind": func(w *world) Change {
			return backOff(&w.view, &w.view.Queue[0],
				ReasonChainBehind, "lags", 0)
		},
	} {
		w := newWorld(2, policy)
		id := w.view.Queue[0].ID
		refusals := 0
		for range 100 {
			if len(w.final) > 0 {
				break
			}
			if refusals > 0 { // an outage before each further refusal, three times
				for range 3 {
					w.apply(t, silence(w))
					if head := w.view.Queue[0]; head.Reason != ReasonPrepareReverted ||
						strings.Count(head.LastError, "since then") != 1 ||
						!head.Due.After(w.view.Now) ||
						head.WaitingSince.IsZero() {
						t.Fatalf("%s: %+v", name, head.Status)
					}
					w.view.Now = w.view.Queue[0].Due
				}
			}
			w.head++
			w.view.Head = w.head
			w.view.Now = w.view.Now.Add(refusalAge / 2)
			w.do(t, until[Prepare](t, w), Outcome{}, reverts)
			refusals++
		}
		if refusals != refusalBlocks || len(w.final) != 1 || w.final[0].ID != id ||
			w.final[0].Reason != ReasonPrepareReverted ||
			w.final[0].Nonce != nil ||
			w.final[0].Executed != No {
			t.Errorf("%s: %d refusals, %+v", name, refusals, w.final)
		}
	}
}

// An outage after a refusal is bounded by the maximum wait of the queue head, too.
func TestPrepare_OutageAfterRefusal_Bounded(t *testing.T) {
	t.Parallel()
	p := policy
	p.PrepareMaxAge = time.Hour
	w := newWorld(1, p)
	w.do(t, until[Prepare](t, w), Outcome{},
		Preparation{Outcome: Outcome{Class: ExecutionReverted}})
	for range 10 {
		w.view.Now = w.view.Now.Add(10 * time.Minute)
		if len(w.final) == 0 {
			w.do(t, until[Prepare](t, w), Outcome{},
				Preparation{Outcome: Outcome{Class: Unavailable}})
		}
	}
	if len(w.final) != 1 || w.final[0].Reason != ReasonPrepareTimeout {
		t.Errorf("%+v", w.final)
	}
}

// A cancel with ambiguous responses may be in a pool with fees that are too low, so it is bumped.
func TestCancel_Ambiguous_Bumped(t *testing.T) {
	t.Parallel()
	p := policy
	p.Bump = DefaultBumpPolicy{
		MinInterval: time.Second,
		MaxAttempts: 3,
	}
	p.BumpPermille = 1125
	p.ResubmitMax = 1000
	w := newWorld(1, p)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	for range 100 {
		step := Decide(&w.view)
		if _, ok := step.(Rest); ok {
			w.view.Now = w.view.Now.Add(time.Hour)
			continue
		}
		w.do(t, step, Outcome{Class: Ambiguous}, accepted)
	}
	if n := len(w.view.Open[0].Attempts); n != 1+1+p.Bump.(DefaultBumpPolicy).MaxAttempts {
		t.Errorf("%d attempts: %+v", n, w.view.Open[0].Status)
	}
}

// The deadline of a transaction in flight takes effect when it passes, not at the next broadcast. A
// cancel that cannot be signed then is retried once per interval.
func TestDeadline_DatabaseClock(t *testing.T) {
	t.Parallel()
	for name, signed := range map[string]bool{"signed": true, "not signed": false} {
		w := newWorld(1, policy)
		w.view.Queue[0].Terms.CancelLate, w.view.Queue[0].Deadline = true, w.view.Now.Add(
			policy.ResubmitInterval/2)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		late := w.view.Open[0].Deadline
		rest, ok := Decide(&w.view).(Rest)
		if !ok || !rest.Until.Equal(late) {
			t.Fatalf("%s: %+v, the deadline is at %s", name, Decide(&w.view), late)
		}
		w.view.Now = late
		tries, prep := 0, accepted
		if !signed {
			prep.SignErr = ErrUnavailable
		}
		for range 30 {
			step := Decide(&w.view)
			if _, ok := step.(Rest); ok {
				break
			}
			if s, ok := step.(*Replace); ok && s.Kind == Cancel && s.ForDeadline {
				tries++
			}
			w.do(t, step, Outcome{Class: Accepted}, prep)
		}
		rest, ok = Decide(&w.view).(Rest)
		if !ok || tries != 1 || (w.view.Open[0].newest().Kind == Cancel) != signed ||
			!rest.Until.Equal(late.Add(policy.ResubmitInterval)) {
			t.Errorf("%s: %d tries, then %+v", name, tries, Decide(&w.view))
		}
	}
}
