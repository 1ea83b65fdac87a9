// Package counter is a contract that counts the calls of each caller, to prove that a call executed
// as often as expected. It is written in EVM bytecode, so the demo and the tests need no compiler.
package counter

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
)

// contract adds one to the caller's slot when called without data, and returns the count of an
// address when called with that address.
var contract = []byte{
	0x36, 0x60, 0x0c, 0x57, // if there is call data, go to 0x0c
	0x33, 0x54, 0x60, 0x01, 0x01, // storage[caller] + 1
	0x33, 0x55, 0x00, // into storage[caller]; stop
	0x5b, 0x60, 0x00, 0x35, 0x54, // 0x0c: storage[the word of call data]
	0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3, // return it
}

// InitCode returns the data of the transaction that deploys the contract.
func InitCode() []byte {
	const header = 11
	return append([]byte{
		// copy the contract after this header to memory
		0x60, byte(len(contract)), 0x80, 0x60, header, 0x60, 0x00, 0x39,
		0x60, 0x00, 0xf3, // return it as the contract
	}, contract...)
}

// Increment returns the call data that counts one call of the sender: none.
func Increment() []byte { return nil }

// Query returns the call data that reads an address's count.
func Query(a common.Address) []byte { return common.LeftPadBytes(a[:], 32) }

// Count decodes the result of Query.
func Count(answer []byte) uint64 { return new(big.Int).SetBytes(answer).Uint64() }
