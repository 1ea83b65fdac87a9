package txn

import (
	"slices"
	"time"
)

// Clients of a submitter in mode EXTERNAL sign themselves. They reserve nonces, and report how
// they used them. Nothing that a client reports, or fails to report, makes a nonce count as
// used, and nothing but its own word, or an operator's, that it never signed makes it free again.

// NonceState is the state of a nonce that was given to a client.
type NonceState string

// The states. Other names in use: HELD for RESERVED, CONSUMED and USED for ACCEPTED, RELEASED for
// RECYCLABLE.
const (
	NonceReserved   NonceState = "RESERVED"   // held until the reservation expires
	NoncePending    NonceState = "PENDING"    // a transaction for it may have been signed
	NonceAccepted   NonceState = "ACCEPTED"   // used on chain, and settled
	NonceRecyclable NonceState = "RECYCLABLE" // never signed for; the next allocation takes it
)

// NonceStates lists every state.
var NonceStates = []NonceState{NonceReserved, NoncePending, NonceAccepted, NonceRecyclable}

// NonceMoves is the table of legal moves. A test compares the database's trigger with it.
var NonceMoves = map[NonceState][]NonceState{
	NonceReserved: {NoncePending, NonceAccepted, NonceRecyclable},
	NoncePending:  {NonceAccepted, NonceRecyclable},
	// PENDING: its last holder reported a hash after all, or the ledger was restored; ACCEPTED: the
	// chain shows that it was used after all
	NonceRecyclable: {NonceReserved, NoncePending, NonceAccepted},
}

// LegalNonce reports whether a nonce may move between two states, or keep its state.
func LegalNonce(from, to NonceState) bool {
	return from == to || slices.Contains(NonceMoves[from], to)
}

// Reasons of the state of a nonce.
const (
	NonceAllocated    = "ALLOCATED"
	NonceExpired      = "EXPIRED"
	NonceHashRecorded = "HASH_RECORDED"
	NonceQuarantined  = "QUARANTINED"
	NonceNeverSigned  = "NEVER_SIGNED"
	NonceByReceipt    = "BY_RECEIPT" // settled, and a recorded hash has the receipt
	NonceBySettled    = "BY_SETTLED_NONCE"
	NonceByOperator   = "BY_OPERATOR"
	NonceRestored     = "RESTORED" // the ledger lost commits: it may have been reserved again
	NonceUsedReleased = "USED_AFTER_RELEASE"
	// settled, and none of the recorded hashes has a receipt
	NonceByOther = "BY_OTHER_TX"
	// a former holder, which had released it, reported that it signed
	NonceFormerSigned = "FORMER_HOLDER_SIGNED"
	NonceHole         = "HOLE" // nonces above it wait for it: it is filled
)

// ReservationID identifies a reservation for ever. It names its submitter, as a TxID does.
type ReservationID = TxID

// ExternalNonce is a nonce that was given to a client.
type ExternalNonce struct {
	Nonce         Nonce
	State         NonceState
	Version       int64
	Reservation   ReservationID // the last one
	Holder        string        // as the client names itself
	Caller        string        // its authenticated identity
	Reason        string
	Message       string
	NeedsOperator bool
	Expires       time.Time // of RESERVED; local clock, from the time left by the database's
	Since         time.Time // local time of the last change of state
	Hashes        []Hash    // recorded ones, oldest first
}

// NonceRequestKind is the kind of a request.
type NonceRequestKind string

// The kinds of requests.
const (
	RequestAllocate   NonceRequestKind = "ALLOCATE"
	RequestRecordHash NonceRequestKind = "HASH"
	// with the word of the holder that it never signed
	RequestRelease    NonceRequestKind = "RELEASE"
	RequestQuarantine NonceRequestKind = "QUARANTINE"
	RequestExtend     NonceRequestKind = "EXTEND"
	RequestResolve    NonceRequestKind = "RESOLVE" // an operator's decision
)

// NonceRequestKinds lists every kind.
var NonceRequestKinds = []NonceRequestKind{
	RequestAllocate, RequestRecordHash, RequestRelease, RequestQuarantine, RequestExtend,
	RequestResolve,
}

