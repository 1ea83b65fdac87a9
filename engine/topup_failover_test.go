package engine

import (
	"errors"
	"testing"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/engine/funds"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestTopUp_LostByFailOver_NotSentAgain: a standby has the decision of a top-up, but not its
// transaction, which was executed. The protection of the treasury is decided on before or after a
// node looks at the balances again, or while one that read the decision before is frozen.
func TestTopUp_LostByFailOver_NotSentAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, frozen, ahead bool }{
		"looked at under the protection":   {before: true},
		"looked at after it":               {},
		"a frozen node":                    {frozen: true},
		"the old primary's clock is ahead": {ahead: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTreasury(t, 2)
			n := r.startNode("a", func(o *Options) { o.Chains[0].Chain = r.chain })
			r.awaitFinalMining(r.create(0, "before", transfer()))
			r.chain.Drain(devchain.Address(1))
			r.decideOnly()
			decided := r.topUps(1).TopUp
			restore := r.backup()
			w := r.watch("x", nil)
			r.look(w)
			r.settle(1)
			n.stop()
			restore()
			r.failedOver()
			if c.ahead {
				r.exec("UPDATE top_up SET created_at = created_at + INTERVAL '1 hour'")
			}
			r.startNode("b", func(o *Options) { o.Chains[0].Chain = r.chain })
			other := r.create(0, "other", transfer())
			r.awaitLossOfTreasury()
			if c.before {
				r.look(w)
			}
			if cancelled, err := r.admin.CancelQueuedFor(t.Context(), other,
				store.Ask{}); err != nil || !cancelled {
				t.Fatal(cancelled, err)
			}
			info, err := r.admin.Submitter(t.Context(), r.submitters[0])
			if err != nil {
				t.Fatal(err)
			}
			r.chain.MineEmpty(int(r.policy.AuditDepth))
			if got := r.decide(store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionAlign,
				Expect: info.Cursor.Protected.ID}); got != txn.Applied {
				t.Fatal(got)
			}
			if c.frozen {
				to, err := r.admin.Submitter(t.Context(), r.submitters[1])
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := r.admin.CreateTopUp(t.Context(), to.Submitter,
					decided); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("a node that read it before: %v", err)
				}
			}
			r.look(w)
			r.heldBy(1, 1, funds.HeldRestored)
			owner := r.openStore("owner", r.db.URL)
			if _, err := owner.VoidTopUp(t.Context(), r.submitters[1], store.Ask{}); err != nil {
				t.Fatal(err)
			}
			r.look(w)
			r.heldBy(1, 1, "") // it has the amount
			r.chain.Drain(devchain.Address(1))
			r.look(w)
			if u := r.topUps(1); u.TopUp.No != 2 || u.TopUp.Tx == (txn.TxID{}) {
				t.Errorf("the next need: %+v", u)
			}
		})
	}
}

// awaitLossOfTreasury mines until the treasury is protected for the loss.
func (r *treasury) awaitLossOfTreasury() {
	r.t.Helper()
	r.eventually("the treasury is protected", func() error {
		r.chain.MineEmpty(1)
		info, err := r.admin.Submitter(r.t.Context(), r.submitters[0])
		if err == nil && (info.Cursor == nil || info.Cursor.Protected == nil ||
			info.Cursor.Protected.Reason != txn.ProtectRestored) {
			err = errors.New("not yet")
		}
		return err
	})
}
