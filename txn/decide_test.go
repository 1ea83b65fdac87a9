package txn

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var policy = Policy{
	Confirmations:    3,
	ReleaseDepth:     1,
	ResubmitInterval: time.Minute,
	ResubmitMax:      4,
}

// TestDecide_AnyOutcomes drives queues through random outcomes, inclusions, reorgs and passing
// time. Every change must be legal (write checks that). Nonces are taken in queue order without gap
// or duplicate, and at most one is in flight. Once faults stop, every transaction is final.
func TestDecide_AnyOutcomes(t *testing.T) {
	t.Parallel()
	classes := []Class{
		Accepted,
		AlreadyKnown,
		NonceTooLow,
		NonceGap,
		ReplacementUnderpriced,
		Underpriced,
		FeeCapBelowBaseFee,
		InsufficientFunds,
		PoolFull,
		RateLimited,
		Unavailable,
		Unauthorized,
		WrongChain,
		Invalid,
		ExecutionReverted,
		Ambiguous,
	}
	rapid.Check(t, func(t *rapid.T) {
		p := policy
		p.ReleaseDepth = rapid.Uint64Range(1, 3).Draw(t, "release depth")
		queued := rapid.IntRange(1, 5).Draw(t, "queued")
		w := newWorld(queued, p)
		w.limit(rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "limit"))
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "weather") {
			case 0:
				w.view.Now = w.view.Now.Add(
					time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			case 1:
				w.head++
			case 2:
				if n := len(w.view.Open); n > 0 {
					w.include(w.nextToInclude().Hash, rapid.Bool().Draw(t, "success"))
				}
			case 3:
				if n := len(w.view.Open); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "reorged")
					delete(w.included, w.view.Open[i].newest().Hash)
					for i++; i < n && w.view.Submitter.Limit > 1; i++ {
						delete(w.included, w.view.Open[i].newest().Hash)
					}
				}
			case 4:
				if n := len(w.view.Open); n > 0 {
					h := w.view.Open[n-1].newest().Hash
					w.unknown[h] = !w.unknown[h]
				}
			case 5:
				id := w.randomTx(t)
				w.view.Commands = append(w.view.Commands,
					Command{ID: int64(w.head), Kind: CommandCancel, Tx: id})
			default:
				prep := Preparation{
					Outcome: Outcome{Class: rapid.SampledFrom(classes).Draw(t, "quote")},
				}
				if rapid.Bool().Draw(t, "signer fails") {
					prep.SignErr = rapid.SampledFrom(
						[]error{ErrKeyMissing, ErrSignerFault, ErrUnavailable}).Draw(
						t,
						"signer",
					)
				}
				w.do(t, Decide(&w.view),
					Outcome{Class: rapid.SampledFrom(classes).Draw(t, "answer")}, prep)
			}
			w.check(t)
		}
		w.finishAll(t)
		if len(w.final) != queued {
			t.Fatalf("%d of %d final; open %d, queue %d", len(w.final), queued, len(w.view.Open),
				len(w.view.Queue))
		}
	})
}

// limit sets the number of nonces in flight.
func (w *world) limit(n int) {
	if w.view.Submitter.Limit = n; n > 1 {
		w.view.Submitter.Mode = Pipelined
	}
}

// nextToInclude returns an attempt that a block may include: of the newest transaction or, of
// several in flight, of the lowest that is in no block.
func (w *world) nextToInclude() *Attempt {
	for i := range w.view.Open {
		newest := w.view.Open[i].newest()
		if w.view.Submitter.Limit > 1 && w.included[newest.Hash] == nil {
			return newest
		}
	}
	return w.view.Open[len(w.view.Open)-1].newest()
}

func (w *world) randomTx(t *rapid.T) TxID {
	all := slices.Concat(w.view.Open, w.view.Queue, w.final)
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "cancelled")].ID
}

func (w *world) check(t fataler) {
	t.Helper()
	for i, n := range w.nonces {
		if n != Nonce(i) {
			t.Fatalf("nonces %v", w.nonces)
		}
	}
	unreleased := 0
	for _, tx := range w.view.Open {
		if !tx.Released {
			unreleased++
		}
	}
	if unreleased > w.view.Submitter.Limit {
		t.Fatalf("%d in flight", unreleased)
	}
}

// finishAll runs without faults: nodes accept, and blocks include, every broadcast transaction.
func (w *world) finishAll(t fataler) {
	t.Helper()
	w.unknown = map[Hash]bool{}
	for range 400 {
		step := Decide(&w.view)
		if b, ok := step.(Broadcast); ok {
			w.include(b.Attempt.Hash, true)
		}
		if r, ok := step.(BroadcastRange); ok {
			for _, b := range r.Items {
				w.include(b.Attempt.Hash, true)
			}
		}
		if _, ok := step.(Rest); ok {
			w.head++
			w.view.Now = w.view.Now.Add(time.Minute)
		}
		w.do(t, step, Outcome{Class: Accepted}, accepted)
		w.check(t)
	}
}

