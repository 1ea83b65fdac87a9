package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// textLog keeps the log of a node.
type textLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *textLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *textLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *textLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// recordingPolicy records the decisions it is asked for.
type recordingPolicy struct {
	mu     sync.Mutex
	ids    []string
	at     []time.Time
	answer func(ctx context.Context, n int) (txn.StuckAction, error)
}

func (a *recordingPolicy) Decide(ctx context.Context, c txn.StuckCase) (txn.StuckAction, error) {
	a.mu.Lock()
	a.ids, a.at = append(a.ids, c.ActionID), append(a.at, time.Now())
	n := len(a.ids)
	a.mu.Unlock()
	return a.answer(ctx, n)
}

func (a *recordingPolicy) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ids)
}

// newStuckHarness returns a harness that loses all broadcasts, with a policy that soon makes
// transactions STUCK.
func newStuckHarness(t *testing.T, by *recordingPolicy) *chainHarness {
	t.Helper()
	p := quick
	p.ResubmitMax = 3
	v := newChainHarness(t, "memory", p,
		func(o *Options) { o.Stuck, o.StuckTimeout = by, 100*time.Millisecond })
	v.dropSends(func(int) bool { return true })
	return v
}

func TestStuckPolicy_Decision_Applied(t *testing.T) {
	t.Parallel()
	for action, want := range map[txn.StuckAction]func(*chainHarness, txn.TxID) txn.State{
		txn.StuckRetry: func(v *chainHarness, id txn.TxID) txn.State {
			v.awaitEvent(id, txn.EventUnstuck, 1)
			return txn.Confirmed
		},
		txn.StuckBump: func(v *chainHarness, id txn.TxID) txn.State {
			v.awaitAttempts(id, 2)
			return txn.Confirmed
		},
		txn.StuckCancel: func(v *chainHarness, id txn.TxID) txn.State {
			v.awaitAttempts(id, 2)
			return txn.Cancelled
		},
		txn.StuckWait: func(*chainHarness, txn.TxID) txn.State { return txn.Confirmed },
		"DANCE":       func(*chainHarness, txn.TxID) txn.State { return txn.Confirmed },
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			by := &recordingPolicy{answer: func(_ context.Context, n int) (txn.StuckAction, error) {
				if n == 1 {
					return action, nil
				}
				return txn.StuckWait, nil
			}}
			v := newStuckHarness(t, by)
			var counted reading
			asking := v.adjust
			v.adjust = func(o *Options) { asking(o); counted = measure(t, o) }
			v.node()
			id, behind := v.create(0, "one", transfer()), v.create(0, "two", transfer())
			v.eventually("the policy is asked", func() error {
				if by.times() == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			state := want(v, id)
			if action != "DANCE" && action != txn.StuckWait {
				v.awaitCount(counted, 1, "fencepost_stuck_decision", "action", string(action))
			}
			if attempts := v.awaitAttempts(id, 1); len(attempts) > 1 {
				v.awaitCount(counted, float64(len(attempts)-1), "fencepost_tx_replaced", "kind",
					string(attempts[1].Kind))
			}
			v.dropSends(nil)
			if tx := v.finish(id); tx.State != state {
				t.Errorf("%+v", tx.Status)
			}
			if tx := v.finish(behind); tx.State != txn.Confirmed || *tx.Nonce != 1 {
				t.Errorf("%+v", tx.Status)
			}
		})
	}
}

// TestStuckPolicy_Fails_Waits verifies that a policy that fails or times out does not stop
// rebroadcasts.
func TestStuckPolicy_Fails_Waits(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context, int) (txn.StuckAction, error){
		"an error": func(context.Context, int) (txn.StuckAction, error) {
			return txn.StuckCancel,
				errors.New("no idea")
		},
		"no answer": func(ctx context.Context, _ int) (txn.StuckAction, error) {
			<-ctx.Done()
			return txn.StuckCancel, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := &recordingPolicy{answer: answer}
			v := newStuckHarness(t, by)
			v.node()
			id := v.create(0, "one", transfer())
			v.eventually("it is asked again", func() error {
				if by.times() < 3 {
					return errors.New("not yet")
				}
				return nil
			})
			v.dropSends(nil)
			if tx := v.finish(id); tx.State != txn.Confirmed || len(v.awaitAttempts(id, 1)) != 1 {
				t.Errorf("%+v", tx.Status)
			}
		})
	}
}

// TestStuckPolicy_OwnerCrashes_AskedAfterInterval ends the owner during a decision. The successor
// waits for the recorded interval before it asks again.
func TestStuckPolicy_OwnerCrashes_AskedAfterInterval(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	by := &recordingPolicy{answer: func(ctx context.Context, n int) (txn.StuckAction, error) {
		if n == 1 {
			close(begun)
			<-ctx.Done()
		}
		return txn.StuckWait, nil
	}}
	v := newStuckHarness(t, by)
	const interval = 2 * time.Second
	v.policy.ResubmitInterval, v.policy.ResubmitMax = interval, 1
	timeout := v.adjust
	v.adjust = func(o *Options) {
		timeout(o)
		o.StuckTimeout = time.Minute
	}
	n := v.node()
	v.create(0, "one", transfer())
	<-begun
	n.kill()
	n.stop()
	v.node()
	v.eventually("it is asked again", func() error {
		if by.times() < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if by.ids[0] != by.ids[1] || by.at[1].Sub(by.at[0]) < interval*9/10 {
		t.Errorf("asked %v, %s apart", by.ids, by.at[1].Sub(by.at[0]))
	}
}

// TestDiagnosis_PoolState_Reported verifies that the state of the pool is reported, and that a
// failed read stops nothing.
func TestDiagnosis_PoolState_Reported(t *testing.T) {
	t.Parallel()
	p := quick
	p.Diagnose = true
	v := newChainHarness(t, "memory", p, nil)
	v.node()
	id := v.create(0, "one", transfer())
	v.await(id, "it is in the pool",
		func(tx txn.Tx) bool { return tx.Diagnosis == txn.InPool })
	v.dropSends(func(int) bool { return true })
	v.forget()
	v.await(id, "it is missing in the pool",
		func(tx txn.Tx) bool { return tx.Diagnosis == txn.PossiblyLost })
	v.memory.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		return chaintest.Fault{Down: call.Method == chaintest.MethodPooled}
	})
	v.await(id, "nothing is known", func(tx txn.Tx) bool { return tx.Diagnosis == txn.Undiagnosed })
	v.dropSends(nil)
	if tx := v.finish(id); tx.State != txn.Confirmed {
		t.Errorf("%+v", tx.Status)
	}
	if all, _ := v.sent(0); len(slices.Compact(all)) != 1 {
		t.Errorf("%v", all)
	}
}
