package txn

import (
	"slices"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"pgregory.net/rapid"
)

func wei(n uint64) Wei { return *uint256.NewInt(n) }

func bumping(p Policy) Policy {
	p.Bump = DefaultBumpPolicy{Enabled: true, MinInterval: 30 * time.Second, MaxAttempts: 3}
	p.BumpPermille = 1125
	return p
}

func TestBumpedFees(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pooled, newest, market Fees
		limit                  uint64
		want                   Fees
		ok                     bool
	}{
		"an eighth more on both": {Fees{Cap: wei(800), Tip: wei(8)},
			Fees{Cap: wei(800), Tip: wei(8)}, Fees{}, 0, Fees{Cap: wei(900), Tip: wei(9)}, true},
		"rounded up": {Fees{Cap: wei(100), Tip: wei(1)},
			Fees{Cap: wei(100), Tip: wei(1)}, Fees{}, 0, Fees{Cap: wei(113), Tip: wei(2)}, true},
		"market fees": {Fees{Cap: wei(100), Tip: wei(10)},
			Fees{Cap: wei(100), Tip: wei(10)}, Fees{Cap: wei(500), Tip: wei(50)}, 0,
			Fees{Cap: wei(500), Tip: wei(50)}, true},
		"the market on one field alone": {Fees{Cap: wei(100), Tip: wei(10)},
			Fees{Cap: wei(100), Tip: wei(10)}, Fees{Cap: wei(500), Tip: wei(1)}, 0,
			Fees{Cap: wei(500), Tip: wei(12)}, true},
		"from the pooled, past the newest": {Fees{Cap: wei(100), Tip: wei(10)},
			Fees{Cap: wei(200), Tip: wei(20)}, Fees{}, 0,
			Fees{Cap: wei(201), Tip: wei(21)}, true},
		"none in a pool": {Fees{}, Fees{Cap: wei(100), Tip: wei(10)},
			Fees{Cap: wei(90), Tip: wei(90)}, 0, Fees{Cap: wei(101), Tip: wei(90)}, true},
		"cut to the limit": {Fees{Cap: wei(100), Tip: wei(10)},
			Fees{Cap: wei(100), Tip: wei(10)}, Fees{Cap: wei(500), Tip: wei(50)}, 200,
			Fees{Cap: wei(200), Tip: wei(50)}, true},
		"no bid within the limit": {Fees{Cap: wei(100), Tip: wei(10)},
			Fees{Cap: wei(100), Tip: wei(10)}, Fees{}, 112, Fees{Cap: wei(112), Tip: wei(12)},
			false},
		"just within the limit": {Fees{Cap: wei(100), Tip: wei(10)},
			Fees{Cap: wei(100), Tip: wei(10)}, Fees{}, 113, Fees{Cap: wei(113), Tip: wei(12)},
			true},
		"legacy": {Fees{Cap: wei(100), Tip: wei(100), Legacy: true},
			Fees{Cap: wei(100), Tip: wei(100), Legacy: true},
			Fees{Cap: wei(130), Tip: wei(130), Legacy: true}, 0,
			Fees{Cap: wei(130), Tip: wei(130), Legacy: true}, true},
	} {
		got, ok := (&Replace{Pooled: c.pooled, Newest: c.newest, Permille: 1125,
			Limit: wei(c.limit)}).BumpedFees(
			c.market)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: cap %s tip %s ok %v", name, got.Cap.Dec(), got.Tip.Dec(), ok)
		}
	}
	// Pools require twice the fees to replace a blob transaction (go-ethereum,
	// core/txpool/blobpool); the arithmetic is the same.
	old := Fees{Cap: wei(101), Tip: wei(1)}
	doubled := Fees{Cap: wei(202), Tip: wei(2)}
	got, ok := (&Replace{Pooled: old, Newest: old, Permille: 2000}).BumpedFees(Fees{})
	if got != doubled || !ok {
		t.Errorf("blob rules: cap %s tip %s ok %v", got.Cap.Dec(), got.Tip.Dec(), ok)
	}
}