func TestDecide_Lifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(2, policy)
	ids := []TxID{w.view.Queue[0].ID, w.view.Queue[1].ID}
	w.finishAll(t)
	for _, id := range ids {
		want := []Kind{EventAllocated, EventSubmitted, EventIncluded, EventConfirmed}
		if !slices.Equal(w.kinds[id], want) {
			t.Errorf("events %v, want %v", w.kinds[id], want)
		}
	}
	if !slices.Equal(w.order, ids) {
		t.Error("the queue was reordered")
	}
}

// until runs accepted steps until the wanted step.
func until[S Step](t *testing.T, w *world) S {
	t.Helper()
	for range 50 {
		step := Decide(&w.view)
		if s, ok := step.(S); ok {
			return s
		}
		if r, ok := step.(Rest); ok {
			if r.Until.IsZero() {
				break
			}
			w.view.Now = r.Until
		}
		w.do(t, step, Outcome{Class: Accepted}, accepted)
	}
	var none S
	t.Fatalf("no %T is decided", none)
	return none
}

// untilStuck broadcasts with this outcome until the limit of the policy.
func (w *world) untilStuck(t *testing.T, answer Class) {
	t.Helper()
	for range 2 * w.view.Policy.ResubmitMax {
		if w.kindCount(EventStuck) > 0 {
			return
		}
		w.do(t, until[Broadcast](t, w), Outcome{Class: answer}, accepted)
	}
	t.Fatal("it is not STUCK")
}

func TestSent_AnyOutcome_KeepsNonce(t *testing.T) {
	t.Parallel()
	others := []Class{Invalid, Underpriced, FeeCapBelowBaseFee, TypeNotSupported} // replaced
	for _, class := range Classes {
		if (Outcome{Class: class}).inPool() {
			continue
		}
		w := newWorld(2, policy)
		b := until[Broadcast](t, w)
		w.apply(t, Sent(&w.view, b, Outcome{Class: class, Detail: "said so"}))
		tx := w.view.Open[0]
		if tx.Nonce == nil || tx.Released || tx.State.Final() || len(w.nonces) != 1 {
			t.Errorf("%s: %+v", class, tx.Status)
		}
		again := until[Broadcast](t, w)
		if again.Tx.ID != b.Tx.ID || again.Attempt.Nonce != b.Attempt.Nonce ||
			(again.Attempt.Hash != b.Attempt.Hash) != slices.Contains(others, class) {
			t.Errorf("%s: other bytes are sent next", class)
		}
	}
}

