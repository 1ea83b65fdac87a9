package store

import (
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// TestFunds_NoNodeLooks_ProvenReasonsShown: a reason that the state of a top-up proves is shown
// also where no node reads the balance; the age of the top-up proves none.
func TestFunds_NoNodeLooks_ProvenReasonsShown(t *testing.T) {
	t.Parallel()
	r := newTopUps(t)
	want := func(when, held string) {
		t.Helper()
		u := r.funds()
		if got := u.HeldNow(); got != held {
			t.Errorf("%s: held by %q, want %q", when, got, held)
		}
	}
	record := func(held string) {
		t.Helper()
		_, err := r.node.RecordHeld(r.ctx, r.to.ID, held)
		r.must(err)
	}
	want("without a top-up", "")
	u := r.decide(1)
	want("decided", "")
	r.exec("UPDATE top_up SET created_at = created_at - INTERVAL '1 day'")
	want("decided and not created", "")
	record("TREASURY_PAUSED")
	want("recorded", "TREASURY_PAUSED")
	record("")
	sent, _, err := r.node.CreateTopUp(r.ctx, r.to, u)
	r.must(err)
	want("queued for long", "")
	record(HeldTreasuryBlocked)
	want("queued, and recorded", HeldTreasuryBlocked)
	r.exec("UPDATE managed_tx SET sub_state = 'UNFUNDED', reason = 'INSUFFICIENT_FUNDS'")
	want("unfunded", HeldTreasuryUnfunded)
	record(HeldTreasuryUnfunded)
	r.exec("UPDATE managed_tx SET sub_state = '', reason = ''")
	_, err = r.s.CancelQueued(r.ctx, sent.ID)
	r.must(err)
	want("final", "")
	record("DAY_LIMIT")
	want("final, and another need", "DAY_LIMIT")
	stuck := Funds{Held: HeldNoRule, TopUp: TopUp{No: 1, Tx: sent.ID, State: txn.Stuck}}
	if got := stuck.HeldNow(); got != HeldStuck {
		t.Errorf("stuck: held by %q", got)
	}
	stuck.TopUp.State = txn.Tracking
	if got := stuck.HeldNow(); got != "" {
		t.Errorf("in flight: held by %q", got)
	}
}
