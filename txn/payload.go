package txn

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holiman/uint256"
)

// Payload is what to execute on chain, without sender and nonce.
type Payload struct {
	To       *Address // nil: contract creation
	Value    Wei
	Data     []byte
	GasLimit uint64 // 0: estimate
}

// requestHashVersion is hashed first, so that hashes of another encoding cannot collide.
const requestHashVersion = 1

// Hash returns the identity of the payload under its request key, with zero Terms.
func (p Payload) Hash() [32]byte { return RequestHash(p, Terms{}) }

// RequestHash returns the identity of a request under its key: SHA-256 over a versioned,
// length-prefixed encoding of each field. Protobuf bytes are not canonical and so not usable.
func RequestHash(p Payload, t Terms) [32]byte {
	var room [256]byte // enough for most
	text := append(room[:0], requestHashVersion)
	if p.To == nil {
		text = append(text, 0)
	} else {
		text = append(append(text, 1), p.To[:]...)
	}
	value := p.Value.Bytes32()
	text = append(text, value[:]...)
	text = binary.BigEndian.AppendUint64(text, uint64(len(p.Data)))
	text = append(text, p.Data...)
	text = binary.BigEndian.AppendUint64(text, p.GasLimit)
	return sha256.Sum256(t.appendIdentity(text))
}

// ParseAddress parses "0x" and 40 hex digits. Mixed case must be the EIP-55 checksum.
func ParseAddress(text string) (Address, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	lower, upper, isHex := hexDigits(digits)
	if !ok || len(digits) != 40 || !isHex {
		return Address{}, fmt.Errorf("address %q must be \"0x\" followed by 40 hex digits", text)
	}
	var a Address
	_, _ = hex.Decode(a[:], []byte(digits)) // validated above
	if lower && upper && a.Hex() != text {
		return Address{}, fmt.Errorf(
			"address %q has a wrong EIP-55 checksum; check for a mistyped digit or letter "+
				"case, or use lower case",
			text)
	}
	return a, nil
}

// HasChecksum reports whether the text of a parsed address has an EIP-55 checksum: mixed case does.
func HasChecksum(text string) bool {
	lower, upper, _ := hexDigits(strings.TrimPrefix(text, "0x"))
	return lower && upper
}

// ParseWei parses a whole number of wei in decimal digits; empty is zero.
func ParseWei(text string) (Wei, error) {
	if text == "" {
		return Wei{}, nil
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return Wei{}, fmt.Errorf(
				"amount %q must be a whole, non-negative number of wei in decimal digits", text)
		}
	}
	w, err := uint256.FromDecimal(text)
	if errors.Is(err, uint256.ErrBig256Range) {
		return Wei{}, fmt.Errorf(
			"amount %q is above 2^256-1 wei, the maximum", text)
	}
	if err != nil {
		return Wei{}, fmt.Errorf(
			"amount %q must be a whole, non-negative number of wei in decimal digits", text)
	}
	return *w, nil
}

// AccountID returns the CAIP-10 account id of an account on an EVM chain.
func AccountID(chain ChainID, a Address) string {
	return fmt.Sprintf("eip155:%d:%s", chain, a.Hex())
}

// ParseAccountID parses a CAIP-10 account id. ok is false if the text has another format and may be
// a name.
func ParseAccountID(text string) (chain ChainID, a Address, ok bool, err error) {
	rest, found := strings.CutPrefix(text, "eip155:")
	if !found {
		return 0, Address{}, false, nil
	}
	id, address, found := strings.Cut(rest, ":")
	n, numberErr := strconv.ParseUint(id, 10, 64)
	if !found || numberErr != nil || strconv.FormatUint(n, 10) != id || n == 0 {
		return 0, Address{}, true, fmt.Errorf("account id %q must be eip155:<chain id>:0x<address>",
			text)
	}
	a, err = ParseAddress(address)
	return ChainID(n), a, true, err
}

// hexDigits reports whether a text consists of hex digits, and the cases of its letters.
func hexDigits(s string) (lower, upper, ok bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
		case 'a' <= c && c <= 'f':
			lower = true
		case 'A' <= c && c <= 'F':
			upper = true
		default:
			return false, false, false
		}
	}
	return lower, upper, true
}
