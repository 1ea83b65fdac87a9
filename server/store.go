package server

import (
	"context"

	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Store is what the server needs of the ledger. No method of it needs a lease: a server reads, and
// writes intents.
type Store interface {
	feed.Store

	CreateTx(ctx context.Context, intent store.Intent) (info store.TxInfo, created bool, err error)
	// CreateTxs is CreateTx for many, with a fate for each.
	CreateTxs(ctx context.Context, intents []store.Intent) []store.Created
	CancelQueuedFor(ctx context.Context, id txn.TxID, ask store.Ask) (cancelled bool, err error)
	AddCommand(ctx context.Context, submitter txn.SubmitterID, ask store.Ask) (id int64, err error)
	CommandResult(ctx context.Context, submitter txn.SubmitterID,
		id int64) (result string, done bool, err error)
	// Commands tells what was asked of the owners of a submitter, newest first, those before a
	// number; 0: from the newest.
	Commands(ctx context.Context, submitter txn.SubmitterID, before int64,
		limit int) ([]store.CommandInfo, error)
	// Inboxes tells the commands that no owner has applied yet.
	Inboxes(ctx context.Context, ids []txn.SubmitterID,
		head int) (map[txn.SubmitterID]store.Inbox, error)

	TxByRequest(ctx context.Context, submitter txn.SubmitterID,
		requestID string) (store.TxInfo, error)
	Attempts(ctx context.Context, id txn.TxID) ([]txn.Attempt, error)

	Register(ctx context.Context,
		registration store.Registration) (info store.SubmitterInfo, created bool, err error)
	SetPolicies(ctx context.Context, id txn.SubmitterID, change store.PolicyChange) error
	Lookup(ctx context.Context, nameOrAccountID string) (txn.SubmitterID, error)
	Submitter(ctx context.Context, id txn.SubmitterID) (store.SubmitterInfo, error)
	// Waiting tells what those in flight, and those in the queue, wait for, and which nonces were
	// given up.
	Waiting(ctx context.Context,
		id txn.SubmitterID) (blocking, head *txn.Tx, gaps []store.Gap, err error)
	Submitters(ctx context.Context, names []string, afterName string,
		limit int) ([]store.SubmitterInfo, error)
}
