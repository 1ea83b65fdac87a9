package chain

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// quoteCache holds values that quotes need not query: the prices at one head, and the balances of
// accounts with ample funds. With it a draft is quoted with its simulation as the only call, or
// with none.
//
// It serves positive results only. A draft that the cached values would reject is queried again,
// and so is one that a node rejects.
type quoteCache struct {
	mu       sync.Mutex
	prices   map[txn.Speed]*market // at the newest head
	balances map[txn.Address]*cachedBalance
	asking   map[txn.Speed]chan struct{} // closed when the fetch has ended
	// until then drafts are simulated on the newest block, although they ask for the pool
	noPending time.Time
}

// cachedBalance is an account's reported balance minus possible spending since.
type cachedBalance struct {
	left txn.Wei
	at   time.Time
}

const (
	// maxBalanceAge is how long a cached balance is used. Only another user of the key, or a
	// contract that spends for the account, lowers it unnoticed; nodes reject the transaction then,
	// and the balance is read again.
	maxBalanceAge = 5 * time.Minute
	// balanceMargin is how many times the cost of a draft a cached balance must cover. A lower
	// balance is queried.
	balanceMargin = 16
	// noPendingFor is how long drafts are not simulated on top of a pool after a node simulated one
	// on its newest block only.
	noPendingFor = 10 * time.Minute
	// maxBalances limits the cached balances; above it all are dropped.
	maxBalances = 1 << 16
)

func newQuoteCache() quoteCache {
	return quoteCache{
		prices:   map[txn.Speed]*market{},
		balances: map[txn.Address]*cachedBalance{},
		asking:   map[txn.Speed]chan struct{}{},
	}
}

// simulatesPending reports whether drafts are simulated on top of a node's pool.
func (k *quoteCache) simulatesPending(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !now.Before(k.noPending)
}

func (k *quoteCache) lacksPending(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noPending = now.Add(noPendingFor)
}

// cachedPrices returns the prices of a speed if they are of the newest head. Of concurrent callers
// one fetches and the others use its result. They do not check again whether it is the newest: on a
// fast chain they would fetch one after the other. If done is not nil, the caller must fetch and
// call it.
func (c *Client) cachedPrices(ctx context.Context,
	speed txn.Speed) (prices *market, done func(*market)) {
	prices, asked, done := c.pricesOrFetcher(speed)
	if asked == nil {
		return prices, done
	}
	select {
	case <-asked:
		// nil: each caller queries on its own, to get its own errors
		return c.cache.latestPrices(speed), nil
	case <-ctx.Done():
		return nil, nil
	}
}

// pricesOrFetcher returns prices, or the channel of a running fetch. Without either the caller must
// fetch and call done.
func (c *Client) pricesOrFetcher(
	speed txn.Speed) (prices *market, asked <-chan struct{}, done func(*market)) {
	k := &c.cache
	k.mu.Lock()
	defer k.mu.Unlock()
	if prices = k.prices[speed]; prices != nil && c.isNewest(prices) {
		return prices, nil, nil
	}
	if others := k.asking[speed]; others != nil {
		return nil, others, nil
	}
	mine := make(chan struct{})
	k.asking[speed] = mine
	return nil, nil, func(m *market) { k.storePrices(speed, m, mine) }
}

func (k *quoteCache) storePrices(speed txn.Speed, m *market, asked chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prices[speed] = m
	delete(k.asking, speed)
	close(asked)
}

func (k *quoteCache) latestPrices(speed txn.Speed) *market {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.prices[speed]
}

// isNewest reports whether the prices are of the newest head that their endpoint reported, and
// recently.
func (c *Client) isNewest(m *market) bool {
	head, _, fresh := m.from.view()
	c.mu.Lock()
	defer c.mu.Unlock()
	return fresh && m.number == head && (c.current == nil || c.current == m.from)
}

// reserve deducts the maximum cost of a draft from the cached balance. It fails if the balance does
// not cover balanceMargin times the cost; then it must be queried.
func (k *quoteCache) reserve(from txn.Address, need txn.Wei, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.balances[from]
	if p == nil || now.Sub(p.at) > maxBalanceAge {
		return false
	}
	var much txn.Wei
	if _, overflow := much.MulOverflow(&need, uint256.NewInt(balanceMargin)); overflow ||
		p.left.Lt(&much) {
		return false
	}
	p.left.Sub(&p.left, &need)
	return true
}

// hasBalance reports whether a balance is cached, of any age.
func (k *quoteCache) hasBalance(from txn.Address) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.balances[from] != nil
}

// keepPrices caches the prices of a query that was made for another reason.
func (k *quoteCache) keepPrices(speed txn.Speed, m market) {
	if m.from == nil { // prices without a head are not cached
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prices[speed] = &m
}

func (k *quoteCache) storeBalance(from txn.Address, balance, spent txn.Wei, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.balances) >= maxBalances {
		clear(k.balances)
	}
	p := &cachedBalance{at: now}
	if _, below := p.left.SubOverflow(&balance, &spent); below {
		p.left.Clear()
	}
	k.balances[from] = p
}

