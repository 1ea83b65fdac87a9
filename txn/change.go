package txn

import "time"

// Change is everything that one step wants written, as a value. It is done whole or not at all: every expectation in it is checked under locks before the
// first write.
type Change struct {
	Init         *CursorInit
	Take         *Take
	Protect      *Protection
	Unprotect    *Unprotection
	Writes       []Write
	Status       SubmitterStatus // empty: unchanged
	StatusReason string          // of Status, when no command asks for it: recorded as a decision of the owner
	Commands     []CommandResult
}

// Empty tells whether there is nothing to write.
func (c Change) Empty() bool {
	return c.Init == nil && c.Take == nil && c.Protect == nil && c.Unprotect == nil &&
		len(c.Writes) == 0 &&
		c.Status == "" &&
		len(c.Commands) == 0
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

// Protection stops the taking of nonces until an operator decides. What is in flight is still followed and its recorded bytes handed over; nothing new is
// signed (requirements H18, H19), but under a protection because something ran that was given up, the cancel that fills the nonce it holds.
type Protection struct {
	Expect   Nonce // the cursor must still stand here: else it was our own allocation that looked like somebody else's
	Reason   string
	Evidence string // for the operator who decides: what was seen, where, twice
	// ChainNonce is the account's next nonce on chain when the protection was decided on, the pool
	// included; nil: unknown.
	ChainNonce *Nonce
	ByCommand  bool // for by a PROTECT command, which tells of it; else it is recorded as a decision of the owner
}

// Unprotection ends a protection by an operator's decision. It is the only way in which a cursor skips numbers, and each of them is recorded (law L10).
type Unprotection struct {
	ID        int64  // the protection that was decided on must be the one in force
	Expect    Nonce  // the cursor must still stand here
	To        Nonce  // where it goes on; above Expect, the numbers between are recorded in nonce_gap
	Reason    string // the operator's, kept with the gap
	ByCommand bool   // for by an EXIT_PROTECT command, which tells of it; else it is recorded as a decision of the owner
}

// Write changes one transaction, which must still have the version and state that are expected.
type Write struct {
	Tx           TxID
	Version      int64
	From         State
	Kind         Kind // the event; empty writes a schedule only: no event, same version, same state
	Next         Status
	Delay        time.Duration // no outside effect before this much later; measured by the database
	PastDeadline bool          // because Terms.NotAfter has passed: refused as long as it has not by the database's clock
	Turn         Turn          // goes on in memory; zero: it is over
	Attempt      *Attempt      // recorded with it
	NewFork      bool          // the event's blocks above the receipt replace those told before
	Above        []BlockRef    // and are these
}

// Command is what a caller or an operator asks of the owner of a submitter.
type Command struct {
	ID       int64
	Kind     CommandKind
	Tx       TxID // zero for commands to a submitter
	Action   Action
	Expect   int64  // of EXIT_PROTECT: the protection that was decided on
	Reason   string // the asker's words; of PROTECT, the evidence
	Operator string // who asks, as far as the asker said
}

// CommandKind says what is asked.
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
	CommandUpdate      CommandKind = "UPDATE" // the registration was changed: read it anew
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
}

// Action is what an operator decides. Of PROTECT it is the reason of the protection.
type Action string

// The decisions.
const (
	ActionResume Action = "RESUME"        // EXIT_PROTECT: go on where the cursor stands; the chain must agree
	ActionAlign  Action = "ALIGN_FORWARD" // EXIT_PROTECT: go on at the chain's settled nonce; the numbers between are recorded as gaps
	// EXIT_PROTECT: as ALIGN_FORWARD, after a restore with transactions still queued: they were compared with the chain and have not run
	ActionAlignKeep Action = "ALIGN_FORWARD_KEEP_QUEUE"
	// EXIT_PROTECT: as RESUME, and says the same of what is queued; also with a transaction in flight
	ActionResumeKeep Action = "RESUME_KEEP_QUEUE"
	ActionFail       Action = "FAIL"    // RESOLVE: end a STUCK transaction whose nonce somebody else has used for good: executed = NO
	ActionRequeue    Action = "REQUEUE" // RESOLVE: put it back at its place in the queue, to be sent under another nonce
	ActionRetry      Action = "RETRY"   // RESOLVE: count its hand-overs anew, beginning at once; of what is being cancelled, hand the original over once more
	// RESOLVE: as FAIL and REQUEUE, when no endpoint can show any more who used the nonce; the operator has found out otherwise that it was not this transaction
	ActionFailUnproven    Action = "FAIL_UNPROVEN"
	ActionRequeueUnproven Action = "REQUEUE_UNPROVEN"
	ActionBump            Action = "BUMP"   // RESOLVE: as SPEED_UP, of what is STUCK
	ActionCancel          Action = "CANCEL" // RESOLVE: as CANCEL, of what is STUCK
)

// What an owner did to a submitter by itself is recorded among the commands, under this operator and these actions. A protection has its reason for an action.
const (
	OperatorSelf    = "fencepost"
	ActionOnFailure = Action("ON_FAILURE") // PAUSE: by the policy PauseOnFailure
	ActionAutomatic = Action("BY_ITSELF")  // EXIT_PROTECT: see Protected.EndsAutomatically
)

// CommandResult ends a command.
type CommandResult struct {
	ID     int64
	Result string // APPLIED, or why there was nothing to do or why it was refused: a code, and after ": " a sentence
}

// Results of commands that changed nothing. A sentence may follow.
const (
	ResultAlreadyFinal      = "ALREADY_FINAL"
	ResultUnknownCommand    = "UNKNOWN_COMMAND" // of a newer program
	ResultNotStarted        = "NOT_STARTED"     // the account was not looked at yet: there is no cursor to protect
	ResultAlreadyProtected  = "ALREADY_PROTECTED"
	ResultNotProtected      = "NOT_PROTECTED"
	ResultProtectionChanged = "PROTECTION_CHANGED" // another protection is in force than was decided on
	ResultRefused           = "REFUSED"            // the chain or the ledger does not bear the decision out
)

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

// OnFailure is what happens to the queue when a transaction was included and reverted.
type OnFailure string

// The choices.
const (
	Continue       OnFailure = "CONTINUE" // the next one goes on
	PauseOnFailure OnFailure = "PAUSE"    // the submitter is paused
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
	OnFailure OnFailure
	MaxFee    Wei // most per unit of gas that anything of this account offers; zero: the chain's limit alone
	CreatedAt time.Time
}

// Cursor is where a submitter stands in its sequence of nonces.
type Cursor struct {
	Next        Nonce
	Init        Nonce
	LastBlock   uint64     // block of the receipt of nonce Next-1, as the ledger has it; 0: none
	Protections int64      // how many there have been, the one in force included
	Protected   *Protected // nil: none in force
}

// Protected is a protection that is in force.
type Protected struct {
	ID       int64 // 1, 2, ... within the submitter
	Reason   string
	Evidence string
	At       time.Time
	// ChainNonce is that of the Protection; the owner's view does not have it.
	ChainNonce *Nonce
}

// EndsAutomatically tells whether the protection ends without a decision: once all that was final, and was reorged, is final again.
func (p *Protected) EndsAutomatically() bool { return p.Reason == ReasonReorgedFinal }

// AwaitsDecision tells whether a protection is in force that ends by a decision alone. None other takes its place, and it takes the place of any other (L10).
func (c *Cursor) AwaitsDecision() bool { return c.Protected != nil && !c.Protected.EndsAutomatically() }
