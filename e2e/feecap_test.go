package e2e

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/params"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestFeeCap_BaseFeeAboveThenBelow fills blocks until the base fee is above the cap. The
// transaction in flight becomes STUCK, and the queued one waits without a nonce; both report the
// reason. Once empty blocks have lowered the fee, both proceed automatically, and the ones behind
// them follow.
func TestFeeCap_BaseFeeAboveThenBelow(t *testing.T) {
	t.Parallel()
	const inFlight, queued = 0, 1
	limit := big.NewInt(3 * params.GWei)
	b := newBeacon(t, beaconOptions{keys: 2, gasLimit: 10 * params.TxGas})
	d := newDriven(t, b, 2,
		"fees: {max_fee_cap_gwei: 3}, gas_bump: {enabled: true, min_interval: 3s, "+
			"max_fee_cap_gwei: 3}")
	first := d.begin(t, inFlight, "first", transfer)
	d.pending(t, first.id, 1)
	d.tap.still(func() {
		for b.head().BaseFee.Cmp(limit) <= 0 {
			b.crowd()
		}
		b.crowd() // the next block asks for more than the cap as well
	})
	head := d.begin(t, queued, "head", transfer)
	behind := []*story{
		d.begin(t, inFlight, "behind", transfer),
		d.begin(t, queued, "behind", transfer),
	}
	d.until(t, first.id, "it is at the cap", func(tx *fencepostv1.Tx) bool {
		return tx.GetState() == fencepostv1.TxState_TX_STATE_STUCK &&
			tx.GetReason() == "FEE_CAP_REACHED" &&
			strings.Contains(tx.GetLastError(), "3 gwei")
	})
	d.until(t, head.id, "it waits for lower fees", func(tx *fencepostv1.Tx) bool {
		return tx.GetSubState() == fencepostv1.TxSubState_TX_SUB_STATE_BACKING_OFF &&
			tx.GetReason() == "FEE_CAP_BELOW_BASE_FEE" &&
			tx.GetOperator().Nonce == nil
	})
	for submitter, reason := range []string{"FEE_CAP_REACHED", "FEE_CAP_BELOW_BASE_FEE"} {
		answer, err := d.GetSubmitter(t.Context(),
			&fencepostv1.GetSubmitterRequest{Submitter: d.names[submitter]})
		if w := answer.GetSubmitter(); err != nil ||
			w.GetBlocking().GetReason() != reason && w.GetQueueHead().GetReason() != reason {
			t.Errorf("%s is shown as %v (%v), want %s", d.names[submitter], w, err, reason)
		}
	}
	d.tap.still(func() {
		for b.head().BaseFee.Cmp(big.NewInt(params.GWei)) > 0 {
			b.mine(1)
		}
	})
	d.until(t, first.id, "it goes on",
		func(tx *fencepostv1.Tx) bool {
			return tx.GetState() ==
				fencepostv1.TxState_TX_STATE_TRACKING
		})
	d.pending(t, head.id, 1)
	d.finishAll(t, first.id, head.id, behind[0].id, behind[1].id)
	for i, s := range []*story{first, head} {
		tx, events := d.finished(t, s)
		after, _ := d.finished(t, behind[i])
		if tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED ||
			after.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
			t.Errorf("they ended as %v and %v", tx, after)
		}
		want := []string{"STUCK REPLACED UNSTUCK ", "QUEUED DELAYED ALLOCATED "}[i]
		if sequence := kinds(events); !strings.Contains(sequence, want) {
			t.Errorf("got %s, want %s in it", sequence, want)
		}
		for _, a := range tx.GetOperator().GetAttempts() {
			if offered, ok := new(big.Int).SetString(a.GetFeeCap(), 10); !ok ||
				offered.Cmp(limit) > 0 {
				t.Errorf("it offered %s, above the cap", a.GetFeeCap())
			}
		}
		d.verifyAccount(t, i, tx.GetTxHash(), after.GetTxHash())
	}
	d.end(t)
}
