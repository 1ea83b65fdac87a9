package store

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// Lease is the right to write for one submitter under one fencing token. Only the store makes one,
// and only with one can the ledger be written.
type Lease struct {
	submitter txn.SubmitterID
	token     txn.Token
	// local clock, read before the request was sent: the lease lasts at least duration longer
	takenAt time.Time
	// by the database's clock, when it was acquired; renewals extend it
	expiresAt time.Time
	before    Before
	// a change under it was fenced or has an unknown outcome: nothing more is sent under this token
	spent atomic.Bool
}

// Submitter is whom the lease is for.
func (l *Lease) Submitter() txn.SubmitterID { return l.submitter }

// Token is the fencing token.
func (l *Lease) Token() txn.Token { return l.token }

// TakenAt is the local time before the acquisition was asked for.
func (l *Lease) TakenAt() time.Time { return l.takenAt }

// ExpiresAt is when the lease would have expired without renewals, by the database's clock.
func (l *Lease) ExpiresAt() time.Time { return l.expiresAt }

// Before is the state of the lease before this acquisition.
func (l *Lease) Before() Before { return l.before }

// Before describes how a lease became free.
type Before struct {
	// node that held it last; empty: none ever did, or the ledger was restored since
	Owner    string
	Released bool // released, not expired
	// without an owner, by the database's clock; 0 when this node took it from itself
	Gap time.Duration
}

// Outcome is the result of a Change.
type Outcome int

// The outcomes of a commit: done, fenced, conflict or unknown, and two that give the reason why
// nothing was retried.
const (
	// Unsettled: the outcome is unknown (the reply was lost). The lease must be acquired again,
	// which waits for the statement, before anything is read or broadcast.
	Unsettled Outcome = iota
	// Done: written and durable.
	Done
	// Fenced: the lease is not held any more. Nothing was written; the owner stops.
	Fenced
	// Conflict: an expectation did not hold. Nothing was written; the owner reads again.
	Conflict
	// Refused: the database refused this change alone (a constraint). Nothing was written, and the
	// same change will be refused again.
	Refused
	// Unreached: nothing was written, because there is no database to send it to, or none that can
	// take it now (read-only, out of space).
	Unreached
)

// String names the outcome as metrics and logs have it.
func (o Outcome) String() string {
	return [...]string{"unknown", "done", "fenced", "conflict", "refused", "unreached"}[o]
}

// Errors of the API side. Each wraps nothing of the driver's text.
var (
	ErrTxNotFound        = errors.New("no such transaction")
	ErrSubmitterNotFound = errors.New("no such submitter")
	ErrKeyReused         = errors.New("request_id was used with another payload")
	ErrSubmitterExists   = errors.New("submitter is registered with other settings")
	ErrModeLimit         = errors.New("a strict submitter has one nonce in flight")
	ErrPaused            = errors.New("submitter is paused")
	ErrProtected         = errors.New("submitter is protected")
	ErrLate              = errors.New("the deadline has passed")
	ErrTokenExpired      = errors.New("resume token is older than the events that are kept")
	ErrTrimmed           = errors.New("events after the position were archived")
	ErrPoolNotFound      = errors.New("pool not found")
	ErrPoolExists        = errors.New("the pool exists on another chain")
	ErrPoolChain         = errors.New("the submitter and the pool are on different chains")
	ErrPoolMode          = errors.New("clients sign for the submitter")
	ErrPoolMember        = errors.New("no member of the pool")
	ErrPoolEmpty         = errors.New("the pool has no active member")
	ErrPoolStopped       = errors.New("no member of the pool accepts transactions")
	ErrBusy              = errors.New("too many pending database operations")
	ErrUnavailable       = errors.New("database unavailable")
	ErrAccessDenied      = errors.New(
		// with ErrUnavailable: the database answers, and an operator must correct its configuration
		"the database rejects the login")
	ErrSchema = errors.New("incompatible database schema")
)

// Intent is a transaction that a caller wants queued.
type Intent struct {
	Submitter txn.SubmitterID // zero for an intent with a pool: the ledger chooses
	Pool      PoolRef
	StickyKey string // the same account of the pool for the same key, while it accepts; no identity
	RequestID string
	Payload   txn.Payload
	Terms     txn.Terms
	// not part of the request's identity: nothing that is sent depends on them
	Labels map[string]string
	Caller string // the authenticated identity; no part of the request's identity either
	// the rule of the caller's policy that denies it: only a transaction that was accepted under
	// its request id is returned. Empty: none
	Denied   txn.Rule
	MaxValue *txn.Wei  // of value_per_tx, for the error; nil: no limit
	Quota    txn.Quota // of the caller; without any, nothing is counted
	// nil: quotas are enforced; else they are reported to it, and the transaction is accepted
	BeyondQuota func(txn.Rule)
	// how long it awaits the approval of another caller, then it fails; 0: it needs none
	ApprovalTime time.Duration
	// W3C traceparent of the request, if it is traced; empty: it is not
	TraceParent string
}

// RequestKey names a transaction for ever.
type RequestKey struct {
	Submitter txn.SubmitterID
	RequestID string
}

// Key returns the key of the transaction.
func (i Intent) Key() RequestKey { return RequestKey{i.Submitter, i.RequestID} }

// identity is the key of an intent in the ledger: with a pool that and not the submitter.
type identity struct {
	pool      PoolID
	submitter txn.SubmitterID
	requestID string
}

