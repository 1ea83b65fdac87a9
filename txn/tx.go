package txn

import "time"

// Tx is one transaction in the ledger.
type Tx struct {
	ID          TxID
	Submitter   SubmitterID
	RequestID   string
	RequestHash [32]byte
	QueueSeq    int64 // order of acceptance within the submitter; gaps are normal
	Payload     Payload
	Terms       Terms
	Status
	Turn     Turn
	Restored bool      // it was not final when the ledger was restored: see markUnproven
	Token    Token     // fencing token of the last write; 0 while only clients have written
	Due      time.Time // no external effect before; zero: now. Local clock, for liveness only
	// local time of Terms.NotAfter, from the time left by the database's clock; zero: none
	Deadline  time.Time
	Attempts  []Attempt // all attempts, oldest first
	CreatedAt time.Time
	UpdatedAt time.Time
	FinalAt   time.Time // zero while not final
	Caller    string    // the authenticated identity that created it; empty: unnamed
	MAC       []byte    // authentication code of the intent; empty: none
	Approval  Approval
	// when its events went to an archive, and its call data and labels; zero: they are here
	TrimmedAt  time.Time
	ArchivedAt time.Time
	// its nonce was reserved by a client; zero: no
	Reservation ReservationID
	Signed      bool // by the client: Fencepost never replaces its attempts
	// W3C traceparent of the request that created it, for spans only; empty: not traced
	TraceParent string
}

// Finished is the part of a final transaction that stays in memory: less than half of it, without
// the payload.
type Finished struct {
	ID TxID
	Status
}

// Finished returns the part that stays in memory once it is final.
func (tx *Tx) Finished() Finished { return Finished{tx.ID, tx.Status} }

// Status is the part of a transaction that moves change. A Write carries it whole: the owner has it
// in memory under its lease.
type Status struct {
	State   State
	Sub     Sub
	Version int64  // seq of the newest event
	Nonce   *Nonce // nil while none is taken
	// slot in the submitter's in-flight set, 0 to limit-1; meaningless without a nonce
	Slot      int16
	Released  bool // the slot is free for the next nonce
	TxHash    Hash // included attempt, else the newest; zero while there is none
	Receipt   *Receipt
	Executed  Executed
	Reason    string // machine-readable; see the reasons in this package
	LastError string // a message; never contains driver text, URLs or bytes
	// the part of LastError that a later answer was appended to; empty: none was
	LastErrorBase  string
	SubmitAttempts int
	Accepted       int   // number of the newest attempt that a node accepted; 0: none
	LastOutcome    Class // of the newest attempt; empty: not broadcast yet
	// number of the newest attempt not certainly rejected, so that a pool may have it; 0: none
	Pooled int
	// why a node called it invalid, if no pool has any attempt; empty: none did
	Rejected string
	// head at the last refusal by simulation; in memory only: a new owner counts from the ledger's
	// state
	RefusedAt uint64
	// local time of the first of these refusals, in memory only as well; zero: none yet
	RefusedSince time.Time
	// a node reported its nonce as used; in memory only: the next broadcast reports it again
	Doubted bool
	// its bytes were signed by this owner and have not left it; in memory only. See sentByOther
	Unsent bool
	// number of requeues by an operator; earlier attempts have other nonces
	Requeued        int
	CancelRequested bool // on request; a deadline makes a cancel attempt without it
	// start of the head's wait for an external condition, local clock; zero: it does not wait
	WaitingSince time.Time
	Diagnosis    Diagnosis  // the newest, if the policy diagnoses
	Above        []BlockRef // reported blocks above the receipt's, if the policy reports them
	// head when it became final as not executed with attempts, which are tracked for another audit
	// depth; 0: it did not
	FinalBlock uint64
}

// Turn is the progress of a due broadcast. It is in memory only, and reset by the next write that
// does not carry it on.
type Turn struct {
	// counted in the ledger; no other owner starts before an interval has passed
	Claimed    bool
	Action     StuckAction // the stuck policy's answer
	Diagnosed  bool
	KeepNewest bool // no replacement could be made: the newest attempt is rebroadcast
	// of a claimed broadcast that is early, for a node that lacks a lower nonce: the time of the
	// next one, which is counted in its place; zero: it is not early
	Early   time.Time
	Hurried time.Time // when an early broadcast was sent last; zero: the last one was not early
}

// Attempt is one signed version of a transaction. All attempts at a nonce exclude each other on
// chain.
type Attempt struct {
	No       int // 1, 2, ... within the transaction
	Kind     AttemptKind
	Nonce    Nonce
	Hash     Hash
	Raw      []byte // a bearer instrument: anyone who has it can send it. Never logged or reported
	GasLimit uint64
	Fees     Fees
	At       time.Time // time of recording on the local clock, from its age by the database's
}

// AttemptKind is the purpose of an attempt.
type AttemptKind string

// The kinds of attempts.
const (
	Original AttemptKind = "ORIGINAL"
	Bump     AttemptKind = "BUMP"
	Cancel   AttemptKind = "CANCEL"
)

