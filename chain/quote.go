package chain

import (
	"context"
	"fmt"
	"regexp"
	"slices"

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
	if m.refused != nil {
		return txn.Quote{}, asEstimate(m.refused.outcome())
	}
	facts, err := m.facts()
	if err != nil {
		return txn.Quote{}, txn.Outcome{Class: txn.Unavailable, Detail: err.Error()}
	}
	return c.o.Fees.Quote(draft, facts, c.o.GasMargin)
}

// asEstimate corrects the reading of an estimate's answer: it has no nonce and no hash, so words about them mean something else.
func asEstimate(o txn.Outcome) txn.Outcome {
	switch o.Class {
	case txn.NonceTooLow, txn.NonceGap, txn.AlreadyKnown, txn.ReplacementUnderpriced:
		o.Class = txn.Ambiguous
	}
	if o.Class == txn.Ambiguous && executionFailed.MatchString(o.Detail) {
		o.Class = txn.ExecutionReverted
	}
	return o
}

// executionFailed is how a simulation tells that the EVM stopped for another reason than REVERT. To a send such words would say nothing: they are told of
// transactions that were included, too.
var executionFailed = regexp.MustCompile(`(?i)\b(invalid opcode|opcode .* not defined|stack (under|over)flow|stack limit|out of gas|invalid jump|bad jump|write protection|` +
	`max(imum)? (code|init ?code) size|invalid code|return data out of bounds|max call depth|contract address collision|always failing transaction|gas uint64 overflow|` +
	`execution (error|failed)|evm error|precompile)`)

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

// facts are the batch as numbers.
func (m *market) facts() (Market, error) {
	block, err := m.head.block()
	if err != nil {
		return Market{}, err
	}
	facts := Market{BaseFee: block.BaseFee, Estimate: uint64(m.estimate), BlockGas: uint64(m.head.GasLimit)}
	if facts.Balance.SetFromBig(m.balance.ToInt()) {
		return Market{}, fmt.Errorf("%w: a balance above 2^256-1", errMalformed)
	}
	if !m.noPrice {
		facts.GasPrice = fromBig(m.price)
	}
	if m.noHistory || len(m.history.BaseFees) == 0 {
		return facts, nil
	}
	facts.NextBaseFee = fromBig(m.history.BaseFees[len(m.history.BaseFees)-1])
	facts.Tip = usualTip(m.history.Rewards)
	return facts, nil
}

// fromBig is nil for what is missing or does not fit.
func fromBig(b *hexutil.Big) *txn.Wei {
	if b == nil || b.ToInt().Sign() < 0 {
		return nil
	}
	w, overflow := uint256.FromBig(b.ToInt())
	if overflow {
		return nil
	}
	return w
}

// usualTip is the median of the tips that the history shows. Empty blocks tell 0 and do not count.
func usualTip(rewards [][]*hexutil.Big) txn.Wei {
	var paid []txn.Wei
	for _, block := range rewards {
		if len(block) == 0 {
			continue
		}
		if tip := fromBig(block[0]); tip != nil && !tip.IsZero() {
			paid = append(paid, *tip)
		}
	}
	if len(paid) == 0 {
		return txn.Wei{}
	}
	slices.SortFunc(paid, func(a, b txn.Wei) int { return a.Cmp(&b) })
	return paid[len(paid)/2]
}
