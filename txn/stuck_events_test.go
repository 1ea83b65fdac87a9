package txn

import (
	"strings"
	"testing"
	"time"
)

// exhausted goes on until what is in flight is STUCK, since no pool has room for it.
func (w *world) exhausted(t *testing.T) {
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

// What is STUCK and loses its nonce is told so, once, and what was decided on before it was known
// is not decided.
func TestStuck_LostNonce_Event(t *testing.T) {
	t.Parallel()
	w, b := sent(t, 1)
	w.exhausted(t)
	looked := w.view.Open[0]
	w.elsewhere = 1
	for range 8 {
		w.blocks(t, 1)
		w.view.Now = w.view.Now.Add(time.Hour)
		w.lookedAndSent(t)
	}
	tx := w.view.Open[0]
	if tx.State != Stuck || tx.Reason != ReasonNonceElsewhere || tx.Version != looked.Version+1 ||
		w.kindCount(EventStuck) != 2 ||
		protected(w) == nil {
		t.Fatalf("%s (%s), version %d after %d, %d times", tx.State, tx.Reason, tx.Version,
			looked.Version, w.kindCount(EventStuck))
	}
	stale := Command{Kind: CommandResolve, Action: ActionRetry, Tx: b.Tx.ID, Expect: looked.Version}
	if got := w.exit(t, stale, ahead); !strings.HasPrefix(got, ResultRefused) ||
		w.view.Open[0].Version != tx.Version {
		t.Errorf("a decision on version %d of what is %d: %s", looked.Version, tx.Version, got)
	}
}

// That it ran before it was given back to the queue is told of what is STUCK already, and of what
// is in a block already.
func TestRequeuedExecuted_Event(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*testing.T, *world)
		want    Kind
	}{
		"with a node": {func(*testing.T, *world) {}, EventStuck},
		"STUCK":       {func(t *testing.T, w *world) { w.exhausted(t) }, EventStuck},
		"in a block": {func(t *testing.T, w *world) {
			w.include(w.view.Open[0].newest().Hash, true)
			w.settle(t)
		}, EventIncluded},
	} {
		w, id, old := takenAnew(t, true)
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

// A cap that is reached by what is STUCK for another reason is told as well.
func TestStuck_FeeCapReached_Event(t *testing.T) {
	t.Parallel()
	w, _ := sent(t, 1)
	w.exhausted(t)
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
		t.Errorf("told %d times", got)
	}
}
