package main

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// The chain knows a sender by the recipient that callers gave it, and recovers any other; a key
// that is not the account's is found by one transaction in recoverEach.
func TestSenders(t *testing.T) {
	t.Parallel()
	accounts := []txn.Address{chaintest.Address(0), chaintest.Address(1)}
	s := newSenders(benchChain, accounts)
	signed := func(key int, to txn.Address, nonce uint64, chain int64) *types.Transaction {
		tx, err := types.SignNewTx(
			chaintest.Key(key),
			types.LatestSignerForChainID(big.NewInt(chain)),
			&types.DynamicFeeTx{
				ChainID: big.NewInt(chain), To: &to, Nonce: nonce, Gas: transferGas,
				GasFeeCap: big.NewInt(2),
				GasTipCap: big.NewInt(1),
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	const tries = 2 * recoverEach
	of1, refused := common.HexToAddress(transferOf(1).GetTo()), 0
	for n := range uint64(tries) {
		if from, err := types.Sender(s, signed(1, of1, n, int64(benchChain))); err != nil ||
			from != accounts[1] {
			t.Fatalf("its own: %s, %v", from, err)
		}
		if from, err := types.Sender(s, signed(0, of1, n, int64(benchChain))); err != nil {
			refused++
		} else if from != accounts[1] {
			t.Fatalf("another's: %s", from)
		}
	}
	if refused == 0 || refused > tries/4 { // 2 of 128, by hashes that are the same in every run
		t.Errorf("%d of %d signatures of another account were found", refused, tries)
	}
	for _, to := range []txn.Address{
		accounts[0], common.HexToAddress(transferOf(2).GetTo()),
		common.HexToAddress(transfer().GetTo()),
	} {
		if from, err := s.Sender(signed(0, to, 0, int64(benchChain))); err != nil ||
			from != accounts[0] {
			t.Errorf("to %s: %s, %v", to, from, err)
		}
	}
	if from, err := s.Sender(signed(1, of1, 0, int64(benchChain)+1)); err == nil {
		t.Errorf("on another chain: %s", from)
	}
	if !s.Equal(s) || s.Equal(newSenders(benchChain, nil)) || s.Equal(s.Signer) {
		t.Error("what one found out holds for another, or not for itself")
	}
}
