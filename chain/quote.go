package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// market is the response of one batch about fees and the sender's balance.
type market struct {
	head     *header
	history  *feeHistory
	price    *feeQuantity
	balance  bigQuantity
	estimate quantity
	hint     *feeQuantity

	rollup *RollupFee // nil unless FeeOptions.L1Fee is set

	from   *endpoint // the endpoint that responded
	number uint64    // of the head

	noHistory, noPrice bool
	refused            *fault // the node's rejection of the draft; nil if none
}

type feeHistory struct {
	BaseFees []*feeQuantity   `json:"baseFeePerGas"`
	Rewards  [][]*feeQuantity `json:"reward"`
}

// marketQuery selects the calls of a batch.
type marketQuery struct {
	draft    *txn.Draft // nil: fees only
	speed    txn.Speed
	simulate bool // whether to simulate the draft
	hint     bool // whether to query the node's suggestion of a tip
}

// simulates reports whether a draft is simulated before it is sent.
func (o Options) simulates(draft txn.Draft) bool {
	return draft.Payload.GasLimit == 0 || !o.TrustGasLimits
}

// Quote simulates a draft and prices it. Fees are cached for each head, and balances between
// transactions; without them everything is queried in one batch to one endpoint. If gas limits are
// trusted, a draft with its own sufficient gas limit is not simulated.
//
// Statements about the draft are outcomes: it would revert, the account cannot afford it, no block
// would include it below the cap. If the chain cannot be reached the outcome is UNAVAILABLE, or
// RATE_LIMITED with the provider's hint.
func (c *Client) Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome) {
	draft.Pending = draft.Pending && c.cache.simulatesPending(c.o.Clock.Now())
	quote, o := c.quote(ctx, draft)
	if !draft.Pending || o.Class != txn.Ambiguous && o.Class != txn.Invalid {
		return quote, o
	}
	draft.Pending = false // the endpoint may not simulate on top of its pool
	if quote, o = c.quote(ctx, draft); o.Class == txn.Accepted {
		c.cache.lacksPending(c.o.Clock.Now())
	}
	return quote, o
}

func (c *Client) quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome) {
	simulate := c.o.simulates(draft)
	if !simulate {
		if o := OwnGasFits(draft.Payload); o.Class != txn.Accepted {
			return txn.Quote{}, o
		}
	}
	if !simulate || c.cache.hasBalance(draft.From) {
		switch quote, o := c.quoteFromCache(ctx, draft, simulate); o.Class {
		case txn.Accepted, txn.RateLimited:
			return quote, o
		}
	}
	facts, o := c.market(ctx, "quote",
		marketQuery{draft: &draft, speed: draft.Speed, simulate: simulate})
	if o.Class != txn.Accepted {
		return txn.Quote{}, o
	}
	quote, o := c.o.Fees.Quote(draft, facts, c.o.GasMargin)
	if need, ok := costOf(quote, draft.Payload.Value); ok &&
		o.Class == txn.Accepted {
		c.cache.storeBalance(draft.From, facts.Balance, sum(need, draft.Committed),
			c.o.Clock.Now())
	}
	return quote, o
}

// Fees returns the fees of a replacement, within its limit only. Other outcomes than ACCEPTED are
// those of Quote.
func (c *Client) Fees(ctx context.Context, r txn.FeeRequest) (txn.Fees, txn.Outcome) {
	facts, o := c.market(ctx, "read fees",
		marketQuery{speed: r.Speed, hint: r.Refused == txn.Underpriced})
	if o.Class != txn.Accepted {
		return txn.Fees{}, o
	}
	c.floors.Guess(c.o.Clock.Now(), r, &facts, c.o.Fees.MaxFee)
	return c.o.Fees.Reoffer(r, facts)
}

// PoolRules returns the rules of the chain's pools, learned from refusals.
func (c *Client) PoolRules() txn.PoolRules { return c.floors.Rules(c.o.Clock.Now()) }

// RecallPoolRules adds rules that another client learned, with fees up to the configured cap.
func (c *Client) RecallPoolRules(rules txn.PoolRules) {
	c.floors.Recall(c.o.Clock.Now(), rules, c.o.Fees.MaxFee)
}

// Gas returns the simulated gas of a draft with the margin. Other outcomes than ACCEPTED are the
// same as those of Quote.
func (c *Client) Gas(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome) {
	facts, o := c.market(ctx, "estimate gas",
		marketQuery{draft: &draft, speed: draft.Speed, simulate: true})
	if o.Class != txn.Accepted {
		return 0, o
	}
	return facts.Gas(draft.Payload, c.o.GasMargin), o
}

