package chain

import (
	"context"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// Send broadcasts the bytes to the endpoints in turn; outcome.Rank decides which response counts.
// Endpoints that recently refused transactions come last, and are tried only if no other endpoint
// processed the bytes.
func (c *Client) Send(ctx context.Context, signed txn.Signed) txn.Outcome {
	var best *txn.Outcome
	round := c.newRound()
	order, resting := c.backoffLast(c.order())
	for i, e := range order {
		if i >= resting && best != nil && outcome.RankOf(best.Class) < outcome.RankUnprocessed {
			break
		}
		o := e.send(ctx, signed)
		c.floors.Learn(c.o.Clock.Now(), signed, o, c.o.Fees.MaxFee)
		if o.Class == txn.InsufficientFunds {
			c.cache.forgetBalance(signed)
		}
		best = outcome.Prefer(best, o)
		if outcome.RankOf(best.Class) <= outcome.RankKnown || ctx.Err() != nil || round.over() {
			break
		}
	}
	c.floors.LearnType(c.o.Clock.Now(), signed, *best)
	return *best
}

// backoffLast moves endpoints that recently refused transactions to the end, and returns the index
// of the first one.
func (c *Client) backoffLast(endpoints []*endpoint) (order []*endpoint, from int) {
	var resting []*endpoint
	for _, e := range endpoints {
		if e.sends.expired(c.o.Clock.Now()) {
			order = append(order, e)
		} else {
			resting = append(resting, e)
		}
	}
	return append(order, resting...), len(order)
}

// sendAlone makes one attempt at one endpoint, in a request of its own.
func (e *endpoint) sendAlone(ctx context.Context, signed txn.Signed) txn.Outcome {
	var answered txn.Hash
	f := e.call(ctx, func(ctx context.Context, client *jsonrpc.Client) error {
		return client.Call(ctx, &answered, "eth_sendRawTransaction",
			hexutil.Encode(signed.Raw))
	})
	return e.outcomeOf(signed, answered, f)
}

// outcomeOf returns the outcome of an attempt: the returned hash, or a fault.
func (e *endpoint) outcomeOf(signed txn.Signed, answered txn.Hash, f *fault) txn.Outcome {
	if e.sends.note(e.o.Clock.Now(), f) {
		e.o.Logger.Warn("RPC endpoint refuses transactions", "chain", e.o.Name, "endpoint",
			e.label, "class", string(f.class), "reason", f.detail)
	}
	switch {
	case f == nil && answered == signed.Hash:
		return txn.Outcome{Class: txn.Accepted}
	case f == nil:
		// These bytes have one hash. A node that returns another one accepted something else.
		return txn.Outcome{
			Class:  txn.Ambiguous,
			Detail: "the node returned hash " + answered.Hex() + ", not the hash of these bytes",
		}
	case f.cause != nil && f.class == txn.WrongChain:
		// The endpoint is wrong, not the bytes, and it did not get them.
		return txn.Outcome{Class: txn.Unavailable, Detail: f.detail, RetryAfter: f.retryAfter}
	}
	o := f.outcome()
	o.Class = outcome.UnderHTTPStatus(o.Class, f.status)
	if outcome.RankOf(o.Class) > outcome.RankUnknown && isHash(f.result, signed.Hash) {
		o.Class, o.Detail = txn.Ambiguous, "the node returned the hash of these bytes and an "+
			"error: "+o.Detail
	}
	return o
}

// isHash reports whether a result is this hash.
func isHash(result json.RawMessage, hash txn.Hash) bool {
	var answered *txn.Hash
	return json.Unmarshal(result, &answered) == nil && answered != nil && *answered == hash
}
