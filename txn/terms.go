package txn

import (
	"encoding/binary"
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

// identify adds the terms to what identifies a request. Terms that demand nothing add nothing, so that requests of before there were terms keep theirs.
func (t Terms) appendIdentity(text []byte) []byte {
	if t == (Terms{}) {
		return text
	}
	text = append(text, 1, byte(len(t.Speed)))
	text = append(text, t.Speed...)
	fee := t.MaxFee.Bytes32()
	text = append(text, fee[:]...)
	var until uint64
	if !t.NotAfter.IsZero() {
		until = uint64(t.NotAfter.UnixMicro()) // as the ledger keeps it
	}
	text = binary.BigEndian.AppendUint64(text, until)
	late := byte(0)
	if t.CancelLate {
		late = 1
	}
	return append(text, late)
}

// late tells whether its deadline has passed, as far as the owner can tell. What follows from it is refused if the database's clock says otherwise.
func (tx *Tx) pastDeadline(now time.Time) bool {
	return !tx.Deadline.IsZero() && !now.Before(tx.Deadline)
}