// market returns the market of one endpoint as numbers.
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
	c.cache.keepPrices(q.speed, m)
	return facts, o
}

// ask tries the endpoints in turn. If none of them settles the query, the outcome combines their
// responses.
func (c *Client) ask(ctx context.Context, what string, q marketQuery) (market, txn.Outcome) {
	var (
		m     market
		last  *fault
		votes estimateVotes
	)
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		m = market{}
		if err := e.fetchMarket(ctx, client, q, &m); err != nil {
			last = e.faultOf(err, nil)
			return err
		}
		if m.refused != nil && !votes.settle(c.judgeDraft(ctx, client, q, &m)) {
			return m.refused
		}
		return nil
	})
	switch {
	case err != nil && votes.kept != nil:
		return market{}, *votes.kept
	case err != nil:
		o := txn.Outcome{Class: txn.Unavailable, Detail: outcome.Clean(err.Error())}
		if last != nil && last.class == txn.RateLimited {
			o.Class, o.RetryAfter = last.class, last.retryAfter
		}
		return market{}, o
	case m.refused != nil && votes.kept.Class == txn.InsufficientFunds:
		return market{}, c.withGas(*votes.kept, *q.draft, m)
	case m.refused != nil:
		return market{}, *votes.kept
	}
	return m, txn.Outcome{Class: txn.Accepted}
}

// withGas completes an estimate that failed because the value alone exceeds the balance, before any
// gas was counted. Unless the draft has its own gas limit, the amounts are lower bounds.
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
		facts.Estimate = intrinsicGas(draft.Payload)
		gas = facts.Gas(draft.Payload, c.o.GasMargin)
	}
	need, ok := costOf(txn.Quote{GasLimit: gas, Fees: fees,
		L1Fee: facts.Rollup.Of(draft.Payload, gas)}, draft.Payload.Value)
	if !ok || !facts.Balance.Lt(&need) || o.Want != nil && o.Want.Gt(&need) {
		return o
	}
	poor := insufficientFunds(facts.Balance, need)
	o.Have = poor.Have
	o.Want = poor.Want
	o.Short = poor.Short
	o.AtLeast = draft.Payload.GasLimit == 0
	return o
}

// estimateVotes collects the rejections of a draft by endpoints.
type estimateVotes struct {
	kept    *txn.Outcome // the current result
	invalid int          // number of INVALID results
}

// invalidQuorum is how many endpoints must report INVALID, if that many are available. INVALID
// gives the draft up, and a broken endpoint may report it too.
const invalidQuorum = 2

// settle adds the result of an endpoint and reports whether the others can be skipped. An endpoint
// that returns AMBIGUOUS does not settle the draft, but keeps a single INVALID from counting.
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

// asEstimate is the outcome of a failed estimate, with the decoded reason of a revert.
//
// REVERTED and INVALID are permanent for this state of the chain: the same draft fails again. All
// others are temporary. A node that lacks gas for the estimate is AMBIGUOUS.
func (c *Client) asEstimate(f *fault) txn.Outcome {
	o := f.outcome()
	o.Class = outcome.ForEstimate(o, f.data)
	if o.Class != txn.ExecutionReverted {
		return o
	}
	if reason, known := c.o.Errors.Reason(outcome.ReturnData(f.data)); known {
		o.Detail = reason
	}
	return o
}

// judgeDraft is asEstimate for the draft of a query. If its own gas limit may be the reason, the
// gas is estimated without it: a limit that is too low is then a fault of the draft.
func (c *Client) judgeDraft(ctx context.Context, client *jsonrpc.Client, q marketQuery,
	m *market) txn.Outcome {
	o := c.asEstimate(m.refused)
	own := q.draft.Payload.GasLimit
	if own == 0 || !outcome.AboutGas(m.refused.outcome(), m.refused.data) {
		return o
	}
	if fits := OwnGasFits(q.draft.Payload); fits.Class != txn.Accepted {
		return fits
	}
	unlimited := *q.draft
	unlimited.Payload.GasLimit = 0
	var estimate quantity
	if client.Call(ctx, &estimate, "eth_estimateGas", callArgs(unlimited)) != nil {
		return o
	}
	facts := Market{Estimate: uint64(estimate), BlockGas: uint64(m.head.GasLimit)}
	if judged := c.o.Fees.checkGas(own, facts); judged.Class != txn.Accepted {
		return judged
	}
	if own < facts.Estimate {
		return belowEstimate(own, facts.Estimate)
	}
	return o
}

