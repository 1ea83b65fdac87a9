// Package signtest is the test suite that every holder of keys passes. The test of a holder brings
// a server of its protocol, or a real one, and the suite scripts how it behaves.
package signtest

import (
	"context"
	"crypto/ecdsa"
	"encoding/asn1"
	"math/big"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/txn"
)

// Fault is how a peer fails.
type Fault int

// The faults. A peer translates them into its protocol.
const (
	None      Fault = iota
	Missing         // there is no such key
	Hangs           // no reply until the client leaves
	Throttled       // too many requests
	Reset           // the connection ends without a reply
	Broken          // an internal error
	Denied          // the client may not use the key
)

// Script is the behaviour of a peer. Its zero value signs as requested; the suite changes it.
type Script struct {
	mu     sync.Mutex
	key    *ecdsa.PrivateKey
	public *ecdsa.PublicKey
	fault  Fault
	der    func(r, s *big.Int) []byte
	edit   func(*txn.Unsigned)
	closed chan struct{}
}

// Key returns a key that is the same in each run.
func Key(name string) *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("signtest " + name)))
	if err != nil {
		panic(err) // impossible for a hash, in practice
	}
	return key
}

// Address returns the account of a key.
func Address(key *ecdsa.PrivateKey) txn.Address { return crypto.PubkeyToAddress(key.PublicKey) }

// NewScript returns a script with the key of the account that the suite uses.
func NewScript(t testing.TB) *Script {
	s := &Script{closed: make(chan struct{})}
	s.reset()
	t.Cleanup(func() { close(s.closed) })
	return s
}

func (s *Script) set(change func(*Script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// reset makes the peer sign as requested.
func (s *Script) reset() {
	key := Key("account")
	s.set(func(s *Script) {
		s.key, s.public = key, &key.PublicKey
		s.fault = None
		s.der, s.edit = nil, nil
	})
}

// Fault returns how the peer fails now.
func (s *Script) Fault() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// OtherKey reports whether the peer signs with another key than requested.
func (s *Script) OtherKey() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.key.Equal(Key("account"))
}

// OtherPublic reports whether the peer reports the public key of another key.
func (s *Script) OtherPublic() bool { return !s.Public().Equal(&Key("account").PublicKey) }

// Encode returns a signature as the peer encodes it.
func (s *Script) Encode(r, second *big.Int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.encode(r, second)
}

func (s *Script) encode(r, second *big.Int) []byte {
	if s.der == nil {
		return marshal(r, second)
	}
	return s.der(r, second)
}

// Edit returns the transaction that the peer signs in place of the requested one.
func (s *Script) Edit(u txn.Unsigned) txn.Unsigned {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.edit != nil {
		s.edit(&u)
	}
	return u
}

// Hang blocks as a peer without a reply does: until the request or the test ends.
func (s *Script) Hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.closed:
	}
}

// Public returns the public key that the peer reports.
func (s *Script) Public() *ecdsa.PublicKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.public
}

// SPKI returns the public key that the peer reports, as a SubjectPublicKeyInfo.
func (s *Script) SPKI() []byte { return MarshalPublicKey(s.Public()) }

// DER returns the peer's signature of a digest as DER.
func (s *Script) DER(digest []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	signature, err := crypto.Sign(digest, s.key)
	if err != nil {
		panic(err) // the digest has the wrong length
	}
	return s.encode(new(big.Int).SetBytes(signature[:32]),
		new(big.Int).SetBytes(signature[32:64]))
}

// Raw returns the peer's signature of a digest as R and S, 32 bytes each. A signature that DER can
// express and this form cannot is cut.
func (s *Script) Raw(digest []byte) []byte {
	var pair struct{ R, S *big.Int }
	der := s.DER(digest)
	if rest, err := asn1.Unmarshal(der, &pair); err != nil || len(rest) > 0 ||
		pair.R.Sign() < 0 || pair.S.Sign() < 0 || pair.R.BitLen() > 256 || pair.S.BitLen() > 256 {
		return der[:min(len(der), 63)]
	}
	raw := make([]byte, 64)
	pair.R.FillBytes(raw[:32])
	pair.S.FillBytes(raw[32:])
	return raw
}

// Transaction returns the peer's signed transaction.
func (s *Script) Transaction(u txn.Unsigned) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.edit != nil {
		s.edit(&u)
	}
	chain := new(big.Int).SetUint64(uint64(u.ChainID))
	var data types.TxData = &types.DynamicFeeTx{
		ChainID: chain, Nonce: uint64(u.Nonce), GasTipCap: u.Fees.Tip.ToBig(),
		GasFeeCap: u.Fees.Cap.ToBig(), Gas: u.GasLimit, To: u.Payload.To,
		Value: u.Payload.Value.ToBig(), Data: u.Payload.Data,
	}
	if u.Fees.Legacy {
		data = &types.LegacyTx{
			Nonce: uint64(u.Nonce), GasPrice: u.Fees.Cap.ToBig(), Gas: u.GasLimit,
			To: u.Payload.To, Value: u.Payload.Value.ToBig(), Data: u.Payload.Data,
		}
	}
	raw, err := types.MustSignNewTx(s.key, types.LatestSignerForChainID(chain),
		data).MarshalBinary()
	if err != nil {
		panic(err)
	}
	return raw
}

func marshal(r, s *big.Int) []byte {
	der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	if err != nil {
		panic(err)
	}
	return der
}

// MarshalPublicKey returns a public key as a SubjectPublicKeyInfo of secp256k1.
func MarshalPublicKey(key *ecdsa.PublicKey) []byte {
	point := crypto.FromECDSAPub(key)
	type algorithm struct{ Kind, Curve asn1.ObjectIdentifier }
	der, err := asn1.Marshal(struct {
		Algorithm algorithm
		Point     asn1.BitString
	}{
		algorithm{asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1},
			asn1.ObjectIdentifier{1, 3, 132, 0, 10}},
		asn1.BitString{Bytes: point, BitLength: 8 * len(point)},
	})
	if err != nil {
		panic(err)
	}
	return der
}
