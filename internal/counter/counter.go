// Package counter is a contract that counts the calls of each caller: the proof that a call ran as often as it should have. It is small enough to be written
// in the machine's own language, so nobody needs a compiler to build the demo and the tests.
package counter

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
)

// contract adds one to the caller's slot when it is called with no data, and returns the count of an address when it is called with that address.
var contract = []byte{
	0x36, 0x60, 0x0c, 0x57, // if there is call data, go to 0x0c
	0x33, 0x54, 0x60, 0x01, 0x01, // storage[caller] + 1
	0x33, 0x55, 0x00, // into storage[caller]; stop
	0x5b, 0x60, 0x00, 0x35, 0x54, // 0x0c: storage[the word of call data]
	0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3, // return it
}

// InitCode is the data of the transaction that deploys the contract.
func InitCode() []byte {
	const header = 11
	return append([]byte{
		0x60, byte(len(contract)), 0x80, 0x60, header, 0x60, 0x00, 0x39, // copy what follows this header to memory
		0x60, 0x00, 0xf3, // return it: that is the contract
	}, contract...)
}

// Increment is the call data that counts one call of the sender: none.
func Increment() []byte { return nil }

// Query is the call data of a read of an address's count.
func Query(a common.Address) []byte { return common.LeftPadBytes(a[:], 32) }

// Count reads the answer to Query.
func Count(answer []byte) uint64 { return new(big.Int).SetBytes(answer).Uint64() }
