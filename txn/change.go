package txn

import "time"

// Change is everything that one step writes, as a value. It is written as a whole or not at all:
// every expectation in it is checked under locks before the first write.
type Change struct {
	Init      *CursorInit
	Take      *Take
	Protect   *Protection
	Unprotect *Unprotection
	Writes    []Write
	Status    SubmitterStatus // empty: unchanged
	// of Status, without a command: recorded as a decision of the owner
	StatusReason string
	Commands     []CommandResult
	Nonces       *NonceChange // alone: it is written by a statement of its own
	// the account was compared with the chain since the database failed over
	Compared bool
	// the trial after a fail-over is over; the owner then forgets the account that it has read
	TrialOver bool
}

// Empty reports whether there is nothing to write.
func (c Change) Empty() bool {
	return c.Init == nil && c.Take == nil && c.Protect == nil && c.Unprotect == nil &&
		len(c.Writes) == 0 &&
		c.Status == "" &&
		len(c.Commands) == 0 && c.Nonces == nil && !c.Compared
}

// Reserves reports whether the change reserves nonces for clients.
func (c Change) Reserves() bool { return c.Nonces != nil && c.Nonces.Reserves }

// CursorInit starts the nonce cursor of a submitter, once.
type CursorInit struct {
	Nonce     Nonce
	Block     uint64 // the settled block at which the account was read
	BlockHash Hash
}

// Take takes contiguous nonces: the cursor must be at the first and moves past the last. It is
// rejected while the submitter is paused or protected. A change that takes nonces must also write
// the transactions that use them, each with its signed attempt (law L4).
type Take struct {
	Nonce Nonce
	More  int // nonces above Nonce that are taken with it; strict submitters take none
}

// Next is the nonce after the last one taken.
func (t *Take) Next() Nonce { return t.Nonce + Nonce(t.More) + 1 }

// Protection stops the allocation of nonces until an operator decides. Transactions in flight are
// still tracked and rebroadcast; nothing new is signed (requirements H18, H19). The exception is a
// protection after an unexpected execution, which allows the cancel transaction that fills a held
// nonce.
type Protection struct {
	// the cursor must still be here; otherwise our own allocation looked like a foreign one
	Expect Nonce
	// the protection in force that this one may replace, by Cursor.replaceable; 0: none
	Replaces int64
	Reason   string
	Evidence string // for the operator: observations, blocks and times
	// ChainNonce is the account's next nonce on chain when the protection was decided on, the pool
	// included; nil: unknown.
	ChainNonce *Nonce
	ByCommand  bool // requested by a PROTECT command; otherwise recorded as a decision of the owner
}

// Unprotection lifts a protection by an operator's decision. Only here does a cursor skip nonces,
// and each of them is recorded (law L10).
type Unprotection struct {
	ID     int64  // must be the protection in force
	Expect Nonce  // the cursor must still be here
	To     Nonce  // the next nonce; the nonces from Expect to To are recorded in nonce_gap
	Reason string // the operator's, kept with the gap
	// requested by an EXIT_PROTECT command; otherwise recorded as a decision of the owner
	ByCommand bool
}

// Write changes one transaction, which must still have the expected version and state.
type Write struct {
	Tx      TxID
	Version int64
	From    State
	// the event; empty: only the schedule changes, without event, version or state
	Kind  Kind
	Next  Status
	Delay time.Duration // time until the next external effect; measured by the database
	// because Terms.NotAfter has passed: rejected unless it has by the database's clock
	PastDeadline bool
	Turn         Turn       // kept in memory; zero: done
	Attempt      *Attempt   // recorded with it
	Reserved     bool       // the nonce was reserved by a client: the cursor has passed it
	Sent         bool       // follows a broadcast
	NewFork      bool       // the event's blocks replace those reported before
	Above        []BlockRef // the event's blocks above the receipt
}

