package conformance

import (
	"crypto/ecdsa"
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// pocketMoney is the balance of a case's account, in wei: enough for a hundred transactions, and a
// hundredth of the minimum balance of the suite's account.
const pocketMoney = 10_000_000_000_000_000

// transferGas is the gas of a plain transfer.
const transferGas = 21_000

// order is a transaction to sign.
type order struct {
	key   *ecdsa.PrivateKey
	nonce uint64
	to    *txn.Address // nil creates
	value uint64
	data  []byte
	gas   uint64
	fees  txn.Fees
	chain txn.ChainID // 0: the chain under test
}

// sign returns the signed bytes.
func (s *suite) sign(o order) txn.Signed {
	s.Helper()
	id := o.chain
	if id == 0 {
		id = s.ChainID
	}
	chainID := new(big.Int).SetUint64(uint64(id))
	var data types.TxData = &types.DynamicFeeTx{
		ChainID:   chainID,
		Nonce:     o.nonce,
		To:        o.to,
		Value:     new(big.Int).SetUint64(o.value),
		Data:      o.data,
		Gas:       o.gas,
		GasFeeCap: o.fees.Cap.ToBig(), GasTipCap: o.fees.Tip.ToBig(),
	}
	if o.fees.Legacy {
		data = &types.LegacyTx{
			Nonce:    o.nonce,
			To:       o.to,
			Value:    new(big.Int).SetUint64(o.value),
			Data:     o.data,
			Gas:      o.gas,
			GasPrice: o.fees.Cap.ToBig(),
		}
	}
	tx, err := types.SignNewTx(o.key, types.LatestSignerForChainID(chainID), data)
	if err != nil {
		s.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		s.Fatal(err)
	}
	return txn.Signed{Hash: tx.Hash(), Raw: raw}
}

// fees returns the chain's current fees.
func (s *suite) fees() txn.Fees {
	s.Helper()
	to := addressOf(s.Key)
	q, o := s.Chain.Quote(s.Context(), txn.Draft{From: to, Payload: txn.Payload{To: &to}})
	if o.Class != txn.Accepted {
		s.Fatalf("quote for the suite's account: %+v", o)
	}
	return q.Fees
}

// stranger returns an account without any history on the chain.
func (s *suite) stranger() *ecdsa.PrivateKey {
	s.Helper()
	key, err := crypto.GenerateKey() // random, because a kept chain may have seen any fixed one
	if err != nil {
		s.Fatal(err)
	}
	return key
}

// actor is a new funded account.
func (s *suite) actor() *ecdsa.PrivateKey {
	s.Helper()
	key := s.stranger()
	to := addressOf(key)
	next := uint64(s.view(addressOf(s.Key), 0).Pending)
	gift := s.sign(
		order{
			key:   s.Key,
			nonce: next,
			to:    &to,
			value: pocketMoney,
			gas:   transferGas,
			fees:  s.fees(),
		},
	)
	s.mustSend(gift, txn.Accepted)
	s.mined(gift.Hash)
	// The receipt may be available a moment before the state.
	s.until("the actor's funds", func() bool { a := s.view(to, 0); return !a.BalanceAt.IsZero() })
	return key
}

// transfer is an order for a plain transfer to a fixed address.
func (s *suite) transfer(key *ecdsa.PrivateKey, nonce uint64) order {
	s.Helper()
	to := txn.Address{0xfe, 0xce}
	return order{key: key, nonce: nonce, to: &to, value: 1, gas: transferGas, fees: s.fees()}
}

// raised returns fees with cap and tip raised by percent, rounded up.
func raised(fees txn.Fees, capPercent, tipPercent uint64) txn.Fees {
	more := func(w txn.Wei, percent uint64) txn.Wei {
		w.Mul(&w, uint256.NewInt(100+percent))
		w.Add(&w, uint256.NewInt(99))
		w.Div(&w, uint256.NewInt(100))
		return w
	}
	fees.Cap, fees.Tip = more(fees.Cap, capPercent), more(fees.Tip, tipPercent)
	return fees
}

// reverterRuntime is a contract that reverts with Error("nope"): it copies the return data, which
// follows the code, to memory and reverts with it.
//
//	PUSH1 100  PUSH1 12  PUSH1 0  CODECOPY  PUSH1 100  PUSH1 0  REVERT
var reverterRuntime = append(
	[]byte{0x60, 100, 0x60, 12, 0x60, 0, 0x39, 0x60, 100, 0x60, 0, 0xfd},
	nope()...)

// nope is Error("nope") as the ABI encodes it: selector, offset, length, text.
func nope() []byte {
	data := make([]byte, 4+3*32)
	copy(data, crypto.Keccak256([]byte("Error(string)"))[:4])
	data[4+31], data[4+63] = 32, 4
	copy(data[4+64:], "nope")
	return data
}

// deployCode returns the runtime from a creation.
//
//	PUSH1 len  PUSH1 12  PUSH1 0  CODECOPY  PUSH1 len  PUSH1 0  RETURN
func deployCode(runtime []byte) []byte {
	n := byte(len(runtime))
	return append([]byte{0x60, n, 0x60, 12, 0x60, 0, 0x39, 0x60, n, 0x60, 0, 0xf3}, runtime...)
}

// reverter returns the address of a contract that reverts every call with "nope".
func (s *suite) reverter(key *ecdsa.PrivateKey, nonce uint64) (at txn.Address, next uint64) {
	s.Helper()
	if s.Reverter != nil {
		return *s.Reverter, nonce
	}
	creation := s.sign(
		order{
			key:   key,
			nonce: nonce,
			data:  deployCode(reverterRuntime),
			gas:   300_000,
			fees:  s.fees(),
		},
	)
	s.mustSend(creation, txn.Accepted)
	if r := s.mined(creation.Hash); !r.Success {
		s.Fatal("cannot deploy the reverter")
	}
	return crypto.CreateAddress(addressOf(key), nonce), nonce + 1
}
