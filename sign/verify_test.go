package sign

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/txn"
)

// The example of EIP-155, byte for byte.
func TestSign_EIP155Example(t *testing.T) {
	t.Parallel()
	key, err := ParseHexKey([]byte(strings.Repeat("46", 32)))
	if err != nil {
		t.Fatal(err)
	}
	to := txn.Address(bytes.Repeat([]byte{0x35}, 20))
	price := *uint256.NewInt(20e9)
	raw, err := signWith(key, txn.Unsigned{
		ChainID: 1, From: crypto.PubkeyToAddress(key.PublicKey), Nonce: 9, GasLimit: 21000,
		Fees:    txn.Fees{Cap: price, Tip: price, Legacy: true},
		Payload: txn.Payload{To: &to, Value: *uint256.NewInt(1e18)},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3" +
		"a7640000" +
		"8025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761a" +
		"ecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
	if got := hex.EncodeToString(raw); got != want {
		t.Fatalf("signed\n%s\nwant\n%s", got, want)
	}
}

func TestVerify_Requested_Accepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := drawKey(t, "key")
		asked := drawUnsigned(t, key)
		raw := mustSign(t, key, asked)
		if again := mustSign(t, key, asked); !bytes.Equal(raw, again) {
			t.Fatal("the same request gave two signatures")
		}
		signed, err := verify(asked, raw)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(signed.Raw, raw) || signed.Hash != crypto.Keccak256Hash(raw) {
			t.Fatalf("verified %x with hash %s, signed %x", signed.Raw, signed.Hash, raw)
		}
	})
}

// Each faulty signer differs from the request in one respect.
var liars = map[string]func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte{
	"another nonce": lie(func(t *rapid.T, u *txn.Unsigned) { u.Nonce ^= txn.Nonce(drawBit(t)) }),
	"another chain": lie(
		func(t *rapid.T, u *txn.Unsigned) { u.ChainID += txn.ChainID(drawBit(t)) }),
	"another gas":   lie(func(t *rapid.T, u *txn.Unsigned) { u.GasLimit ^= drawBit(t) }),
	"another value": lie(func(t *rapid.T, u *txn.Unsigned) { flip(t, &u.Payload.Value) }),
	"another recipient": lie(func(t *rapid.T, u *txn.Unsigned) {
		other := txn.Address(crypto.Keccak256([]byte("other"))[:20])
		u.Payload.To = &other
	}),
	"a creation or none": lie(func(t *rapid.T, u *txn.Unsigned) {
		if u.Payload.To == nil {
			u.Payload.To = &txn.Address{}
		} else {
			u.Payload.To = nil
		}
	}),
	"more data": lie(
		func(t *rapid.T, u *txn.Unsigned) {
			u.Payload.Data = append(bytes.Clone(u.Payload.Data),
				0)
		}),
	"one bit of data": lie(func(t *rapid.T, u *txn.Unsigned) {
		if len(u.Payload.Data) == 0 {
			u.Payload.Data = []byte{1}
			return
		}
		u.Payload.Data = bytes.Clone(u.Payload.Data)
		u.Payload.Data[rapid.IntRange(0, len(u.Payload.Data)-1).Draw(t, "byte")] ^= 1
	}),
	"another fee cap": lie(func(t *rapid.T, u *txn.Unsigned) { flip(t, &u.Fees.Cap) }),
	"another tip": func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		if u.Fees.Legacy {
			return []byte{0xc0} // has no tip of its own
		}
		flip(t, &u.Fees.Tip)
		return mustSign(t, key, u)
	},
	"the other kind of fees": lie(
		func(t *rapid.T, u *txn.Unsigned) { u.Fees.Legacy = !u.Fees.Legacy }),
	"another key": func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		return mustSign(t, drawKey(t, "other key"), u)
	},
	"an access list": func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		list := types.AccessList{{Address: u.From}}
		if u.Fees.Legacy {
			return mustEncode(t, key, u, &types.AccessListTx{
				ChainID: chainID(u.ChainID), Nonce: uint64(u.Nonce), GasPrice: u.Fees.Cap.ToBig(),
				Gas: u.GasLimit, To: u.Payload.To, Value: u.Payload.Value.ToBig(),
				Data: u.Payload.Data,
			})
		}
		data := unsignedTx(u).(*types.DynamicFeeTx)
		data.AccessList = list
		return mustEncode(t, key, u, data)
	},
	"a signature for every chain": func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		u.Fees.Legacy = true
		tx, err := types.SignNewTx(key, types.HomesteadSigner{}, unsignedTx(u))
		return mustMarshal(t, tx, err)
	},
	"the other s":            resign(func(r, s *big.Int) { s.Sub(crypto.S256().Params().N, s) }),
	"a signature of nothing": resign(func(r, s *big.Int) { r.SetInt64(1); s.SetInt64(1) }),
	"no signature":           resign(func(r, s *big.Int) { r.SetInt64(0); s.SetInt64(0) }),
	"bytes after the end": func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		return append(mustSign(t, key, u), 0)
	},
	"bytes that end early": func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		raw := mustSign(t, key, u)
		return raw[:rapid.IntRange(0, len(raw)-1).Draw(t, "length")]
	},
	"one bit flipped": func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		raw := mustSign(t, key, u)
		raw[rapid.IntRange(0, len(raw)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t,
			"bit")
		return raw
	},
	"nothing": func(*rapid.T, *ecdsa.PrivateKey, txn.Unsigned) []byte { return nil },
}

