package txn

import (
	"slices"
	"testing"
	"time"
)

// refusing is a policy without bumps, as by default.
func refusing() Policy {
	p := policy
	p.Bump, p.BumpPermille = DefaultBumpPolicy{MinInterval: time.Hour, MaxAttempts: 3}, 1125
	p.MaxFee, p.BumpMaxFee = wei(500), wei(900)
	return p
}

// refusedOnce is a transaction whose first attempt, with these fees, every node refused.
func refusedOnce(t *testing.T, p Policy, fees Fees, class Class) *world {
	t.Helper()
	w := newWorld(2, p)
	b := until[Broadcast](t, w)
	w.view.Open[0].Attempts[0].Fees = fees
	w.do(t, b, Outcome{Class: class, Detail: "no"}, accepted)
	w.view.Now = w.view.Open[0].Due
	return w
}

// nextReplace is the replacement that is due, after an account read.
func (w *world) nextReplace(t *testing.T) *Replace {
	t.Helper()
	s, ok := w.afterRead(t).(*Replace)
	if !ok {
		t.Fatalf("%T, want a replacement: %+v", Decide(&w.view), w.view.Open[0].Status)
	}
	return s
}

func TestReplacement_TypeRefused_Legacy(t *testing.T) {
	t.Parallel()
	w := refusedOnce(t, refusing(), Fees{Cap: wei(100), Tip: wei(10)}, TypeNotSupported)
	if tx := w.view.Open[0]; tx.Pooled != 0 || tx.Reason != string(TypeNotSupported) {
		t.Fatalf("%+v", tx.Status)
	}
	s := w.nextReplace(t)
	if r := s.FeeRequest(); s.Kind != Bump || r.Refused != TypeNotSupported || r.Limit != wei(500) {
		t.Fatalf("%s %+v", s.Kind, r)
	}
	w.market = Fees{Cap: wei(60), Tip: wei(60), Legacy: true}
	w.do(t, s, Outcome{}, accepted)
	want := Fees{Cap: wei(101), Tip: wei(101), Legacy: true}
	if a := w.view.Open[0].newest(); a.Fees != want || a.Nonce != 0 || a.No != 2 {
		t.Fatalf("%+v", a)
	}
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	if tx := w.view.Open[0]; tx.State != Tracking || tx.Accepted != 2 || len(tx.Attempts) != 2 {
		t.Fatalf("%+v", tx.Status)
	}
	w.include(w.view.Open[0].Attempts[0].Hash, true) // a node lied: no attempt is forgotten
	w.finishAll(t)
	if w.final[0].State != Confirmed {
		t.Fatalf("%+v", w.final[0].Status)
	}
}

// A legacy transaction whose type is refused is invalid, and so is its cancel.
func TestReplacement_LegacyTypeRefused_Cancelled(t *testing.T) {
	t.Parallel()
	w := refusedOnce(t, refusing(), Fees{Cap: wei(100), Tip: wei(10)}, TypeNotSupported)
	w.market = Fees{Cap: wei(60), Tip: wei(60), Legacy: true}
	w.do(t, w.nextReplace(t), Outcome{}, accepted)
	w.do(t, until[Broadcast](t, w), Outcome{Class: TypeNotSupported, Detail: "none"}, accepted)
	if tx := w.view.Open[0]; tx.Rejected == "" || tx.Reason != ReasonRejected {
		t.Fatalf("%+v", tx.Status)
	}
	if s := w.nextReplace(t); s.Kind != Cancel {
		t.Fatalf("%+v", s)
	}
}

// A cancel of a refused type is replaced by a legacy cancel, even if a node once took the original.
func TestCancel_TypeRefused_Legacy(t *testing.T) {
	t.Parallel()
	for _, first := range []Class{Accepted, TypeNotSupported, Ambiguous} {
		w := newWorld(1, refusing())
		w.market = Fees{Cap: wei(40), Tip: wei(4)}
		b := until[Broadcast](t, w)
		w.view.Open[0].Attempts[0].Fees = Fees{Cap: wei(100), Tip: wei(10)}
		w.do(t, b, Outcome{Class: first}, accepted)
		w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
		c := until[Broadcast](t, w)
		w.do(t, c, Outcome{Class: TypeNotSupported}, accepted)
		w.view.Now = w.view.Open[0].Due
		s := w.nextReplace(t)
		if s.Kind != Cancel || s.Refused != TypeNotSupported || s.Limit != wei(900) {
			t.Fatalf("after %s: %+v", first, s)
		}
		w.market = Fees{Cap: wei(50), Tip: wei(50), Legacy: true}
		w.do(t, s, Outcome{}, accepted)
		last := w.view.Open[0].newest()
		if bumped := wei(112); !last.Fees.Legacy || last.Kind != Cancel ||
			last.Fees.Cap.Lt(&bumped) && first != TypeNotSupported ||
			!last.Fees.Cap.Gt(&c.Attempt.Fees.Cap) {
			t.Errorf("after %s: %+v", first, last)
		}
	}
}

