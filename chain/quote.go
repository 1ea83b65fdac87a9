package chain

import (
	"context"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// market is what one batch tells of fees and of the sender's means.
type market struct {
	head     *header
	history  *feeHistory
	price    *hexutil.Big
	balance  hexutil.Big
	estimate hexutil.Uint64

	noHistory, noPrice bool
	refused            *fault // what the node says against the draft; nil: nothing
}

type feeHistory struct {
	BaseFees []*hexutil.Big   `json:"baseFeePerGas"`
	Rewards  [][]*hexutil.Big `json:"reward"`
}

// Quote simulates a draft and says what sending it takes now. All of it comes from one batch to one endpoint.
//
// What the chain says of the draft is an outcome: it would revert, the account cannot pay, no block would take it below the configured cap. A chain that
// could not be asked is UNAVAILABLE, or RATE_LIMITED with the provider's hint.
func (c *Client) Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome) {
	var m market
	var last *fault
	err := c.read(ctx, "quote", func(ctx context.Context, e *endpoint, client *rpc.Client) error {
		m = market{}
		err := e.askMarket(ctx, client, draft, &m)
		if err != nil {
			last = e.faultOf(err, nil)
		}
		return err
	})
	if err != nil {
		o := txn.Outcome{Class: txn.Unavailable, Detail: cleanText(err.Error())}
		if last != nil && last.class == txn.RateLimited {
			o.Class, o.RetryAfter = last.class, last.retryAfter
		}
		return txn.Quote{}, o
	}
	return c.judgeMarket(draft, &m)
}

// askMarket sends the batch. Only the head and the balance must be answered: the rest has substitutes, or is an answer even when it is an error.
func (e *endpoint) askMarket(ctx context.Context, client *rpc.Client, draft txn.Draft, m *market) error {
	elems := []rpc.BatchElem{
		{Method: "eth_getBlockByNumber", Args: []any{"latest", false}, Result: &m.head},
		{Method: "eth_getBalance", Args: []any{draft.From, "latest"}, Result: &m.balance},
		{Method: "eth_estimateGas", Args: []any{callArgs(draft)}, Result: &m.estimate},
		{Method: "eth_feeHistory", Args: []any{hexutil.Uint64(e.o.Fees.HistoryBlocks), "latest", []float64{e.o.Fees.Percentile}}, Result: &m.history},
		{Method: "eth_gasPrice", Result: &m.price},
	}
	if err := client.BatchCallContext(ctx, elems); err != nil {
		return err
	}
	for _, must := range elems[:2] {
		if must.Error != nil {
			return must.Error
		}
	}
	if m.head == nil {
		return fmt.Errorf("%w: no newest block", errMalformed)
	}
	m.noHistory, m.noPrice = elems[3].Error != nil || m.history == nil, elems[4].Error != nil || m.price == nil
	if elems[2].Error == nil {
		return nil
	}
	switch f := e.faultOf(elems[2].Error, nil); f.class {
	case txn.Unavailable, txn.RateLimited, txn.Unauthorized:
		return f // it says nothing of the draft: the endpoint could not make the estimate
	default:
		m.refused = f
		return nil
	}
}

// callArgs are the arguments of eth_estimateGas. No fee is among them: with one, nodes mix the question of gas with that of means, which is answered apart.
func callArgs(draft txn.Draft) map[string]any {
	args := map[string]any{"from": draft.From}
	if draft.Payload.To != nil {
		args["to"] = draft.Payload.To
	}
	if !draft.Payload.Value.IsZero() {
		args["value"] = (*hexutil.Big)(draft.Payload.Value.ToBig())
	}
	if len(draft.Payload.Data) > 0 {
		args["data"] = hexutil.Bytes(draft.Payload.Data)
	}
	if draft.Payload.GasLimit > 0 {
		args["gas"] = hexutil.Uint64(draft.Payload.GasLimit)
	}
	return args
}

// judgeMarket turns what the batch told into a quote or a refusal.
func (c *Client) judgeMarket(draft txn.Draft, m *market) (txn.Quote, txn.Outcome) {
	if m.refused != nil {
		o := m.refused.outcome()
		if o.Class == txn.NonceTooLow || o.Class == txn.NonceGap || o.Class == txn.AlreadyKnown {
			o.Class = txn.Ambiguous // an estimate has no nonce: whatever these words mean, not that
		}
		return txn.Quote{}, o
	}
	fees, o := c.fees(m)
	if o.Class != txn.Accepted {
		return txn.Quote{}, o
	}
	quote := txn.Quote{GasLimit: draft.Payload.GasLimit, Fees: fees}
	if quote.GasLimit == 0 {
		quote.GasLimit = gasLimit(uint64(m.estimate), uint64(m.head.GasLimit), c.o.GasMargin)
	}
	balance, overflow := uint256.FromBig(m.balance.ToInt())
	need, ok := cost(quote.GasLimit, fees, draft.Payload.Value)
	if !overflow && (!ok || balance.Lt(&need)) {
		return txn.Quote{}, txn.Outcome{Class: txn.InsufficientFunds, Detail: fmt.Sprintf("the account has %s wei, the transaction may take up to %s", balance.Dec(), need.Dec())}
	}
	return quote, txn.Outcome{Class: txn.Accepted}
}

// fees chooses by the newest block: one with a base fee asks for EIP-1559 fees, one without for a gas price.
func (c *Client) fees(m *market) (txn.Fees, txn.Outcome) {
	block, err := m.head.block()
	if err != nil {
		return txn.Fees{}, txn.Outcome{Class: txn.Unavailable, Detail: err.Error()}
	}
	if c.o.Fees.FixedPrice != nil || block.BaseFee == nil {
		if c.o.Fees.FixedPrice == nil && m.noPrice {
			return txn.Fees{}, txn.Outcome{Class: txn.Unavailable, Detail: "the node does not tell a gas price"}
		}
		var price txn.Wei
		if !m.noPrice {
			price.SetFromBig(m.price.ToInt())
		}
		return c.o.Fees.LegacyFees(price), txn.Outcome{Class: txn.Accepted}
	}
	next, tip := nextFees(*block.BaseFee, m)
	fees, ok := c.o.Fees.DynamicFees(next, tip)
	if !ok {
		return fees, txn.Outcome{Class: txn.FeeCapBelowBaseFee, Detail: fmt.Sprintf("the next block's base fee is %s wei, above the configured cap of %s", next.Dec(), c.o.Fees.MaxFee.Dec())}
	}
	return fees, txn.Outcome{Class: txn.Accepted}
}

// nextFees is the base fee of the next block and the usual tip. A node without fee history gives neither: then the base fee is taken to rise by the eighth
// that a full block raises it, and the tip is left to its floor.
func nextFees(baseFee txn.Wei, m *market) (next, tip txn.Wei) {
	if !m.noHistory && len(m.history.BaseFees) > 0 {
		if newest := m.history.BaseFees[len(m.history.BaseFees)-1]; newest != nil {
			rewards := make([][]*big.Int, len(m.history.Rewards))
			for i, block := range m.history.Rewards {
				for _, reward := range block {
					rewards[i] = append(rewards[i], reward.ToInt())
				}
			}
			if !next.SetFromBig(newest.ToInt()) {
				return next, tipOf(rewards)
			}
		}
	}
	var eighth txn.Wei
	eighth.Rsh(&baseFee, 3)
	next.Add(&baseFee, &eighth)
	return next, txn.Wei{}
}
