package server

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/txn"
)

func TestDecodeSigned(t *testing.T) {
	t.Parallel()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	of := txn.Submitter{Chain: chainID, Address: crypto.PubkeyToAddress(key.PublicKey)}
	to := common.Address{1}
	fees := func(chain, nonce int64) types.TxData {
		return &types.DynamicFeeTx{ChainID: big.NewInt(chain), Nonce: uint64(nonce), To: &to,
			Gas: 21000, GasFeeCap: big.NewInt(2), GasTipCap: big.NewInt(1), Value: big.NewInt(7)}
	}
	sign := func(data types.TxData, by types.Signer) []byte {
		t.Helper()
		raw, err := types.MustSignNewTx(key, by, data).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	latest := func(chain int64) types.Signer {
		return types.LatestSignerForChainID(big.NewInt(chain))
	}
	legacy := &types.LegacyTx{Nonce: 3, To: &to, Gas: 21000, GasPrice: big.NewInt(2)}
	noGas := &types.LegacyTx{Nonce: 3, To: &to, GasPrice: big.NewInt(2)}
	withList := &types.AccessListTx{ChainID: big.NewInt(chainID), Nonce: 3, To: &to, Gas: 21000,
		GasPrice: big.NewInt(2)}
	chain := uint256.NewInt(chainID)
	blobs := &types.BlobTx{ChainID: chain, Nonce: 3, To: to, Gas: 21000,
		GasFeeCap: uint256.NewInt(2), BlobFeeCap: uint256.NewInt(1), BlobHashes: []common.Hash{{1}}}
	delegation := &types.SetCodeTx{ChainID: chain, Nonce: 3, To: to, Gas: 50000,
		GasFeeCap: uint256.NewInt(2), AuthList: []types.SetCodeAuthorization{{Address: to}}}
	for name, c := range map[string]struct {
		raw  []byte
		of   txn.Submitter
		good bool
	}{
		"fits":          {sign(fees(chainID, 3), latest(chainID)), of, true},
		"legacy":        {sign(legacy, latest(chainID)), of, true},
		"access list":   {sign(withList, latest(chainID)), of, true},
		"blobs":         {sign(blobs, latest(chainID)), of, false},
		"delegation":    {sign(delegation, latest(chainID)), of, false},
		"no gas":        {sign(noGas, latest(chainID)), of, false},
		"unprotected":   {sign(legacy, types.HomesteadSigner{}), of, false},
		"another chain": {sign(fees(5, 3), latest(5)), of, false},
		"another nonce": {sign(fees(chainID, 4), latest(chainID)), of, false},
		"another account": {sign(fees(chainID, 3), latest(chainID)),
			txn.Submitter{Chain: chainID, Address: to}, false},
		"no transaction": {[]byte{1, 2, 3}, of, false},
	} {
		attempt, payload, err := decodeSigned(c.raw, c.of, 3)
		if c.good != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if c.good && (attempt.Nonce != 3 || *payload.To != to || attempt.GasLimit != 21000) {
			t.Errorf("%s: %+v %+v", name, attempt, payload)
		}
	}
}
