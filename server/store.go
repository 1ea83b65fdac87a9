package server

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Store is the part of the ledger that the server uses. No method needs a lease: a server reads,
// and writes intents.
type Store interface {
	feed.Store

	CreateTx(ctx context.Context, intent store.Intent) (info store.TxInfo, created bool, err error)
	// CreateTxs creates many transactions, with a result for each.
	CreateTxs(ctx context.Context, intents []store.Intent) []store.Created
	// WouldExceed returns the quota of its caller that an intent would exceed; empty: none.
	WouldExceed(ctx context.Context, intent store.Intent) (txn.Rule, error)
	CancelQueuedFor(ctx context.Context, id txn.TxID, ask store.Ask) (cancelled bool, err error)
	// DecideApproval approves or denies a transaction that awaits it, else returns ErrNotAwaiting.
	DecideApproval(ctx context.Context, tx *txn.Tx, d store.Decision) error
	AddCommand(ctx context.Context, submitter txn.SubmitterID, ask store.Ask) (id int64, err error)
	CommandResult(ctx context.Context, submitter txn.SubmitterID,
		id int64) (result string, done bool, err error)
	// Commands returns the commands of a submitter with ids below before, newest first; 0 starts at
	// the newest.
	Commands(ctx context.Context, submitter txn.SubmitterID, before int64,
		limit int) ([]store.CommandInfo, error)
	// AllCommands returns those of the submitters with these names; nil: of all.
	AllCommands(ctx context.Context, names []string, before int64,
		limit int) ([]store.CommandInfo, error)
	// Inboxes returns the pending commands, and the first head queued transactions.
	Inboxes(ctx context.Context, ids []txn.SubmitterID,
		heads ...int) (map[txn.SubmitterID]store.Inbox, error)

	TxByRequest(ctx context.Context, submitter txn.SubmitterID,
		requestID string) (store.TxInfo, error)
	// TxIDByHash returns the transaction with an attempt of this hash.
	TxIDByHash(ctx context.Context, hash txn.Hash) (txn.TxID, error)
	Attempts(ctx context.Context, id txn.TxID) ([]txn.Attempt, error)

	Register(ctx context.Context,
		registration store.Registration) (info store.SubmitterInfo, created bool, err error)
	SetPolicies(ctx context.Context, id txn.SubmitterID, change store.PolicyChange) error
	Lookup(ctx context.Context, nameOrAccountID string) (txn.SubmitterID, error)
	Submitter(ctx context.Context, id txn.SubmitterID) (store.SubmitterInfo, error)
	// Waiting returns the transaction that blocks the next nonce, the head of the queue, and the
	// skipped nonces.
	Waiting(ctx context.Context,
		id txn.SubmitterID) (blocking, head *txn.Tx, gaps []store.Gap, err error)
	Submitters(ctx context.Context, names []string, afterName string,
		limit int) ([]store.SubmitterInfo, error)
	// MovedNames returns the accounts with these names that have moved to another ledger.
	MovedNames(ctx context.Context, names []string) ([]store.Former, error)

	// SubmittersIn returns submitters in one of these conditions.
	SubmittersIn(ctx context.Context, in store.Conditions, names []string, afterName string,
		limit int) ([]store.SubmitterInfo, error)

	// Totals counts over the submitters with these names; nil: over all.
	Totals(ctx context.Context, names []string) (store.Totals, error)
	// NodesWithLeases returns the live nodes.
	NodesWithLeases(ctx context.Context) ([]store.NodeLeases, error)

	SinkStore
	PoolStore
	NonceStore

	Costs(ctx context.Context, filter store.CostFilter) ([]store.Cost, error)
	// FundsOf returns what is known of the balances and top-ups of submitters.
	FundsOf(ctx context.Context, ids []txn.SubmitterID) (map[txn.SubmitterID]store.Funds, error)
	Commitments(ctx context.Context, ids []txn.SubmitterID,
		nonces map[txn.SubmitterID]txn.Nonce) (map[txn.SubmitterID]store.Commitment, error)
}

// PoolStore is the part of the ledger about pools.
type PoolStore interface {
	auth.Pools

	CreatePool(ctx context.Context, name string,
		chain txn.ChainID) (p store.Pool, created bool, err error)
	SetPoolMember(ctx context.Context, pool store.PoolRef, submitter txn.SubmitterID,
		status store.MemberStatus, ask store.Ask) error
	LookupPool(ctx context.Context, name string) (store.PoolRef, error)
	Pool(ctx context.Context, name string) (store.Pool, error)
	// Pools returns the pools with these names; nil: all.
	Pools(ctx context.Context, names []string, afterName string, limit int) ([]store.Pool, error)
	// PoolAccount returns the account that a transaction would get now.
	PoolAccount(ctx context.Context, pool store.PoolRef, stickyKey string) (txn.SubmitterID, error)
	TxByPoolRequest(ctx context.Context, pool store.PoolID,
		requestID string) (store.TxInfo, error)
}

// NonceStore is the part of the ledger about nonces that clients reserve.
type NonceStore interface {
	// AskNonce records a request for the owner of a submitter; AwaitNonce, which must follow,
	// returns its result.
	AskNonce(ctx context.Context, ask store.NonceAsk) (store.NonceAsked, error)
	AwaitNonce(ctx context.Context, asked store.NonceAsked) (store.NonceOutcome, error)
	Nonce(ctx context.Context, submitter txn.SubmitterID, nonce txn.Nonce) (store.NonceInfo, error)
	// NonceOf returns the nonce that a reservation holds, or held last, as it left it.
	NonceOf(ctx context.Context, id txn.ReservationID) (info store.NonceInfo, held bool, err error)
	ListNonces(ctx context.Context, f store.NonceFilter) ([]store.NonceInfo, error)
	// QueueReserved queues the transaction of a reserved nonce, or returns the one that it has.
	QueueReserved(ctx context.Context, r store.ReservedTx) (txn.TxID, error)
	// AddSigned records bytes that replace those of a client's transaction.
	AddSigned(ctx context.Context, id txn.TxID, a txn.Attempt) (added bool, err error)
}

// SinkStore is the part of the ledger about sinks that operators see and decide on.
type SinkStore interface {
	// SinkCursors returns all sinks by name, or the named one.
	SinkCursors(ctx context.Context, name string) ([]txn.SinkCursor, error)
	CountParked(ctx context.Context, name string) (parked, dead int64, err error)
	ListParked(ctx context.Context, filter store.ParkedFilter) ([]txn.SinkParked, error)
	// EnsureSinks creates sinks that the ledger lacks, active.
	EnsureSinks(ctx context.Context, names []string) error
	SetSinkStatus(ctx context.Context, d store.SinkDecision, status txn.SinkStatus) error
	ReplaySink(ctx context.Context, d store.SinkDecision, at store.Position) error
	// PositionFrom returns a position before all events since a time.
	PositionFrom(ctx context.Context, at time.Time) (store.Position, error)
	// RetryParked makes a transaction due, or all dead ones for the zero id.
	RetryParked(ctx context.Context, d store.SinkDecision, id txn.TxID) (int64, error)
	SkipParked(ctx context.Context, d store.SinkDecision, id txn.TxID, seq int64) error
	// SinkCommands returns the decisions about all sinks.
	SinkCommands(ctx context.Context, before int64, limit int) ([]store.CommandInfo, error)
}
