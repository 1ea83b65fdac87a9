package txn

import "testing"

// A transaction without a nonce may have executed in the lost part: until the account was compared
// with the chain, it never ends as not executed. One that lost its nonce to its own cancel
// transaction does, and so does any after a move alone.
func TestFailedOver_NoNonce_NeverFinalAsUnexecuted(t *testing.T) {
	t.Parallel()
	for name, c := range restoredOutcomes {
		if name == "failed, its nonce used elsewhere" { // TestFailedOver_LostAttempt_GivesWay
			continue
		}
		for _, lost := range []bool{true, false} {
			w := c.end(t, func(w *world) *world {
				w.view.FailedOver, w.view.MayHaveLost = true, lost
				return w
			})
			if len(w.final) == 0 {
				t.Fatalf("%s: not final", name)
			}
			end := w.final[0]
			want, reason := No, c.reason
			if lost && end.Nonce == nil {
				want, reason = Unknown, ReasonRestored
			}
			if end.Executed != want || end.Reason != reason {
				t.Errorf("%s, lost %v: %+v", name, lost, end.Status)
			}
		}
	}
}

// A node that knows lost commits of an account without a cursor protects it with its first nonce.
// Until then nothing ends as not executed either.
func TestLost_NoCursor_NeverFinalAsUnexecuted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cancelled in the queue", "too late in the queue"} {
		w := restoredOutcomes[name].end(t, func(w *world) *world {
			w.view.Lost = "the ledger lost commits"
			return w
		})
		if len(w.final) != 1 || w.final[0].Executed != Unknown ||
			w.final[0].Reason != ReasonRestored {
			t.Errorf("%s: %+v", name, w.final)
		}
	}
}