// Bumped fees satisfy geth's pool: both fields strictly above and at least a tenth above the old
// ones, the tip never above the cap, and never above the limit when ok.
func TestBumpedFees_PoolRules(t *testing.T) {
	t.Parallel()
	amount := func(t *rapid.T, name string) Wei {
		w := rapid.Uint64().Draw(t, name)
		wide := *uint256.NewInt(w)
		if rapid.Bool().Draw(t, name+" huge") {
			wide.Lsh(&wide, uint(rapid.IntRange(0, 192).Draw(t, name+" shift")))
		}
		return wide
	}
	rapid.Check(t, func(t *rapid.T) {
		old := Fees{Cap: amount(t, "cap"), Tip: amount(t, "tip")}
		if old.Tip.Gt(&old.Cap) {
			old.Tip = old.Cap
		}
		s := Replace{
			Pooled:   old,
			Newest:   old,
			Permille: rapid.Uint64Range(1100, 3000).Draw(t, "permille"),
			Limit:    amount(t, "limit"),
		}
		got, ok := s.BumpedFees(Fees{Cap: amount(t, "market cap"), Tip: amount(t, "market tip")})
		if got.Tip.Gt(&got.Cap) {
			t.Fatalf("tip %s above cap %s", got.Tip.Dec(), got.Cap.Dec())
		}
		if !ok {
			return
		}
		if !s.Limit.IsZero() && got.Cap.Gt(&s.Limit) {
			t.Fatalf("cap %s above the limit %s", got.Cap.Dec(), s.Limit.Dec())
		}
		for _, f := range [][2]Wei{{old.Cap, got.Cap}, {old.Tip, got.Tip}} {
			var tenth Wei
			_, overflow := tenth.MulDivOverflow(&f[0], uint256.NewInt(110), uint256.NewInt(100))
			if overflow {
				continue
			}
			if !f[0].IsZero() && (!f[1].Gt(&f[0]) || f[1].Lt(&tenth)) {
				t.Fatalf("%s after %s", f[1].Dec(), f[0].Dec())
			}
		}
	})
}

func TestBump_NotIncluded(t *testing.T) {
	t.Parallel()
	w := newWorld(1, bumping(policy))
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	var hashes []Hash
	for range 20 {
		step := Decide(&w.view)
		switch s := step.(type) {
		case Rest:
			w.view.Now = s.Until
			continue
		case Broadcast:
			hashes = append(hashes, s.Attempt.Hash)
		}
		w.do(t, step, Outcome{Class: Accepted}, accepted)
	}
	tx := w.view.Open[0]
	if len(tx.Attempts) != 4 || tx.Accepted != 4 || w.kindCount(EventReplaced) != 3 {
		t.Fatalf("%d attempts, %v", len(tx.Attempts), w.kinds)
	}
	for i, a := range tx.Attempts {
		if a.No != i+1 || a.Nonce != 0 || (i > 0) != (a.Kind == Bump) ||
			!slices.Contains(append(hashes, b.Attempt.Hash), a.Hash) {
			t.Errorf("%+v", a)
		}
	}
	w.include(tx.Attempts[1].Hash, true) // any of them
	w.finishAll(t)
	if w.final[0].State != Confirmed || w.final[0].TxHash != tx.Attempts[1].Hash {
		t.Fatalf("%+v", w.final[0])
	}
}

// TestBump_NoBlockMade_Waits stops the chain: a pooled attempt is bumped once per block at most,
// and one that no pool has is bumped without a block.
func TestBump_NoBlockMade_Waits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class  Class
		cancel bool
		bumps  bool
	}{
		"pooled":                 {Accepted, false, false},
		"pooled cancel":          {Accepted, true, false},
		"another one pooled":     {ReplacementUnderpriced, false, false},
		"too cheap for any pool": {Underpriced, false, true},
	} {
		w := newWorld(1, bumping(policy))
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: c.class}, accepted)
		if c.cancel {
			w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
			for w.view.Open[0].newest().Kind != Cancel || w.view.Open[0].LastOutcome == "" {
				w.do(t, Decide(&w.view), Outcome{Class: c.class}, accepted)
			}
		}
		last := w.view.Open[0].newest()
		w.view.BlockAt = last.At // with the view that led to it
		w.view.Now = w.view.Now.Add(time.Hour)
		if s, bumps := w.afterRead(t).(*Replace); bumps != c.bumps {
			t.Errorf("%s: without a block: %+v", name, s)
			continue
		} else if bumps {
			continue
		}
		w.do(t, w.afterClaim(t), Outcome{Class: c.class}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
		w.view.BlockAt = w.view.Now
		if _, bumps := w.afterRead(t).(*Replace); !bumps {
			t.Errorf("%s: after a block: %T", name, Decide(&w.view))
		}
	}
}

