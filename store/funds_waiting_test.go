package store

import (
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// TestFunds_NoNodeLooks_WaitingTopUpShown: why a decided top-up waits is known also where no node
// has a rule for the account any more.
func TestFunds_NoNodeLooks_WaitingTopUpShown(t *testing.T) {
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
	r.exec("UPDATE top_up SET created_at = created_at - INTERVAL '11 minutes'")
	want("decided and not created", HeldNoRule)
	record("TREASURY_PAUSED")
	want("recorded", "TREASURY_PAUSED")
	record("")
	sent, _, err := r.node.CreateTopUp(r.ctx, r.to, u)
	r.must(err)
	want("queued for long", HeldTreasuryBlocked)
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