func TestPrepared_Failure_TakesNoNonce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prep Preparation
		ends bool
		why  string
	}{
		"no funds": {Preparation{Outcome: Outcome{Class: InsufficientFunds}}, false,
			ReasonInsufficientFunds},
		"no chain": {Preparation{Outcome: Outcome{Class: Unavailable}}, false,
			ReasonChainUnavailable},
		"unclear": {Preparation{Outcome: Outcome{Class: Ambiguous}}, false,
			ReasonNoEstimate},
		"above the configured maximum": {
			Preparation{Outcome: Outcome{Class: Invalid, GasCap: true, Detail: "above"}},
			false, ReasonGasCap},
		// the first refusal
		"invalid": {Preparation{Outcome: Outcome{Class: Invalid}}, false, ReasonInvalid},
		"fees too high": {Preparation{Outcome: Outcome{Class: FeeCapBelowBaseFee}}, false,
			ReasonFeeCap},
		"no key": {Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrKeyMissing},
			true, ReasonSignerKeyMissing},
		"signer fault": {Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrSignerFault},
			false, ReasonSignerFault},
		"signer down": {Preparation{Outcome: Outcome{Class: Accepted},
			SignErr: errors.New("timeout")}, false, ReasonSignerUnavailable},
	} {
		w := newWorld(1, policy)
		p := until[Prepare](t, w)
		change := Prepared(&w.view, p, &c.prep)
		if change.Take != nil {
			t.Errorf("%s: takes a nonce", name)
		}
		if next := change.Writes[0].Next; next.State.Final() != c.ends || next.Reason != c.why ||
			next.LastError == "" ||
			c.ends && next.Executed != No {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

func TestPrepared_Revert_FailsAtThirdBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(2, policy)
	for range refusalBlocks {
		p := until[Prepare](t, w)
		w.apply(
			t,
			Prepared(&w.view, p,
				&Preparation{Outcome: Outcome{Class: ExecutionReverted, Detail: "not today"}}),
		)
		if len(w.final) > 0 {
			break
		}
		p = until[Prepare](t, w) // the same block again is ignored
		w.apply(
			t,
			Prepared(&w.view, p,
				&Preparation{Outcome: Outcome{Class: ExecutionReverted, Detail: "not today"}}),
		)
		if len(w.final) > 0 {
			t.Fatal("one block was believed twice")
		}
		w.head++
		w.view.Now = w.view.Now.Add(refusalAge / 2)
	}
	if len(w.final) != 1 || w.final[0].State != Failed || w.final[0].Executed != No ||
		w.final[0].Reason != ReasonPrepareReverted {
		t.Fatalf("%+v", w.final)
	}
	w.finishAll(t)
	if len(w.final) != 2 || w.final[1].State != Confirmed || *w.final[1].Nonce != 0 {
		t.Error("the follower did not go on with the nonce that was never taken")
	}
}

// TestPrepared_RevertOnFastChain_LastsTenSeconds counts many blocks within the least age of a
// refusal, and an owner that takes over meanwhile.
func TestPrepared_RevertOnFastChain_LastsTenSeconds(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]struct {
		class  Class
		reason string
	}{
		"would revert": {ExecutionReverted, ReasonPrepareReverted},
		"invalid":      {Invalid, ReasonInvalid},
	} {
		w := newWorld(1, policy)
		began, blocks := time.Time{}, 0
		for len(w.final) == 0 && blocks < 100 {
			p := until[Prepare](t, w)
			if began.IsZero() {
				began = w.view.Now
			}
			w.apply(t, Prepared(&w.view, p, &Preparation{Outcome: Outcome{Class: reason.class}}))
			w.head += 100
			if blocks++; blocks == refusalBlocks && len(w.final) == 0 {
				// a new owner does not know the time of the first one
				w.view.Queue[0].RefusedAt, w.view.Queue[0].RefusedSince = 0, time.Time{}
				began = w.view.Queue[0].Due
			}
		}
		if len(w.final) != 1 || w.final[0].Reason != reason.reason {
			t.Fatalf("%s: %+v", name, w.final)
		}
		if took := w.view.Now.Sub(began); took < refusalAge || took > refusalAge+time.Second {
			t.Errorf("%s: failed after %s and %d blocks", name, took, blocks)
		}
	}
}

func TestStartCursor(t *testing.T) {
	t.Parallel()
	still := func(n Nonce) Account { return Account{Latest: n, Pending: n, Settled: n} }
	for name, c := range map[string]struct {
		from    string
		account Account
		nonce   Nonce
		why     string
	}{
		"fresh":        {"0", still(0), 0, ""},
		"not fresh":    {"0", still(7), 0, ReasonStartNonce},
		"continues":    {StartChain, still(7), 7, ""},
		"exact":        {"7", still(7), 7, ""},
		"exact, wrong": {"8", still(7), 0, ReasonStartNonce},
		"pending somewhere": {StartChain, Account{Latest: 7, Pending: 8, Settled: 7}, 0,
			ReasonNotQuiescent},
		"not settled": {StartChain, Account{Latest: 7, Pending: 7, Settled: 6}, 0,
			ReasonNotQuiescent},
		"fresh, not quiescent": {"0", Account{Latest: 0, Pending: 1, Settled: 0}, 0,
			ReasonNotQuiescent},
		"lagging pool, continues": {StartChain, Account{Latest: 7, Pending: 6, Settled: 7}, 0,
			ReasonNotQuiescent},
		"large number": {"123456789012345678", still(123456789012345678),
			123456789012345678, ""},
	} {
		w := newWorld(1, policy)
		w.view.Submitter.StartFrom = c.from
		w.view.Account = &c.account
		record, ok := Decide(&w.view).(Record)
		if !ok {
			t.Errorf("%s: no record", name)
			continue
		}
		if c.why == "" {
			if record.Change.Init == nil || record.Change.Init.Nonce != c.nonce {
				t.Errorf("%s: %+v", name, record.Change)
			}
		} else if record.Change.Init != nil || record.Change.Writes[0].Next.Reason != c.why {
			t.Errorf("%s: %+v", name, record.Change)
		}
	}
}

func TestAllocate_KeyUsedElsewhere_Stops(t *testing.T) {
	t.Parallel()
	for _, a := range []Account{{Latest: 1, Pending: 1}, {Latest: 0, Pending: 1}} {
		w := newWorld(1, policy)
		w.view.Cursor = &Cursor{}
		w.view.Account = &a
		record, ok := Decide(&w.view).(Record)
		if !ok || record.Change.Writes[0].Next.Reason != ReasonNonceElsewhere {
			t.Errorf("%+v: %+v", a, record)
		}
	}
}

