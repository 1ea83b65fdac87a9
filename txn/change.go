package txn

import "time"

// Change is everything that one step wants written, as a value. It is done whole or not at all: every expectation in it is checked under locks before the
// first write.
type Change struct {
	Init     *CursorInit
	Take     *Take
	Protect  *Protection
	Writes   []Write
	Status   SubmitterStatus // empty: unchanged
	Commands []CommandResult
}

// Empty tells whether there is nothing to write.
func (c Change) Empty() bool {
	return c.Init == nil && c.Take == nil && c.Protect == nil && len(c.Writes) == 0 && c.Status == "" && len(c.Commands) == 0
}

// CursorInit starts the nonce cursor of a submitter, once.
type CursorInit struct {
	Nonce     Nonce
	Block     uint64 // the settled block that the account was looked at
	BlockHash Hash
}

// Take takes one nonce: the cursor must stand at it and moves to the next. It is refused while the submitter is paused or protected. A change that takes a
// nonce must also write the transaction that uses it, with its signed attempt (law L4).
type Take struct{ Nonce Nonce }

// Protection stops the taking of nonces until an operator decides.
type Protection struct {
	Expect   Nonce // the cursor must still stand here
	Reason   string
	Evidence string
}

// Write changes one transaction, which must still have the version and state that are expected.
type Write struct {
	Tx      TxID
	Version int64
	From    State
	Kind    Kind // the event; empty writes a schedule only: no event, same version, same state
	Next    Status
	Delay   time.Duration // no outside effect before this much later; measured by the database
	Attempt *Attempt      // recorded with it
}

// Command is what a caller or an operator asks of the owner of a submitter.
type Command struct {
	ID     int64
	Kind   CommandKind
	Tx     TxID // zero for commands to a submitter
	Reason string
}

// CommandKind says what is asked.
type CommandKind string

// The kinds of commands.
const (
	CommandPause  CommandKind = "PAUSE"
	CommandResume CommandKind = "RESUME"
	CommandCancel CommandKind = "CANCEL"
)

// CommandResult ends a command.
type CommandResult struct {
	ID     int64
	Result string // APPLIED, or a reason why there was nothing to do
}

// Applied is the result of a command that was carried out.
const Applied = "APPLIED"

// Mode is how many nonces of a submitter may be in flight.
type Mode string

// Strict allows one.
const Strict Mode = "STRICT"

// SubmitterStatus is whether new nonces may be taken.
type SubmitterStatus string

// The statuses.
const (
	Active SubmitterStatus = "ACTIVE"
	Paused SubmitterStatus = "PAUSED"
)

// StartChain is the start_from that goes on after whatever the account has sent.
const StartChain = "chain"

// Submitter is a registered account.
type Submitter struct {
	ID        SubmitterID
	Name      string
	Chain     ChainID
	Address   Address
	Signer    string
	Mode      Mode
	Limit     int // in-flight set; 1 in strict mode
	Status    SubmitterStatus
	StartFrom string // decimal nonce, or StartChain
	CreatedAt time.Time
}

// Cursor is where a submitter stands in its sequence of nonces.
type Cursor struct {
	Next      Nonce
	Init      Nonce
	Protected *Protected
}

// Protected is a protection that is in force.
type Protected struct {
	Reason   string
	Evidence string
	At       time.Time
}
