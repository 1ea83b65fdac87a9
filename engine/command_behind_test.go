package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestCancel_BehindQueueHead_Applied cancels a requeued transaction that is further behind than its
// owner reads. Nothing overtakes the transactions before it.
func TestCancel_BehindQueueHead_Applied(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		return chaintest.Fault{Down: call.Method == chaintest.MethodQuote}
	})
	w.node()
	var ids []txn.TxID
	for i := range queueHead + 4 {
		ids = append(ids, w.create(0, fmt.Sprint(i), transfer()))
	}
	far := ids[queueHead+2]
	w.corrupt(fmt.Sprintf("UPDATE managed_tx SET requeued = 1 WHERE tx_id = '%s'", far))
	w.want(w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &far}), txn.Applied)
	w.await(far, "the request is recorded",
		func(tx txn.Tx) bool { return tx.CancelRequested && tx.State == txn.Queued })
	w.corrupt(
		// it had no nonce
		fmt.Sprintf("UPDATE managed_tx SET requeued = 0 WHERE tx_id = '%s'", far))
	w.chain.Intercept(nil)
	for i, id := range ids[:queueHead+2] {
		if tx := w.finish(id); tx.State != txn.Confirmed || *tx.Nonce != txn.Nonce(i) {
			t.Errorf("%d: %+v", i, tx.Status)
		}
	}
	if tx := w.finish(far); tx.State != txn.Cancelled {
		t.Errorf("%+v", tx.Status)
	}
}

// TestAuditor_ProtectedMeanwhile_FoundAgain verifies that the auditor does not move past a
// violation while another protection is in force.
func TestAuditor_ProtectedMeanwhile_FoundAgain(t *testing.T) {
	t.Parallel()
	const before = 3 * auditOverlap
	c := chaintest.New(chaintest.Options{})
	w := &sharedKeyHarness{harness: newLedger(t, 1, c.ID(), dbtest.WithoutGuard()), chain: c,
		audit: -1}
	w.policy = guarded
	w.chain.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000000"))
	for nonce := range uint64(before) {
		w.inject(w.foreignTx(nonce))
	}
	w.chain.Mine(1)
	w.chain.MineEmpty(5)
	n := w.node()
	w.confirmOne("one")
	w.want(w.decide(store.Ask{Kind: txn.CommandProtect}), txn.Applied)
	w.corrupt("DELETE FROM tx_event WHERE seq = 3")
	u, err := newAuditor(n.engine)
	if err != nil {
		t.Fatal(err)
	}
	owner, _ := u.next()
	from := func() txn.Nonce {
		u.audit(t.Context(), owner)
		return u.memory[owner.id].from
	}
	if at := from(); at != 0 {
		t.Errorf("the next audit starts at nonce %d", at)
	}
	w.want(w.exit(txn.ActionResume), txn.Applied)
	if at := from(); at != before+1-auditOverlap {
		t.Errorf("the next audit starts at nonce %d", at)
	}
	w.eventually("it is protected", func() error {
		if p := w.cursor().Protected; p == nil || p.Reason != txn.ProtectByAudit {
			return errors.New("not yet")
		}
		return nil
	})
}
