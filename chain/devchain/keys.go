package devchain

import (
	"crypto/ecdsa"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// feeRecipient gets the fees, so that they change the balance of nobody who is
// looked at.
var feeRecipient = common.BytesToAddress(crypto.Keccak256([]byte("fencepost devchain fees"))[12:])

// Key is the i-th development key, the same for everybody: what it owns on a
// real chain is lost.
func Key(i int) *ecdsa.PrivateKey {
	seed := crypto.Keccak256(fmt.Appendf(nil, "fencepost devchain key %d", i))
	key, err := crypto.ToECDSA(seed)
	if err != nil {
		panic(
			err) // a seed beyond the curve's order: none is known, and it is none of a caller's making
	}
	return key
}

// Address is the account of the i-th development key.
func Address(i int) common.Address { return crypto.PubkeyToAddress(Key(i).PublicKey) }
