package sign

import (
	"context"
	"crypto/ecdsa"
	"slices"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/txn"
)

// Memory is a holder with keys in memory, for development and tests. Keys of real funds belong into
// encrypted storage.
type Memory struct {
	keys map[txn.Address]*ecdsa.PrivateKey
}

// NewMemory returns a holder of these keys.
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

// Addresses returns the accounts of the keys.
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
