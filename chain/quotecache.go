package chain

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// quoteCache is what quotes need not ask for again: the prices under one head, and the money of accounts that have plenty. With it a draft that is not simulated is
// quoted without a call.
//
// It serves to say yes alone. A draft that what is known would refuse is asked about anew, and so is whatever a node refuses when it is sent.
type quoteCache struct {
	mu       sync.Mutex
	prices   map[txn.Speed]*market // under the newest head of which they were asked
	balances map[txn.Address]*cachedBalance
	asking   map[txn.Speed]chan struct{} // closed when whoever asks for prices has an answer, or none
}

// cachedBalance is an account's balance as it was told, less what it may have spent since.
type cachedBalance struct {
	left txn.Wei
	at   time.Time
}

const (
	// maxBalanceAge is how long a balance is relied on. It is taken from behind our back only by another user of the key, or by code that spends for the account.
	maxBalanceAge = 30 * time.Second
	// balanceMargin is how many times what a draft may take a purse must hold, or the account is asked: one that is nearly empty is followed closely.
	balanceMargin = 16
	// maxBalances bounds them; beyond it all are asked for again.
	maxBalances = 1 << 16
)

func newQuoteCache() quoteCache {
	return quoteCache{
		prices:   map[txn.Speed]*market{},
		balances: map[txn.Address]*cachedBalance{},
		asking:   map[txn.Speed]chan struct{}{},
	}
}

// cachedPrices are the prices of a speed, if they were asked for under the newest head. Where many ask for them at once, one does, and the others wait for it and
// take what it is told: if each of them looked again whether that is the newest, at a chain that moves on quickly they would ask one after the other. done must be
// called by the one who asks.
func (c *Client) cachedPrices(ctx context.Context,
	speed txn.Speed) (prices *market, done func(*market)) {
	prices, asked, done := c.pricesOrFetcher(speed)
	if asked == nil {
		return prices, done
	}
	select {
	case <-asked:
		return c.cache.latestPrices(
			speed), nil // nil: everybody asks for itself, as the errors are each one's own
	case <-ctx.Done():
		return nil, nil
	}
}

// pricesOrFetcher are prices, or what tells that somebody has asked for them; with neither of them the caller is the one who asks.
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

// isNewest tells whether the head of these prices is the newest that their endpoint has told, and lately.
func (c *Client) isNewest(m *market) bool {
	head, _, fresh := m.from.view()
	c.mu.Lock()
	defer c.mu.Unlock()
	return fresh && m.number == head && (c.current == nil || c.current == m.from)
}

// reserve takes what a draft may take at most from the account's purse, and tells whether that was in there many times over. If not, its balance must be asked for.
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

// forgetBalance forgets what is known of the money of whoever signed these bytes: a node says that it is not enough.
func (k *quoteCache) forgetBalance(signed txn.Signed) {
	var tx types.Transaction
	if tx.UnmarshalBinary(signed.Raw) != nil {
		return
	}
	from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), &tx)
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.balances, from)
}

// quoteFromCache quotes a draft that is not simulated by what is known, if that is enough to say yes.
func (c *Client) quoteFromCache(ctx context.Context, draft txn.Draft) (txn.Quote, bool) {
	prices, done := c.cachedPrices(ctx, draft.Speed)
	if done != nil {
		c.fetchPrices(ctx, draft.Speed, done)
		prices = c.cache.latestPrices(draft.Speed)
	}
	if prices == nil {
		return txn.Quote{}, false
	}
	facts, err := prices.facts()
	if err != nil {
		return txn.Quote{}, false
	}
	now := c.o.Clock.Now()
	facts.Floor = c.floors.At(now)
	facts.Balance.SetAllOne()
	quote, o := c.o.Fees.Quote(draft, facts, c.o.GasMargin)
	if o.Class != txn.Accepted {
		return txn.Quote{}, false
	}
	need, ok := cost(quote.GasLimit, quote.Fees, draft.Payload.Value)
	return quote, ok && (c.cache.reserve(draft.From, need, now) || c.hasBalance(ctx, draft.From, need))
}

// hasBalance asks for a balance, and tells whether it is enough.
func (c *Client) hasBalance(ctx context.Context, from txn.Address, need txn.Wei) bool {
	var told hexutil.Big
	err := c.read(
		ctx,
		"read a balance",
		func(ctx context.Context, _ *endpoint, client *rpc.Client) error {
			return client.CallContext(ctx, &told, "eth_getBalance", from, "latest")
		},
	)
	if err != nil {
		return false
	}
	balance := fromBig(&told)
	if balance == nil || balance.Lt(&need) {
		return false
	}
	c.cache.storeBalance(from, *balance, need, c.o.Clock.Now())
	return true
}

// fetchPrices asks for prices on behalf of all who wait for them.
func (c *Client) fetchPrices(ctx context.Context, speed txn.Speed, done func(*market)) {
	var learned *market
	defer func() { done(learned) }()
	if m, o := c.ask(ctx, "read fees", marketQuery{speed: speed}); o.Class == txn.Accepted &&
		m.from != nil { // those of no head are nobody's
		learned = &m
	}
}
