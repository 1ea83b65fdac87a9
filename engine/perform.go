package engine

import (
	"context"
	"errors"
	"log/slog"

	"github.com/fencepost/fencepost/txn"
)

// calls bounds what one step asks of chain and signer in all, however often it asks: one that is slow is told to the transaction like any other failure, and its owner
// is not taken to be stuck for it. The last fifth of the time is for the ledger. That these calls are over says nothing of the lease: ctx alone does.
func (a *actor) calls(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.e.ProgressTimeout/5*4)
}

// perform does the one outside effect of a step, if it has one, and tells what shall be recorded.
func (a *actor) perform(ctx context.Context, v *txn.View, step txn.Step) (txn.Change, error) {
	switch s := step.(type) {
	case txn.Record:
		return s.Change, a.e.Gate(ctx, BeforeRecord, a.id)
	case txn.ReadAccount:
		return a.lookAtAccount(ctx, v, s)
	case txn.Investigate:
		return a.investigate(ctx, v, s)
	case txn.FindConsumer:
		return a.askWho(ctx, v, s)
	case txn.Prepare:
		return a.prepare(ctx, v, s)
	case txn.Broadcast:
		return a.broadcast(ctx, v, s)
	case *txn.Replace:
		return a.replace(ctx, v, s)
	case txn.Diagnose:
		return txn.Change{}, a.diagnose(ctx, v, s)
	case txn.AskPolicy:
		return txn.Change{}, a.askPolicy(ctx, v, s)
	}
	panic("engine: a step that is not known")
}

// lookAtAccount asks for the account, and for the receipts of the transaction that it is about: evidence against a transaction is never older than the view of
// the account. A look that finds a nonce used says nothing yet, since ours may be in a block that came after its receipt was asked for: that is asked for once
// more, and only if there is none is the look at the account that follows a suspicion.
func (a *actor) lookAtAccount(ctx context.Context, v *txn.View,
	s txn.ReadAccount) (txn.Change, error) {
	a.doubt(s.Tx)
	calls, cancel := a.calls(ctx)
	defer cancel()
	account, err := a.askAccount(calls, v, s)
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // the lease may be gone: what came back says nothing
	}
	if errors.Is(err, txn.ErrNoState) && s.CommandID != 0 {
		a.log.Warn("the account cannot be looked at as deep as a decision asks for", "depth",
			s.Depth, "error", err)
		a.suspicion, a.ledger.Open = txn.AccountReadDone(v, nil)
		return txn.OldStateMissing(v, s), nil
	}
	if err != nil {
		a.log.Debug("account cannot be looked at", "error", err)
		a.suspicion, a.ledger.Open = txn.AccountReadDone(v, nil)
		return txn.AccountReadFailed(v, s), nil
	}
	switch own := s.CommandID == 0 && s.Tx.Nonce != nil; {
	case own && account.Latest <= *s.Tx.Nonce:
		a.taken = takenNonce{}
	case own && a.taken.first(s.Tx.ID, account.Head, v.Head):
		a.doubt(s.Tx)
		return txn.Change{}, nil
	}
	account.CommandID = s.CommandID
	if v.Cursor != nil {
		account.Expected = v.Expected()
	}
	a.suspicion, a.ledger.Open = txn.AccountReadDone(v, &account)
	a.account = &account
	a.tellSuspicion(v.Suspicion, account)
	return txn.Change{}, nil
}

// askAccount asks for the account as deep as it takes, or where no endpoint has that state, as deep as does.
func (a *actor) askAccount(ctx context.Context, v *txn.View,
	s txn.ReadAccount) (txn.Account, error) {
	account, err := a.chain.Account(ctx, v.Submitter.Address, s.Depth)
	if !errors.Is(err, txn.ErrNoState) || s.MinDepth == 0 || s.MinDepth >= s.Depth {
		return account, err
	}
	a.log.Warn(
		"no endpoint that answers tells the state that a decision asks for; going by a newer one",
		"depth", s.Depth, "least", s.MinDepth, "error", err)
	account, err = a.chain.Account(ctx, v.Submitter.Address, s.MinDepth)
	account.Shallow = true
	return account, err
}

// takenNonce is a look at the account that found the nonce of a transaction used, for which no receipt of ours was known.
type takenNonce struct {
	tx    txn.TxID
	head  uint64 // of that look
	looks int
}

// receiptLooks is how often receipts are asked for whose answers turn out to be older than the look at the account: the endpoints may differ for longer.
const receiptLooks = 3

// first tells whether a look at the account comes before the receipts could have shown what it shows.
func (n *takenNonce) first(tx txn.TxID, head, seen uint64) bool {
	if n.tx != tx {
		*n = takenNonce{tx: tx, head: head}
	} else if seen >= n.head || n.looks >= receiptLooks {
		return false
	}
	n.looks++
	return true
}

// doubt asks for the receipts of a transaction again.
func (a *actor) doubt(tx *txn.Tx) {
	for i := range tx.Attempts {
		a.track.Recheck(tx.Attempts[i].Hash)
	}
}

// tellSuspicion tells what a look at the account makes of what was known before. One look may be from anywhere, and is nobody's business; that a later block says the
// same is told loudly, once.
func (a *actor) tellSuspicion(before *txn.Suspicion, account txn.Account) {
	if a.suspicion == nil {
		return
	}
	log, message := a.log.Debug, "the chain disagrees with the ledger about the account; looking again at a later block before anything follows"
	switch {
	case before != a.suspicion:
	case account.Head > before.Head && a.warned != before:
		a.warned = before
		log, message = a.log.Warn, "the chain still disagrees with the ledger about the account, at a later block; nothing is taken meanwhile"
	default:
		return
	}
	log(message, "reason", a.suspicion.Reason, "nonce", uint64(a.suspicion.Nonce), "latest",
		uint64(account.Latest), "pending", uint64(account.Pending), "settled",
		uint64(account.Settled), "block", account.Head)
}

