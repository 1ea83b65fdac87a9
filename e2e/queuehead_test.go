package e2e

import (
	"crypto/ecdsa"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestQueueHead_CannotBeSent tests queue heads that would revert, that are invalid, that cannot be
// signed, and that the account cannot afford. The first three fail without a nonce, and the last
// waits until the account is funded. The transactions behind each proceed in order, from nonce 0.
func TestQueueHead_CannotBeSent(t *testing.T) {
	t.Parallel()
	b := newBeacon(t, beaconOptions{keys: 4, poor: 1})
	d := newDriven(t, b, 2, "")
	for i, c := range []struct {
		name, reason, says string
		payload            *fencepostv1.Payload
	}{
		{"reverts", "WOULD_REVERT", "nope", &fencepostv1.Payload{To: reverter.Hex()}},
		{
			"a gas limit that is a little too low", "INVALID_TRANSACTION", "gas",
			&fencepostv1.Payload{To: transfer.GetTo(), GasLimit: params.TxGas - 1},
		},
		{
			"a gas limit without room for the data", "INVALID_TRANSACTION", "gas",
			&fencepostv1.Payload{
				To: transfer.GetTo(), Data: make([]byte, 100), GasLimit: params.TxGas,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) { d.neverSent(t, i, c.reason, c.says, c.payload) })
	}
	t.Run("no money", func(t *testing.T) { d.fundedLater(t, 3) })
	t.Run("no key", d.keyLater)
	d.end(t)
}

// neverSent wants a head to fail before it has a nonce, and the one behind it to get nonce 0.
func (d *driven) neverSent(t *testing.T, submitter int, reason, says string,
	p *fencepostv1.Payload) {
	s, behind := d.begin(t, submitter, "head", p), d.begin(t, submitter, "behind", transfer)
	d.until(t, s.id, "the reason of the wait",
		func(tx *fencepostv1.Tx) bool {
			return tx.GetReason() == reason ||
				tx.GetFinalTime() != nil
		})
	if tx := d.until(
		t, behind.id, "the one behind is there", func(*fencepostv1.Tx) bool { return true },
	); tx.GetState() != fencepostv1.TxState_TX_STATE_QUEUED {
		t.Errorf("said on one block alone, and the one behind is %v", tx)
	}
	eventually(t, time.Minute, "it is failed", func() error {
		d.b.mine(1)
		return d.atLeast("terminal_at IS NOT NULL AND tx_id = '"+s.id+"'", 1)
	})
	tx, events := d.finished(t, s)
	d.finalUnsent(t, tx, reason, says)
	if got := kinds(events); got != "QUEUED DELAYED FAILED" {
		t.Errorf("events: %s", got)
	}
	d.follows(t, submitter, behind)
}

func (d *driven) finalUnsent(t *testing.T, tx *fencepostv1.Tx, reason, says string) {
	t.Helper()
	if tx.GetState() != fencepostv1.TxState_TX_STATE_FAILED_FINAL ||
		tx.GetExecuted() != fencepostv1.Executed_EXECUTED_NO ||
		!tx.GetRetrySafe() ||
		tx.GetReason() != reason ||
		!strings.Contains(tx.GetLastError(), says) ||
		tx.GetOperator().Nonce != nil ||
		len(tx.GetOperator().GetAttempts()) != 0 {
		t.Errorf("it ended as %v; want %s, without a nonce, and %q", tx, reason, says)
	}
}

// follows wants these to end well, and to be all that the account has on chain.
func (d *driven) follows(t *testing.T, submitter int, stories ...*story) {
	t.Helper()
	var hashes []string
	for _, s := range stories {
		d.finishAll(t, s.id)
		tx, _ := d.finished(t, s)
		if tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
			t.Errorf("%s ended as %v", tx.GetRequestId(), tx)
		}
		hashes = append(hashes, tx.GetTxHash())
	}
	d.verifyAccount(t, submitter, hashes...)
}

// fundedLater has a head wait for money, through more blocks than would fail it for another reason.
func (d *driven) fundedLater(t *testing.T, submitter int) {
	s, behind := d.begin(t, submitter, "head", transfer), d.begin(t, submitter, "behind", transfer)
	d.until(t, s.id, "it waits for money", func(tx *fencepostv1.Tx) bool {
		return tx.GetReason() == "INSUFFICIENT_FUNDS" &&
			tx.GetSubState() == fencepostv1.TxSubState_TX_SUB_STATE_UNFUNDED &&
			tx.GetOperator().Nonce == nil
	})
	d.b.mine(4)
	d.fund(d.b.keys[submitter])
	d.pending(t, s.id, 1)
	d.follows(t, submitter, s, behind)
	if got := kinds(s.events); got != "QUEUED DELAYED ALLOCATED SUBMITTED INCLUDED CONFIRMED" {
		t.Errorf("events: %s", got)
	}
}

func (d *driven) fund(key *ecdsa.PrivateKey) {
	d.b.extend(
		d.b.build(
			d.b.transfer(crypto.PubkeyToAddress(key.PublicKey), big.NewInt(params.Ether),
				params.GWei, 100*params.GWei),
		),
	)
}

// keyLater registers an account whose key the signer does not have. A head fails; with the key in
// the folder the next one goes on, without a restart.
func (d *driven) keyLater(t *testing.T) {
	key := newKey(t)
	d.fund(key)
	d.b.keys, d.names = append(d.b.keys, key), append(d.names, "late")
	submitter := len(d.names) - 1
	if _, err := d.RegisterSubmitter(t.Context(), &fencepostv1.RegisterSubmitterRequest{
		Name: "late", ChainId: d.b.id, Address: crypto.PubkeyToAddress(key.PublicKey).Hex(),
		Signer: "local", Mode: fencepostv1.SubmitterMode_SUBMITTER_MODE_STRICT,
	}); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"head", "as little"} {
		tx, events := d.finished(t, d.begin(t, submitter, request, transfer))
		d.finalUnsent(t, tx, "SIGNER_KEY_NOT_FOUND", "no key")
		if got := kinds(events); got != "QUEUED FAILED" {
			t.Errorf("events: %s", got)
		}
	}
	saveKeys(t, filepath.Join(d.dir, "keys"), &testChain{keys: d.b.keys[submitter:]})
	// The folder is looked at once a second at most.
	var s *story
	eventually(t, time.Minute, "the key is found", func() error {
		s = d.begin(t, submitter, "again "+time.Now().String(), transfer)
		tx := d.until(t, s.id, "it is signed, or is not",
			func(tx *fencepostv1.Tx) bool {
				return tx.GetState() !=
					fencepostv1.TxState_TX_STATE_QUEUED
			})
		if tx.GetFinalTime() != nil {
			return errNotYet
		}
		return nil
	})
	d.follows(t, submitter, s)
}