// A transaction that no node accepted is only replaced if it was refused for its fees.
func TestBump_FeeOutcomes(t *testing.T) {
	t.Parallel()
	for _, class := range Classes {
		w := newWorld(1, bumping(policy))
		w.do(t, until[Broadcast](t, w), Outcome{Class: class}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
		s, replaced := w.afterRead(t).(*Replace)
		want := slices.Contains(
			[]Class{
				Accepted,
				AlreadyKnown,
				Underpriced,
				ReplacementUnderpriced,
				FeeCapBelowBaseFee,
				TypeNotSupported,
			},
			class,
		)
		if got := replaced && s.Kind == Bump; got != want {
			t.Errorf("%s: %T", class, Decide(&w.view))
		}
	}
}

func TestCancel_InFlight(t *testing.T) {
	t.Parallel()
	for name, wins := range map[string]int{"the cancel wins": 1, "the cancel loses": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(2, policy)
			b := until[Broadcast](t, w)
			w.do(t, b, Outcome{Class: Accepted}, accepted)
			w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
			w.do(t, Decide(&w.view), Outcome{}, accepted)
			s, ok := Decide(&w.view).(*Replace)
			if !ok || s.Kind != Cancel {
				t.Fatalf("%T", Decide(&w.view))
			}
			if u := s.Unsigned(&w.view, Fees{}); *u.Payload.To != w.view.Submitter.Address ||
				!u.Payload.Value.IsZero() ||
				len(u.Payload.Data) > 0 ||
				u.GasLimit != 21000 ||
				u.Nonce != 0 {
				t.Fatalf("%+v", u)
			}
			w.do(t, s, Outcome{},
				// no fees now: nothing is sent meanwhile
				Preparation{Outcome: Outcome{Class: Unavailable}})
			w.view.Now = w.view.Now.Add(time.Hour)
			s = w.afterRead(t).(*Replace)
			w.do(t, s, Outcome{}, accepted)
			next, ok := Decide(&w.view).(Broadcast)
			if !ok || next.Attempt.Kind != Cancel {
				t.Fatalf("%+v", Decide(&w.view))
			}
			w.do(t, next, Outcome{Class: Accepted}, accepted)
			w.include(w.view.Open[0].Attempts[wins].Hash, true)
			w.finishAll(t)
			got := w.final[0]
			if wins == 1 && (got.State != Cancelled || got.Executed != No) ||
				wins == 0 &&
					(got.State != Confirmed || got.Executed != Success ||
						got.Reason != ReasonCancelLost) {
				t.Fatalf("%+v", got.Status)
			}
			if len(w.final) != 2 || w.final[1].State != Confirmed {
				t.Fatal("the one behind it does not go on")
			}
		})
	}
}

func TestFeeCap_Event(t *testing.T) {
	t.Parallel()
	p := bumping(policy)
	p.BumpMaxFee = wei(100)
	w := newWorld(1, p)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.view.Open[0].Attempts[0].Fees = Fees{Cap: wei(95), Tip: wei(1)}
	w.view.Now = w.view.Now.Add(time.Hour)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonFeeCapReached ||
		len(tx.Attempts) != 1 {
		t.Fatalf("%+v", tx.Status)
	}
	w.include(w.view.Open[0].Attempts[0].Hash, true) // the chain's fees fell
	w.finishAll(t)
	if w.final[0].State != Confirmed {
		t.Fatalf("%+v", w.final[0].Status)
	}
}

func TestReplace_Protected_NotSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(1, bumping(policy))
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.view.Cursor.Protected = &Protected{ID: 1}
	w.view.Now = w.view.Now.Add(time.Hour)
	if again, ok := w.afterClaim(t).(Broadcast); !ok || again.Attempt.Hash != b.Attempt.Hash {
		t.Fatalf("%T", Decide(&w.view))
	}
	w.do(t, Decide(&w.view), Outcome{Class: AlreadyKnown}, accepted)
	w.view.Now = w.view.Now.Add(time.Hour)
	w.view.Open[0].CancelRequested = true
	if w.broadcasts(t) || len(w.view.Open[0].Attempts) != 1 {
		t.Fatalf("%T", Decide(&w.view))
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(2, policy)
	w.view.Queue[0].Deadline = w.view.Now
	until[Prepare](t, w)
	if len(w.final) != 1 || w.final[0].Reason != ReasonDeadline || w.final[0].Executed != No ||
		w.final[0].Nonce != nil {
		t.Fatalf("%+v", w.final)
	}
	for _, late := range []bool{true, false} {
		w := newWorld(1, policy)
		w.view.Queue[0].Terms.CancelLate, w.view.Queue[0].Deadline = late,
			w.view.Now.Add(time.Second)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
		if _, ok := Decide(&w.view).(*Replace); ok != late {
			t.Fatalf("%T", Decide(&w.view))
		}
	}
}

