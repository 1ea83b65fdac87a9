package txn

import (
	"fmt"
	"time"
)

// Step is the owner's next action: at most one external effect, then one commit. Its pointers refer
// to the view and are valid only as long as that: a transaction is large.
type Step interface{ step() }

type (
	// Rest waits for a wake-up or until Until; the zero Until waits for a wake-up only.
	Rest struct{ Until time.Time }
	// Record commits a change that needs nothing external.
	Record struct{ Change Change }
	// ReadAccount reads the account from the chain, with Depth for its settled nonce;
	// AccountReadFailed returns the change that follows a failure. If Tx has attempts, their
	// receipts are fetched again too.
	ReadAccount struct {
		Tx    *Tx // zero: none
		Depth uint64
		// smallest acceptable depth if no endpoint has the state at Depth; 0: none, and
		// OldStateMissing follows
		MinDepth  uint64
		CommandID int64 // the command that needs it; 0: none
		External  bool  // for the nonces of clients: a failure changes nothing
		// Account.Source of the read that this one confirms: another endpoint serves it if one can;
		// empty: any
		Avoid string
	}
	// Investigate finds the user of a nonce, for the operator; Investigated follows in any case.
	Investigate struct{ Finding Finding }
	// FindConsumer finds the user of a transaction's nonce, for an operator's decision, or for the
	// end of a cancel transaction that lost it.
	FindConsumer struct {
		Tx        *Tx
		CommandID int64 // the command that needs it; 0: none
	}
	// Prepare quotes and signs the head of the queue for the next nonce; Prepared follows.
	Prepare struct {
		Tx    *Tx
		Nonce Nonce
		Slot  int16
	}
	// PrepareRange quotes and signs the first transactions of the queue for contiguous nonces;
	// PreparedRange follows.
	PrepareRange struct{ Items []Prepare }
	// BroadcastRange sends recorded bytes of several transactions, lowest nonce first; SentRange
	// follows.
	BroadcastRange struct{ Items []Broadcast }
	// Broadcast sends recorded bytes to the chain; Sent follows, or OriginalSent for an operator's
	// request.
	Broadcast struct {
		Tx        *Tx
		Attempt   *Attempt
		CommandID int64 // the command that requests it; 0: none
	}
)

func (Rest) step()           {}
func (Record) step()         {}
func (ReadAccount) step()    {}
func (Investigate) step()    {}
func (FindConsumer) step()   {}
func (Prepare) step()        {}
func (PrepareRange) step()   {}
func (Broadcast) step()      {}
func (BroadcastRange) step() {}

// record returns a Record of a change that is not empty.
func record(c Change) (Step, bool) {
	if c.Empty() {
		return nil, false
	}
	return Record{c}, true
}

// commandResult returns the change that finishes a command with a result other than APPLIED, and a
// message.
func commandResult(c Command, result, sentence string) Change {
	if sentence != "" {
		result += ": " + sentence
	}
	return Change{Commands: []CommandResult{{ID: c.ID, Result: result}}}
}

// rejectCommand finishes a command that the chain or the ledger contradicts.
func rejectCommand(c Command, sentence string, args ...any) (Step, bool) {
	return Record{commandResult(c, ResultRefused, fmt.Sprintf(sentence, args...))}, true
}

// Finding is a confirmed suspicion.
type Finding struct {
	Reason     string
	Nonce      Nonce
	Evidence   string
	ChainNonce *Nonce // the account's next nonce on chain; nil: unknown
	Tx         *Tx    // the transaction that lost its nonce; nil: the cursor's nonce was used
	NonceUsed  bool
}