func (i Intent) identity() identity {
	if i.Pool.ID != 0 {
		return identity{pool: i.Pool.ID, requestID: i.RequestID}
	}
	return identity{submitter: i.Submitter, requestID: i.RequestID}
}

// labels are the labels of the intent with its pool.
func (i Intent) labels() map[string]string {
	if i.Pool.ID == 0 {
		return i.Labels
	}
	all := make(map[string]string, len(i.Labels)+1)
	maps.Copy(all, i.Labels)
	all[PoolLabel] = i.Pool.Name
	return all
}

func (i Intent) verb() string {
	if i.Pool.ID != 0 {
		return fmt.Sprintf("create transaction %q of pool %d", i.RequestID, i.Pool.ID)
	}
	return fmt.Sprintf("create transaction %q of submitter %d", i.RequestID, i.Submitter)
}

// TxInfo is a transaction for readers: with the name of its submitter, and the fields that only
// readers need.
type TxInfo struct {
	txn.Tx
	SubmitterName string
	Pool          string // with which it was created; empty: with its submitter
	Labels        map[string]string
	Included      txn.AttemptKind // the form that its receipt is of; empty: it has none
	LastSubmit    *time.Time      // time of the last broadcast; nil: none known
}

// TxVersion is the current version of a transaction, its last event number, and its state.
type TxVersion struct {
	Version int64
	State   txn.State
}

// EventInfo is an event as readers get it, with its position in the feed.
type EventInfo struct {
	txn.Event
	SubmitterName string
	Included      txn.AttemptKind   // the form that its receipt is of; empty: it has none
	Xid           string            // of the transaction that wrote it
	Labels        map[string]string // of the transaction, with PoolLabel; in the feed only
}

// SubmitterInfo is a submitter with its owner, cursor and queue.
type SubmitterInfo struct {
	txn.Submitter
	Lease    LeaseInfo
	Cursor   *txn.Cursor // nil before the account was read
	Pause    *Pause      // nil: it is not paused, or nothing is recorded of that
	Queued   int64       // queued transactions, counted up to CountedQueue
	More     bool        // more wait than were counted
	InFlight int64
	// Unfunded reports whether it cannot afford the head of its queue or a transaction in flight.
	Unfunded    bool
	QueueHeadAt time.Time // acceptance of the head of the queue; zero: the queue is empty
}

// Pause is the operator, reason and time of a submitter's pause.
type Pause struct {
	ID        int64 // of its command
	OnFailure bool  // by its policy, not by an operator
	Reason    string
	Operator  string
	At        time.Time
}

// LeaseInfo is the lease of a submitter.
type LeaseInfo struct {
	OwnerNode  string
	Token      txn.Token
	AcquiredAt time.Time
	ExpiresAt  time.Time
	Live       bool
}

// Registration asks for a submitter.
type Registration struct {
	Name      string
	Chain     txn.ChainID
	Address   txn.Address
	Signer    string
	Mode      txn.Mode // the ledger's counts for a submitter that exists: see AnyMode
	AnyMode   bool     // accept a submitter that is registered with another mode or limit
	StartFrom string
	Policies
}

// Policies are the settings of a submitter that may be changed later.
type Policies struct {
	OnFailure txn.OnFailure // empty: CONTINUE
	MaxFee    txn.Wei       // wei per unit of gas; zero: the chain's limit alone
	// nonces in flight of a pipelined submitter; 0: txn.DefaultInFlight
	MaxInFlight int
}

// PolicyChange is a change to the policies of a submitter; nil leaves one unchanged.
type PolicyChange struct {
	OnFailure *txn.OnFailure
	MaxFee    *txn.Wei
	// a change to STRICT sets the limit to 1, one to PIPELINED without a limit to
	// txn.DefaultInFlight
	Mode        *txn.Mode
	MaxInFlight *int
	// a lower limit is recorded with this UPDATE command: its reason, operator and caller
	Asked Ask
}

// TxFilter selects and pages transactions, newest first.
type TxFilter struct {
	Submitter txn.SubmitterID   // 0: all
	Names     []string          // of the submitters; nil: all
	States    []txn.State       // empty: all
	Labels    map[string]string // each of them; empty: all
	IDs       []txn.TxID        // only these, together with States and no other filter; empty: all
	Awaiting  bool              // only those that await an approval
	Before    txn.TxID          // zero: from the newest
	Limit     int
	// a page ends early with the second row before which there are so many bytes of call data; 0:
	// no limit
	MaxBytes int

	CreatedFrom, CreatedBefore time.Time // by the database's clock; zero: all
}

// Ledger is the state that the owner of a submitter keeps in memory.
type Ledger struct {
	Submitter txn.Submitter
	Cursor    *txn.Cursor
	Open      []txn.Tx // with a nonce and not final, lowest nonce first, with their attempts
	// the database failed over since the account was last compared with the chain
	FailedOver  bool
	MayHaveLost bool          // as in txn.View
	PoolRules   txn.PoolRules // of the chain's nodes
	// of a submitter in mode EXTERNAL: the nonces of clients that are not ACCEPTED, lowest first
	Nonces []txn.ExternalNonce
}

// Inbox holds the writes of other nodes for a submitter.
type Inbox struct {
	Queue    []txn.Tx      // head of the queue, first to go first
	Commands []txn.Command // oldest first
	More     bool          // there may be commands after these
}