// NonceRequest is a request to the owner of a submitter.
type NonceRequest struct {
	No          int64
	Kind        NonceRequestKind
	Reservation ReservationID
	Holder      string
	Caller      string
	TTL         time.Duration
	Hash        Hash
	Action      string // of RESOLVE: NonceNeverSigned, or NonceFill
	Reason      string
	Operator    string
	Stale       bool           // its caller has left long ago
	Rejected    bool           // the database has rejected the change that applies it alone
	Given       *Nonce         // by its reservation, which may have released it; nil: unknown
	Accepted    *ExternalNonce // that nonce, if it is ACCEPTED, of any reservation
}

// accepted reports whether the chain has used the nonce that the reservation of a request holds.
func (r *NonceRequest) accepted() bool {
	return r.Accepted != nil && r.Accepted.Reservation == r.Reservation
}

// NonceFill is the decision to fill a nonce with a cancel transaction.
const NonceFill = "FILL"

// Results of requests that changed nothing, besides the results of commands. A message may follow.
const (
	ResultExhausted     = "NONCES_EXHAUSTED"
	ResultNonceState    = "NONCE_STATE"
	ResultNotReady      = "ACCOUNT_NOT_READY"
	ResultPaused        = "SUBMITTER_PAUSED"
	ResultProtected     = "SUBMITTER_PROTECTED"
	ResultNonceNotFound = "NONCE_NOT_FOUND"
	ResultStale         = "STALE" // nothing was done: the caller had left
)

// NonceResult is the result of a request.
type NonceResult struct {
	No     int64
	Result string // APPLIED, or a code and after ": " a message
	Nonce  *Nonce // of an ALLOCATE that was applied
}

// NonceWrite changes one nonce, which must still have the expected version and state, or takes a
// new one.
type NonceWrite struct {
	Version int64 // expected; 0: a new nonce
	From    NonceState
	Next    ExternalNonce // Version is that after the write
	TTL     time.Duration // of the reservation, from now by the database's clock; 0: unchanged
	// because its time is over: rejected unless it is by the database's clock
	Expired bool
	Hash    Hash // recorded with it; zero: none
	// the reservation whose holder signed Hash, if it is not that of Next
	Former ReservationID
}

// NonceChange is everything that one step writes about the nonces of clients.
type NonceChange struct {
	// nonces are reserved: the cursor must be at From, moves to To, and the submitter must be
	// neither paused nor protected
	Reserves bool
	From, To Nonce
	Writes   []NonceWrite
	Results  []NonceResult
}

// ExternalView is the part of a view that only submitters in mode EXTERNAL have.
type ExternalView struct {
	Nonces   []ExternalNonce // those that are not ACCEPTED, lowest first
	Requests []NonceRequest  // in order
	// the database has rejected a change: each request gets one of its own
	OneByOne bool
	// local time of the last read of the account for them, successful or not; zero: none yet
	ReadAt time.Time
	// receipts of recorded hashes, by the last read; nil: it has none, no entry: unknown
	Receipts map[Hash]*Receipt
	Settled  Nonce  // of the account, by the same read; 0 if it failed
	Before   Nonce  // likewise, by the last successful read before that one; 0: none
	Source   string // Account.Source of the last successful read
	// reservations whose nonce this owner has already queued a cancel transaction for
	Filled map[ReservationID]bool
	Signed []SignedBytes // of clients, that no attempt has yet; lowest nonce first
}

// SignedBytes is a transaction that a client signed for a reserved nonce.
type SignedBytes struct {
	Tx TxID
	Attempt
}

// ExternalPolicy configures the nonces of clients.
type ExternalPolicy struct {
	// time between two reads of an account with nonces that are RESERVED or PENDING; 0: 15 s
	ReconcileInterval time.Duration
	// age of a PENDING nonce without evidence after which it needs an operator; 0: never
	HardMaxAge time.Duration
	// age of a hole below used nonces after which it is filled; 0: never
	FillAfter time.Duration
}

// defaultReconcile is the default of ExternalPolicy.ReconcileInterval.
const defaultReconcile = 15 * time.Second

func (p *ExternalPolicy) interval() time.Duration {
	if p.ReconcileInterval > 0 {
		return p.ReconcileInterval
	}
	return defaultReconcile
}