// A transaction that a node has accepted is not replaced because another node refuses its type.
func TestReplacement_TypeRefusedByAnother_Kept(t *testing.T) {
	t.Parallel()
	w := newWorld(1, refusing())
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	for range 3 {
		w.do(t, until[Broadcast](t, w), Outcome{Class: TypeNotSupported}, accepted)
	}
	if tx := w.view.Open[0]; len(tx.Attempts) != 1 || tx.Rejected != "" {
		t.Fatalf("%+v", tx)
	}
	w.view.Commands = []Command{{ID: 1, Kind: CommandSpeedUp, Tx: w.view.Open[0].ID}}
	if s, ok := w.afterRead(t).(*Replace); !ok || s.FeeRequest().Refused != TypeNotSupported {
		t.Errorf("a requested bump: %+v", Decide(&w.view))
	}
}

func TestBumpedFees_OtherType(t *testing.T) {
	t.Parallel()
	dynamic := func(limit, tip uint64) Fees { return Fees{Cap: wei(limit), Tip: wei(tip)} }
	legacy := func(price uint64) Fees {
		return Fees{Cap: wei(price), Tip: wei(price), Legacy: true}
	}
	for name, c := range map[string]struct {
		pooled, newest, market Fees
		limit                  uint64
		want                   Fees
		ok                     bool
	}{
		"above both fees": {Fees{}, dynamic(100, 10), legacy(60), 0, legacy(101), true},
		"market price": {Fees{}, dynamic(100, 10), legacy(160), 0, legacy(160),
			true},
		"at the limit, in no pool": {Fees{}, dynamic(100, 10), legacy(60), 100, legacy(100),
			true},
		"over both fees of the pool": {dynamic(100, 90), dynamic(100, 90), legacy(60), 0,
			legacy(113), true},
		"in a pool, beyond the limit": {dynamic(100, 90), dynamic(100, 90), legacy(60), 110,
			legacy(110), false},
		"legacy stays": {legacy(100), legacy(100), dynamic(300, 10), 0, legacy(300),
			true},
	} {
		s := Replace{Pooled: c.pooled, Newest: c.newest, Permille: 1125, Limit: wei(c.limit),
			Refused: TypeNotSupported}
		if got, ok := s.BumpedFees(c.market); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}

// An attempt that every node found too cheap is replaced within the cap, without the bump policy.
func TestReplacement_PriceRefused(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{Underpriced, FeeCapBelowBaseFee} {
		w := refusedOnce(t, refusing(), Fees{Cap: wei(100), Tip: wei(10)}, class)
		s := w.nextReplace(t)
		if r := s.FeeRequest(); s.Kind != Bump || r.Refused != class || r.Limit != wei(500) ||
			r.Newest.Cap != wei(100) {
			t.Fatalf("%s: %s %+v", class, s.Kind, r)
		}
		w.market = Fees{Cap: wei(300), Tip: wei(250)}
		w.do(t, s, Outcome{}, accepted)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		tx := w.view.Open[0]
		if tx.State != Tracking || tx.Accepted != 2 || tx.newest().Fees != w.market {
			t.Fatalf("%s: %+v %+v", class, tx.Status, tx.newest())
		}
		for range policy.ResubmitMax { // only the bump policy replaces it from here on
			w.view.Now = w.view.Now.Add(time.Hour)
			w.do(t, until[Broadcast](t, w), Outcome{Class: class}, accepted)
		}
		if n := len(w.view.Open[0].Attempts); n != 2 {
			t.Errorf("%s: %d attempts", class, n)
		}
	}
}

// Repeated refusals slow the replacements down, which end at the cap and never exceed it.
func TestReplacement_PriceRefusedAgain_UpToCap(t *testing.T) {
	t.Parallel()
	w := refusedOnce(t, refusing(), Fees{Cap: wei(100), Tip: wei(10)}, Underpriced)
	began := w.view.Now
	for w.kindCount(EventStuck) == 0 {
		w.do(t, until[Broadcast](t, w), Outcome{Class: Underpriced}, accepted)
		if len(w.view.Open[0].Attempts) > maxReprices {
			t.Fatal("it never reaches the cap")
		}
	}
	tx := w.view.Open[0]
	if tx.State != Stuck || tx.Reason != ReasonFeeCapReached || !w.view.Now.After(began) {
		t.Fatalf("%+v", tx.Status)
	}
	for i, a := range tx.Attempts[1:] {
		limit, before := wei(500), &tx.Attempts[i]
		if a.Fees.Cap.Gt(&limit) || !a.Fees.Cap.Gt(&before.Fees.Cap) ||
			a.At.Sub(before.At) < min(Backoff(i), policy.ResubmitInterval) {
			t.Errorf("attempt %d %s after another: %+v", a.No, a.At.Sub(before.At), a.Fees)
		}
	}
	n := len(tx.Attempts)
	w.view.Policy.MaxFee = wei(800) // raised
	w.view.Now = w.view.Now.Add(time.Hour)
	w.do(t, w.nextReplace(t), Outcome{}, accepted)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	if tx := w.view.Open[0]; tx.State != Tracking || len(tx.Attempts) != n+1 {
		t.Errorf("%+v", tx.Status)
	}
}

// Without a cap the replacements end by number.
func TestReplacement_PriceRefused_NoCap_Bounded(t *testing.T) {
	t.Parallel()
	p := refusing()
	p.MaxFee, p.BumpMaxFee = Wei{}, Wei{}
	w := refusedOnce(t, p, Fees{Cap: wei(100), Tip: wei(10)}, Underpriced)
	for range 4 * maxReprices {
		w.do(t, until[Broadcast](t, w), Outcome{Class: Underpriced}, accepted)
	}
	if tx := w.view.Open[0]; len(tx.Attempts) != maxReprices+1 || tx.State != Stuck ||
		tx.Reason != ReasonResubmitExhausted {
		t.Errorf("%d attempts, %+v", len(tx.Attempts), tx.Status)
	}
}

// Nothing is replaced at a fixed price, or while a pool may have the attempt at these fees.
func TestReplacement_PriceRefused_Kept(t *testing.T) {
	t.Parallel()
	fixed := refusing()
	fixed.FixedPrice = true
	fees := Fees{Cap: wei(100), Tip: wei(100), Legacy: true}
	w := refusedOnce(t, fixed, fees, Underpriced)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Underpriced}, accepted)
	if slices.Contains(w.kinds[w.view.Open[0].ID], EventReplaced) {
		t.Error("replaced at a fixed price")
	}
	for _, class := range []Class{ReplacementUnderpriced, Ambiguous, PoolFull, InsufficientFunds} {
		w := refusedOnce(t, refusing(), fees, class)
		if s, ok := w.afterRead(t).(*Replace); ok {
			t.Errorf("%s: %+v", class, s)
		}
	}
}

