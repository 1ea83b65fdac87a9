package engine

import (
	"strings"
	"testing"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestProtect_ByCommandDuringReorg_Kept verifies that a protection by an operator outlives the
// reorg that had protected the submitter before.
func TestProtect_ByCommandDuringReorg_Kept(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick, nil)
	v.node()
	id, behind := v.finalAndQueued()
	v.loseBlockOf(id)
	v.await(id, "it is reported", func(tx txn.Tx) bool { return tx.State == txn.Stuck })
	if got := v.decide(store.Ask{Kind: txn.CommandProtect}); got != txn.Applied {
		t.Fatal(got)
	}
	v.setQuotes(true)
	if again := v.finish(id); again.State != txn.Confirmed {
		t.Errorf("%+v", again.Status)
	}
	v.mine(int(v.policy.Confirmations) + 2)
	// A command is decided after the changes seen before it.
	if got := v.decide(store.Ask{Kind: txn.CommandProtect}); got != txn.ResultAlreadyProtected {
		t.Errorf("the protection was lifted: %s", got)
	}
	p := v.protection()
	if p == nil || p.ID != 2 || p.Reason != txn.ProtectByOperator ||
		!strings.HasPrefix(p.Evidence, "reviewed") ||
		!strings.Contains(p.Evidence, txn.ReasonReorgedFinal) {
		t.Errorf("protection %+v", p)
	}
	if waiting, err := v.admin.Tx(t.Context(), behind); err != nil || waiting.Nonce != nil {
		t.Errorf("a nonce was taken: %+v %v", waiting.Status, err)
	}
	v.checkLedger()
}
