package txn

import (
	"testing"
	"time"
)

// A hand-over that is not a form's first is counted and put off in the ledger before anybody outside hears of it: whoever takes over after a crash in between
// waits for an interval. It is counted once, and not at all if nobody looked at the bytes.
func TestAHandOverIsClaimedFirst(t *testing.T) {
	t.Parallel()
	for class, count := range map[Class]int{Accepted: 2, Ambiguous: 2, Unavailable: 1} {
		w := newWorld(1, policy)
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		version := w.view.Open[0].Version
		w.view.Now = w.view.Now.Add(time.Hour)
		b, ok := w.claimed(t).(Broadcast)
		if tx := w.view.Open[0]; !ok || tx.SubmitAttempts != 2 || tx.Version != version || !tx.Due.Equal(w.view.Now.Add(policy.ResubmitInterval)) {
			t.Fatalf("%T %+v due %s", Decide(w.view), tx.Status, tx.Due)
		}
		crashed := w.view
		crashed.Open = []Tx{w.view.Open[0]}
		crashed.Open[0].Turn = Turn{} // all that memory had
		if r, ok := Decide(crashed).(Rest); !ok || !r.Until.Equal(w.view.Now.Add(policy.ResubmitInterval)) {
			t.Errorf("%T after a crash", Decide(crashed))
		}
		w.do(t, b, Outcome{Class: class}, accepted)
		if tx := w.view.Open[0]; tx.SubmitAttempts != count || tx.Turn != (Turn{}) {
			t.Errorf("%s: %+v %+v", class, tx.Status, tx.Turn)
		}
	}
}

// A policy for stuck transactions whose answer cannot be carried out is asked once in an interval, however that fails.
func TestAPolicyThatCannotBeFollowedIsAskedOnceAnInterval(t *testing.T) {
	t.Parallel()
	for _, action := range []StuckAction{StuckBump, StuckCancel} {
		for name, p := range map[string]Preparation{
			"no fees": {Outcome: Outcome{Class: Ambiguous}}, "no signer": {Outcome: Outcome{Class: Accepted}, SignErr: ErrUnavailable},
			"at the cap": {Outcome: Outcome{Class: FeeCapBelowBaseFee}},
		} {
			w := newWorld(1, policy)
			for w.kindCount(EventStuck) == 0 {
				w.do(t, until[Broadcast](t, w), Outcome{Class: AlreadyKnown}, accepted)
			}
			w.view.Policy.Stuck, w.answer = true, action
			begun, steps := w.view.Now, 0
			for w.view.Now.Before(begun.Add(10 * policy.ResubmitInterval)) {
				step := Decide(w.view)
				if r, ok := step.(Rest); ok {
					w.view.Now = r.Until
				}
				if steps++; steps > 200 {
					t.Fatalf("%s, %s: a loop without rest", action, name)
				}
				w.do(t, step, Outcome{Class: AlreadyKnown}, p)
			}
			if len(w.asked) > 11 {
				t.Errorf("%s, %s: asked %d times in ten intervals", action, name, len(w.asked))
			}
		}
	}
}
