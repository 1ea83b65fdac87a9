package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// submitSigned does what SubmitSigned does: it records the hash, then the bytes.
func (r *harness) submitSigned(c *chaintest.Chain, id txn.ReservationID, nonce txn.Nonce,
	value uint64) txn.TxID {
	r.t.Helper()
	r.underReservation(r.admin, id, store.NonceAsk{Kind: txn.RequestRecordHash,
		Hash: signFor(r.t, c, nonce, value).Hash}, txn.Applied)
	return r.queueSigned(c, id, nonce, value)
}

// queueSigned records the bytes of a client, whose hash is recorded.
func (r *harness) queueSigned(c *chaintest.Chain, id txn.ReservationID, nonce txn.Nonce,
	value uint64) txn.TxID {
	r.t.Helper()
	signed := signFor(r.t, c, nonce, value)
	p := transfer()
	p.Value = *uint256.NewInt(value)
	tx, err := r.admin.QueueReserved(r.t.Context(), store.ReservedTx{
		Reservation: id, Payload: p,
		Signed: &txn.Attempt{
			Kind: txn.Original, Nonce: nonce, Hash: signed.Hash, Raw: signed.Raw, GasLimit: 21000,
			Fees: txn.Fees{Cap: *uint256.NewInt(100e9), Tip: *uint256.NewInt(1e9)},
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return tx
}

func (r *harness) mineUntilFinal(c *chaintest.Chain, id txn.TxID) store.TxInfo {
	r.t.Helper()
	var tx store.TxInfo
	r.eventually("the transaction is final", func() (err error) {
		c.Mine(1)
		if tx, err = r.admin.Tx(context.Background(), id); err == nil && !tx.State.Final() {
			err = fmt.Errorf("it is %s %s: %s", tx.State, tx.Sub, tx.LastError)
		}
		return err
	})
	return tx
}

// TestSubmitSigned_ToFinality: the bytes of a client are sent and tracked as any others, also above
// a hole, and by a new owner.
func TestSubmitSigned_ToFinality(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	n := r.startOn(c, "a", nil)
	low, _ := r.allocateNonce(n.store, "low")
	high, nonce := r.allocateNonce(n.store, "high")
	tx := r.submitSigned(c, high, nonce, 5) // above a hole
	r.eventually("its bytes are recorded", func() error {
		if is, err := r.admin.Tx(context.Background(), tx); err != nil || is.Nonce == nil {
			return fmt.Errorf("it has no nonce: %v", err)
		}
		return nil
	})
	n.stop()
	r.startOn(c, "b", nil)
	first := r.submitSigned(c, low, 0, 3)
	for id, value := range map[txn.TxID]uint64{first: 3, tx: 5} {
		is := r.mineUntilFinal(c, id)
		if is.State != txn.Confirmed || is.Payload.Value.Uint64() != value || !is.Signed {
			t.Fatalf("%d ended as %s: %s", value, is.State, is.LastError)
		}
	}
	for _, nonce := range []txn.Nonce{0, 1} {
		r.eventually("it is accepted", func() error {
			c.Mine(1)
			info, err := r.admin.Nonce(context.Background(), r.submitters[0], nonce)
			if err == nil && info.State != txn.NonceAccepted {
				err = fmt.Errorf("nonce %d is %s", nonce, info.State)
			}
			return err
		})
	}
	if found, _, err := r.admin.AuditWhole(context.Background(), r.submitters[0]); err != nil ||
		len(found) > 0 {
		t.Fatalf("audit: %v %v", found, err)
	}
}

// TestSubmitSigned_TooCheap_ReplacedByClientOnly: Fencepost signs nothing for a transaction that
// its client signed; the client replaces its bytes.
func TestSubmitSigned_TooCheap_ReplacedByClientOnly(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	r.policy.ResubmitInterval = 50 * time.Millisecond
	n := r.startOn(c, "a", nil)
	id, nonce := r.allocateNonce(n.store, "k")
	c.SetBaseFee(*uint256.NewInt(500e9))
	tx := r.submitSigned(c, id, nonce, 5)
	r.eventually("it was tried several times", func() error {
		if is, err := r.admin.Tx(context.Background(), tx); err != nil || is.LastOutcome == "" {
			return fmt.Errorf("it was not sent: %v", err)
		}
		return nil
	})
	command, err := r.admin.AddCommand(t.Context(), r.submitters[0],
		store.Ask{Kind: txn.CommandCancel, Tx: &tx})
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("the cancel is refused", func() error {
		result, done, err := r.admin.CommandResult(context.Background(), r.submitters[0], command)
		if !done || codeOf(result) != txn.ResultRefused {
			return fmt.Errorf("%q %v", result, err)
		}
		return nil
	})
	if attempts, err := r.admin.Attempts(t.Context(), tx); err != nil || len(attempts) != 1 {
		t.Fatalf("%d attempts, %v", len(attempts), err)
	}
	signed := signWith(t, c, nonce, 5, 900e9)
	r.underReservation(r.admin, id,
		store.NonceAsk{Kind: txn.RequestRecordHash, Hash: signed.Hash}, txn.Applied)
	if _, err := r.admin.AddSigned(t.Context(), tx, txn.Attempt{
		Kind: txn.Bump, Nonce: nonce, Hash: signed.Hash, Raw: signed.Raw, GasLimit: 21000,
		Fees: txn.Fees{Cap: *uint256.NewInt(900e9), Tip: *uint256.NewInt(9e9)},
	}); err != nil {
		t.Fatal(err)
	}
	if is := r.mineUntilFinal(c, tx); is.State != txn.Confirmed || is.TxHash != signed.Hash {
		t.Fatalf("it ended as %s by %s", is.State, is.TxHash)
	}
}
