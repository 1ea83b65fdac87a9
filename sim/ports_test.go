package sim

import (
	"context"
	"fmt"
	"sync"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/txn"
)

// chainPort is one node's access to the chain.
type chainPort struct {
	n  *node
	c  *chaintest.Chain
	db *database // the ledger that it serves
}

// ask waits for the scheduler and returns a context that carries the fault of the call.
func (p chainPort) ask(ctx context.Context, method chaintest.Method, of txn.SubmitterID,
	check func()) (context.Context, error) {
	it := &item{node: p.n, kind: "chain", label: string(method) + p.db.mark, of: of}
	it.run = func() {
		v := p.n.w.pass(it, "chain:"+string(method))
		v.fault = p.n.bend(method, v.fault)
		if check != nil && !v.again && v.err == nil {
			check()
		}
		it.answer(v)
	}
	v := p.n.w.ask(ctx, it)
	return context.WithValue(ctx, faultKey{}, v.fault), v.err
}

// bend adds the state of the node's provider to the fault of one call.
func (n *node) bend(method chaintest.Method, f chaintest.Fault) chaintest.Fault {
	now := n.w.now()
	if n.noChain > now {
		return chaintest.Unavailable()
	}
	if n.lagUntil > now && f.Lag == 0 && method != chaintest.MethodSend {
		f.Lag = n.lag
	}
	return f
}

func (p chainPort) ID() txn.ChainID { return p.c.ID() }

func (p chainPort) Head(ctx context.Context) (txn.Block, error) {
	ctx, err := p.ask(ctx, chaintest.MethodHead, 0, nil)
	if err != nil {
		return txn.Block{}, txn.ErrUnavailable
	}
	return p.c.Head(ctx)
}

func (p chainPort) BlockByHash(ctx context.Context, hash txn.Hash) (*txn.Block, error) {
	ctx, err := p.ask(ctx, chaintest.MethodBlockByHash, 0, nil)
	if err != nil {
		return nil, txn.ErrUnavailable
	}
	return p.c.BlockByHash(ctx, hash)
}

func (p chainPort) BlockByNumber(ctx context.Context, number uint64) (*txn.Block, error) {
	ctx, err := p.ask(ctx, chaintest.MethodBlockByNumber, 0, nil)
	if err != nil {
		return nil, txn.ErrUnavailable
	}
	return p.c.BlockByNumber(ctx, number)
}

func (p chainPort) Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	ctx, err := p.ask(ctx, chaintest.MethodReceipts, 0, nil)
	if err != nil {
		answers := make([]txn.ReceiptResult, len(hashes))
		for i, h := range hashes {
			answers[i] = txn.ReceiptResult{Hash: h, Err: txn.ErrUnavailable}
		}
		return answers
	}
	answers := p.c.Receipts(ctx, hashes)
	p.n.w.stale(answers)
	return answers
}

// stale adds receipts of orphaned blocks to the answers while providers serve an old branch.
func (w *World) stale(answers []txn.ReceiptResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range answers {
		switch {
		case a.Receipt != nil:
			w.receipts[a.Hash] = a.Receipt
		case a.Err == nil && w.staleUntil > w.now():
			answers[i].Receipt = w.receipts[a.Hash]
		}
	}
}

func (p chainPort) Send(ctx context.Context, signed txn.Signed) txn.Outcome {
	sent, err := p.ask(ctx, chaintest.MethodSend, p.n.w.senderOf(signed.Hash),
		func() { p.n.w.beforeSend(p.n, p.db, signed) })
	if err != nil {
		return txn.Outcome{Class: txn.Unavailable}
	}
	return p.c.Send(sent, signed)
}

func (p chainPort) SendInOrder(ctx context.Context, signed []txn.Signed) []txn.Outcome {
	outcomes := make([]txn.Outcome, len(signed))
	for i := range signed {
		outcomes[i] = p.Send(ctx, signed[i])
	}
	return outcomes
}

func (p chainPort) QuoteInOrder(ctx context.Context, drafts []txn.Draft) []txn.Quoted {
	return chain.QuoteEach(ctx, drafts, p.Quote)
}

func (p chainPort) Account(ctx context.Context, address txn.Address,
	settled uint64) (txn.Account, error) {
	ctx, err := p.ask(ctx, chaintest.MethodAccount, p.n.w.submitterAt(address), nil)
	if err != nil {
		return txn.Account{}, txn.ErrUnavailable
	}
	return p.c.Account(ctx, address, settled)
}

