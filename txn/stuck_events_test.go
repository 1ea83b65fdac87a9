package txn

import (
	"strings"
	"testing"
	"time"
)

// exhaustAttempts runs until the transaction in flight is STUCK, because no pool has room for it.
func (w *world) exhaustAttempts(t *testing.T) {
	t.Helper()
	for range 400 {
		if w.view.Open[0].State == Stuck {
			return
		}
		w.view.Now = w.view.Now.Add(time.Hour)
		if step := Decide(&w.view); step != (Rest{}) {
			w.do(t, step, Outcome{Class: PoolFull}, accepted)
		}
	}
	t.Fatalf("it is never STUCK: %+v", w.view.Open[0].Status)
}

// The loss of a nonce of a STUCK transaction is reported once. Decisions from before are void.
func TestStuck_LostNonce_Event(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 1)
	w.exhaustAttempts(t)
	seen := w.view.Open[0]
	w.elsewhere = 1
	for range 8 {
		w.mineBlocks(t, 1)
		w.view.Now = w.view.Now.Add(time.Hour)
		w.broadcastNonceTooLow(t)
	}
	tx := w.view.Open[0]
	if tx.State != Stuck || tx.Reason != ReasonNonceElsewhere || tx.Version != seen.Version+1 ||
		w.kindCount(EventStuck) != 2 ||
		protected(w) == nil {
		t.Fatalf("%s (%s), version %d after %d, %d times", tx.State, tx.Reason, tx.Version,
			seen.Version, w.kindCount(EventStuck))
	}
	stale := Command{Kind: CommandResolve, Action: ActionRetry, Tx: b.Tx.ID, Expect: seen.Version}
	if got := w.runCommand(t, stale, ahead); !strings.HasPrefix(got, ResultRefused) ||
		w.view.Open[0].Version != tx.Version {
		t.Errorf("a decision on version %d, now %d: %s", seen.Version, tx.Version, got)
	}
}

// The execution before a REQUEUE is reported for a transaction that is already STUCK or included.
func TestRequeuedExecuted_Event(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*testing.T, *world)
		want    Kind
	}{
		"with a node": {func(*testing.T, *world) {}, EventStuck},
		"STUCK":       {func(t *testing.T, w *world) { w.exhaustAttempts(t) }, EventStuck},
		"in a block": {func(t *testing.T, w *world) {
			w.include(w.view.Open[0].newest().Hash, true)
			w.settle(t)
		}, EventIncluded},
	} {
		w, id, old := reallocated(t, true)
		c.prepare(t, w)
		before := w.view.Open[0]
		w.include(old, true)
		w.apply(t, Decide(&w.view).(Record).Change)
		kinds, tx := w.kinds[id], w.view.Open[0]
		if tx.Reason != ProtectExecutedAfterRequeue || tx.Version != before.Version+1 ||
			kinds[len(kinds)-1] != c.want ||
			tx.Receipt != before.Receipt {
			t.Errorf("%s: %v, %+v", name, kinds, tx.Status)
		}
	}
}

func TestStuck_FeeCapReached_Event(t *testing.T) {
	t.Parallel()
	w, _ := sentWorld(t, 1)
	w.exhaustAttempts(t)
	tx := w.view.Open[0]
	s := replace(&w.view, &tx, Bump, 0)
	w.apply(t, Replaced(&w.view, s, Replacement{Outcome: Outcome{Class: FeeCapBelowBaseFee}}))
	if got := w.view.Open[0]; got.Reason != ReasonFeeCapReached || got.Version != tx.Version+1 ||
		w.kindCount(EventStuck) != 2 {
		t.Errorf("%+v", got.Status)
	}
	w.apply(
		t,
		Replaced(&w.view, replace(&w.view, &w.view.Open[0], Bump, 0),
			Replacement{Outcome: Outcome{Class: FeeCapBelowBaseFee}}),
	)
	if got := w.kindCount(EventStuck); got != 2 {
		t.Errorf("%d events", got)
	}
}
