package chaintest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// ID returns the chain id.
func (c *Chain) ID() txn.ChainID { return c.o.ChainID }

// Head returns the newest block.
func (c *Chain) Head(ctx context.Context) (txn.Block, error) {
	f, err := c.enter(ctx, Call{Method: MethodHead})
	if err != nil {
		return txn.Block{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return copyBlock(c.blocks[c.height(f)]), nil
}

// height returns the head of a node with this fault.
func (c *Chain) height(f Fault) uint64 {
	top := c.head().Number
	return top - min(f.Lag, top)
}

func copyBlock(b *block) txn.Block {
	view := b.Block
	view.Txs = slices.Clone(view.Txs)
	if view.BaseFee != nil {
		view.BaseFee = view.BaseFee.Clone()
	}
	return view
}

// BlockByHash returns a block of any branch; nil for an unknown hash.
func (c *Chain) BlockByHash(ctx context.Context, hash txn.Hash) (*txn.Block, error) {
	f, err := c.enter(ctx, Call{Method: MethodBlockByHash, Hashes: []txn.Hash{hash}})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.all[hash]
	if b == nil || f.Lag > 0 && b.Number > c.height(f) {
		return nil, nil
	}
	view := copyBlock(b)
	return &view, nil
}

// BlockByNumber returns the canonical block of the height; nil above the head.
func (c *Chain) BlockByNumber(ctx context.Context, number uint64) (*txn.Block, error) {
	f, err := c.enter(ctx, Call{Method: MethodBlockByNumber, Number: number})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if number > c.height(f) {
		return nil, nil
	}
	view := copyBlock(c.blocks[number])
	return &view, nil
}

// Receipts looks up every hash.
func (c *Chain) Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	f, err := c.enter(ctx, Call{Method: MethodReceipts, Hashes: slices.Clone(hashes)})
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := make([]txn.ReceiptResult, len(hashes))
	for i, hash := range hashes {
		answers[i] = txn.ReceiptResult{Hash: hash, Err: err}
		if err == nil {
			answers[i].Receipt = c.receipt(hash, c.height(f))
		}
	}
	return answers
}

func (c *Chain) receipt(hash txn.Hash, height uint64) *txn.Receipt {
	for _, b := range slices.Backward(c.blocks[:height+1]) {
		if r := b.receipts[hash]; r != nil {
			view := *r
			return &view
		}
	}
	return nil
}

// Send adds signed bytes to the pool.
func (c *Chain) Send(ctx context.Context, signed txn.Signed) txn.Outcome {
	f, err := c.enter(ctx, Call{Method: MethodSend, Signed: signed})
	c.mu.Lock()
	defer c.mu.Unlock()
	tx, decodeErr := decode(signed)
	r := Received{Arrived: err == nil && !f.Lost}
	if err != nil {
		r.Outcome = txn.Outcome{Class: txn.Unavailable, Detail: err.Error()}
	} else {
		r.Outcome = txn.Outcome{Class: txn.Accepted}
	}
	if r.Arrived {
		refused := decodeErr
		if refused == nil {
			refused = c.admit(tx)
		}
		r.Accepted = refused == nil
		r.Outcome = outcomeOf(refused)
		c.floors.Learn(c.now(), signed, r.Outcome, c.o.Fees.MaxFee)
		c.floors.LearnType(c.now(), signed, r.Outcome)
	}
	if f.Reply != nil && err == nil {
		r.Outcome = *f.Reply
	}
	c.record(signed, tx, r)
	if r.Accepted && f.Evict {
		c.pool.remove(c.pool.byHash[tx.Hash()])
	}
	if r.Accepted && c.o.AutoMine {
		c.seal(c.fromPool())
	}
	return r.Outcome
}

// SendInOrder sends one after the other.
func (c *Chain) SendInOrder(ctx context.Context, signed []txn.Signed) []txn.Outcome {
	outcomes := make([]txn.Outcome, len(signed))
	for i := range signed {
		outcomes[i] = c.Send(ctx, signed[i])
	}
	return outcomes
}

// QuoteInOrder quotes one after the other.
func (c *Chain) QuoteInOrder(ctx context.Context, drafts []txn.Draft) []txn.Quoted {
	return chain.QuoteEach(ctx, drafts, c.Quote)
}

// outcomeOf classifies the pool's message as if a real node had sent it.
func outcomeOf(refused error) txn.Outcome {
	switch {
	case refused == nil:
		return txn.Outcome{Class: txn.Accepted}
	case errors.Is(refused, errWrongHash):
		return txn.Outcome{Class: txn.Ambiguous, Detail: "the node returned another hash"}
	}
	return outcome.Classify(outcome.Response{Code: -32000, Message: refused.Error()})
}

// Account reads an account.
func (c *Chain) Account(ctx context.Context, address txn.Address,
	settled uint64) (txn.Account, error) {
	f, err := c.enter(ctx, Call{Method: MethodAccount, Address: address})
	if err != nil {
		return txn.Account{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	height := c.height(f)
	if at := height - min(settled, height); !f.hasState(height, at) {
		return txn.Account{}, fmt.Errorf(
			"chaintest: Account: missing trie node of block %d: %w, %w", at, txn.ErrNoState,
			txn.ErrUnavailable)
	}
	latest := c.nonceAt(address, height)
	a := c.state.account(address)
	return txn.Account{
		Latest: txn.Nonce(
			latest),
		Pending: txn.Nonce(c.pool.pendingNonce(address, latest)),
		Settled: txn.Nonce(c.nonceAt(address, height-min(settled, height))),
		Head:    height, HeadHash: c.blocks[height].Hash, HasCode: a.code,
		Delegate: a.delegate, BalanceAt: a.balance,
	}, nil
}

// nonceAt returns the account's nonce after the block of that height: the current one minus later
// increments.
func (c *Chain) nonceAt(address txn.Address, height uint64) uint64 {
	nonce := c.state.nonce(address)
	for _, b := range c.blocks[height+1:] {
		nonce -= b.raised(address)
	}
	return nonce
}

// raised returns how often the block incremented the account's nonce.
func (b *block) raised(address txn.Address) (times uint64) {
	for _, of := range [][]txn.Address{b.senders, b.authorities} {
		for _, a := range of {
			if a == address {
				times++
			}
		}
	}
	return times
}

// Consumer returns how a nonce of an account was used.
func (c *Chain) Consumer(ctx context.Context, address txn.Address,
	nonce txn.Nonce) (*txn.Consumer, error) {
	f, err := c.enter(ctx, Call{Method: MethodConsumer, Address: address, Nonce: nonce})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	height := c.height(f)
	next := c.nonceAt(address, height)
	for _, b := range slices.Backward(c.blocks[:height+1]) {
		if next <= uint64(nonce) || b.Number > 0 && !f.hasState(height, b.Number-1) {
			return nil, nil
		}
		if next -= b.raised(address); next > uint64(nonce) {
			continue
		}
		by := txn.Consumer{Block: b.Number, BlockHash: b.Hash}
		for i, tx := range b.txs {
			if b.senders[i] == address && tx.Nonce() == uint64(nonce) {
				by.TxHash = tx.Hash()
			}
		}
		return &by, nil
	}
	return nil, nil
}

// Quote simulates the draft on the newest state and prices it by the rules of chain.Client. If gas
// limits are trusted, a draft with its own gas limit is not simulated.
func (c *Chain) Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome) {
	f, err := c.enter(ctx, Call{Method: MethodQuote, Address: draft.From, Draft: draft})
	if err != nil {
		return txn.Quote{}, txn.Outcome{Class: txn.Unavailable, Detail: err.Error()}
	}
	if f.Reply != nil {
		return txn.Quote{}, *f.Reply
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.market(draft.Speed)
	m.Balance = c.state.account(draft.From).balance
	if draft.Payload.GasLimit > 0 && c.o.TrustGasLimits {
		if o := chain.OwnGasFits(draft.Payload); o.Class != txn.Accepted {
			return txn.Quote{}, o
		}
		return c.o.Fees.Quote(draft, m, c.o.GasMargin)
	}
	estimate, refused := c.estimate(draft)
	if refused != nil {
		return txn.Quote{}, *refused
	}
	m.Estimate = estimate
	return c.o.Fees.Quote(draft, m, c.o.GasMargin)
}

// Fees returns the fees of a replacement at a speed, by the rules of chain.Client.
func (c *Chain) Fees(ctx context.Context, r txn.FeeRequest) (txn.Fees, txn.Outcome) {
	f, err := c.enter(ctx, Call{Method: MethodFees, Speed: r.Speed})
	if err != nil {
		return txn.Fees{}, txn.Outcome{Class: txn.Unavailable, Detail: err.Error()}
	}
	if f.Reply != nil {
		return txn.Fees{}, *f.Reply
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.market(r.Speed)
	c.floors.Guess(c.now(), r, &m, c.o.Fees.MaxFee)
	return c.o.Fees.Reoffer(r, m)
}

// PoolRules returns the rules learned from the pool's refusals.
func (c *Chain) PoolRules() txn.PoolRules {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.floors.Rules(c.now())
}

// RecallPoolRules adds rules learned before.
func (c *Chain) RecallPoolRules(rules txn.PoolRules) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floors.Recall(c.now(), rules, c.o.Fees.MaxFee)
}

// Gas simulates the draft on the newest state, by the rules of chain.Client.
func (c *Chain) Gas(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome) {
	f, err := c.enter(ctx, Call{Method: MethodGas, Address: draft.From, Draft: draft})
	if err != nil {
		return 0, txn.Outcome{Class: txn.Unavailable, Detail: err.Error()}
	}
	if f.Reply != nil {
		return 0, *f.Reply
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	estimate, refused := c.estimate(draft)
	if refused != nil {
		return 0, *refused
	}
	m := c.market(draft.Speed)
	m.Estimate = estimate
	return m.Gas(draft.Payload, c.o.GasMargin), txn.Outcome{Class: txn.Accepted}
}

func (c *Chain) market(speed txn.Speed) chain.Market {
	var rollup *chain.RollupFee
	if c.o.Fees.L1Fee != "" {
		rollup = chain.FlatRollupFee(c.o.L1Fee)
	}
	return chain.Market{
		Rollup:      rollup,
		BaseFee:     c.head().BaseFee,
		NextBaseFee: c.baseFee,
		GasPrice:    &c.o.GasPrice,
		Tip:         c.o.Tips[speed],
		BlockGas:    c.o.GasLimit,
		Floor:       c.floors.At(c.now()),
		TipHint:     c.o.TipHint,
	}
}

// now returns the time of the stamping clock; without one time stands still.
func (c *Chain) now() time.Time {
	if c.o.Now == nil {
		return time.Time{}
	}
	return c.o.Now()
}

// Pooled looks for attempts in the pool.
func (c *Chain) Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
	hashes []txn.Hash) (txn.Diagnosis, error) {
	f, err := c.enter(ctx,
		Call{Method: MethodPooled, Address: address, Nonce: nonce, Hashes: slices.Clone(hashes)})
	if err != nil {
		return txn.Undiagnosed, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := c.nonceAt(address, c.height(f))
	switch known := func(hash txn.Hash) bool { return c.pool.byHash[hash] != nil }; {
	case latest > uint64(nonce):
		return txn.NonceConsumed, nil
	case slices.ContainsFunc(hashes, known):
		return txn.InPool, nil
	case c.pool.pendingNonce(address, latest) > uint64(nonce):
		return txn.PossiblyReplaced, nil
	}
	return txn.PossiblyLost, nil
}

// Tagged returns the safe or the finalized block.
func (c *Chain) Tagged(ctx context.Context, tag string) (*txn.Block, error) {
	f, err := c.enter(ctx, Call{Method: MethodTagged, Tag: tag})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	depth, known := map[string]uint64{
		chain.Safe:      c.o.SafeDepth,
		chain.Finalized: c.o.FinalDepth,
	}[tag]
	if c.o.NoTags || !known {
		return nil, fmt.Errorf("chaintest: the %q block: %w", tag, chain.ErrNoTags)
	}
	height := c.height(f)
	at, set := c.tags[tag]
	switch {
	case set:
		at = min(at, height)
	case height < depth:
		return nil, nil
	default:
		at = height - depth
	}
	view := copyBlock(c.blocks[at])
	return &view, nil
}

// estimate runs the draft and reverts its effects.
func (c *Chain) estimate(draft txn.Draft) (uint64, *txn.Outcome) {
	a, p := c.state.account(draft.From), draft.Payload
	if a.balance.Lt(&p.Value) {
		return 0, refusal(
			outcome.Response{Code: -32000, Message: "insufficient funds for transfer"},
		)
	}
	defer c.state.unwind(len(c.state.undo))
	gas, err := c.state.run(draft.From, p.To, p.Value, p.Data, a.nonce)
	switch {
	case err != nil:
		return 0, refusal(outcome.Response{Code: 3, Message: "execution reverted: " + err.Error()})
	case p.GasLimit > 0 && p.GasLimit < gas:
		return 0, &txn.Outcome{
			Class:  txn.Invalid,
			Detail: fmt.Sprintf("gas limit %d is below the estimate %d", p.GasLimit, gas),
		}
	}
	return gas, nil
}

func refusal(a outcome.Response) *txn.Outcome {
	o := outcome.Classify(a)
	return &o
}

// Heads wakes on each change of the head until ctx ends; nil with Options.Poll.
func (c *Chain) Heads(ctx context.Context) <-chan struct{} {
	if c.o.Poll {
		return nil
	}
	wake := make(chan struct{}, 1)
	c.mu.Lock()
	c.watchers[wake] = struct{}{}
	c.mu.Unlock()
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, wake)
		close(wake)
	})
	return wake
}