// forgetBalance drops the cached balance of the signer of these bytes, because a node reported
// insufficient funds.
func (k *quoteCache) forgetBalance(signed txn.Signed) {
	var tx types.Transaction
	if tx.UnmarshalBinary(signed.Raw) != nil {
		return
	}
	from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), &tx)
	if err != nil {
		return
	}
	k.dropBalance(from)
}

func (k *quoteCache) dropBalance(from txn.Address) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.balances, from)
}

// quoteFromCache quotes a draft from cached values and its simulation. Any outcome other than
// ACCEPTED and RATE_LIMITED means that they do not suffice.
func (c *Client) quoteFromCache(ctx context.Context, draft txn.Draft,
	simulate bool) (txn.Quote, txn.Outcome) {
	facts, ok := c.factsFromCache(ctx, draft.Speed)
	if !ok {
		return txn.Quote{}, txn.Outcome{Class: txn.Ambiguous}
	}
	if facts.Estimate = 0; simulate {
		gas, o := c.simulate(ctx, draft)
		if o.Class != txn.Accepted {
			return txn.Quote{}, o
		}
		facts.Estimate = gas
	}
	return c.priceFromCache(ctx, draft, facts)
}

// factsFromCache returns the prices at the newest head; ok is false if there are none.
func (c *Client) factsFromCache(ctx context.Context, speed txn.Speed) (facts Market, ok bool) {
	prices, done := c.cachedPrices(ctx, speed)
	if done != nil {
		c.fetchPrices(ctx, speed, done)
		prices = c.cache.latestPrices(speed)
	}
	if prices == nil {
		return Market{}, false
	}
	facts, err := prices.facts()
	return facts, err == nil
}

// priceFromCache quotes a draft at these prices and within the cached balance.
func (c *Client) priceFromCache(ctx context.Context, draft txn.Draft,
	facts Market) (txn.Quote, txn.Outcome) {
	unknown := txn.Outcome{Class: txn.Ambiguous}
	now := c.o.Clock.Now()
	facts.Floor = c.floors.At(now)
	facts.Balance.SetAllOne()
	alone := draft
	alone.Committed.Clear() // the balance is checked below
	quote, o := c.o.Fees.Quote(alone, facts, c.o.GasMargin)
	if o.Class != txn.Accepted {
		return txn.Quote{}, unknown
	}
	need, ok := costOf(quote, draft.Payload.Value)
	if !ok || !c.cache.reserve(draft.From, need, now) &&
		!c.hasBalance(ctx, draft.From, sum(need, draft.Committed)) {
		return txn.Quote{}, unknown
	}
	return quote, o
}

// simulate returns the gas of a draft. If the draft was rejected, a query of everything finds out
// why.
func (c *Client) simulate(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome) {
	var estimate quantity
	o := txn.Outcome{Class: txn.Ambiguous}
	err := c.read(ctx, "estimate gas",
		func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
			call := estimateCall(draft, &estimate)
			err := client.Call(ctx, &estimate, call.Method, call.Args...)
			var refused *jsonrpc.Error
			switch {
			case err == nil:
				o = txn.Outcome{Class: txn.Accepted}
				return nil
			case !errors.As(err, &refused):
				return err
			}
			f := e.faultOf(err, nil)
			if o = f.outcome(); o.Class == txn.RateLimited {
				return f // the next endpoint may serve it
			}
			o.Class = txn.Ambiguous
			return nil
		})
	if err != nil && o.Class == txn.Accepted {
		o.Class = txn.Ambiguous
	}
	return uint64(estimate), o
}

// hasBalance queries a balance and reports whether it covers need.
func (c *Client) hasBalance(ctx context.Context, from txn.Address, need txn.Wei) bool {
	var reported bigQuantity
	err := c.read(
		ctx,
		"read balance",
		func(ctx context.Context, _ *endpoint, client *jsonrpc.Client) error {
			return client.Call(ctx, &reported, "eth_getBalance", from, "latest")
		},
	)
	if err != nil {
		return false
	}
	balance := txn.Wei(reported)
	if balance.Lt(&need) {
		c.cache.dropBalance(from) // until it suffices, everything is queried at once
		return false
	}
	c.cache.storeBalance(from, balance, need, c.o.Clock.Now())
	return true
}

// fetchPrices fetches prices for all waiting callers.
func (c *Client) fetchPrices(ctx context.Context, speed txn.Speed, done func(*market)) {
	var learned *market
	defer func() { done(learned) }()
	if m, o := c.ask(ctx, "read fees", marketQuery{speed: speed}); o.Class == txn.Accepted &&
		m.from != nil { // prices without a head are not cached
		learned = &m
	}
}
