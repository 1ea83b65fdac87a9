// Package txn holds the rules of Fencepost, without I/O and without a clock: transactions, their
// states, the legal moves between them, and the next action of an account's owner ([Decide]).
//
// Everything here is a value or a pure function. The store persists these values and the engine
// carries out the steps that Decide returns. Both take the legal moves from the table in this
// package ([Moves]); a test compares the database's constraints with it.
package txn

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"
	"github.com/holiman/uint256"
)

type (
	// Address is a 20-byte account address.
	Address = common.Address
	// Hash is a 32-byte hash of a transaction or a block.
	Hash = common.Hash
	// Wei is an amount of the chain's smallest unit, 0 to 2^256-1.
	Wei = uint256.Int
	// ChainID is an EIP-155 chain id.
	ChainID uint64
	// SubmitterID is the ledger's short key of a registered account; at least 1.
	SubmitterID int32
	// Nonce is the number of a transaction within its account.
	Nonce uint64
	// Token is a fencing token: it rises by one with each acquisition of a lease, and only the
	// newest may write.
	Token int64
)

// TxID identifies a transaction for ever. It is a UUID of version 8: 48 bits of milliseconds, 32
// bits of submitter id, 42 random bits. It is opaque to clients; the ledger reads the submitter
// from it, so that a look-up by id reads one place.
type TxID uuid.UUID

// NewTxID returns an id for a transaction of the submitter. The time orders ids in lists.
func NewTxID(at time.Time, submitter SubmitterID) (TxID, error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return TxID{}, fmt.Errorf("txn: make a tx id: %w", err)
	}
	r := binary.BigEndian.Uint64(random[:]) >> 22 // 42 bits
	s := uint64(uint32(submitter))
	millis := uint64(at.UnixMilli()) & (1<<48 - 1)
	// 48 millis | 4 version | 12 high bits of submitter || 2 variant | 20 low bits of submitter |
	// 42 random
	hi := millis<<16 | 8<<12 | s>>20
	lo := uint64(2)<<62 | (s&(1<<20-1))<<42 | r
	var id TxID
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, nil
}

// SameButTime reports whether two ids differ in their times at most. Of the ids made for one
// request, only those made from the same one are.
func (id TxID) SameButTime(other TxID) bool {
	const timeBytes = 6
	return [10]byte(id[timeBytes:]) == [10]byte(other[timeBytes:])
}

// ParseTxID parses an id from NewTxID and rejects other UUIDs.
func ParseTxID(text string) (TxID, error) {
	u, err := uuid.Parse(text)
	if err != nil {
		return TxID{}, fmt.Errorf("tx_id %q is not a UUID; use the tx_id that CreateTx returned",
			text)
	}
	id := TxID(u)
	if u.Version() != 8 || u.Variant() != uuid.RFC4122 || id.Submitter() < 1 {
		return TxID{}, fmt.Errorf(
			"tx_id %q is not from Fencepost; use the tx_id that CreateTx returned", text)
	}
	return id, nil
}

// Ledger returns the number of the ledger that gave out the id, in the directory of ledgers.
func (id SubmitterID) Ledger() int32 { return int32(id >> 24) }

// Submitter returns the submitter of the id.
func (id TxID) Submitter() SubmitterID {
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	return SubmitterID(int32(uint32(hi&(1<<12-1)<<20 | lo>>42&(1<<20-1))))
}

// String returns the text form of a UUID.
func (id TxID) String() string { return uuid.UUID(id).String() }