func TestAllocate_ChainBehind_Stops(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.view.Cursor = &Cursor{Next: 7}
	w.view.Account = &Account{Latest: 6, Pending: 6, Expected: 7}
	record, ok := Decide(&w.view).(Record)
	if !ok || record.Change.Writes[0].Next.Reason != ReasonChainBehind {
		t.Errorf("%+v", record)
	}
	w.view.Cursor = &Cursor{
		Next: 8,
	} // our own allocation since then does not contradict an older view
	w.view.Account = &Account{Latest: 7, Pending: 7, Expected: 7}
	if _, ok := Decide(&w.view).(Prepare); !ok {
		t.Errorf("%+v", Decide(&w.view))
	}
}

func TestAllocate_ReleasedReorged_RebroadcastFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(3, policy)
	first := until[Broadcast](t, w)
	w.include(first.Attempt.Hash, true)
	w.do(t, first, Outcome{Class: Accepted}, accepted)
	second := until[Broadcast](t, w) // released at depth 1, so the next was allocated
	w.do(t, second, Outcome{Class: Accepted}, accepted)
	delete(w.included, first.Attempt.Hash)
	again := until[Broadcast](t, w)
	if again.Tx.ID != first.Tx.ID || again.Attempt.Hash != first.Attempt.Hash {
		t.Fatal("the reorged transaction is not rebroadcast first")
	}
	w.include(second.Attempt.Hash,
		true) // impossible before the first; nothing may be allocated on it
	w.do(t, again, Outcome{Class: Accepted}, accepted)
	if step, ok := Decide(&w.view).(Prepare); ok {
		t.Fatalf("nonce %d would be allocated above a gap", step.Nonce)
	}
	w.finishAll(t)
	if len(w.final) != 3 {
		t.Fatalf("%d final", len(w.final))
	}
}

func TestPause_StopsAllocationOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(2, policy)
	b := until[Broadcast](t, w)
	w.view.Commands = []Command{{ID: 1, Kind: CommandPause}}
	w.do(t, Decide(&w.view), Outcome{}, Preparation{})
	w.include(b.Attempt.Hash, true)
	w.finishAll(t)
	if len(w.final) != 1 || len(w.view.Queue) != 1 {
		t.Fatalf("%d final, %d queued", len(w.final), len(w.view.Queue))
	}
	w.view.Commands = []Command{{ID: 2, Kind: CommandResume}}
	w.finishAll(t)
	if len(w.final) != 2 {
		t.Fatalf("%d final after the pause", len(w.final))
	}
}

func TestStuck_TrackedAndRebroadcast(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.untilStuck(t, AlreadyKnown)
	if tx := w.view.Open[0]; tx.Reason != ReasonResubmitExhausted || tx.LastError == "" {
		t.Fatalf("stuck without a reason: %+v", tx.Status)
	}
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonResubmitExhausted {
		t.Fatalf("it forgot why it is stuck: %+v", tx.Status)
	}
	w.include(b.Attempt.Hash, false)
	w.finishAll(t)
	if len(w.final) != 1 || w.final[0].State != Failed || w.final[0].Executed != Reverted {
		t.Fatalf("%+v", w.final)
	}
}

func TestSent_RepeatedFailure_Stuck(t *testing.T) {
	t.Parallel()
	for class, stuck := range map[Class]bool{NonceTooLow: true, PoolFull: true, Ambiguous: true,
		Unavailable: false, RateLimited: false} {
		w := newWorld(1, policy)
		for range 2 * policy.ResubmitMax {
			w.do(t, until[Broadcast](t, w), Outcome{Class: class}, accepted)
		}
		if got := w.view.Open[0].State == Stuck; got != stuck || w.kindCount(EventStuck) > 1 {
			t.Errorf("%s: %+v", class, w.view.Open[0].Status)
		}
	}
}

func (w *world) kindCount(k Kind) int {
	n := 0
	for _, kinds := range w.kinds {
		for _, kind := range kinds {
			if kind == k {
				n++
			}
		}
	}
	return n
}

func TestMoves_FinalIsReachable(t *testing.T) {
	t.Parallel()
	for _, s := range States {
		if s.Final() {
			continue
		}
		if !slices.ContainsFunc(Moves, func(m Move) bool {
			return slices.Contains(m.From, s) && slices.ContainsFunc(m.To, State.Final)
		}) {
			t.Errorf("no move leads from %s to an end", s)
		}
	}
}
