package track

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// Chain is the part of a chain that a [Tracker] reads.
//
// Methods return an error that is txn.ErrUnavailable when the chain could not be read; nothing
// follows from such an error. A missing object is never an error. Every method returns when ctx
// ends.
type Chain interface {
	// ID is the chain id that was verified at connect.
	ID() txn.ChainID
	// Head is the newest block.
	Head(ctx context.Context) (txn.Block, error)
	// BlockByHash is a block of any branch that the node still has; nil: it has none of that hash.
	BlockByHash(ctx context.Context, hash txn.Hash) (*txn.Block, error)
	// BlockByNumber is the canonical block of that height; nil above the head.
	BlockByNumber(ctx context.Context, number uint64) (*txn.Block, error)
	// Receipts looks up every hash, in as few calls as the transport allows; results come in the
	// order of the hashes.
	Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult
	// Tagged is the newest block that the chain calls "safe" or "finalized"; nil when there is
	// none yet. A node that does not know the tag returns an error that is not
	// txn.ErrUnavailable: retrying does not help.
	Tagged(ctx context.Context, tag string) (*txn.Block, error)
	// Heads signals that there may be a new head. It carries no data and may be nil, in which case
	// the tracker only polls. It is closed when ctx ends.
	Heads(ctx context.Context) <-chan struct{}
}
