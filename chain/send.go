package chain

import (
	"context"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
)

// The order of answers. One send is a round over the endpoints, and of what they say the answer counts that knows most of where the bytes are:
//
//  1. ACCEPTED: this node has them.
//  2. ALREADY_KNOWN, REPLACEMENT_UNDERPRICED, NONCE_TOO_LOW: these bytes or another attempt of their nonce are known. The owner looks for receipts next.
//  3. No answer, or one that nobody understands: AMBIGUOUS. Some node may have them.
//  4. A refusal that time, funds or fees can change: it waits, with the same nonce.
//  5. REVERTED, WRONG_CHAIN, INVALID: these bytes are given up. It takes every endpoint that looked at them to say so.
//  6. They were not looked at: RATE_LIMITED, UNAUTHORIZED, UNAVAILABLE.
//
// The round ends at the first answer of rank 1 or 2. Any other sends the same bytes to the next endpoint: pools differ in room, floors and what they have
// seen, and what one refuses another may take. It is harmless, for bytes of one nonce run once at most.
//
// Of the same rank the more preferred endpoint counts, with the soonest time to come again.
type rank int

const (
	taken rank = iota
	somewhere
	doubtful
	refusedForNow
	refusedForGood
	notLookedAt
)

func rankOf(class txn.Class) rank {
	switch class {
	case txn.Accepted:
		return taken
	case txn.AlreadyKnown, txn.ReplacementUnderpriced, txn.NonceTooLow:
		return somewhere
	case txn.NonceGap, txn.Underpriced, txn.FeeCapBelowBaseFee, txn.InsufficientFunds, txn.PoolFull:
		return refusedForNow
	case txn.ExecutionReverted, txn.WrongChain, txn.Invalid:
		return refusedForGood
	case txn.RateLimited, txn.Unauthorized, txn.Unavailable:
		return notLookedAt
	}
	return doubtful // AMBIGUOUS, and whatever is new
}

// Send hands the bytes to the endpoints in turn, and answers by the order of answers. Those that took no transactions lately come last, and only if nobody
// looked at the bytes before them.
func (c *Client) Send(ctx context.Context, signed txn.Signed) txn.Outcome {
	var best *txn.Outcome
	round := c.newRound()
	order, resting := c.restingLast(c.order())
	for i, e := range order {
		if i >= resting && best != nil && rankOf(best.Class) < notLookedAt {
			break
		}
		o := e.send(ctx, signed)
		c.floors.Learn(c.o.Clock.Now(), signed, o, c.o.Fees.MaxFee)
		if o.Class == txn.InsufficientFunds {
			c.known.doubt(signed)
		}
		best = better(best, o)
		if rankOf(best.Class) <= somewhere || ctx.Err() != nil || round.over() {
			break
		}
	}
	return *best
}

// restingLast puts those that took no transactions lately behind the others, and tells where they begin.
func (c *Client) restingLast(endpoints []*endpoint) (order []*endpoint, from int) {
	var resting []*endpoint
	for _, e := range endpoints {
		if e.sends.isOver(c.o.Clock.Now()) {
			order = append(order, e)
		} else {
			resting = append(resting, e)
		}
	}
	return append(order, resting...), len(order)
}

// better keeps the higher ranked of two answers.
func better(kept *txn.Outcome, o txn.Outcome) *txn.Outcome {
	if kept == nil {
		return &o
	}
	before, now := rankOf(kept.Class), rankOf(o.Class)
	if now < before {
		return &o
	}
	if now == before && now >= doubtful && (kept.RetryAfter > o.RetryAfter) {
		kept.RetryAfter = o.RetryAfter
	}
	return kept
}

// sendAlone is one try at one endpoint, in a request of its own.
func (e *endpoint) sendAlone(ctx context.Context, signed txn.Signed) txn.Outcome {
	var answered txn.Hash
	f := e.call(ctx, func(ctx context.Context, client *rpc.Client) error {
		return client.CallContext(ctx, &answered, "eth_sendRawTransaction",
			hexutil.Encode(signed.Raw))
	})
	return e.outcomeOf(signed, answered, f)
}

// outcomeOf reads what came of a try: the hash that was answered, or a fault.
func (e *endpoint) outcomeOf(signed txn.Signed, answered txn.Hash, f *fault) txn.Outcome {
	if e.sends.note(e.o.Clock.Now(), f) {
		e.o.Logger.Warn("RPC endpoint takes no transactions", "chain", e.o.Name, "endpoint",
			e.label, "class", string(f.class), "reason", f.detail)
	}
	switch {
	case f == nil && answered == signed.Hash:
		return txn.Outcome{Class: txn.Accepted}
	case f == nil:
		// These bytes have one hash. A node that names another took something else, or lies.
		return txn.Outcome{
			Class:  txn.Ambiguous,
			Detail: "the node answered hash " + answered.Hex() + ", not the hash of these bytes",
		}
	case f.cause != nil && f.class == txn.WrongChain:
		// The endpoint is misplaced, not the bytes, and it did not get them.
		return txn.Outcome{Class: txn.Unavailable, Detail: f.detail, RetryAfter: f.retryAfter}
	}
	o := f.outcome()
	o.Class = behindGateway(o.Class, f.status)
	if rankOf(o.Class) > doubtful && names(f.result, signed.Hash) {
		o.Class, o.Detail = txn.Ambiguous, "the node answered the hash of these bytes and an error: "+o.Detail
	}
	return o
}

// behindGateway is what a class is worth under an HTTP status. A server that failed, or a gateway that lost its server, cannot know what was done before: a
// refusal that gives the bytes up, or that says they reached nobody, is only a doubt there.
func behindGateway(class txn.Class, status int) txn.Class {
	if status >= 500 && (class == txn.Unavailable || rankOf(class) == refusedForGood) {
		return txn.Ambiguous
	}
	return class
}

// ExplainSend is Explain for the answer to a transaction that was handed over: doubted where it says more than the one who answered can know.
func ExplainSend(a Answer) (class txn.Class, why string, doubted bool) {
	class, why = Explain(a)
	return class, why, behindGateway(class, a.HTTPStatus) != class
}
