package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// includeLost reorgs the chain below the foreign use of a nonce, and includes the attempt that had
// lost it.
func (w *sharedKeyHarness) includeLost(old txn.Signed) {
	w.t.Helper()
	if err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number)-4, chaintest.Drop); err != nil {
		w.t.Fatal(err)
	}
	w.chain.ForgetPool()
	if o := w.chain.Send(w.t.Context(), old); o.Class != txn.Accepted {
		w.t.Fatalf("%+v", o)
	}
	w.chain.Mine(1)
	w.chain.MineEmpty(20)
}

// TestEnded_AttemptIncluded_OutcomeRevoked fails a transaction at the required depth, and a deeper
// reorg includes it. The submitter is protected, the outcome is revoked, and the receipt decides.
// Cases: under the protection or after it, after a requeue and a cancel, after a takeover, and
// without an owner at that time.
func TestEnded_AttemptIncluded_OutcomeRevoked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ exit, takeover, away, requeued bool }{
		"failed": {exit: true}, "failed, still protected": {},
		"its successor":       {exit: true, takeover: true},
		"no owner":            {exit: true, away: true},
		"requeued, cancelled": {exit: true, requeued: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, id, n := protectedAfterLoss(t, 60)
			old := w.signed(w.attempts()[id.String()])
			w.chain.MineEmpty(int(w.policy.AuditDepth))
			if c.requeued {
				w.want(w.resolve(txn.ActionRequeue, id), txn.Applied)
				w.want(w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}), txn.Applied)
			} else {
				w.want(w.resolve(txn.ActionFail, id), txn.Applied)
			}
			if tx := w.awaitFinal(id); tx.Executed != txn.No || tx.FinalBlock == 0 {
				t.Fatalf("%+v", tx.Status)
			}
			if c.exit {
				w.want(w.exit(txn.ActionResume), txn.Applied)
			}
			if c.takeover || c.away {
				n.stop()
			}
			if c.takeover {
				w.node()
			}
			w.includeLost(old)
			if c.away {
				w.node() // only the ended transaction needs an owner
			}
			if c.exit {
				p := w.awaitProtected(txn.ProtectExecutedAfterFinal)
				if !strings.Contains(p.Evidence,
					id.String()) || !strings.Contains(p.Evidence, old.Hash.Hex()) {
					t.Errorf("evidence %s", p.Evidence)
				}
			}
			w.eventually("the outcome is revoked, and the receipt decides",
				w.newest(id, txn.EventReorged, txn.EventIncluded, txn.EventConfirmed))
			tx := w.awaitFinal(id)
			if tx.State != txn.Confirmed || tx.Executed != txn.Success ||
				tx.Reason != txn.ProtectExecutedAfterFinal ||
				*tx.Nonce != 1 || tx.Receipt.TxHash != old.Hash || tx.TxHash != old.Hash {
				t.Errorf("%+v", tx.Status)
			}
			w.want(w.exit(txn.ActionResume), txn.Applied)
			next := w.create(0, "next", transfer())
			if tx := w.finish(next); tx.State != txn.Confirmed || *tx.Nonce != 2 {
				t.Errorf("%+v", tx.Status)
			}
			if got := w.executions(); !slices.Equal(got, []txn.Nonce{0, 1, 2}) {
				t.Errorf("payloads executed under nonces %v", got)
			}
			if got := w.gaps(); len(got) > 0 {
				t.Errorf("gaps %v", got)
			}
			w.checkInvariants()
			report, err := audit.Run(t.Context(),
				audit.Options{Store: w.admin, Chain: w.chain, Submitter: w.submitters[0]})
			if err != nil || len(report.Violations) > 0 || report.Unanswered > 0 {
				t.Errorf("%+v %v", report, err)
			}
		})
	}
}

// TestFail_AttemptsIncludable_WaitsForAuditDepth verifies that FAIL needs the same depth as
// REQUEUE, also without proof.
func TestFail_AttemptsIncludable_WaitsForAuditDepth(t *testing.T) {
	t.Parallel()
	w, id, _ := protectedAfterLoss(t,
		500) // far more than the blocks mined before the protection
	for _, action := range []txn.Action{txn.ActionFail, txn.ActionFailUnproven} {
		w.want(w.resolve(action, id), txn.ResultRefused, "500", "may still be included")
	}
	w.chain.MineEmpty(500)
	w.want(w.resolve(txn.ActionFail, id), txn.Applied)
}

// TestEnded_BelowAuditDepth_Dropped verifies that an ended transaction keeps an owner down to the
// audit depth, and no longer.
func TestEnded_BelowAuditDepth_Dropped(t *testing.T) {
	t.Parallel()
	w, id, n := protectedAfterLoss(t, 60)
	w.chain.MineEmpty(int(w.policy.AuditDepth)) // nothing else keeps an owner
	w.want(w.resolve(txn.ActionFail, id), txn.Applied)
	ended := w.awaitFinal(id).FinalBlock
	n.stop()
	w.startNode("idle", func(o *Options) { o.Chains[0].Chain, o.IdleAfter = w.chain, time.Second })
	w.chain.MineEmpty(1)
	w.eventually("it has an owner", w.released(0))
	token := "SELECT fencing_token FROM submitter_lease"
	first := w.number(token)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = w.chain.Run(ctx, clock.Real{}, 50*time.Millisecond) }()
	w.eventually("it is released", w.released(1))
	if last := w.number(token); last != first {
		t.Errorf("released and acquired again: token %d, then %d", first, last)
	}
	if head, err := w.chain.Head(t.Context()); err != nil ||
		head.Number < ended+w.policy.AuditDepth {
		t.Errorf("released at block %d, ended at block %d: %v", head.Number, ended, err)
	}
}

// released requires n released leases.
func (w *sharedKeyHarness) released(n int) func() error {
	return func() error {
		if got := w.number("SELECT count(*) FROM submitter_lease WHERE released"); got != n {
			return fmt.Errorf("%d are", got)
		}
		return nil
	}
}

// newest requires these newest events of a transaction.
func (w *sharedKeyHarness) newest(id txn.TxID, kinds ...txn.Kind) func() error {
	return func() error {
		all := w.events(id)
		if at := len(all) - len(kinds); at < 0 || !slices.Equal(all[at:], kinds) {
			return fmt.Errorf("%v", all)
		}
		return nil
	}
}

// TestCancel_Protected_SignedAfterExit verifies that a protected submitter signs no cancel and does
// not rebroadcast the original. The cancel is signed when the protection ends.
func TestCancel_Protected_SignedAfterExit(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.policy.ResubmitInterval = time.Hour
	w.node()
	w.confirmOne("one")
	id := w.create(0, "two", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	w.want(w.decide(store.Ask{Kind: txn.CommandProtect}), txn.Applied)
	w.want(w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}), txn.Applied)
	w.eventually("it is on hold for an interval", func() error {
		if w.number(
			"SELECT count(*) FROM managed_tx WHERE cancel_requested AND submit_attempts = 0 AND "+
				"due_at > clock_timestamp() + INTERVAL '30 min'") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	w.want(w.exit(txn.ActionResume), txn.Applied)
	w.eventually("its cancel is signed", func() error {
		if w.number("SELECT count(*) FROM tx_attempt WHERE kind = 'CANCEL'") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}
