package sign

import (
	"bytes"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/txn"
)

// complete rejects requests whose signature would have another meaning than the caller's: without a
// chain id it would be valid on every chain.
func complete(u txn.Unsigned) error {
	switch {
	case u.ChainID == 0:
		return errors.New("the request has no chain id")
	case u.GasLimit == 0:
		return errors.New("the request has no gas limit")
	case u.Fees.Legacy && u.Fees.Tip != u.Fees.Cap:
		return errors.New("a legacy request must have its gas price as cap and as tip")
	case u.Fees.Tip.Gt(&u.Fees.Cap):
		return errors.New("the request has a tip above its fee cap")
	}
	return nil
}

// verify decodes a holder's result and compares it with the request. It is the only way from bytes
// to a txn.Signed.
func verify(asked txn.Unsigned, raw []byte) (txn.Signed, error) {
	var tx types.Transaction
	if err := tx.UnmarshalBinary(raw); err != nil {
		return txn.Signed{}, fmt.Errorf("%w: it cannot be decoded",
			txn.ErrSignerFault) // the decoder's message may quote the bytes
	}
	if fields := differences(asked, &tx); len(fields) > 0 {
		return txn.Signed{}, fmt.Errorf(
			"%w: %s differs from the request; the bytes were discarded, check the signer's backend",
			txn.ErrSignerFault, strings.Join(fields, ", "))
	}
	// The sender comes last: for another type or chain there is nothing to recover.
	from, err := types.Sender(types.LatestSignerForChainID(chainID(asked.ChainID)), &tx)
	if err != nil {
		return txn.Signed{}, fmt.Errorf("%w: its signature is invalid; the bytes were discarded",
			txn.ErrSignerFault)
	}
	if from != asked.From {
		return txn.Signed{}, fmt.Errorf(
			"%w: it is signed by %s; the bytes were discarded, check the signer's key for this "+
				"account",
			txn.ErrSignerFault, from.Hex())
	}
	return txn.Signed{Hash: tx.Hash(), Raw: raw}, nil
}

// differences returns the fields in which a transaction differs from the request. It returns no
// values: payloads do not belong into errors.
func differences(asked txn.Unsigned, tx *types.Transaction) []string {
	kind := byte(types.DynamicFeeTxType)
	if asked.Fees.Legacy {
		kind = types.LegacyTxType
	}
	if tx.Type() != kind {
		return []string{"type"} // other types return values for fields they lack
	}
	var fields []string
	check := func(same bool, field string) {
		if !same {
			fields = append(fields, field)
		}
	}
	check(tx.ChainId().Cmp(chainID(asked.ChainID)) == 0,
		"chain id") // 0 for a signature that is valid on every chain
	check(tx.Nonce() == uint64(asked.Nonce), "nonce")
	check(samePlace(tx.To(), asked.Payload.To), "recipient")
	check(same(tx.Value(), asked.Payload.Value), "value")
	check(bytes.Equal(tx.Data(), asked.Payload.Data), "data")
	check(tx.Gas() == asked.GasLimit, "gas limit")
	check(same(tx.GasFeeCap(), asked.Fees.Cap), "fee cap")
	check(same(tx.GasTipCap(), asked.Fees.Tip), "tip")
	check(len(tx.AccessList()) == 0, "access list")
	return fields
}

// signWith returns the requested signed transaction. Its result is verified like any other
// holder's.
func signWith(key *ecdsa.PrivateKey, u txn.Unsigned) ([]byte, error) {
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(chainID(u.ChainID)), unsignedTx(u))
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encode transaction: %w", err)
	}
	return raw, nil
}

func unsignedTx(u txn.Unsigned) types.TxData {
	if u.Fees.Legacy {
		return &types.LegacyTx{
			Nonce: uint64(u.Nonce), GasPrice: u.Fees.Cap.ToBig(), Gas: u.GasLimit,
			To: u.Payload.To, Value: u.Payload.Value.ToBig(), Data: u.Payload.Data,
		}
	}
	return &types.DynamicFeeTx{
		ChainID: chainID(u.ChainID), Nonce: uint64(u.Nonce), GasTipCap: u.Fees.Tip.ToBig(),
		GasFeeCap: u.Fees.Cap.ToBig(), Gas: u.GasLimit,
		To: u.Payload.To, Value: u.Payload.Value.ToBig(), Data: u.Payload.Data,
	}
}

func chainID(chain txn.ChainID) *big.Int { return new(big.Int).SetUint64(uint64(chain)) }

func same(got *big.Int, asked txn.Wei) bool { return got.Cmp(asked.ToBig()) == 0 }

func samePlace(got, asked *txn.Address) bool {
	if got == nil || asked == nil {
		return got == asked
	}
	return *got == *asked
}
