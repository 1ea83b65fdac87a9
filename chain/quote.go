package chain

import (
	"context"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/chain/outcome"
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

	from   *endpoint // that answered
	number uint64    // of the head

	noHistory, noPrice bool
	refused            *fault // what the node says against the draft; nil: nothing
}

type feeHistory struct {
	BaseFees []*hexutil.Big   `json:"baseFeePerGas"`
	Rewards  [][]*hexutil.Big `json:"reward"`
}

// marketQuery is what is asked of the market.
type marketQuery struct {
	draft    *txn.Draft // nil: for fees alone
	speed    txn.Speed
	simulate bool // the draft
}

// simulates tells whether a draft is tried out before it is sent.
func (o Options) simulates(draft txn.Draft) bool {
	return draft.Payload.GasLimit == 0 || !o.TrustGasLimits
}

// Quote simulates a draft and says what sending it takes now. All of it comes from one batch to one endpoint. Where gas limits are trusted a draft that brings its
// own is not simulated, as long as that is enough for any transaction with these data; and what was known already is not asked for.
//
// What the chain says of the draft is an outcome: it would revert, the account cannot pay, no block would take it below the cap. A chain that could not be
// asked is UNAVAILABLE, or RATE_LIMITED with the provider's hint.
func (c *Client) Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome) {
	simulate := c.o.simulates(draft)
	if !simulate {
		if o := OwnGasFits(draft.Payload); o.Class != txn.Accepted {
			return txn.Quote{}, o
		}
		if quote, ok := c.quoteFromCache(ctx, draft); ok {
			return quote, txn.Outcome{Class: txn.Accepted}
		}
	}
	facts, o := c.market(ctx, "quote", marketQuery{&draft, draft.Speed, simulate})
	if o.Class != txn.Accepted {
		return txn.Quote{}, o
	}
	quote, o := c.o.Fees.Quote(draft, facts, c.o.GasMargin)
	if need, ok := cost(quote.GasLimit, quote.Fees, draft.Payload.Value); ok &&
		o.Class == txn.Accepted &&
		c.o.TrustGasLimits {
		c.cache.storeBalance(draft.From, facts.Balance, need, c.o.Clock.Now())
	}
	return quote, o
}

// Fees are what the market asks at a speed of a replacement, within its limit alone. An outcome that is not ACCEPTED means what it means for Quote.
func (c *Client) Fees(ctx context.Context, speed txn.Speed, limit txn.Wei) (txn.Fees, txn.Outcome) {
	facts, o := c.market(ctx, "read fees", marketQuery{speed: speed})
	if o.Class != txn.Accepted {
		return txn.Fees{}, o
	}
	return c.o.Fees.Reoffer(speed, limit, facts)
}

// Gas is what a draft takes by simulation now, with the margin. An outcome that is not ACCEPTED means what it means for Quote.
func (c *Client) Gas(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome) {
	facts, o := c.market(ctx, "estimate gas", marketQuery{&draft, draft.Speed, true})
	if o.Class != txn.Accepted {
		return 0, o
	}
	return facts.Gas(c.o.GasMargin), o
}

// market makes numbers of the answers of one endpoint.
func (c *Client) market(ctx context.Context, what string, q marketQuery) (Market, txn.Outcome) {
	m, o := c.ask(ctx, what, q)
	if o.Class != txn.Accepted {
		return Market{}, o
	}
	facts, err := m.facts()
	if err != nil {
		return Market{}, txn.Outcome{Class: txn.Unavailable, Detail: err.Error()}
	}
	facts.Floor = c.floors.At(c.o.Clock.Now())
	return facts, o
}

// ask asks the endpoints in turn. What none of them settles is told as far as they know it.
func (c *Client) ask(ctx context.Context, what string, q marketQuery) (market, txn.Outcome) {
	var (
		m    market
		last *fault
		told estimateVotes
	)
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *rpc.Client) error {
		m = market{}
		if err := e.fetchMarket(ctx, client, q, &m); err != nil {
			last = e.faultOf(err, nil)
			return err
		}
		if m.refused != nil && !told.settle(c.asEstimate(m.refused)) {
			return m.refused
		}
		return nil
	})
	switch {
	case err != nil && told.kept != nil:
		return market{}, *told.kept
	case err != nil:
		o := txn.Outcome{Class: txn.Unavailable, Detail: outcome.Clean(err.Error())}
		if last != nil && last.class == txn.RateLimited {
			o.Class, o.RetryAfter = last.class, last.retryAfter
		}
		return market{}, o
	case m.refused != nil && told.kept.Class == txn.InsufficientFunds:
		return market{}, c.withGas(*told.kept, *q.draft, m)
	case m.refused != nil:
		return market{}, *told.kept
	}
	return m, txn.Outcome{Class: txn.Accepted}
}

// withGas completes what an estimate says of the means: it failed for want of the value alone, before there was any gas to count. What the draft takes is not known
// without it, so unless the draft brings a limit of its own the sums are lower bounds.
func (c *Client) withGas(o txn.Outcome, draft txn.Draft, m market) txn.Outcome {
	o.AtLeast = true
	facts, err := m.facts()
	if err != nil {
		return o
	}
	facts.Floor = c.floors.At(c.o.Clock.Now())
	fees, offered := c.o.Fees.Offer(draft.Speed, draft.MaxFee, facts)
	if offered.Class != txn.Accepted {
		return o
	}
	gas := draft.Payload.GasLimit
	if gas == 0 {
		gas = gasLimit(intrinsicGas(draft.Payload), facts.BlockGas, c.o.GasMargin)
	}
	need, ok := cost(gas, fees, draft.Payload.Value)
	if !ok || !facts.Balance.Lt(&need) || o.Want != nil && o.Want.Gt(&need) {
		return o
	}
	poor := insufficientFunds(facts.Balance, need)
	o.Have, o.Want, o.Short, o.AtLeast = poor.Have, poor.Want, poor.Short, draft.Payload.GasLimit == 0
	return o
}

