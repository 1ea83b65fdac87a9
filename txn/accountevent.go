package txn

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// EventLowBalance is the kind of an event of an account: its balance fell below a limit. All other
// kinds are of transactions.
const EventLowBalance Kind = "LOW_BALANCE"

// AccountStream is the id under which the events of an account are kept beside those of its
// transactions: of no time and without random bits, as no transaction has it.
func AccountStream(submitter SubmitterID) (id TxID) {
	s := uint64(uint32(submitter))
	binary.BigEndian.PutUint64(id[:8], 8<<12|s>>20)
	binary.BigEndian.PutUint64(id[8:], uint64(2)<<62|(s&(1<<20-1))<<42)
	return id
}

// IsAccount reports whether the id is of an account's events and not of a transaction.
func (id TxID) IsAccount() bool { return id == AccountStream(id.Submitter()) }

// LowBalance is the content of an event LOW_BALANCE. Amounts are in wei.
type LowBalance struct {
	Balance   string `json:"balance"`
	Committed string `json:"committed"` // the cost of accepted transactions
	Low       string `json:"low"`       // the limit
	Block     uint64 `json:"block"`     // of the balance
}

// Text is the content as the message of the event.
func (b LowBalance) Text() (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("txn: write an event of an account: %w", err)
	}
	return string(text), nil
}

// ParseLowBalance reads the message of an event LOW_BALANCE.
func ParseLowBalance(message string) (b LowBalance, err error) {
	if err = json.Unmarshal([]byte(message), &b); err != nil {
		return b, fmt.Errorf("txn: read an event of an account: %w", err)
	}
	return b, nil
}