// The final reason of a cancelled transaction is the reason of the cancel.
func TestCancelled_Reason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked   bool
		attempt int // index of the included attempt
		state   State
		reason  string
	}{
		"by its deadline":                   {false, 2, Cancelled, ReasonDeadline},
		"by the caller":                     {true, 2, Cancelled, ReasonCancelled},
		"its deadline came after the block": {false, 1, Confirmed, ReasonCancelLost},
		"the caller came after the block":   {true, 1, Confirmed, ReasonCancelLost},
	} {
		w := newWorld(1, bumping(policy))
		w.view.Queue[0].Terms.CancelLate, w.view.Queue[0].Deadline = !c.asked, w.view.Now.Add(
			time.Second)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
		w.view.Open[0].CancelRequested = c.asked
		if s := Decide(&w.view).(*Replace); s.ForDeadline == c.asked ||
			Replaced(&w.view, s, Replacement{Outcome: accepted.Outcome}).Writes[0].PastDeadline ==
				c.asked {
			t.Errorf("%s: the ledger is to ask its own clock: %t", name, s.ForDeadline)
		}
		w.do(t, Decide(&w.view).(*Replace), Outcome{}, accepted)
		w.do(t, Decide(&w.view).(Broadcast), Outcome{Class: Accepted}, accepted)
		w.include(w.view.Open[0].Attempts[c.attempt-1].Hash, true)
		w.finishAll(t)
		if got := w.final[0]; got.State != c.state || got.Reason != c.reason ||
			got.CancelRequested != c.asked {
			t.Errorf("%s: %+v", name, got.Status)
		}
	}
}

// A replacement outbids the newest attempt that a pool may have, skipping those that were refused.
func TestReplace_OutbidsPooled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []Class // to one attempt after the other; the last may have none
		want    uint64  // cap of the outbid attempt; 0: none
	}{
		"never broadcast":             {nil, 100},
		"taken":                       {[]Class{Accepted}, 100},
		"ambiguous":                   {[]Class{Ambiguous}, 100},
		"a nonce that is called used": {[]Class{NonceTooLow}, 100},
		"refused for its fees":        {[]Class{Underpriced}, 0},
		"unavailable":                 {[]Class{Unavailable}, 0},
		"refused as a replacement":    {[]Class{Accepted, ReplacementUnderpriced}, 200},
		"ambiguous, then refused":     {[]Class{Ambiguous, Underpriced}, 100},
		"second ambiguous":            {[]Class{Accepted, Ambiguous}, 200},
		"second unavailable":          {[]Class{Ambiguous, RateLimited}, 100},
		"two that are refused": {[]Class{Accepted, Underpriced, FeeCapBelowBaseFee},
			100},
		"newest never broadcast": {[]Class{Underpriced, Underpriced, ""}, 300},
	} {
		w := newWorld(1, policy)
		until[Broadcast](t, w)
		for i, class := range c.answers {
			if i > 0 {
				w.do(t, replace(&w.view, &w.view.Open[0], Bump, 0), Outcome{}, accepted)
			}
			tx := w.view.Open[0]
			tx.Attempts[i].Fees = Fees{Cap: wei(uint64(100 * (i + 1))), Tip: wei(uint64(i + 1))}
			if class != "" {
				w.apply(t,
					Sent(&w.view, Broadcast{Tx: &tx, Attempt: tx.newest()}, Outcome{Class: class}))
			}
		}
		w.view.Open[0].Attempts[0].Fees = Fees{Cap: wei(100), Tip: wei(1)}
		for _, kind := range []AttemptKind{Bump, Cancel} {
			if got := replace(&w.view, &w.view.Open[0], kind, 0).Pooled; got.Cap != wei(c.want) {
				t.Errorf("%s: a %s outbids %s", name, kind, got.Cap.Dec())
			}
		}
	}
}