// estimateVotes are what endpoints said against a draft.
type estimateVotes struct {
	kept    *txn.Outcome // what counts so far
	invalid int          // how many called it INVALID
}

// invalidQuorum is how many endpoints have to call a draft INVALID, where as many can be asked: it gives the draft up, and one that is broken talks like that, too.
const invalidQuorum = 2

// settle takes the answer of a further endpoint and tells whether the others need not be asked. One that cannot make sense of the draft says nothing of it,
// but it keeps a lone INVALID from counting.
func (s *estimateVotes) settle(o txn.Outcome) bool {
	switch o.Class {
	case txn.Ambiguous:
		s.kept = &o
		return false
	case txn.Invalid:
		s.invalid++
		if s.kept == nil || s.invalid >= invalidQuorum {
			s.kept = &o
		}
		return s.invalid >= invalidQuorum
	}
	s.kept = &o
	return true
}

// asEstimate is what an estimate's answer says of the draft, with the reason of a revert in words.
//
// What it leaves as REVERTED or INVALID is permanent, as far as this state of the chain goes: the same draft fails again. Everything else is of the moment.
func (c *Client) asEstimate(f *fault) txn.Outcome {
	o := f.outcome()
	o.Class = outcome.ForEstimate(o, f.data)
	if o.Class != txn.ExecutionReverted {
		return o
	}
	if reason, told := c.o.Errors.Reason(outcome.ReturnData(f.data)); told {
		o.Detail = reason
	}
	return o
}

// txGas is what a transaction takes before anything runs (yellow paper, G_transaction).
const txGas = 21_000

// fetchMarket sends the batch. Only the head, and for a draft the balance, must be answered: the rest has substitutes, or is an answer even when it is an error.
func (e *endpoint) fetchMarket(ctx context.Context, client *rpc.Client, q marketQuery, m *market) error {
	elems := []rpc.BatchElem{
		{Method: "eth_getBlockByNumber", Args: []any{"latest", false}, Result: &m.head},
		{
			Method: "eth_feeHistory",
			Args: []any{
				hexutil.Uint64(e.o.Fees.HistoryBlocks),
				"latest",
				[]float64{e.o.Fees.percentile(q.speed)},
			},
			Result: &m.history,
		},
		{Method: "eth_gasPrice", Result: &m.price},
	}
	if q.draft != nil {
		elems = append(
			elems,
			rpc.BatchElem{
				Method: "eth_getBalance",
				Args:   []any{q.draft.From, "latest"},
				Result: &m.balance,
			},
		)
	}
	if q.simulate {
		elems = append(
			elems,
			rpc.BatchElem{
				Method: "eth_estimateGas",
				Args:   []any{callArgs(*q.draft)},
				Result: &m.estimate,
			},
		)
	}
	if err := client.BatchCallContext(ctx, elems); err != nil {
		return err
	}
	if elems[0].Error != nil {
		return elems[0].Error
	}
	if m.head == nil {
		return fmt.Errorf("%w: no newest block", errMalformed)
	}
	for _, may := range elems[1:3] {
		if f := e.elementFault(may); f != nil && f.class == txn.RateLimited {
			return f // it would serve this later: a substitute now is a worse price
		}
	}
	if block, err := m.head.block(); err == nil {
		m.from, m.number = e, block.Number
		e.recordHead(block.Number)
	}
	m.noHistory, m.noPrice = elems[1].Error != nil ||
		m.history == nil, elems[2].Error != nil ||
		m.price == nil
	if q.draft == nil {
		return nil
	}
	if elems[3].Error != nil {
		return elems[3].Error
	}
	if !q.simulate {
		return nil
	}
	return m.simulated(e, elems[4].Error)
}

// elementFault is what one call of a batch says against itself; nil: nothing.
func (e *endpoint) elementFault(elem rpc.BatchElem) *fault {
	if elem.Error == nil {
		return nil
	}
	return e.faultOf(elem.Error, nil)
}

// simulated keeps what the estimate says of the draft. A failure that says nothing of it is the endpoint's, and another may be asked.
func (m *market) simulated(e *endpoint, err error) error {
	if err == nil {
		return nil
	}
	switch f := e.faultOf(err, nil); f.class {
	case txn.Unavailable, txn.RateLimited, txn.Unauthorized:
		return f
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
	facts := Market{
		BaseFee:  block.BaseFee,
		Estimate: uint64(m.estimate),
		BlockGas: uint64(m.head.GasLimit),
	}
	if facts.Balance.SetFromBig(m.balance.ToInt()) {
		return Market{}, fmt.Errorf("%w: a balance above 2^256-1", errMalformed)
	}
	if !m.noPrice {
		facts.GasPrice = fromBig(m.price)
	}
	if m.noHistory || len(m.history.BaseFees) == 0 {
		facts.Tip = aboveBase(facts.GasPrice, facts.BaseFee)
		return facts, nil
	}
	facts.NextBaseFee = fromBig(m.history.BaseFees[len(m.history.BaseFees)-1])
	facts.Tip = usualTip(m.history.Rewards)
	return facts, nil
}

// aboveBase is the tip within a gas price that a node suggests, as far as both are told: what is left when there is no fee history.
func aboveBase(price, base *txn.Wei) (tip txn.Wei) {
	if price != nil && base != nil && price.Gt(base) {
		tip.Sub(price, base)
	}
	return tip
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
	paid := make([]txn.Wei, 0, len(rewards))
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
