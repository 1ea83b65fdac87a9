package e2e

import (
	"slices"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestCancel_RacesOriginal cancels transactions that have a nonce, on geth: one whose cancel is
// mined, one that is mined although its cancel replaced it in geth's pool, one whose cancel wins in
// a block that is reorged out, and one that is cancelled before any node has it. The events must
// match each outcome, and the next transaction of the account takes the next nonce.
func TestCancel_RacesOriginal(t *testing.T) {
	t.Parallel()
	const (
		wins = iota
		loses
		turns
		unsent
	)
	b := newBeacon(t, beaconOptions{keys: 4})
	d := newDriven(t, b, 2, "resubmit: {interval: 60s, max_attempts: 20}")
	var first, next []*story
	for i := range b.keys {
		requested := make(chan struct{})
		release := sync.OnceFunc(func() { close(requested) })
		t.Cleanup(release)
		state := fencepostv1.TxState_TX_STATE_TRACKING
		if i == unsent {
			state = fencepostv1.TxState_TX_STATE_ALLOCATED
			d.tap.onNext(
				func(common.Hash) bool { <-requested; return true }) // and then it gets lost
		}
		first = append(first, d.begin(t, i, "first", transfer))
		next = append(next, d.begin(t, i, "next", transfer))
		d.until(t, first[i].id, "it has a nonce",
			func(tx *fencepostv1.Tx) bool { return tx.GetState() == state })
		d.cancelInFlight(t, first[i].id)
		release()
		tx := d.pending(t, first[i].id, 2)
		if a := tx.GetOperator().GetAttempts(); len(a) != 2 || a[0].GetKind() != "ORIGINAL" ||
			a[1].GetKind() != "CANCEL" ||
			tx.GetFinalTime() != nil {
			t.Fatalf("with a cancel under way: %v", tx)
		}
		d.harmless(t, i, tx.GetOperator().GetAttempts()[1].GetTxHash())
	}
	forms := map[int]int{wins: 2, loses: 1, unsent: 2, turns: 2}
	var chosen, others [][]byte
	for i, s := range first {
		chosen = append(chosen, d.raw(t, s.id, forms[i]))
		if i == turns {
			forms[i] = 1
		}
		others = append(others, d.raw(t, s.id, forms[i]))
	}
	parent := b.head().Hash()
	b.extend(b.build(chosen...))
	left := b.head().Hash()
	for _, s := range first {
		d.inBlock(t, s.id, left)
	}
	d.tap.still(func() {
		b.choose(parent)
		b.extend(b.build(others...))
	})
	for i, s := range first {
		d.inBlock(t, s.id, b.head().Hash())
		d.pending(t, next[i].id, 1)
	}
	for i := range first {
		d.finishAll(t, first[i].id, next[i].id)
		d.verifyRace(t, i, first[i], next[i], forms[i])
	}
	d.end(t)
}

func (d *driven) cancelInFlight(t *testing.T, id string) {
	t.Helper()
	for range 2 { // the second is no other wish
		answer, err := d.CancelTx(t.Context(), &fencepostv1.CancelTxRequest{TxId: id})
		if err != nil || answer.GetOutcome() != fencepostv1.CancelOutcome_CANCEL_OUTCOME_REQUESTED {
			t.Fatalf("CancelTx of one in flight: %v, %v", answer, err)
		}
	}
}

// harmless wants a cancel, as geth has it, to send nothing to the account itself.
func (d *driven) harmless(t *testing.T, submitter int, hash string) {
	t.Helper()
	tx, pooled, err := d.b.TransactionByHash(t.Context(), common.HexToHash(hash))
	if err != nil || !pooled {
		t.Fatalf("geth does not have the cancel %s: %v, %v", hash, pooled, err)
	}
	if tx.To() == nil || *tx.To() != crypto.PubkeyToAddress(d.b.keys[submitter].PublicKey) ||
		tx.Value().Sign() != 0 ||
		len(tx.Data()) != 0 ||
		tx.Nonce() != 0 {
		t.Errorf("the cancel does something: %+v", tx)
	}
}

// verifyRace wants the race to have ended for the form that is on chain.
func (d *driven) verifyRace(t *testing.T, submitter int, s, next *story, form int) {
	t.Helper()
	tx, events := d.finished(t, s)
	hash := tx.GetOperator().GetAttempts()[form-1].GetTxHash()
	state := fencepostv1.TxState_TX_STATE_CANCELLED
	executed := fencepostv1.Executed_EXECUTED_NO
	reason := "CANCELLED_BY_CALLER"
	if form == 1 {
		state = fencepostv1.TxState_TX_STATE_CONFIRMED
		executed = fencepostv1.Executed_EXECUTED_SUCCESS
		reason = "CANCEL_LOST"
	}
	if tx.GetState() != state || tx.GetExecuted() != executed || tx.GetReason() != reason ||
		tx.GetTxHash() != hash ||
		tx.GetRetrySafe() != (form == 2) {
		t.Errorf("race %d ended as %v; want %s with %s", submitter, tx, state, reason)
	}
	for _, e := range events {
		if r := e.GetReceipt(); r != nil &&
			r.GetKind() != map[bool]string{
				true: "ORIGINAL", false: "CANCEL",
			}[r.GetTxHash() == tx.GetOperator().GetAttempts()[0].GetTxHash()] {
			t.Errorf("race %d: event of an included attempt: %v", submitter, e)
		}
	}
	if got := included(events); len(got) == 0 || !slices.Contains([]int{1, 2}, len(got)) ||
		got[len(got)-1] != hash {
		t.Errorf("race %d: reported as included: %v, want %s last", submitter, got, hash)
	}
	after, _ := d.finished(t, next)
	if after.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
		t.Errorf("the one after race %d ended as %v", submitter, after)
	}
	d.verifyAccount(t, submitter, hash, after.GetTxHash())
	answer, err := d.CancelTx(t.Context(), &fencepostv1.CancelTxRequest{TxId: s.id})
	if err != nil ||
		answer.GetOutcome() != fencepostv1.CancelOutcome_CANCEL_OUTCOME_ALREADY_FINAL && form == 1 {
		t.Errorf("a cancel after race %d: %v, %v", submitter, answer, err)
	}
}
