package sign

import (
	"context"
	"crypto/ecdsa"
	"slices"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/txn"
)

// Memory is a holder whose keys are given to it. It is for development and tests: the keys of real money belong into something that keeps them encrypted.
type Memory struct {
	keys map[txn.Address]*ecdsa.PrivateKey
}

// NewMemory makes a holder of these keys.
func NewMemory(keys ...*ecdsa.PrivateKey) *Memory {
	m := &Memory{keys: make(map[txn.Address]*ecdsa.PrivateKey, len(keys))}
	for _, k := range keys {
		m.keys[crypto.PubkeyToAddress(k.PublicKey)] = k
	}
	return m
}

// Sign signs with the key of the sender. Errors: txn.ErrKeyMissing.
func (m *Memory) Sign(_ context.Context, unsigned txn.Unsigned) ([]byte, error) {
	key, ok := m.keys[unsigned.From]
	if !ok {
		return nil, txn.ErrKeyMissing
	}
	return signWith(key, unsigned)
}

// Addresses lists the accounts of the keys.
func (m *Memory) Addresses(context.Context) ([]txn.Address, error) {
	return sortedAddresses(m.keys), nil
}

func sortedAddresses[V any](keys map[txn.Address]V) []txn.Address {
	addresses := make([]txn.Address, 0, len(keys))
	for a := range keys {
		addresses = append(addresses, a)
	}
	slices.SortFunc(addresses, txn.Address.Cmp)
	return addresses
}