// fetchMarket sends the batch. Only the head and, for a draft, the balance are required. The others
// have substitutes, or their error is the answer.
func (e *endpoint) fetchMarket(ctx context.Context, client *jsonrpc.Client, q marketQuery,
	m *market) error {
	elems := []jsonrpc.Call{
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
			jsonrpc.Call{
				Method: "eth_getBalance",
				Args:   []any{q.draft.From, "latest"},
				Result: &m.balance,
			},
		)
	}
	if q.simulate {
		elems = append(
			elems,
			estimateCall(*q.draft, &m.estimate),
		)
	}
	if q.hint {
		elems = append(elems, jsonrpc.Call{Method: "eth_maxPriorityFeePerGas", Result: &m.hint})
	}
	rollup := len(elems)
	var rollupAnswers [4]hexutil.Bytes
	if e.o.Fees.L1Fee == OPStack {
		elems = append(elems, rollupCalls(&rollupAnswers)...)
	}
	if err := client.Batch(ctx, elems); err != nil {
		return err
	}
	if elems[0].Error != nil {
		return elems[0].Error
	}
	if e.o.Fees.L1Fee == OPStack {
		var err error
		if m.rollup, err = e.rollupFee(elems[rollup:], &rollupAnswers); err != nil {
			return err
		}
	}
	if m.head == nil {
		return fmt.Errorf("%w: no newest block", errMalformed)
	}
	for _, may := range elems[1:3] {
		if f := e.elementFault(may); f != nil && f.class == txn.RateLimited {
			return f // it would serve this later, and a substitute is a worse price
		}
	}
	for i := range elems {
		if errors.Is(elems[i].Error, errOutOfRange) {
			return elems[i].Error
		}
	}
	e.blockGas.Store(uint64(m.head.GasLimit))
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

// elementFault returns the fault of one call of a batch; nil if it succeeded.
func (e *endpoint) elementFault(elem jsonrpc.Call) *fault {
	if elem.Error == nil {
		return nil
	}
	return e.faultOf(elem.Error, nil)
}

// simulated records the failure of an estimate. A failure of the endpoint is returned, so that
// another endpoint is tried.
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

// callArgs returns the arguments of eth_estimateGas. They contain no fee: with one, nodes also
// check the balance, which is done separately.
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

// facts converts the responses to numbers.
func (m *market) facts() (Market, error) {
	block, err := m.head.block()
	if err != nil {
		return Market{}, err
	}
	facts := Market{
		BaseFee:  block.BaseFee,
		Estimate: uint64(m.estimate),
		BlockGas: uint64(m.head.GasLimit),
		Rollup:   m.rollup,
	}
	facts.Balance = txn.Wei(m.balance)
	if !m.noPrice {
		facts.GasPrice = m.price.wei()
	}
	facts.TipHint = larger(aboveBase(facts.GasPrice, facts.BaseFee), orZero(m.hint.wei()))
	if m.noHistory || len(m.history.BaseFees) == 0 {
		facts.Tip = aboveBase(facts.GasPrice, facts.BaseFee)
		return facts, nil
	}
	facts.NextBaseFee = m.history.BaseFees[len(m.history.BaseFees)-1].wei()
	facts.Tip = usualTip(m.history.Rewards)
	return facts, nil
}

// aboveBase returns the tip within a suggested gas price, for nodes without a fee history.
func aboveBase(price, base *txn.Wei) (tip txn.Wei) {
	if price != nil && base != nil && price.Gt(base) {
		tip.Sub(price, base)
	}
	return tip
}

func orZero(w *txn.Wei) txn.Wei {
	if w == nil {
		return txn.Wei{}
	}
	return *w
}

// usualTip returns the median of the tips in the history. Empty blocks report 0 and are skipped.
func usualTip(rewards [][]*feeQuantity) txn.Wei {
	paid := make([]txn.Wei, 0, len(rewards))
	for _, block := range rewards {
		if len(block) == 0 {
			continue
		}
		if tip := block[0].wei(); tip != nil && !tip.IsZero() {
			paid = append(paid, *tip)
		}
	}
	if len(paid) == 0 {
		return txn.Wei{}
	}
	slices.SortFunc(paid, func(a, b txn.Wei) int { return a.Cmp(&b) })
	return paid[len(paid)/2]
}