func (p chainPort) Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome) {
	ctx, err := p.ask(ctx, chaintest.MethodQuote, p.n.w.submitterAt(draft.From), nil)
	if err != nil {
		return txn.Quote{}, txn.Outcome{Class: txn.Unavailable}
	}
	return p.c.Quote(ctx, draft)
}

func (p chainPort) Fees(ctx context.Context, r txn.FeeRequest) (txn.Fees, txn.Outcome) {
	ctx, err := p.ask(ctx, chaintest.MethodFees, 0, nil)
	if err != nil {
		return txn.Fees{}, txn.Outcome{Class: txn.Unavailable}
	}
	return p.c.Fees(ctx, r)
}

func (p chainPort) PoolRules() txn.PoolRules { return p.c.PoolRules() }

func (p chainPort) RecallPoolRules(rules txn.PoolRules) { p.c.RecallPoolRules(rules) }

func (p chainPort) Gas(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome) {
	ctx, err := p.ask(ctx, chaintest.MethodGas, p.n.w.submitterAt(draft.From), nil)
	if err != nil {
		return 0, txn.Outcome{Class: txn.Unavailable}
	}
	return p.c.Gas(ctx, draft)
}

func (p chainPort) Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
	hashes []txn.Hash) (txn.Diagnosis, error) {
	ctx, err := p.ask(ctx, chaintest.MethodPooled, p.n.w.submitterAt(address), nil)
	if err != nil {
		return txn.Undiagnosed, txn.ErrUnavailable
	}
	return p.c.Pooled(ctx, address, nonce, hashes)
}

func (p chainPort) Tagged(ctx context.Context, tag string) (*txn.Block, error) {
	ctx, err := p.ask(ctx, chaintest.MethodTagged, 0, nil)
	if err != nil {
		return nil, txn.ErrUnavailable
	}
	return p.c.Tagged(ctx, tag)
}

func (p chainPort) Consumer(ctx context.Context, address txn.Address,
	nonce txn.Nonce) (*txn.Consumer, error) {
	ctx, err := p.ask(ctx, "Consumer", p.n.w.submitterAt(address), nil)
	if err != nil {
		return nil, txn.ErrUnavailable
	}
	return p.c.Consumer(ctx, address, nonce)
}

// Heads returns nil: the tracker polls on its own timer, which the scheduler fires.
func (p chainPort) Heads(context.Context) <-chan struct{} { return nil }

// submitterAt returns the submitter of an account, 0 if it has none.
func (w *World) submitterAt(address txn.Address) txn.SubmitterID {
	for i := range w.plan.accounts() {
		if chaintest.Address(i) == address {
			return w.submitters[i]
		}
	}
	return 0
}

// signerPort is one node's access to the signer.
type signerPort struct {
	n  *node
	s  engine.Signer
	db *database
}

func (p signerPort) Sign(ctx context.Context, signer string,
	unsigned txn.Unsigned) (txn.Signed, error) {
	it := &item{
		node: p.n, kind: "sign", label: fmt.Sprint(unsigned.Nonce) + p.db.mark,
		of: p.n.w.submitterAt(unsigned.From),
	}
	it.run = func() {
		v := p.n.w.pass(it, "sign")
		if v.err == nil && p.n.noSigner > p.n.w.now() {
			v.err = errSwitch
		}
		it.answer(v)
	}
	if v := p.n.w.ask(ctx, it); v.err != nil {
		return txn.Signed{}, txn.ErrUnavailable
	}
	signed, err := p.s.Sign(ctx, signer, unsigned)
	if err == nil {
		p.n.w.signed(signed.Hash, p.n.w.submitterAt(unsigned.From))
	}
	return signed, err
}

// SignInOrder lets the scheduler interleave the signatures.
func (p signerPort) SignInOrder(ctx context.Context, signer string,
	unsigned []txn.Unsigned) []txn.SignResult {
	results := make([]txn.SignResult, len(unsigned))
	var pending sync.WaitGroup
	for i := range unsigned {
		pending.Go(func() {
			results[i].Signed, results[i].Err = p.Sign(ctx, signer, unsigned[i])
		})
	}
	pending.Wait()
	for i, r := range results {
		if r.Err != nil {
			return results[:i+1]
		}
	}
	return results
}
