package engine

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// perform does the one outside effect of a step, if it has one, and tells what shall be recorded.
func (a *actor) perform(ctx context.Context, v txn.View, step txn.Step) (txn.Change, error) {
	switch s := step.(type) {
	case txn.Record:
		return s.Change, a.e.Gate(ctx, BeforeRecord, a.id)
	case txn.LookAtAccount:
		return a.lookAtAccount(ctx, v, s)
	case txn.Investigate:
		return a.investigate(ctx, v, s)
	case txn.AskWho:
		return a.askWho(ctx, v, s)
	case txn.Prepare:
		return a.prepare(ctx, v, s)
	case txn.Broadcast:
		return a.broadcast(ctx, v, s)
	case txn.Replace:
		return a.replace(ctx, v, s)
	case txn.Diagnose:
		return txn.Change{}, a.diagnose(ctx, v, s)
	case txn.AskPolicy:
		return txn.Change{}, a.askPolicy(ctx, v, s)
	}
	panic("engine: a step that is not known")
}

// lookAtAccount asks for the account, and for the receipts of the transaction that it is about: evidence against a transaction is never older than the view of
// the account.
func (a *actor) lookAtAccount(ctx context.Context, v txn.View, s txn.LookAtAccount) (txn.Change, error) {
	for _, attempt := range s.Tx.Attempts {
		a.track.doubt(attempt.Hash)
	}
	account, err := a.chain.Account(ctx, v.Submitter.Address, s.Depth)
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // the lease may be gone: what came back says nothing
	}
	if err != nil {
		a.log.Debug("account cannot be looked at", "error", err)
		a.suspicion, a.ledger.Open = txn.AccountSeen(v, nil)
		return txn.AccountUnseen(v, s), nil
	}
	account.For = s.For
	if v.Cursor != nil {
		account.Expected = v.Expected()
	}
	a.suspicion, a.ledger.Open = txn.AccountSeen(v, &account)
	a.account = &account
	if a.suspicion != nil && v.Suspicion == nil {
		a.log.Warn("the chain disagrees with the ledger about the account; looking again at a later block before anything follows", "reason", a.suspicion.Reason,
			"nonce", uint64(a.suspicion.Nonce), "latest", uint64(account.Latest), "pending", uint64(account.Pending), "settled", uint64(account.Settled), "block", account.Head)
	}
	return txn.Change{}, nil
}

// investigate asks who used the nonce. That nobody can tell is no reason to wait: the finding stands without it.
func (a *actor) investigate(ctx context.Context, v txn.View, s txn.Investigate) (txn.Change, error) {
	by, err := a.chain.Consumer(ctx, v.Submitter.Address, s.Finding.Nonce)
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err()
	}
	if err != nil {
		a.log.Warn("who used the nonce cannot be found out", "nonce", uint64(s.Finding.Nonce), "error", err)
		by = nil
	}
	if s.Finding.RefutedBy(by) {
		a.log.Warn("a transaction that seemed to have lost its nonce is in a block; its receipt comes late", "tx_hash", by.TxHash.Hex(), "block", by.Block)
		a.track.located(by.TxHash, by.Block, by.BlockHash)
		a.account, a.suspicion = nil, nil
		return txn.Change{}, nil
	}
	return txn.Investigated(v, s, by), a.e.Gate(ctx, BeforeRecord, a.id)
}

// askWho asks who used the nonce of a transaction that an operator decides on. That nobody can tell is an answer.
func (a *actor) askWho(ctx context.Context, v txn.View, s txn.AskWho) (txn.Change, error) {
	by, err := a.chain.Consumer(ctx, v.Submitter.Address, *s.Tx.Nonce)
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err()
	}
	if err != nil {
		a.log.Warn("who used the nonce cannot be found out", "nonce", uint64(*s.Tx.Nonce), "error", err)
		by = nil
	}
	a.used = &txn.Used{For: s.For, By: by}
	return txn.Change{}, nil
}

// prepare quotes and signs for the nonce at which the cursor stands. Nothing is taken yet: bytes that are not recorded are dropped.
func (a *actor) prepare(ctx context.Context, v txn.View, s txn.Prepare) (txn.Change, error) {
	if err := a.e.Gate(ctx, BeforeQuote, a.id); err != nil {
		return txn.Change{}, err
	}
	var p txn.Preparation
	p.Quote, p.Outcome = a.chain.Quote(ctx, txn.Draft{
		From: v.Submitter.Address, Payload: s.Tx.Payload, Speed: s.Tx.Terms.Speed, MaxFee: txn.Lower(s.Tx.Terms.MaxFee, v.Submitter.MaxFee),
	})
	if p.Outcome.Class == txn.Accepted {
		if err := a.e.Gate(ctx, BeforeSign, a.id); err != nil {
			return txn.Change{}, err
		}
		p.Signed, p.SignErr = a.e.Signer.Sign(ctx, v.Submitter.Signer, txn.Unsigned{
			ChainID: v.Submitter.Chain, From: v.Submitter.Address, Nonce: s.Nonce, Payload: s.Tx.Payload, Fees: p.Quote.Fees, GasLimit: p.Quote.GasLimit,
		})
	}
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // the lease may be gone: what came back says nothing
	}
	if p.SignErr != nil {
		a.log.Warn("not signed", "tx_id", s.Tx.ID.String(), "signer", v.Submitter.Signer, "error", p.SignErr)
	}
	return txn.Prepared(v, s, p), a.e.Gate(ctx, BeforeAllocate, a.id)
}

// broadcast hands recorded bytes to the chain.
func (a *actor) broadcast(ctx context.Context, v txn.View, s txn.Broadcast) (txn.Change, error) {
	if err := a.e.Gate(ctx, BeforeSend, a.id); err != nil {
		return txn.Change{}, err
	}
	answer := a.chain.Send(ctx, txn.Signed{Hash: s.Attempt.Hash, Raw: s.Attempt.Raw})
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // cut short by our own stop: the answer says nothing, and whoever comes next sends the same bytes
	}
	a.e.metrics.sent(ctx, answer.Class)
	a.log.Debug("sent", "tx_id", s.Tx.ID.String(), "tx_hash", s.Attempt.Hash.Hex(), "outcome", string(answer.Class), "detail", answer.Detail)
	if err := a.e.Gate(ctx, AfterSend, a.id); err != nil {
		return txn.Change{}, err
	}
	if answer.Class != txn.Accepted || s.Tx.State != txn.Allocated { // it may have been included while nobody was looking for it
		for _, attempt := range s.Tx.Attempts {
			a.track.doubt(attempt.Hash)
		}
	}
	return txn.Sent(v, s, answer), nil
}
