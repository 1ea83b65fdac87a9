package txn

import (
	"encoding/binary"
	"time"
)

// Terms are the caller's requirements for sending, beyond the payload. The zero Terms require
// nothing.
type Terms struct {
	Speed Speed
	// highest fee cap per unit of gas; zero: only the caps of chain and submitter
	MaxFee     Wei
	NotAfter   time.Time // no nonce is taken after it, by the database's clock; zero: no limit
	CancelLate bool      // after NotAfter, pending transactions are cancelled as well
}

// Speed selects the tip that is offered.
type Speed string

// The speeds.
const (
	Standard Speed = "" // the chain's configuration
	Slow     Speed = "SLOW"
	Fast     Speed = "FAST"
)

// Speeds lists every speed.
var Speeds = []Speed{Standard, Slow, Fast}

// appendIdentity appends the terms to the identity of a request. Zero terms append nothing, so that
// requests from before terms existed keep their hash.
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
		until = uint64(t.NotAfter.UnixMicro()) // the ledger's precision
	}
	text = binary.BigEndian.AppendUint64(text, until)
	late := byte(0)
	if t.CancelLate {
		late = 1
	}
	return append(text, late)
}

// Fees are the fees of a transaction per unit of gas, in wei. A legacy transaction has its gas
// price in both fields and Legacy set.
type Fees struct {
	Cap    Wei // maximum in all (maxFeePerGas, EIP-1559)
	Tip    Wei // maximum for the proposer (maxPriorityFeePerGas); at most Cap
	Legacy bool
}
