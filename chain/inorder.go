package chain

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// SendInOrder broadcasts the transactions of one account, lowest nonce first, in as few requests as
// the endpoint allows. As in an outbox, a batch is only a fast path for accepted bytes: every other
// transaction is then sent alone, and its outcome is as from Send.
func (c *Client) SendInOrder(ctx context.Context, signed []txn.Signed) []txn.Outcome {
	outcomes := make([]txn.Outcome, 0, len(signed))
	for len(outcomes) < len(signed) {
		rest := signed[len(outcomes):]
		e := c.preferred()
		size := min(len(rest), e.maxBatch())
		if size < 2 || e.outbox.resting(e.o.Clock.Now()) {
			outcomes = append(outcomes, c.Send(ctx, rest[0]))
			continue
		}
		outcomes = append(outcomes, c.sendGroup(ctx, e, rest[:size])...)
	}
	return outcomes
}

// preferred returns the endpoint that Send would try first.
func (c *Client) preferred() *endpoint {
	order, _ := c.backoffLast(c.order())
	return order[0]
}

// resting reports whether no batches are sent for now.
func (o *outbox) resting(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return now.Before(o.rest)
}

func (c *Client) sendGroup(ctx context.Context, e *endpoint, signed []txn.Signed) []txn.Outcome {
	b := &sendGroup{list: make([]*pendingSend, len(signed))}
	for i := range signed {
		b.list[i] = &pendingSend{ctx: ctx, signed: signed[i], batch: b}
	}
	f := e.sendBatch(ctx, b)
	// without a response, the fault of the batch applies to each transaction: see endpoint.send
	unknown := f != nil && !f.answered && f.status == 0 && f.class == txn.Ambiguous
	outcomes := make([]txn.Outcome, len(signed))
	for i, p := range b.list {
		p.fault = f
		if p.taken {
			e.sends.note(e.o.Clock.Now(), nil)
			outcomes[i] = txn.Outcome{Class: txn.Accepted}
			continue
		}
		outcomes[i] = c.Send(ctx, p.signed)
		if p.doubt || unknown {
			outcomes[i] = afterDoubt(outcomes[i])
		}
	}
	return outcomes
}

// QuoteInOrder quotes drafts of one account, each with the cost of the ones before it, up to the
// first that is not ACCEPTED. Gas is estimated for all of them in one request where possible.
func (c *Client) QuoteInOrder(ctx context.Context, drafts []txn.Draft) []txn.Quoted {
	drafts = slices.Clone(drafts)
	for i := range drafts {
		drafts[i].Pending = drafts[i].Pending && c.cache.simulatesPending(c.o.Clock.Now())
	}
	estimates := c.estimates(ctx, drafts)
	i := -1
	return QuoteEach(ctx, drafts,
		func(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome) {
			if i++; estimates[i] > 0 {
				return c.quoteEstimated(ctx, draft, estimates[i])
			}
			return c.Quote(ctx, draft)
		})
}

// QuoteEach quotes drafts of one account one after the other, each with the cost of the ones before
// it, up to the first that is not ACCEPTED.
func QuoteEach(ctx context.Context, drafts []txn.Draft,
	quote func(context.Context, txn.Draft) (txn.Quote, txn.Outcome)) []txn.Quoted {
	quoted := make([]txn.Quoted, 0, len(drafts))
	var cost txn.Wei
	for _, draft := range drafts {
		draft.Committed = sum(draft.Committed, cost)
		one := txn.Quoted{}
		one.Quote, one.Outcome = quote(ctx, draft)
		quoted = append(quoted, one)
		if one.Outcome.Class != txn.Accepted {
			break
		}
		cost = sum(cost, one.Quote.Cost(draft.Payload.Value))
	}
	return quoted
}

// estimates returns the gas of each draft; 0: it is not simulated, or has to be quoted alone.
func (c *Client) estimates(ctx context.Context, drafts []txn.Draft) []uint64 {
	gas := make([]uint64, len(drafts))
	var simulated []int
	for i := range drafts {
		if c.o.simulates(drafts[i]) {
			simulated = append(simulated, i)
		}
	}
	if len(simulated) < 2 {
		return gas
	}
	_ = c.read(ctx, "estimate gas", // failed ones are quoted alone
		func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
			results := make([]quantity, len(simulated))
			elems := make([]jsonrpc.Call, len(simulated))
			for n, i := range simulated {
				elems[n] = estimateCall(drafts[i], &results[n])
			}
			for part := range slices.Chunk(elems, max(e.maxBatch(), 1)) {
				if err := client.Batch(ctx, part); err != nil {
					return err
				}
			}
			for n, i := range simulated {
				if elems[n].Error == nil {
					gas[i] = uint64(results[n])
				}
			}
			return nil
		})
	return gas
}

// quoteEstimated prices a draft whose gas is known. As in quoteFromCache, anything but ACCEPTED is
// found out by a query of everything.
func (c *Client) quoteEstimated(ctx context.Context, draft txn.Draft,
	gas uint64) (txn.Quote, txn.Outcome) {
	if facts, ok := c.factsFromCache(ctx, draft.Speed); ok && c.cache.hasBalance(draft.From) {
		facts.Estimate = gas
		if quote, o := c.priceFromCache(ctx, draft, facts); o.Class == txn.Accepted {
			return quote, o
		}
	}
	return c.Quote(ctx, draft)
}

// estimateCall simulates a draft, on top of the pool if it asks for that.
func estimateCall(draft txn.Draft, result *quantity) jsonrpc.Call {
	args := []any{callArgs(draft)}
	if draft.Pending {
		args = append(args, "pending")
	}
	return jsonrpc.Call{Method: "eth_estimateGas", Args: args, Result: result}
}

// sum returns the sum of two amounts, at most the highest amount.
func sum(a, b txn.Wei) (total txn.Wei) {
	if _, overflow := total.AddOverflow(&a, &b); overflow {
		total.SetAllOne()
	}
	return total
}
