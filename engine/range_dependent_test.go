package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/txn"
)

// approval is the init code of a contract: a call without data approves, and a call with data
// reverts unless it was approved before, as a transferFrom does.
//
//	calldatasize iszero jumpi(13)  sload(0) iszero jumpi(20)  stop
//	13: sstore(0, 1) stop  20: revert(0, 0)
var approval = hexutil.MustDecode("0x601a80600b6000396000f3" +
	"3615600d5760005415601457005b6001600055005b60006000fd")

// TestPipelined_DependentPair_Executed queues an approval and the transfer that needs it together.
func TestPipelined_DependentPair_Executed(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, 250*time.Millisecond)
	r.pipeline(0, 16)
	r.startNode("a", nil)
	deploy := r.create(0, "deploy", txn.Payload{Data: approval})
	r.awaitFinal(deploy)
	contract := crypto.CreateAddress(devchain.Address(0), 0)
	approve := r.create(0, "approve", txn.Payload{To: &contract})
	transfer := r.create(0, "transferFrom", txn.Payload{To: &contract, Data: []byte{1}})
	for i, id := range []txn.TxID{approve, transfer} {
		if tx := r.awaitFinal(id); tx.State != txn.Confirmed || *tx.Nonce != txn.Nonce(i+1) {
			t.Errorf("%s: %s of nonce %v: %s %s", tx.RequestID, tx.State, *tx.Nonce, tx.Reason,
				tx.LastError)
		}
	}
}

// TestPipelined_RevertStays_FailsWithoutNonce: the transfer is judged once the lower nonces are in
// a block.
func TestPipelined_RevertStays_FailsWithoutNonce(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, 0)
	r.pipeline(0, 16)
	r.startNode("a", nil)
	mine := func() {
		if _, err := r.dev.Mine(1); err != nil {
			t.Error(err)
		}
	}
	deploy := r.create(0, "deploy", txn.Payload{Data: approval})
	contract := crypto.CreateAddress(devchain.Address(0), 0)
	r.eventually("deployed", func() error {
		mine()
		tx, err := r.admin.Tx(context.Background(), deploy)
		if err == nil && !tx.State.Final() {
			err = errors.New("not yet")
		}
		return err
	})
	other := r.create(0, "other", txn.Payload{To: &common.Address{0xaa}})
	r.await(other, "the other one is in the pool",
		func(tx txn.Tx) bool { return tx.Sub == txn.Pending })
	transfer := r.create(0, "transferFrom", txn.Payload{To: &contract, Data: []byte{1}})
	r.await(transfer, "it waits for lower nonces",
		func(tx txn.Tx) bool { return tx.Reason == txn.ReasonLowerNonces })
	r.eventually("it fails", func() error {
		mine()
		tx, err := r.admin.Tx(context.Background(), transfer)
		if err == nil && !tx.State.Final() {
			err = errors.New("it is " + tx.Reason)
		}
		return err
	})
	if tx := r.awaitFinal(transfer); tx.State != txn.Failed || tx.Nonce != nil ||
		tx.Executed != txn.No || tx.Reason != txn.ReasonPrepareReverted {
		t.Errorf("%+v", tx.Status)
	}
}