// Event is one change of a transaction, with its status right after it.
type Event struct {
	Tx        TxID
	Submitter SubmitterID
	Seq       int64
	Kind      Kind
	State     State
	Sub       Sub
	Executed  Executed
	TxHash    Hash
	Receipt   *Receipt
	Reason    string
	Message   string
	NewFork   bool       // Above replaces all blocks reported before
	Above     []BlockRef // otherwise they are added to them
	At        time.Time
}

// Reasons of failures and waits.
const (
	ReasonReverted        = "REVERTED"            // included and reverted
	ReasonPrepareReverted = "WOULD_REVERT"        // a simulation reverted
	ReasonInvalid         = "INVALID_TRANSACTION" // the bytes can never be included
	// the gas limit exceeds gas.max_limit of the configuration
	ReasonGasCap            = "GAS_LIMIT_ABOVE_MAXIMUM"
	ReasonSignerKeyMissing  = "SIGNER_KEY_NOT_FOUND"
	ReasonSignerUnavailable = "SIGNER_UNAVAILABLE"
	ReasonSignerFault       = "SIGNER_FAULT" // the signer returned a different transaction
	ReasonChainUnavailable  = "CHAIN_UNAVAILABLE"
	ReasonNoEstimate        = "ESTIMATE_FAILED" // no node estimates its gas, or says why not
	ReasonInsufficientFunds = "INSUFFICIENT_FUNDS"
	ReasonStartNonce        = "START_NONCE_MISMATCH"
	ReasonNotQuiescent      = "ACCOUNT_NOT_QUIESCENT"
	ReasonFeeCap            = "FEE_CAP_BELOW_BASE_FEE" // the chain's fees exceed the configured cap
	// the chain lacks blocks of the ledger, or the endpoint lags
	ReasonChainBehind = "CHAIN_BEHIND"
	// its simulation or funds depend on transactions with lower nonces that are in no block
	ReasonLowerNonces       = "WAITING_FOR_LOWER_NONCES"
	ReasonRejected          = "REJECTED_BY_NODE"
	ReasonResubmitExhausted = "RESUBMIT_ATTEMPTS_EXHAUSTED"
	ReasonCancelled         = "CANCELLED_BY_CALLER"
	ReasonCancelLost        = "CANCEL_LOST" // the transaction was included before its cancel
	// not_after passed: no nonce was taken, or with cancel_late the cancel was included
	ReasonDeadline = "DEADLINE"
	// code at the account can raise its nonce without a transaction (EIP-7702)
	ReasonHasCode = "ACCOUNT_HAS_CODE"
	// the head of the queue waited longer than prepare.max_age
	ReasonPrepareTimeout = "PREPARE_TIMEOUT"
	ReasonReorgedFinal   = "REORGED_AFTER_FINAL"
	// older than resubmit.max_age and not included
	ReasonMaxAge = "RESUBMIT_AGE_EXCEEDED"
	// its receipt cannot be read, for as long as unreadableAge
	ReasonReceiptUnreadable = "RECEIPT_UNREADABLE"
	ReasonFeeCapReached     = "FEE_CAP_REACHED" // a replacement would exceed the fee cap
	ReasonNonceElsewhere    = "NONCE_USED_ELSEWHERE"
	// the row is not the intent that was accepted: see docs/audit.md
	ReasonUnverified = "INTENT_UNVERIFIED"
	// the policy of its caller denied it before it was signed
	ReasonPolicyDenied = "POLICY_DENIED"
	// the caller that created it is in no configuration any more, and its policy unknown
	ReasonCallerUnknown = "CALLER_UNKNOWN"
	// another caller denied it, or none approved it in time
	ReasonApprovalDenied  = "APPROVAL_DENIED"
	ReasonApprovalExpired = "APPROVAL_EXPIRED"
	// not executed by the ledger's data, but the ledger was restored: it may have executed
	ReasonRestored = "RESTORED_UNKNOWN"
)

// Reasons of a protection, besides NONCE_USED_ELSEWHERE and CHAIN_BEHIND.
const (
	ProtectByOperator = "BY_OPERATOR"
	ProtectByAudit    = "LEDGER_VIOLATION" // the auditor found a violation
	// the ledger was restored and lacks later writes
	ProtectRestored = "DATABASE_RESTORED"
	// an attempt from before a REQUEUE is on chain
	ProtectExecutedAfterRequeue = "REQUEUED_AND_RAN"
	// an attempt of a transaction that was final as not executed is on chain
	ProtectExecutedAfterFinal = "ENDED_AND_RAN"
)

// executedUnexpectedly reports whether the reason means that a transaction executed after a
// decision that assumed it could not.
func executedUnexpectedly(reason string) bool {
	return reason == ProtectExecutedAfterRequeue || reason == ProtectExecutedAfterFinal
}

// transientReasons are the reasons of a STUCK transaction that lacks a new or a valid attempt; they
// are resolved once a node accepts one.
var transientReasons = map[string]bool{
	ReasonRejected:          true,
	ReasonFeeCapReached:     true,
	ReasonChainUnavailable:  true,
	ReasonSignerKeyMissing:  true,
	ReasonSignerFault:       true,
	ReasonSignerUnavailable: true,
}

// pastDeadline reports whether its deadline has passed by the owner's clock. The database rejects
// the write if its clock disagrees.
func (tx *Tx) pastDeadline(now time.Time) bool {
	return !tx.Deadline.IsZero() && !now.Before(tx.Deadline)
}
