package e2e

import (
	"fmt"
	"testing"
	"time"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestTopUp_RealChain: a node of a configured rule tops up an account without funds from another
// one, once.
func TestTopUp_RealChain(t *testing.T) {
	t.Parallel()
	b := newBeacon(t, beaconOptions{keys: 2, poor: 1})
	d := newDriven(t, b, 1, `balance: {interval: 1s, top_ups: [{name: gas, from: s00, `+
		`below: "1000000000000000000", to: "3000000000000000000", `+
		`max_per_day: "30000000000000000000"}]}, `)
	list := func() []*fencepostv1.Tx {
		got, err := d.ListTxs(t.Context(), &fencepostv1.ListTxsRequest{
			Labels: []string{"fencepost/top-up=" + d.names[1]}})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetTxs()
	}
	balance := func() *fencepostv1.Balance {
		got, err := fencepostv1.NewStatusServiceClient(d.conn).ListBalances(t.Context(),
			&fencepostv1.ListBalancesRequest{Submitters: d.names[1:2]})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetBalances()[0]
	}
	eventually(t, 2*time.Minute, "the top-up is in the ledger", func() error {
		if n := len(list()); n != 1 {
			return fmt.Errorf("%d top-ups", n)
		}
		return nil
	})
	tx := list()[0]
	d.finishAll(t, tx.GetTxId())
	got := balance()
	if got.GetBalance() != "3000000000000000000" || got.GetTopUp().GetTxId() != tx.GetTxId() ||
		got.GetTopUp().GetTreasury() != d.names[0] || got.GetTopUpHeld() != "" {
		t.Errorf("the account has %v, topped up by %v", got, tx)
	}
	d.finishAll(t, d.begin(t, 1, "one", transfer).id)
	if n := len(list()); n != 1 {
		t.Errorf("%d top-ups for one need", n)
	}
	d.end(t)
}
