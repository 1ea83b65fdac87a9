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

// OwnerChain is the part of a chain that owners use. Errors are as in [track.Chain]: one
// that is txn.ErrUnavailable proves nothing, and "not there" is never an error. Every method
// returns when ctx ends.
type OwnerChain interface {
	// Send broadcasts signed bytes. It never fails: every result is an outcome, and an unknown
	// result is AMBIGUOUS. A node that returns another hash did not accept these bytes.
	Send(ctx context.Context, signed txn.Signed) txn.Outcome
	// SendInOrder broadcasts signed bytes of one account, lowest nonce first, with an outcome for
	// each as of Send. A failure of one does not keep the others from being sent.
	SendInOrder(ctx context.Context, signed []txn.Signed) []txn.Outcome
	// Account reads an account; settled is the depth of Account.Settled below the head. An error
	// that is txn.ErrNoState as well means that the account can be read, but not at that depth.
	Account(ctx context.Context, address txn.Address, settled uint64) (txn.Account, error)
	// Consumer finds the transaction that used a nonce of an account; nil when the nonce is unused,
	// or the node does not know.
	Consumer(ctx context.Context, address txn.Address, nonce txn.Nonce) (*txn.Consumer, error)
	// Quote estimates gas (with the configured margin, unless the payload has a gas limit) and fees
	// for a draft, at its speed and within its own cap. A refusal of the node (it would revert, no
	// funds) is an outcome; ACCEPTED comes with the quote.
	Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome)
	// QuoteInOrder quotes drafts of one account as Quote does, each with the cost of the ones
	// before it. It ends with the first that is not ACCEPTED.
	QuoteInOrder(ctx context.Context, drafts []txn.Draft) []txn.Quoted
	// Fees returns the market fees for a replacement. Its limit applies in place of the cap of
	// Quote. After a refusal of the newest attempt they are fees, or of a type, that the nodes may
	// accept. As with Quote, a refusal is an outcome.
	Fees(ctx context.Context, r txn.FeeRequest) (txn.Fees, txn.Outcome)
	// PoolRules returns the rules of the chain's pools, learned from refusals. RecallPoolRules adds
	// rules that another process, or an earlier one, learned. Both return at once.
	PoolRules() txn.PoolRules
	RecallPoolRules(rules txn.PoolRules)
	// Gas estimates the gas of a draft by simulation, with the configured margin. As with Quote, a
	// refusal is an outcome.
	Gas(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome)
	// Pooled looks for the attempts of one nonce in the pool of one node. It is a hint, because
	// pools differ. Only IN_POOL before the first broadcast has an effect: the bytes are there
	// although this ledger has not sent them, so the account is protected.
	Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
		hashes []txn.Hash) (txn.Diagnosis, error)
}

// SeveralEndpoints is a Chain that names the endpoint of each Account, and can avoid one.
type SeveralEndpoints interface {
	// AccountElsewhere reads an account as Account does. Another endpoint than source serves it if
	// one is as far as the chain; otherwise source does.
	AccountElsewhere(ctx context.Context, address txn.Address, settled uint64,
		source string) (txn.Account, error)
}

// StuckPolicy decides on STUCK transactions. The owner calls it during its step, once per recorded
// request (a crash in between costs an interval). It must return before ctx ends. An error or a
// timeout counts as WAIT. A policy with side effects detects repeats by the ActionID of the case.
type StuckPolicy interface {
	Decide(ctx context.Context, c txn.StuckCase) (txn.StuckAction, error)
}

// MempoolInspector diagnoses a transaction that is in no block, before it is rebroadcast: it looks
// for the attempts of one nonce where an owner's own node would not. The result is a hint, with one
// exception. While there is a sign that another ledger uses the key, a transaction is looked up
// before its first broadcast, and IN_POOL protects the account. So IN_POOL must mean that a pool
// holds one of these hashes. Inspect must return before ctx ends.
type MempoolInspector interface {
	Inspect(ctx context.Context, chain txn.ChainID, address txn.Address, nonce txn.Nonce,
		hashes []txn.Hash) (txn.Diagnosis, error)
}

// Signer signs for the accounts of one key holder. The result is verified: sender, chain, nonce,
// recipient, value, data and fees are as requested.
//
// Errors: txn.ErrKeyMissing when the holder has no key for the account, txn.ErrSignerFault when it
// returned something else, txn.ErrUnavailable when it could not be reached.
type Signer interface {
	Sign(ctx context.Context, signer string, unsigned txn.Unsigned) (txn.Signed, error)
	// SignInOrder signs transactions of one account as Sign does, concurrently within the limits of
	// the signer. The results are in order and end with the first that failed: signatures of the
	// transactions behind it are dropped. It returns soon after ctx ends.
	SignInOrder(ctx context.Context, signer string, unsigned []txn.Unsigned) []txn.SignResult
}
