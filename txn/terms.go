package txn

import (
	"encoding/binary"
	"hash"
	"time"
)

// Terms are what a caller demands of how a transaction is sent, besides what it does. The zero Terms demand nothing.
type Terms struct {
	Speed      Speed
	MaxFee     Wei       // most per unit of gas in all; zero: the caps of chain and submitter alone
	NotAfter   time.Time // no nonce is taken later, by the database's clock; zero: no limit
	CancelLate bool      // past NotAfter, what is in flight and in no block is cancelled as well
}

// Speed is how much is offered to be included soon.
type Speed string

// The speeds.
const (
	Standard Speed = "" // as the chain's configuration says
	Slow     Speed = "SLOW"
	Fast     Speed = "FAST"
)

// Speeds lists every speed.
var Speeds = []Speed{Standard, Slow, Fast}

// hash adds the terms to the identity of a request. Terms that demand nothing add nothing, so that requests of before there were terms keep theirs.
func (t Terms) hash(h hash.Hash) {
	if t == (Terms{}) {
		return
	}
	h.Write([]byte{1, byte(len(t.Speed))})
	h.Write([]byte(t.Speed))
	fee := t.MaxFee.Bytes32()
	h.Write(fee[:])
	var n [8]byte
	if !t.NotAfter.IsZero() {
		binary.BigEndian.PutUint64(n[:], uint64(t.NotAfter.UnixMicro())) // as the ledger keeps it
	}
	h.Write(n[:])
	late := byte(0)
	if t.CancelLate {
		late = 1
	}
	h.Write([]byte{late})
}

// late tells whether its deadline has passed, as far as the owner can tell. What follows from it is refused if the database's clock says otherwise.
func (tx *Tx) late(now time.Time) bool { return !tx.LateAt.IsZero() && !now.Before(tx.LateAt) }