// investigate asks who used the nonce. That nobody can tell is no reason to wait: the finding stands without it.
func (a *actor) investigate(ctx context.Context, v *txn.View,
	s txn.Investigate) (txn.Change, error) {
	calls, cancel := a.calls(ctx)
	defer cancel()
	by, err := a.chain.Consumer(calls, v.Submitter.Address, s.Finding.Nonce)
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err()
	}
	if err != nil {
		a.log.Warn("who used the nonce cannot be found out", "nonce", uint64(s.Finding.Nonce),
			"error", err)
		by = nil
	}
	if s.Finding.RefutedBy(by) {
		a.log.Warn(
			"a transaction that seemed to have lost its nonce is in a block; its receipt comes late",
			"tx_hash", by.TxHash.Hex(), "block", by.Block)
		a.track.Locate(by.TxHash, by.Block, by.BlockHash)
		a.account, a.suspicion = nil, nil
		return txn.Change{}, nil
	}
	return txn.Investigated(v, s, by), a.e.Gate(ctx, BeforeRecord, a.id)
}

// askWho asks who used the nonce of a transaction that an operator decides on. That nobody can tell is an answer.
func (a *actor) askWho(ctx context.Context, v *txn.View, s txn.FindConsumer) (txn.Change, error) {
	calls, cancel := a.calls(ctx)
	defer cancel()
	by, err := a.chain.Consumer(calls, v.Submitter.Address, *s.Tx.Nonce)
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err()
	}
	if err != nil {
		a.log.Warn("who used the nonce cannot be found out", "nonce", uint64(*s.Tx.Nonce), "error",
			err)
		by = nil
	}
	a.used = &txn.NonceUse{CommandID: s.CommandID, By: by, Unavailable: err != nil}
	return txn.Change{}, nil
}

// prepare quotes and signs for the nonce at which the cursor stands. Nothing is taken yet: bytes that are not recorded are dropped.
func (a *actor) prepare(ctx context.Context, v *txn.View, s txn.Prepare) (txn.Change, error) {
	if err := a.e.Gate(ctx, BeforeQuote, a.id); err != nil {
		return txn.Change{}, err
	}
	calls, cancel := a.calls(ctx)
	defer cancel()
	p := a.quote(calls, v, s.Tx)
	if p.Outcome.Class == txn.Accepted {
		if err := a.e.Gate(ctx, BeforeSign, a.id); err != nil {
			return txn.Change{}, err
		}
		a.sign(calls, v, &s, p)
	}
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // the lease may be gone: what came back says nothing
	}
	if p.SignErr != nil {
		a.log.Warn("not signed", "tx_id", s.Tx.ID.String(), "signer", v.Submitter.Signer, "error",
			p.SignErr)
	}
	return txn.Prepared(v, s, p), a.e.Gate(ctx, BeforeAllocate, a.id)
}

// quote and sign are calls of their own for what they stand on: a chain and a signer are deep.
func (a *actor) quote(ctx context.Context, v *txn.View, tx *txn.Tx) *txn.Preparation {
	p := &txn.Preparation{}
	p.Quote, p.Outcome = a.chain.Quote(ctx, txn.Draft{
		From: v.Submitter.Address, Payload: tx.Payload, Speed: tx.Terms.Speed, MaxFee: txn.LowerLimit(tx.Terms.MaxFee, v.Submitter.MaxFee),
	})
	return p
}

func (a *actor) sign(ctx context.Context, v *txn.View, s *txn.Prepare, p *txn.Preparation) {
	p.Signed, p.SignErr = a.e.Signer.Sign(ctx, v.Submitter.Signer, txn.Unsigned{
		ChainID: v.Submitter.Chain, From: v.Submitter.Address, Nonce: s.Nonce, Payload: s.Tx.Payload, Fees: p.Quote.Fees, GasLimit: p.Quote.GasLimit,
	})
}

// broadcast hands recorded bytes to the chain.
func (a *actor) broadcast(ctx context.Context, v *txn.View, s txn.Broadcast) (txn.Change, error) {
	if err := a.e.Gate(ctx, BeforeSend, a.id); err != nil {
		return txn.Change{}, err
	}
	calls, cancel := a.calls(ctx)
	defer cancel()
	answer := a.chain.Send(calls, txn.Signed{Hash: s.Attempt.Hash, Raw: s.Attempt.Raw})
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // cut short by our own stop: the answer says nothing, and whoever comes next sends the same bytes
	}
	a.e.metrics.sent(ctx, answer.Class, s.Tx.LastOutcome != "")
	if a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.Debug("sent", "tx_id", s.Tx.ID.String(), "tx_hash", s.Attempt.Hash.Hex(), "outcome",
			string(answer.Class), "detail", answer.Detail)
	}
	if err := a.e.Gate(ctx, AfterSend, a.id); err != nil {
		return txn.Change{}, err
	}
	if s.CommandID != 0 {
		a.doubt(s.Tx)
		return txn.OriginalSent(v, s, answer), nil
	}
	if answer.Class != txn.Accepted ||
		s.Tx.State != txn.Allocated { // it may have been included while nobody was looking for it
		a.doubt(s.Tx)
	}
	return txn.Sent(v, s, answer), nil
}
