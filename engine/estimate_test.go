package engine

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// TestQuirk_EstimateLacksGas_Confirmed has every estimate fail for want of gas, for more blocks
// than an invalid transaction is kept. It waits with a reason, takes no nonce, and is confirmed
// once a node estimates it.
func TestQuirk_EstimateLacksGas_Confirmed(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{
		"allowance":     "gas required exceeds allowance (30000000)",
		"intrinsic gas": "intrinsic gas too low: gas 20000, minimum needed 21000",
		"calldata floor": "insufficient gas for floor data gas cost: gas 21000, minimum needed " +
			"40000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newChainHarness(t, "memory", quick, nil)
			answer := outcome.Classify(outcome.Response{Code: -32000, Message: words})
			answer.Class = outcome.ForEstimate(answer, nil)
			var estimates atomic.Bool
			v.memory.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
				if call.Method != chaintest.MethodQuote || estimates.Load() {
					return chaintest.Fault{}
				}
				v.memory.MineEmpty(1)
				return chaintest.Fault{Reply: &answer}
			})
			v.node()
			id := v.create(0, "one", transfer())
			v.await(id, "it was tried often", func(tx txn.Tx) bool { return tx.SubmitAttempts > 3 })
			tx, err := v.admin.Tx(t.Context(), id)
			if err != nil || tx.State != txn.Queued || tx.Sub != txn.BackingOff ||
				tx.Reason != txn.ReasonNoEstimate || tx.Nonce != nil || tx.LastError == "" {
				t.Fatalf("%+v, %v", tx.Status, err)
			}
			estimates.Store(true)
			if tx := v.finish(id); tx.State != txn.Confirmed || *tx.Nonce != 0 {
				t.Errorf("%+v", tx.Status)
			}
		})
	}
}
