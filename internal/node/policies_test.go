package node

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestPolicies_Refuse(t *testing.T) {
	t.Parallel()
	strict := callerPolicy(config.CallerPolicy{Recipients: []common.Address{{1}}})
	reported := callerPolicy(config.CallerPolicy{ValuePerTx: uint256.NewInt(0), DryRun: true})
	if none := callerPolicy(config.CallerPolicy{DryRun: true}); none != nil {
		t.Errorf("a policy without rules: %+v", none)
	}
	var p policies
	p.set([]auth.Caller{{Name: "shop", Policy: strict}, {Name: "dry", Policy: reported},
		{Name: "free"}})
	other := txn.Address{2}
	for caller, want := range map[string]string{
		"shop": txn.ReasonPolicyDenied, "dry": "", "free": "", "": "",
		"removed": txn.ReasonCallerUnknown, store.TopUpCaller: "",
	} {
		tx := &txn.Tx{Caller: caller, Payload: txn.Payload{To: &other, Value: *uint256.NewInt(1)}}
		if got := p.refuse(tx); got.Reason != want {
			t.Errorf("caller %q: %+v", caller, got)
		}
	}
	// a transaction that waits proceeds once its caller is back, under its policy of then
	p.set([]auth.Caller{{Name: "removed"}})
	for caller, want := range map[string]string{
		"removed": "", "shop": txn.ReasonCallerUnknown, "": "",
		store.TopUpCaller: "",
	} {
		if got := p.refuse(&txn.Tx{Caller: caller}); got.Reason != want ||
			got.Hold != (want != "") {
			t.Errorf("after a reload, caller %q: %+v", caller, got)
		}
	}
}

// TestPolicies_Refuse_Unapproved: a limit that was set while a transaction was queued denies it,
// and so does an approval that the row lost.
func TestPolicies_Refuse_Unapproved(t *testing.T) {
	t.Parallel()
	var p policies
	p.set([]auth.Caller{{Name: "shop", Policy: callerPolicy(
		config.CallerPolicy{ApproveAbove: uint256.NewInt(4), ApprovalTime: time.Hour})}})
	for value, states := range map[uint64]map[txn.ApprovalState]string{
		4: {txn.NoApproval: ""},
		5: {
			txn.NoApproval: txn.ReasonPolicyDenied, txn.ApprovalWaiting: txn.ReasonPolicyDenied,
			txn.ApprovalGiven: "",
		},
	} {
		for state, want := range states {
			tx := &txn.Tx{Caller: "shop", Payload: txn.Payload{Value: *uint256.NewInt(value)},
				Approval: txn.Approval{State: state}}
			if got := p.refuse(tx); got.Reason != want {
				t.Errorf("value %d, approval %q: %+v", value, state, got)
			}
		}
	}
}