// Command is a request of a caller or an operator to the owner of a submitter.
type Command struct {
	ID       int64
	Kind     CommandKind
	Tx       TxID // zero for commands to a submitter
	Action   Action
	Expect   int64  // of EXIT_PROTECT: the protection decided on
	Reason   string // the requester's text; of PROTECT, the evidence
	Operator string // the requester, if given
}

// CommandKind is the kind of a command.
type CommandKind string

// The kinds of commands.
const (
	CommandPause       CommandKind = "PAUSE"
	CommandResume      CommandKind = "RESUME"
	CommandCancel      CommandKind = "CANCEL"
	CommandProtect     CommandKind = "PROTECT"
	CommandExitProtect CommandKind = "EXIT_PROTECT"
	CommandResolve     CommandKind = "RESOLVE"
	CommandSpeedUp     CommandKind = "SPEED_UP"
	CommandUpdate      CommandKind = "UPDATE" // the registration changed: reload it
	// decisions about a transaction that awaits an approval; they need no owner, and are recorded
	// as applied
	CommandApprove CommandKind = "APPROVE"
	CommandDeny    CommandKind = "DENY"
)

// CommandKinds lists every kind.
var CommandKinds = []CommandKind{
	CommandPause,
	CommandResume,
	CommandCancel,
	CommandProtect,
	CommandExitProtect,
	CommandResolve,
	CommandSpeedUp,
	CommandUpdate,
	CommandApprove,
	CommandDeny,
}

// Action is an operator's decision; of PROTECT it is the reason of the protection.
type Action string

// The decisions.
const (
	// EXIT_PROTECT: continue at the cursor; the chain must agree
	ActionResume Action = "RESUME"
	// EXIT_PROTECT: continue at the chain's settled nonce; skipped nonces are recorded as gaps
	ActionAlign Action = "ALIGN_FORWARD"
	// EXIT_PROTECT: as ALIGN_FORWARD, after a restore with queued transactions that were checked
	// against the chain and have not executed
	ActionAlignKeep Action = "ALIGN_FORWARD_KEEP_QUEUE"
	// EXIT_PROTECT: as RESUME, with the same statement about the queue; also with a transaction in
	// flight
	ActionResumeKeep Action = "RESUME_KEEP_QUEUE"
	// RESOLVE: fail a STUCK transaction whose nonce was used elsewhere and settled: executed = NO
	ActionFail Action = "FAIL"
	// RESOLVE: return it to its place in the queue, to be sent under another nonce
	ActionRequeue Action = "REQUEUE"
	// RESOLVE: reset its broadcast count and retry now; if it is being cancelled, broadcast the
	// original once more
	ActionRetry Action = "RETRY"
	// RESOLVE: as FAIL and REQUEUE if no endpoint can show which transaction used the nonce; the
	// operator has verified otherwise that it was not this one
	ActionFailUnproven    Action = "FAIL_UNPROVEN"
	ActionRequeueUnproven Action = "REQUEUE_UNPROVEN"
	ActionBump            Action = "BUMP"   // RESOLVE: as SPEED_UP, for a STUCK transaction
	ActionCancel          Action = "CANCEL" // RESOLVE: as CANCEL, for a STUCK transaction
)

// OperatorSelf and these actions record the automatic decisions of an owner among the commands. A
// protection has its reason as the action.
const (
	OperatorSelf    = "fencepost"
	ActionOnFailure = Action("ON_FAILURE") // PAUSE: by the policy PauseOnFailure
	ActionAutomatic = Action("BY_ITSELF")  // EXIT_PROTECT: see Protected.EndsAutomatically
)

// CommandResult is the result of a command.
type CommandResult struct {
	ID     int64
	Result string // APPLIED, or a code and after ": " a message
}

// Results of commands that changed nothing. A message may follow.
const (
	ResultAlreadyFinal   = "ALREADY_FINAL"
	ResultUnknownCommand = "UNKNOWN_COMMAND" // from a newer version
	// the account was not read yet: there is no cursor to protect
	ResultNotStarted        = "NOT_STARTED"
	ResultAlreadyProtected  = "ALREADY_PROTECTED"
	ResultNotProtected      = "NOT_PROTECTED"
	ResultProtectionChanged = "PROTECTION_CHANGED" // another protection is in force
	ResultPauseChanged      = "PAUSE_CHANGED"      // another pause is in force
	// the chain or the ledger contradicts the decision
	ResultRefused = "REFUSED"
)

