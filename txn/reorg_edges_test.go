package txn

import (
	"slices"
	"testing"
)

// inFlight is a world whose transactions were allocated, broadcast and included one after the
// other, with the last one only broadcast.
func inFlight(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(n+1, policy)
	w.view.Policy.Confirmations = 100
	for i := range n {
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		if i < n-1 {
			w.include(b.Attempt.Hash, true)
			w.do(t, Decide(&w.view), Outcome{}, Preparation{}) // reported and released
		}
	}
	return w
}

func TestSent_FailedTries_NotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	for range policy.ResubmitMax - 1 {
		w.do(t, until[Broadcast](t, w), Outcome{Class: Ambiguous}, accepted)
	}
	for range 3 * policy.ResubmitMax {
		w.do(t, until[Broadcast](t, w), Outcome{Class: Unavailable}, accepted)
	}
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.do(t, until[Broadcast](t, w), Outcome{Class: AlreadyKnown}, accepted)
	if tx := w.view.Open[0]; tx.State != Tracking || tx.SubmitAttempts != 2 {
		t.Errorf("two broadcasts in all: %+v", tx.Status)
	}
}

func TestBroadcast_LowestNonceFirst(t *testing.T) {
	t.Parallel()
	w := inFlight(t, 2)
	delete(w.included, w.view.Open[0].newest().Hash)
	w.do(t, Decide(&w.view), Outcome{}, Preparation{}) // the reorg is reported
	low, high := &w.view.Open[0], &w.view.Open[1]
	low.Due, high.Due = w.view.Now.Add(1), w.view.Now
	if step, ok := Decide(&w.view).(Rest); !ok || step.Until != low.Due {
		t.Errorf("the higher nonce does not wait for the lower one: %#v", Decide(&w.view))
	}
	w.unknown[low.newest().Hash] = true
	if _, ok := Decide(&w.view).(Rest); !ok {
		t.Errorf("broadcast while the lower one is unknown: %#v", Decide(&w.view))
	}
}

func TestAllocate_UnknownInclusion_Waits(t *testing.T) {
	t.Parallel()
	w := inFlight(t, 2)
	w.include(w.view.Open[1].newest().Hash, true)
	w.do(t, Decide(&w.view), Outcome{}, Preparation{})
	if _, ok := Decide(&w.view).(Prepare); !ok {
		t.Fatalf("both are included and the next is not prepared: %#v", Decide(&w.view))
	}
	w.unknown[w.view.Open[0].newest().Hash] = true
	delete(w.included, w.view.Open[0].newest().Hash)
	if step, ok := Decide(&w.view).(Prepare); ok {
		t.Errorf("nonce %d is prepared above one that may be out of the chain", step.Nonce)
	}
}

func TestInclusion_NoAttempts_Unknown(t *testing.T) {
	t.Parallel()
	w := inFlight(t, 1)
	w.view.Open[0].Attempts = nil
	w.view.Now = w.view.Open[0].Due.Add(1)
	if step, ok := Decide(&w.view).(Rest); !ok {
		t.Errorf("something follows from nothing: %#v", step)
	}
}

func TestIncluded_OtherBlock_Event(t *testing.T) {
	t.Parallel()
	w := inFlight(t, 2)
	id, hash := w.view.Open[0].ID, w.view.Open[0].newest().Hash
	before := len(w.kinds[id])
	costs := *w.included[hash]
	costs.EffectiveGasPrice.SetUint64(
		7) // another node returns more of the same receipt
	w.included[hash] = &costs
	if _, ok := Decide(&w.view).(Record); ok {
		t.Error("the same inclusion is reported again")
	}
	w.include(hash, true)
	w.do(t, Decide(&w.view), Outcome{}, Preparation{})
	if kinds := w.kinds[id]; len(kinds) != before+1 || kinds[before] != EventIncluded {
		t.Errorf("events %v", kinds)
	}
}

func TestDelayed_NewReason_OneEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	id := w.view.Queue[0].ID
	for _, class := range []Class{InsufficientFunds, InsufficientFunds, Unavailable, Unavailable} {
		p := until[Prepare](t, w)
		w.apply(t, Prepared(&w.view, p, &Preparation{Outcome: Outcome{Class: class}}))
	}
	if got := w.kinds[id]; !slices.Equal(got, []Kind{EventDelayed, EventDelayed}) {
		t.Errorf("events %v", got)
	}
}

func TestPrepared_OversizedBytes_Failed(t *testing.T) {
	t.Parallel()
	for size, ends := range map[int]bool{maxRawBytes: false, maxRawBytes + 1: true} {
		w := newWorld(1, policy)
		p := until[Prepare](t, w)
		c := Prepared(
			&w.view,
			p,
			&Preparation{
				Outcome: Outcome{Class: Accepted},
				Signed:  Signed{Raw: make([]byte, size)},
			},
		)
		if got := c.Writes[0].Next.State == Failed; got != ends || (c.Take == nil) != ends {
			t.Errorf("%d bytes: %+v", size, c.Writes[0].Next)
		}
	}
}

func TestCommand_UnknownKind_NoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.view.Commands = []Command{{ID: 7, Kind: "OF_TOMORROW"}}
	record, ok := Decide(&w.view).(Record)
	if !ok || record.Change.Commands[0].Result == Applied || len(record.Change.Writes) != 0 ||
		record.Change.Status != "" {
		t.Errorf("%#v", Decide(&w.view))
	}
}
