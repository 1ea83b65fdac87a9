package txn

import "time"

// Tx is one transaction as the ledger has it.
type Tx struct {
	ID          TxID
	Submitter   SubmitterID
	RequestID   string
	RequestHash [32]byte
	QueueSeq    int64 // order of acceptance within the submitter; gaps are normal
	Payload     Payload
	Terms       Terms
	Status
	Turn      Turn
	Restored  bool      // it was in the ledger, and not final, when that was restored: see unproven
	Token     Token     // fencing token of the last write; 0 while only callers have written
	Due       time.Time // no outside effect for this transaction before; zero is "now". The local clock's, for liveness only
	Deadline  time.Time // when Terms.NotAfter comes, as Due is: from what the database said was left; zero: no deadline
	Attempts  []Attempt // every signed form, oldest first
	CreatedAt time.Time
	UpdatedAt time.Time
	FinalAt   time.Time // zero while not final
}

// Finished is what is kept of a transaction that is final: less than half of it, and not what it was to send.
type Finished struct {
	ID TxID
	Status
}

// Finished is what is kept of it once it is final.
func (tx *Tx) Finished() Finished { return Finished{tx.ID, tx.Status} }

// Status is the part of a transaction that moves change. A Write carries it whole: the owner has it in memory under its lease.
type Status struct {
	State           State
	Sub             Sub
	Version         int64  // seq of the newest event
	Nonce           *Nonce // nil while none is taken
	Slot            int16  // place in the submitter's in-flight set, 0 to limit-1; meaningless without a nonce
	Released        bool   // the slot is free for the next nonce
	TxHash          Hash   // included attempt, else the newest; zero while there is none
	Receipt         *Receipt
	Executed        Executed
	Reason          string // machine-readable; see the reasons in this package
	LastError       string // a sentence; never holds driver text, URLs or bytes
	LastErrorBase   string // the part of LastError that a later answer was appended to; empty: none was
	SubmitAttempts  int
	Accepted        int        // number of the newest attempt that a node has said it took; 0: none
	LastOutcome     Class      // to the newest form; empty: it was not handed over yet
	Pooled          int        // number of the newest attempt that was not surely refused, so that a pool may have it; 0: none
	Rejected        string     // why it can never pass, as a node says that took none of its forms; empty: nobody says so
	RefusedAt       uint64     // head at the last refusal by simulation; in memory alone: a new owner counts from where the ledger stands
	Doubted         bool       // a node said that its nonce is used; in memory alone: the next hand-over says it again
	Requeued        int        // times that an operator gave it back to the queue; its attempts of then have nonces of their own
	CancelRequested bool       // by somebody; what its deadline cancels has a form for that alone
	WaitingSince    time.Time  // the head of the queue waits for something outside since then, as Due is: the local clock's; zero: it does not
	Diagnosis       Diagnosis  // the newest, where the policy asks for one
	Above           []BlockRef // blocks above the receipt's that were told, where the policy wants them told
	FinalBlock      uint64     // head when it ended as never run although it has signed forms: they are followed for an audit depth more; 0: it did not
}

// Turn is how far a hand-over that is due has come. It is in memory alone, and over with the next write that does not carry it on.
type Turn struct {
	Claimed    bool        // the ledger counts it already, and lets nobody else begin before an interval has passed
	Action     StuckAction // what the stuck policy has said
	Diagnosed  bool
	KeepNewest bool // no replacement could be made: the newest form is handed over as it is
}

// Attempt is one signed form of a transaction. All attempts of a nonce exclude each other on chain.
type Attempt struct {
	No       int // 1, 2, ... within the transaction
	Kind     AttemptKind
	Nonce    Nonce
	Hash     Hash
	Raw      []byte // a bearer instrument: whoever holds it can send it. Never logged, never told
	GasLimit uint64
	Fees     Fees
	At       time.Time // when it was recorded, as Due is: the local clock's, from its age by the database's
}

// AttemptKind says what an attempt is for.
type AttemptKind string