// The transaction's own cap and the account's bound the replacement of a refused attempt.
func TestReplacement_PriceRefused_LowestCap(t *testing.T) {
	t.Parallel()
	w := refusedOnce(t, refusing(), Fees{Cap: wei(100), Tip: wei(10)}, Underpriced)
	w.view.Open[0].Terms.MaxFee = wei(120)
	if s := w.nextReplace(t); s.Limit != wei(120) {
		t.Errorf("limit %s", s.Limit.Dec())
	}
	w.view.Submitter.MaxFee = wei(110)
	if s := w.nextReplace(t); s.Limit != wei(110) {
		t.Errorf("limit %s", s.Limit.Dec())
	}
}

// TestSent_RefusedAgain_WaitsLonger: only the first replacement comes soon. A transaction that
// cannot be replaced, such as one at its cap, is rebroadcast as rarely as any other.
func TestSent_RefusedAgain_WaitsLonger(t *testing.T) {
	t.Parallel()
	w := refusedOnce(t, refusing(), Fees{Cap: wei(500), Tip: wei(10)}, FeeCapBelowBaseFee)
	tx := &w.view.Open[0]
	for tries := range 8 {
		tx.SubmitAttempts = tries
		c := Sent(&w.view, Broadcast{Tx: tx, Attempt: tx.newest()},
			Outcome{Class: FeeCapBelowBaseFee})
		if want := min(Backoff(tries), w.view.Policy.ResubmitInterval); c.Writes[0].Delay != want {
			t.Errorf("after %d tries: %s, want %s", tries, c.Writes[0].Delay, want)
		}
	}
}
