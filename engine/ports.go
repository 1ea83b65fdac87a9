package engine

import (
	"context"

	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/txn"
)

// Chain is an EVM chain as the engine uses it. Implementations hide endpoints, fail-over and the
// differences between clients; chain/conformance is the suite that each of them passes.
type Chain interface {
	track.Chain
	OwnerChain
}

// OwnerChain is what the owner of a submitter asks of a chain. Errors are as in [track.Chain]: one
// that is txn.ErrUnavailable proves nothing, and "not there" is never an error. Every method
// returns when ctx ends.
type OwnerChain interface {
	// Send broadcasts signed bytes. It never fails: every result is an outcome, and an unknown
	// result is AMBIGUOUS. A node that returns another hash did not accept these bytes.
	Send(ctx context.Context, signed txn.Signed) txn.Outcome
	// Account reads an account; settled is the depth of Account.Settled below the head. An error
	// that is txn.ErrNoState as well means that the account can be read, but not at that depth.
	Account(ctx context.Context, address txn.Address, settled uint64) (txn.Account, error)
	// Consumer finds the transaction that used a nonce of an account; nil when the nonce is unused,
	// or the node cannot tell.
	Consumer(ctx context.Context, address txn.Address, nonce txn.Nonce) (*txn.Consumer, error)
	// Quote estimates gas (with the configured margin, unless the payload has a gas limit) and fees
	// for a draft, at its speed and within its own cap. A refusal of the node (it would revert, no
	// funds) is an outcome; ACCEPTED comes with the quote.
	Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome)
	// Fees are the market fees at a speed, for a replacement; limit is its cap per unit of gas, zero
	// for none, in place of the cap that Quote applies. As with Quote, a refusal is an outcome.
	Fees(ctx context.Context, speed txn.Speed, limit txn.Wei) (txn.Fees, txn.Outcome)
	// Gas estimates the gas of a draft by simulation, with the configured margin. As with Quote, a
	// refusal is an outcome.
	Gas(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome)
	// Pooled looks for the attempts of one nonce in the pool of one node. It is a hint: pools
	// differ, and nothing may rest on it.
	Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
		hashes []txn.Hash) (txn.Diagnosis, error)
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
