package sign

import (
	"crypto/ecdsa"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/crypto"
	"golang.org/x/crypto/cryptobyte"
	cryptobyte_asn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// Signature is an ECDSA signature over secp256k1, with R and S from 1 to the order of the curve
// less 1. S may be in the upper half.
type Signature struct{ R, S *big.Int }

// maxDER is the length of the longest signature: two integers of 33 bytes, and three headers.
const maxDER = 72

var (
	errDER   = errors.New("the signature is not a DER sequence of two integers")
	errRange = errors.New("the signature has a number outside the curve's order")
	errSPKI  = errors.New("the public key is not an uncompressed point of secp256k1")
)

// ParseDER reads an ECDSA-Sig-Value (RFC 3279) strictly: one sequence of two positive integers in
// their shortest form, and nothing behind it.
func ParseDER(der []byte) (Signature, error) {
	if len(der) > maxDER {
		return Signature{}, errDER
	}
	input := cryptobyte.String(der)
	var inner cryptobyte.String
	r, s := new(big.Int), new(big.Int)
	if !input.ReadASN1(&inner, cryptobyte_asn1.SEQUENCE) || !input.Empty() ||
		!inner.ReadASN1Integer(r) || !inner.ReadASN1Integer(s) || !inner.Empty() {
		return Signature{}, errDER
	}
	return newSignature(r, s)
}

// ParseRaw reads a signature of 64 bytes, R before S, as of PKCS #11 and JWS.
func ParseRaw(raw []byte) (Signature, error) {
	if len(raw) != 64 {
		return Signature{}, errors.New("the signature does not have 64 bytes")
	}
	return newSignature(new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:]))
}

func newSignature(r, s *big.Int) (Signature, error) {
	order := crypto.S256().Params().N
	if r.Sign() <= 0 || s.Sign() <= 0 || r.Cmp(order) >= 0 || s.Cmp(order) >= 0 {
		return Signature{}, errRange
	}
	return Signature{r, s}, nil
}

var (
	oidPublicKey = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	oidSecp256k1 = asn1.ObjectIdentifier{1, 3, 132, 0, 10}
)

// ParsePublicKey reads a SubjectPublicKeyInfo (RFC 5480) of secp256k1, which crypto/x509 does not
// know, as DER or PEM.
func ParsePublicKey(encoded []byte) (*ecdsa.PublicKey, error) {
	if block, rest := pem.Decode(encoded); block != nil {
		if block.Type != "PUBLIC KEY" || len(rest) > 0 {
			return nil, errSPKI
		}
		encoded = block.Bytes
	}
	input := cryptobyte.String(encoded)
	var info, algorithm cryptobyte.String
	var kind, curve asn1.ObjectIdentifier
	var point []byte
	if !input.ReadASN1(&info, cryptobyte_asn1.SEQUENCE) || !input.Empty() ||
		!info.ReadASN1(&algorithm, cryptobyte_asn1.SEQUENCE) ||
		!algorithm.ReadASN1ObjectIdentifier(&kind) ||
		!algorithm.ReadASN1ObjectIdentifier(&curve) || !algorithm.Empty() ||
		!info.ReadASN1BitStringAsBytes(&point) || !info.Empty() ||
		!kind.Equal(oidPublicKey) || !curve.Equal(oidSecp256k1) {
		return nil, errSPKI
	}
	key, err := crypto.UnmarshalPubkey(point)
	if err != nil {
		return nil, errSPKI
	}
	return key, nil
}