func TestVerify_OtherTransaction_Rejected(t *testing.T) {
	t.Parallel()
	for name, liar := range liars {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				key := drawKey(t, "key")
				asked := drawUnsigned(t, key)
				raw := liar(t, key, asked)
				signed, err := verify(asked, raw)
				if !errors.Is(err, txn.ErrSignerFault) || signed.Raw != nil {
					t.Fatalf("verify answered %x, %v", signed.Raw, err)
				}
				if data := hex.EncodeToString(asked.Payload.Data); len(data) >= 16 &&
					strings.Contains(err.Error(), data) {
					t.Fatalf("the error quotes the payload: %v", err)
				}
			})
		})
	}
}

func TestSign_AmbiguousRequest_Rejected(t *testing.T) {
	t.Parallel()
	whole := txn.Unsigned{
		ChainID:  1,
		GasLimit: 21000,
		Fees:     txn.Fees{Cap: *uint256.NewInt(2), Tip: *uint256.NewInt(1)},
	}
	if err := complete(whole); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*txn.Unsigned){
		"no chain":                     func(u *txn.Unsigned) { u.ChainID = 0 },
		"no gas":                       func(u *txn.Unsigned) { u.GasLimit = 0 },
		"legacy with a tip of its own": func(u *txn.Unsigned) { u.Fees.Legacy = true },
		"tip above cap":                func(u *txn.Unsigned) { u.Fees.Tip = *uint256.NewInt(3) },
	} {
		u := whole
		spoil(&u)
		if complete(u) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func lie(
	spoil func(*rapid.T, *txn.Unsigned)) func(*rapid.T, *ecdsa.PrivateKey, txn.Unsigned) []byte {
	return func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		spoil(t, &u)
		return mustSign(t, key, u)
	}
}

// resign spoils the numbers of the signature, where the encoding allows it.
func resign(spoil func(r, s *big.Int)) func(*rapid.T, *ecdsa.PrivateKey, txn.Unsigned) []byte {
	return func(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
		signer := types.LatestSignerForChainID(chainID(u.ChainID))
		tx, err := types.SignNewTx(key, signer, unsignedTx(u))
		if err != nil {
			t.Fatal(err)
		}
		v, r, s := tx.RawSignatureValues()
		spoil(r, s)
		flipped := v.Int64() ^ 1 // the other s goes with the other parity
		if u.Fees.Legacy {
			flipped = 2*35 + 4*int64(u.ChainID) + 1 - v.Int64()
		}
		switch data := unsignedTx(u).(type) {
		case *types.LegacyTx:
			data.V = big.NewInt(flipped)
			data.R = r
			data.S = s
			return mustMarshal(t, types.NewTx(data), nil)
		case *types.DynamicFeeTx:
			data.V = big.NewInt(flipped)
			data.R = r
			data.S = s
			return mustMarshal(t, types.NewTx(data), nil)
		default:
			t.Fatalf("unknown kind %T", data)
			return nil
		}
	}
}

func mustSign(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned) []byte {
	raw, err := signWith(key, u)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func mustEncode(t *rapid.T, key *ecdsa.PrivateKey, u txn.Unsigned, data types.TxData) []byte {
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(chainID(u.ChainID)), data)
	return mustMarshal(t, tx, err)
}

func mustMarshal(t *rapid.T, tx *types.Transaction, err error) []byte {
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func drawKey(t *rapid.T, label string) *ecdsa.PrivateKey {
	seed := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, label)
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte(label), seed))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func drawUnsigned(t *rapid.T, key *ecdsa.PrivateKey) txn.Unsigned {
	u := txn.Unsigned{
		ChainID: txn.ChainID(
			rapid.Uint64Range(1, 1<<40).Draw(t, "chain")),
		From: crypto.PubkeyToAddress(key.PublicKey),
		Nonce: txn.Nonce(
			rapid.Uint64Range(0, 1<<62).Draw(t, "nonce")),
		GasLimit: rapid.Uint64Range(1, 1<<62).Draw(t, "gas"),
		Payload: txn.Payload{
			Value: drawWei(t, "value"),
			Data:  rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"),
		},
		Fees: txn.Fees{
			Cap:    drawWei(t, "cap"),
			Tip:    drawWei(t, "tip"),
			Legacy: rapid.Bool().Draw(t, "legacy"),
		},
	}
	if rapid.Bool().Draw(t, "call") {
		to := txn.Address(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "to"))
		u.Payload.To = &to
	}
	if u.Fees.Legacy {
		u.Fees.Tip = u.Fees.Cap
	}
	return u
}

func drawWei(t *rapid.T, label string) (w txn.Wei) {
	w.SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, label))
	return w
}

func drawBit(t *rapid.T) uint64 { return 1 << rapid.IntRange(0, 61).Draw(t, "bit") }

func flip(t *rapid.T, w *txn.Wei) {
	bit := new(uint256.Int).Lsh(uint256.NewInt(1), uint(rapid.IntRange(0, 255).Draw(t, "bit")))
	w.Xor(w, bit)
}
