package sink

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// ErrLost is returned by commits of a lease that another node has taken over.
var ErrLost = errors.New("the lease of the sink was lost")

// ErrChanged is returned by commits when the cursor must be read again: an operator decided, or
// the database failed over.
var ErrChanged = errors.New("the cursor of the sink has changed")

// ErrPosition is returned for a position that is not of this ledger.
var ErrPosition = errors.New("the position of the sink is not of this ledger")

// Page is one read of the feed: all events, or none at the end of the feed.
type Page struct {
	Events   []*Event // without labels and request ids
	Position string   // after them
	Behind   int      // events that the node has read after these
}

// Feed is the feed of events of a node, which all sinks and watchers share.
type Feed interface {
	// Follow passes all events after a position to take, until ctx ends or take fails. An empty
	// position is the end of the feed. Without events it calls take after each idle interval.
	Follow(ctx context.Context, position string, idle time.Duration, take func(Page) error) error
}

// Ledger holds leases, cursors and parked transactions.
type Ledger interface {
	EnsureSinks(ctx context.Context, names []string) error
	// AcquireSinks takes those leases that are free.
	AcquireSinks(ctx context.Context, names []string) ([]txn.SinkLease, error)
	// RenewSinks returns the leases that are still held, with the revisions of their cursors.
	RenewSinks(ctx context.Context, leases []txn.SinkLease) ([]txn.SinkLease, error)
	ReleaseSinks(ctx context.Context, leases []txn.SinkLease) error
	// SinkCursors reads the named cursor.
	SinkCursors(ctx context.Context, name string) ([]txn.SinkCursor, error)
	// SinkFacts reads the request ids and labels of transactions, and whether they are parked.
	SinkFacts(ctx context.Context, name string, ids []txn.TxID) (map[txn.TxID]txn.SinkFact, error)
	// EventsOfTx reads the events first to last of a transaction, in order, up to a limit.
	EventsOfTx(ctx context.Context, id txn.TxID, first, last int64, limit int) ([]*Event, error)
	DueParked(ctx context.Context, name string, limit int) ([]txn.SinkParked, error)
	CountParked(ctx context.Context, name string) (parked, dead int64, err error)
	// CommitSink and CommitSinkRetries return ErrLost or ErrChanged if nothing was written. After
	// any other error the outcome is unknown, and they may be repeated.
	CommitSink(ctx context.Context, l txn.SinkLease, p txn.SinkProgress) error
	CommitSinkRetries(ctx context.Context, l txn.SinkLease, retries []txn.SinkRetry,
		keep time.Duration) (dead int64, err error)
}
