package e2e

import (
	"math/big"
	"strings"
	"testing"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestSimulateTx_RealChain compares simulations with the later outcomes.
func TestSimulateTx_RealChain(t *testing.T) {
	t.Parallel()
	b := newBeacon(t, beaconOptions{keys: 1})
	d := newDriven(t, b, 1, "")
	simulate := func(p *fencepostv1.Payload) *fencepostv1.SimulateTxResponse {
		t.Helper()
		got, err := d.SimulateTx(t.Context(),
			&fencepostv1.SimulateTxRequest{Submitter: d.names[0], Payload: p})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := simulate(&fencepostv1.Payload{To: reverter.Hex()}); got.GetOutcomeClass() !=
		"REVERTED" || !strings.Contains(got.GetMessage(), "nope") {
		t.Errorf("the call that reverts gives %v", got)
	}
	if got := simulate(&fencepostv1.Payload{To: transfer.GetTo(),
		Value: "1000000000000000000000000000000"}); got.GetOutcomeClass() != "INSUFFICIENT_FUNDS" ||
		got.GetMissingFunds() == "" {
		t.Errorf("the value above the balance gives %v", got)
	}
	good := simulate(transfer)
	if list, err := d.ListTxs(t.Context(), &fencepostv1.ListTxsRequest{}); err != nil ||
		len(list.GetTxs()) != 0 {
		t.Errorf("simulations left %v (%v)", list, err)
	}
	one := d.begin(t, 0, "one", transfer)
	d.pending(t, one.id, 1)
	d.finishAll(t, one.id)
	tx, _ := d.finished(t, one)
	attempt := tx.GetOperator().GetAttempts()[0]
	most, ok := new(big.Int).SetString(good.GetMaxCost(), 10)
	paid, fine := new(big.Int).SetString(attempt.GetFeeCap(), 10)
	if good.GetOutcomeClass() != "ACCEPTED" || !ok || !fine ||
		good.GetGasLimit() != attempt.GetGasLimit() ||
		most.Cmp(paid.Mul(paid, new(big.Int).SetUint64(attempt.GetGasLimit()))) <= 0 {
		t.Errorf("simulated %v, sent %v", good, attempt)
	}
	d.end(t)
}