// The kinds of attempts.
const (
	Original AttemptKind = "ORIGINAL"
	Bump     AttemptKind = "BUMP"
	Cancel   AttemptKind = "CANCEL"
)

// Fees are what a transaction offers for each unit of gas, in wei. A legacy transaction has its gas price in both fields and Legacy set.
type Fees struct {
	Cap    Wei // most that is paid in all (maxFeePerGas, EIP-1559)
	Tip    Wei // most that goes to the proposer (maxPriorityFeePerGas); at most Cap
	Legacy bool
}

// Event is one step in the life of a transaction, with the status right after it.
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
	NewFork   bool       // Above replaces all that was told of blocks before
	Above     []BlockRef // otherwise they are added to it
	At        time.Time
}

// Reasons of failures and waits.
const (
	ReasonReverted          = "REVERTED"            // included and reverted
	ReasonPrepareReverted   = "WOULD_REVERT"        // the chain says that it would revert
	ReasonInvalid           = "INVALID_TRANSACTION" // these bytes can never pass
	ReasonSignerKeyMissing  = "SIGNER_KEY_NOT_FOUND"
	ReasonSignerUnavailable = "SIGNER_UNAVAILABLE"
	ReasonSignerFault       = "SIGNER_FAULT" // the signer returned something other than what was asked for
	ReasonChainUnavailable  = "CHAIN_UNAVAILABLE"
	ReasonInsufficientFunds = "INSUFFICIENT_FUNDS"
	ReasonStartNonce        = "START_NONCE_MISMATCH"
	ReasonNotQuiescent      = "ACCOUNT_NOT_QUIESCENT"
	ReasonFeeCap            = "FEE_CAP_BELOW_BASE_FEE" // the chain asks more than the configuration allows
	ReasonChainBehind       = "CHAIN_BEHIND"           // the chain does not have what was final, or the endpoint lags
	ReasonRejected          = "REJECTED_BY_NODE"
	ReasonResubmitExhausted = "RESUBMIT_ATTEMPTS_EXHAUSTED"
	ReasonCancelled         = "CANCELLED_BY_CALLER"
	ReasonCancelLost        = "CANCEL_LOST"      // a cancel was asked for, and what it should have stopped was included first
	ReasonDeadline          = "DEADLINE"         // not_after has passed: no nonce was taken, or with cancel_late the cancel was included
	ReasonHasCode           = "ACCOUNT_HAS_CODE" // code at the account can raise its nonce without a transaction (EIP-7702)
	ReasonPrepareTimeout    = "PREPARE_TIMEOUT"  // the head of the queue waited longer than prepare.max_age
	ReasonReorgedFinal      = "REORGED_AFTER_FINAL"
	ReasonMaxAge            = "RESUBMIT_AGE_EXCEEDED" // older than resubmit.max_age and in no block
	ReasonFeeCapReached     = "FEE_CAP_REACHED"       // a replacement would have to offer more than is allowed
	ReasonNonceElsewhere    = "NONCE_USED_ELSEWHERE"
	ReasonRestored          = "RESTORED_UNKNOWN" // ended without having run by what the ledger knows, but that was restored meanwhile: it may have run
)

// Reasons of a protection, besides NONCE_USED_ELSEWHERE and CHAIN_BEHIND.
const (
	ProtectByOperator           = "BY_OPERATOR"
	ProtectByAudit              = "LEDGER_VIOLATION"  // the auditor found a law broken
	ProtectRestored             = "DATABASE_RESTORED" // the ledger was restored, and what came after the backup is not in it
	ProtectExecutedAfterRequeue = "REQUEUED_AND_RAN"  // an attempt of before a REQUEUE is on chain
	ProtectExecutedAfterFinal   = "ENDED_AND_RAN"     // an attempt of what had ended as never run is on chain
)

// executedUnexpectedly tells whether a reason says that a transaction ran which somebody had decided about, because it could not run any more.
func executedUnexpectedly(reason string) bool {
	return reason == ProtectExecutedAfterRequeue || reason == ProtectExecutedAfterFinal
}
