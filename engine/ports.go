package engine

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// Chain is what the engine asks of an EVM chain. Implementations hide endpoints, fail-over and the differences between clients; chain/conformance is the
// suite that each of them passes.
//
// Reads return an error that is txn.ErrUnavailable when the chain could not be asked; nothing follows from such an error. "Not there" is never an error.
// Every method returns when ctx ends.
type Chain interface {
	// ID is the chain id that was verified at connect.
	ID() txn.ChainID
	// Head is the newest block.
	Head(ctx context.Context) (txn.Block, error)
	// BlockByHash is a block of any branch that the node still has; nil when it has none of that hash.
	BlockByHash(ctx context.Context, hash txn.Hash) (*txn.Block, error)
	// BlockByNumber is the canonical block of that height; nil above the head.
	BlockByNumber(ctx context.Context, number uint64) (*txn.Block, error)
	// Receipts looks up every hash, in as few calls as the transport allows; answers come in the order of the hashes.
	Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult
	// Send hands signed bytes to the chain. It never fails: whatever happened is an outcome, and what is not known is AMBIGUOUS. A node that answers another
	// hash than the one given did not accept these bytes.
	Send(ctx context.Context, signed txn.Signed) txn.Outcome
	// Account looks at an account; settled is the depth of Account.Settled below the head. An error that is txn.ErrNoState as well says that the account can be
	// looked at, and not as deep as that.
	Account(ctx context.Context, address txn.Address, settled uint64) (txn.Account, error)
	// Consumer tells who used a nonce of an account, as far as the node can still tell: nil when it is not used, or when that is not to be found out.
	Consumer(ctx context.Context, address txn.Address, nonce txn.Nonce) (*txn.Consumer, error)
	// Quote estimates gas (with the configured margin, unless the payload brings its limit) and fees for a draft, at its speed and within its own cap. A refusal
	// of the node (it would revert, no funds) is an outcome; ACCEPTED comes with the quote.
	Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome)
	// Fees are what the market asks now at a speed, for a replacement; limit is its cap per unit of gas, zero for none, and counts in place of the one that Quote
	// keeps to. As with Quote, what keeps anything from being offered is an outcome.
	Fees(ctx context.Context, speed txn.Speed, limit txn.Wei) (txn.Fees, txn.Outcome)
	// Gas is what a draft takes by simulation, with the configured margin. As with Quote, a refusal is an outcome.
	Gas(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome)
	// Pooled looks for the attempts of one nonce in the pool of one node. It is a hint: pools differ, and nothing may rest on it.
	Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
		hashes []txn.Hash) (txn.Diagnosis, error)
	// Tagged is the newest block that the chain calls "safe" or "finalized"; nil when it calls none so yet. A node that does not know such tags is an error that
	// is not txn.ErrUnavailable: asking again does not help.
	Tagged(ctx context.Context, tag string) (*txn.Block, error)
	// Heads signals that there may be a new head. It carries no data and may be nil: then the tracker only polls. Closed when ctx ends.
	Heads(ctx context.Context) <-chan struct{}
}

// StuckPolicy decides about transactions that are STUCK. It is asked in the owner's turn, once for each time that the ledger says so (a crash in between costs an
// interval), and has to answer before ctx ends. An error, or no answer in time, is WAIT. One that acts on something outside knows a repeat by the case's
// ActionID.
type StuckPolicy interface {
	Decide(ctx context.Context, c txn.StuckCase) (txn.StuckAction, error)
}

// Signer signs for the accounts of one key holder. The answer has been verified: sender, chain, nonce, recipient, value, data and fees are those asked for.
//
// Errors: txn.ErrKeyMissing when the holder has no key for the account, txn.ErrSignerFault when it returned something else, txn.ErrUnavailable when it
// could not be asked.
type Signer interface {
	Sign(ctx context.Context, signer string, unsigned txn.Unsigned) (txn.Signed, error)
}
