package engine

import (
	"context"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// cancelQueued cancels a transaction as the API does.
func (r *harness) cancelQueued(id txn.TxID) {
	r.t.Helper()
	if done, err := r.admin.CancelQueued(context.Background(), id); err != nil || !done {
		r.t.Fatal(done, err)
	}
}

// checkUnproven fails unless a transaction ended as one that may have executed, without a nonce.
func (w *sharedKeyHarness) checkUnproven(id txn.TxID) {
	w.t.Helper()
	if tx := w.awaitFinal(id); tx.Executed != txn.Unknown || tx.Reason != txn.ReasonRestored ||
		tx.Nonce != nil {
		w.t.Errorf("%+v", tx.Status)
	}
}

// TestFailedOver_EndsInQueue_Unknown loses the execution of two transactions, which are queued
// again. Before their account is protected for that, one ends in the queue: a client that learned
// that it never executes would pay again.
func TestFailedOver_EndsInQueue_Unknown(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *sharedKeyHarness, first, second txn.TxID) txn.TxID{
		"cancelled before a node runs": func(w *sharedKeyHarness, first, _ txn.TxID) txn.TxID {
			w.cancelQueued(first)
			w.node()
			return first
		},
		"cancelled behind the first nonce": func(w *sharedKeyHarness, first,
			second txn.TxID) txn.TxID {
			w.node()
			w.await(first, "it has a nonce", func(tx txn.Tx) bool { return tx.Nonce != nil })
			w.cancelQueued(second)
			return second
		},
		"past its deadline": func(w *sharedKeyHarness, first, _ txn.TxID) txn.TxID {
			_, err := w.db.Pool.Exec(w.t.Context(), `BEGIN;
				SET LOCAL session_replication_role = replica;
				UPDATE managed_tx SET not_after = created_at WHERE request_id = 'one';
				COMMIT`)
			if err != nil {
				w.t.Fatal(err)
			}
			w.node()
			return first
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			n := w.node()
			w.confirmOne("zero")
			n.stop()
			first, second := w.create(0, "one", transfer()), w.create(0, "two", transfer())
			restore, at := w.backup(), w.chain.MineEmpty(1).Number
			n = w.node()
			w.finish(first)
			w.finish(second)
			n.stop()
			restore()
			w.failedOver()
			w.chain.SetBaseFee(*uint256.NewInt(5e9)) // other bytes than before
			behind := w.chain.MineEmpty(1).Number - at
			w.chain.Intercept(func(context.Context, chaintest.Call) chaintest.Fault {
				return chaintest.Lag(behind)
			})
			w.checkUnproven(end(w, first, second))
			w.chain.Intercept(nil)
			w.awaitProtected(txn.ProtectRestored)
			w.checkInvariants()
		})
	}
}

// TestFailedOver_OwnerUnaware_Unknown: an owner that kept its lease through a fail-over ends a
// transaction in the queue. Once the account was compared with the chain, it does so as before.
func TestFailedOver_OwnerUnaware_Unknown(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.node()
	behind := func(request string) (sent, queued txn.TxID) {
		sent = w.create(0, request, transfer())
		w.eventually("it is sent", w.is(sent, txn.Pending))
		return sent, w.create(0, "behind "+request, transfer())
	}
	cancel := func(id txn.TxID) {
		w.want(w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}), txn.Applied)
	}
	sent, queued := behind("one")
	w.failedOver()
	cancel(queued)
	w.checkUnproven(queued)
	w.finish(sent)
	w.finish(w.create(0, "two", transfer()))
	sent, queued = behind("three")
	cancel(queued)
	if tx := w.awaitFinal(queued); tx.Executed != txn.No {
		t.Errorf("compared, and then %+v", tx.Status)
	}
	w.finish(sent)
	w.checkInvariants()
}