// Applied is the result of a command that was carried out.
const Applied = "APPLIED"

// Mode limits the nonces of a submitter in flight.
type Mode string

// The modes.
const (
	Strict    Mode = "STRICT"    // one
	Pipelined Mode = "PIPELINED" // up to the submitter's limit
	// clients sign: the limit counts nonces that they hold or may have used
	External Mode = "EXTERNAL"
)

// Modes lists every mode.
var Modes = []Mode{Strict, Pipelined, External}

// Limits of a pipelined submitter's nonces in flight. go-ethereum's pools keep 16 transactions of
// an account under any load (AccountSlots).
const (
	DefaultInFlight = 16
	// DefaultReservations is the default limit in mode EXTERNAL.
	DefaultReservations = 64
	MaxInFlight         = 1024
)

// SubmitterStatus controls whether new nonces may be taken.
type SubmitterStatus string

// The statuses.
const (
	Active SubmitterStatus = "ACTIVE"
	Paused SubmitterStatus = "PAUSED"
)

// OnFailure controls the queue after a transaction was included and reverted.
type OnFailure string

// The choices.
const (
	Continue       OnFailure = "CONTINUE" // the next one proceeds
	PauseOnFailure OnFailure = "PAUSE"    // the submitter is paused
)

// StartChain is the start_from that continues after the account's existing transactions.
const StartChain = "chain"

// Submitter is a registered account.
type Submitter struct {
	ID        SubmitterID
	Name      string
	Chain     ChainID
	Address   Address
	Signer    string
	Mode      Mode
	Limit     int // in-flight set; 1 in strict mode, at most MaxInFlight otherwise: see Mode
	Status    SubmitterStatus
	StartFrom string // decimal nonce, or StartChain
	OnFailure OnFailure
	PauseID   int64 // the pause that operators see; 0: none, or unknown
	MaxFee    Wei   // highest fee cap per unit of gas; zero: only the chain's limit
	CreatedAt time.Time
}

// Cursor is a submitter's position in its nonce sequence.
type Cursor struct {
	Next        Nonce
	Init        Nonce
	LastBlock   uint64     // block of the receipt of nonce Next-1 in the ledger; 0: none
	Protections int64      // total, including the one in force
	Protected   *Protected // nil: none in force
}

// Protected is a protection in force.
type Protected struct {
	ID       int64 // 1, 2, ... within the submitter
	Reason   string
	Evidence string
	At       time.Time
	// ChainNonce repeats Protection.ChainNonce; the owner's view does not have it.
	ChainNonce *Nonce
	// Tx is the transaction whose nonce seemed to be used elsewhere, if that is all that the
	// protection is for; zero: none. Only the owner's view has it.
	Tx TxID
}

// EndsAutomatically reports whether the protection may end without a decision: once all reorged
// final transactions are final again, or once its evidence is refuted (see refuted).
func (p *Protected) EndsAutomatically() bool {
	return p.Reason == ReasonReorgedFinal || p.Tx != (TxID{})
}

// MayEndAutomatically is EndsAutomatically for a reader that does not have Tx. When it reports
// true, only the owner knows.
func (p *Protected) MayEndAutomatically() bool {
	return p.EndsAutomatically() || p.Reason == ReasonNonceElsewhere
}

// replaceable returns the number of the protection in force that gives way to another; 0: none.
func (c *Cursor) replaceable() int64 {
	if c.Protected == nil || c.AwaitsDecision() {
		return 0
	}
	return c.Protected.ID
}

// AwaitsDecision reports whether a protection is in force that only a decision ends. It replaces
// any other protection, and only one for lost commits replaces it (L10).
func (c *Cursor) AwaitsDecision() bool {
	return c.Protected != nil && !c.Protected.EndsAutomatically()
}
