package devchain

import (
	"crypto/ecdsa"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// feeRecipient receives the fees, so that they do not change any other balance.
var feeRecipient = common.BytesToAddress(crypto.Keccak256([]byte("fencepost devchain fees"))[12:])

// Key returns the i-th development key. The keys are public: funds on a real chain are lost.
func Key(i int) *ecdsa.PrivateKey {
	seed := crypto.Keccak256(fmt.Appendf(nil, "fencepost devchain key %d", i))
	key, err := crypto.ToECDSA(seed)
	if err != nil {
		panic(
			err) // a seed above the curve order: none is known
	}
	return key
}

// Address returns the account of the i-th development key.
func Address(i int) common.Address { return crypto.PubkeyToAddress(Key(i).PublicKey) }
