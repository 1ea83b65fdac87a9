package chain

import (
	"context"
	"slices"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
)

// settling are the answers that settle a doubt: the bytes or another attempt of theirs are known, so the owner looks for them rather than for an error.
var settling = []txn.Class{txn.Accepted, txn.AlreadyKnown, txn.NonceTooLow, txn.ReplacementUnderpriced}

// Send hands the bytes to the endpoints in turn until one gives a clear answer.
//
// An endpoint that surely did not get them, or that refuses to look at them, leaves the question open for the next one. After a doubt (no answer, an answer
// that nobody understands) the same bytes go to the next one as well, which is harmless; but then only an answer that shows where they are counts, because
// a refusal by the second says nothing of what the first did.
func (c *Client) Send(ctx context.Context, signed txn.Signed) txn.Outcome {
	var refused, doubt *txn.Outcome
	for _, e := range c.order() {
		o := e.send(ctx, signed)
		switch {
		case o.Class == txn.Ambiguous:
			doubt = firstOf(doubt, o)
		case o.Class == txn.Unavailable || o.Class == txn.RateLimited || o.Class == txn.Unauthorized:
			refused = firstOf(refused, o)
		case doubt == nil || slices.Contains(settling, o.Class):
			return o
		}
		if ctx.Err() != nil {
			break
		}
	}
	if doubt != nil {
		return *doubt
	}
	return *refused
}

// firstOf keeps the outcome of the most preferred endpoint and the soonest time to come again.
func firstOf(kept *txn.Outcome, o txn.Outcome) *txn.Outcome {
	if kept == nil {
		return &o
	}
	if kept.RetryAfter > o.RetryAfter {
		kept.RetryAfter = o.RetryAfter
	}
	return kept
}

// send is one try at one endpoint.
func (e *endpoint) send(ctx context.Context, signed txn.Signed) txn.Outcome {
	var answered txn.Hash
	f := e.call(ctx, func(ctx context.Context, client *rpc.Client) error {
		return client.CallContext(ctx, &answered, "eth_sendRawTransaction", hexutil.Encode(signed.Raw))
	})
	switch {
	case f == nil && answered == signed.Hash:
		return txn.Outcome{Class: txn.Accepted}
	case f == nil:
		// These bytes have one hash. A node that names another took something else, or lies.
		return txn.Outcome{Class: txn.Ambiguous, Detail: "the node answered hash " + answered.Hex() + ", not the hash of these bytes"}
	case f.cause != nil && f.class == txn.WrongChain:
		// The endpoint is misplaced, not the bytes, and it did not get them.
		return txn.Outcome{Class: txn.Unavailable, Detail: f.detail, RetryAfter: f.retryAfter}
	case f.status >= 500 && f.class == txn.Unavailable:
		// A gateway that lost its server cannot know what the server did.
		o := f.outcome()
		o.Class = txn.Ambiguous
		return o
	}
	return f.outcome()
}
