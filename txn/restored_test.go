package txn

import (
	"strings"
	"testing"
	"time"
)

// restoredWorld is a world whose whole ledger was restored.
func restoredWorld(w *world) *world {
	for _, txs := range [][]Tx{w.view.Open, w.view.Queue} {
		for i := range txs {
			txs[i].Restored = true
		}
	}
	return w
}

// restoredOutcomes are the ways to a final state as not executed, each with its reason in a ledger
// that was not restored.
var restoredOutcomes = map[string]struct {
	reason string
	end    func(t *testing.T, mark func(*world) *world) *world
}{
	"cancelled in the queue": {
		ReasonCancelled,
		func(t *testing.T, mark func(*world) *world) *world {
			w := mark(newWorld(1, guarded))
			w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: w.view.Queue[0].ID}}
			w.do(t, Decide(&w.view), Outcome{}, accepted)
			return w
		},
	},
	"too late in the queue": {ReasonDeadline, func(t *testing.T, mark func(*world) *world) *world {
		w := mark(newWorld(1, guarded))
		w.view.Queue[0].Deadline = w.view.Now.Add(-time.Second)
		w.settle(t)
		return w
	}},
	"no key": {ReasonSignerKeyMissing, func(t *testing.T, mark func(*world) *world) *world {
		w := mark(newWorld(1, guarded))
		w.apply(
			t,
			Prepared(&w.view, until[Prepare](t, w),
				&Preparation{Outcome: Outcome{Class: Accepted}, SignErr: ErrKeyMissing}),
		)
		return w
	}},
	"would revert": {ReasonPrepareReverted, func(t *testing.T, mark func(*world) *world) *world {
		w := mark(newWorld(1, guarded))
		for range refusalBlocks {
			w.apply(
				t,
				Prepared(&w.view, until[Prepare](t, w),
					&Preparation{Outcome: Outcome{Class: ExecutionReverted}}),
			)
			w.head++
			w.view.Head, w.view.Now = w.head, w.view.Now.Add(refusalAge/2)
		}
		return w
	}},
	"waited too long": {ReasonPrepareTimeout, func(t *testing.T, mark func(*world) *world) *world {
		w := mark(newWorld(1, guarded))
		w.view.Policy.PrepareMaxAge = time.Minute
		for range 2 {
			w.apply(
				t,
				Prepared(&w.view, until[Prepare](t, w),
					&Preparation{Outcome: Outcome{Class: InsufficientFunds}}),
			)
			w.view.Now = w.view.Now.Add(time.Hour)
		}
		return w
	}},
	"requeued, and cancelled in the queue": {
		ReasonCancelled,
		func(t *testing.T, mark func(*world) *world) *world {
			w, id, _ := requeuedWorld(t)
			mark(w).runCommand(t, Command{Kind: CommandCancel, Tx: id}, ahead)
			w.settle(t)
			return w
		},
	},
	"failed, its nonce used elsewhere": {
		ReasonNonceElsewhere,
		func(t *testing.T, mark func(*world) *world) *world {
			w := mark(lostNonce(t))
			w.runCommand(t,
				Command{Kind: CommandResolve, Action: ActionFail, Tx: w.view.Open[0].ID}, ahead)
			return w
		},
	},
	"cancelled in flight": {ReasonCancelled, func(t *testing.T, mark func(*world) *world) *world {
		w := mark(cancelling(t, guarded, Accepted))
		w.do(t, until[*Replace](t, w), Outcome{}, accepted)
		w.include(until[Broadcast](t, w).Attempt.Hash, true)
		w.mineBlocks(t, int(guarded.Confirmations))
		return w
	}},
}

// A transaction of a restored ledger may have run in the lost part: none is final as not executed.
func TestRestored_NeverFinalAsUnexecuted(t *testing.T) {
	t.Parallel()
	for name, c := range restoredOutcomes {
		as := func(w *world) *world { return w }
		for marked, mark := range map[bool]func(*world) *world{false: as, true: restoredWorld} {
			w := c.end(t, mark)
			if len(w.final) == 0 {
				t.Fatalf("%s: not final", name)
			}
			end := w.final[0]
			switch {
			case !marked && (end.Executed != No || end.Reason != c.reason):
				t.Errorf("%s, nothing was restored: %+v", name, end.Status)
			case marked && (end.Executed != Unknown || end.Reason != ReasonRestored ||
				!strings.HasPrefix(end.LastError, "final ("+c.reason) ||
				!strings.Contains(end.LastError, "may have executed")):
				t.Errorf("%s: %+v", name, end.Status)
			}
		}
	}
}

// A receipt is still proof.
func TestRestored_Executed(t *testing.T) {
	t.Parallel()
	for success, want := range map[bool]Executed{true: Success, false: Reverted} {
		w := restoredWorld(newWorld(1, guarded))
		w.include(until[Broadcast](t, w).Attempt.Hash, success)
		w.mineBlocks(t, int(guarded.Confirmations))
		if len(w.final) != 1 || w.final[0].Executed != want || w.final[0].Reason == ReasonRestored {
			t.Errorf("%v: %+v", success, w.final)
		}
	}
}

// The consumer of its nonce may be its own attempt, signed after the backup: it is not sent again
// before an operator confirms that it is not.
func TestRestored_NotRequeuedUnproven(t *testing.T) {
	t.Parallel()
	for action, want := range map[Action]string{ActionRequeue: ResultRefused,
		ActionRequeueUnproven: Applied} {
		w := restoredWorld(lostNonce(t))
		got := w.runCommand(t, Command{Kind: CommandResolve, Action: action, Tx: w.view.Open[0].ID},
			ahead)
		if code, _, _ := strings.Cut(got, ":"); code != want ||
			want == ResultRefused &&
				!strings.Contains(got, "unknown attempt") {
			t.Errorf("%s: %s", action, got)
		}
	}
}
