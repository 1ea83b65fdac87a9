package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// calls limits the total time of chain and signer calls in one step. A slow call then counts as a
// failed one, and the owner is not considered stuck. The last fifth of the time is for the ledger.
// Its end is not the end of the lease:
// only ctx is.
func (a *actor) calls(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.e.ProgressTimeout/5*4)
}

// performed is the result of a step's outside effect.
type performed struct {
	change txn.Change
	// remember changes the actor's memory; nil: nothing. It runs once the commit of the change is
	// known to be done, or at once if there is nothing to commit.
	remember func()
}

func (p *performed) remembered() {
	if p.remember != nil {
		p.remember()
	}
}

// perform performs the external effect of a step, if it has one. It does not change the actor's
// memory.
func (a *actor) perform(ctx context.Context, v *txn.View, step txn.Step) (performed, error) {
	change, err := txn.Change{}, error(nil)
	switch s := step.(type) {
	case txn.Record:
		change, err = s.Change, a.e.Gate(ctx, BeforeRecord, a.id)
	case txn.ReadAccount:
		return a.readAccount(ctx, v, s)
	case txn.Investigate:
		return a.investigate(ctx, v, s)
	case txn.FindConsumer:
		return a.findConsumer(ctx, v, s)
	case txn.Prepare:
		change, err = a.prepare(ctx, v, s)
	case txn.PrepareRange:
		return a.prepareRange(ctx, v, s)
	case txn.Broadcast:
		change, err = a.broadcast(ctx, v, s)
	case txn.BroadcastRange:
		change, err = a.broadcastRange(ctx, v, s)
	case *txn.Replace:
		change, err = a.replace(ctx, v, s)
	case txn.Diagnose:
		return a.diagnose(ctx, v, s)
	case txn.FillHole:
		return a.fillHole(ctx, v, s)
	case txn.AskPolicy:
		return a.askPolicy(ctx, v, s)
	default:
		panic("engine: unknown step")
	}
	return performed{change: change}, err
}

// maxTwinChecks is how many transactions in a row are looked up before their first broadcast, after
// one was known to a node at its own. If none of them is known, no other ledger sends them.
const maxTwinChecks = 8

// warnInterval is how often a failure that repeats is logged.
const warnInterval = time.Minute

// readAccount reads the account, and has the receipts of the step's transaction looked up again:
// evidence against a transaction is never older than the read of the account.
func (a *actor) readAccount(ctx context.Context, v *txn.View,
	s txn.ReadAccount) (performed, error) {
	a.recheck(s.Tx)
	calls, cancel := a.calls(ctx)
	defer cancel()
	account, err := a.askAccount(calls, v, s)
	read := a.readReported(calls, v, s)
	if ctx.Err() != nil {
		return performed{}, ctx.Err() // the lease may be gone: the result proves nothing
	}
	failed := func() {
		a.suspicion, a.ledger.Open = txn.AccountReadDone(v, nil)
		a.noteReported(s, read, nil)
		if a.trialOver { // see txn.compareAgain
			a.trial, a.trialOver = nil, false
		}
	}
	if errors.Is(err, txn.ErrNoState) && s.CommandID != 0 {
		a.log.Warn("account state unavailable at the depth that a decision requires", "depth",
			s.Depth, "error", err)
		return performed{txn.OldStateMissing(v, s), failed}, nil
	}
	if err != nil {
		a.e.metrics.accounts.Add(ctx, 1, a.e.metrics.reads.of("error"))
		if now := a.e.Clock.Now(); now.Sub(a.readWarned) >= warnInterval {
			a.readWarned = now
			a.log.Warn("account read failed; retrying", "error", err)
		}
		return performed{txn.AccountReadFailed(v, s, err.Error()), failed}, nil
	}
	a.e.metrics.accounts.Add(ctx, 1, a.e.metrics.reads.of("ok"))
	r := txn.AccountRead(v, s, account, a.used)
	if r.Recheck {
		a.recheck(s.Tx)
	}
	a.warnDisagreement(v, s, account)
	return performed{remember: func() {
		a.noteReported(s, read, &account)
		a.used = r.Used
		a.suspicion, a.ledger.Open = r.Suspicion, r.Open
		if r.Account != nil {
			a.account, a.accountAt = r.Account, a.e.Clock.Now()
			a.logSuspicion(v.Suspicion, *r.Account)
		}
	}}, nil
}

// askAccount reads the account at the preferred depth, or at the minimum depth where no endpoint
// has older state.
func (a *actor) askAccount(ctx context.Context, v *txn.View,
	s txn.ReadAccount) (txn.Account, error) {
	read := a.chain.Account
	if several, ok := a.chain.(SeveralEndpoints); ok && s.Avoid != "" {
		read = func(ctx context.Context, of txn.Address, settled uint64) (txn.Account, error) {
			return several.AccountElsewhere(ctx, of, settled, s.Avoid)
		}
	}
	account, err := read(ctx, v.Submitter.Address, s.Depth)
	if !errors.Is(err, txn.ErrNoState) || s.MinDepth == 0 || s.MinDepth >= s.Depth {
		return account, err
	}
	a.log.Warn(
		"account state unavailable at the preferred depth; reading newer state",
		"depth", s.Depth, "least", s.MinDepth, "error", err)
	account, err = read(ctx, v.Submitter.Address, s.MinDepth)
	account.Shallow = true
	return account, err
}

// recheck looks up the receipts of a transaction again.
func (a *actor) recheck(tx *txn.Tx) {
	for i := range tx.Attempts {
		a.track.Recheck(tx.Attempts[i].Hash)
	}
}

// logSuspicion logs a difference between account and ledger. One read may come from any branch and
// is logged for debugging only; a warning follows once a later block shows the same.
func (a *actor) logSuspicion(before *txn.Suspicion, account txn.Account) {
	if a.suspicion == nil {
		return
	}
	log, message := a.log.Debug, "account differs from the ledger; checking at a later block"
	switch {
	case before != a.suspicion:
	case account.Head > before.Head && a.warned != before:
		a.warned = before
		log, message = a.log.Warn, "account still differs from the ledger; allocation paused"
	default:
		return
	}
	log(message, "reason", a.suspicion.Reason, "nonce", uint64(a.suspicion.Nonce), "latest",
		uint64(account.Latest), "pending", uint64(account.Pending), "settled",
		uint64(account.Settled), "block", account.Head)
}

// investigate finds out who used the nonce. The finding stands without an answer.
func (a *actor) investigate(ctx context.Context, v *txn.View,
	s txn.Investigate) (performed, error) {
	by, err := a.consumer(ctx, v, s.Finding.Nonce)
	if ctx.Err() != nil {
		return performed{}, ctx.Err()
	}
	if err == nil && s.Finding.RefutedBy(by) {
		a.log.Warn("transaction found in a block; its receipt was late", "tx_hash",
			by.TxHash.Hex(), "block", by.Block)
		a.track.Locate(by.TxHash, by.Block, by.BlockHash)
		return performed{remember: a.forgetReads}, nil
	}
	return performed{change: txn.Investigated(v, s, by)}, a.e.Gate(ctx, BeforeRecord, a.id)
}

// findConsumer finds the transaction that used the nonce of another one. A failed lookup is a valid
// result.
func (a *actor) findConsumer(ctx context.Context, v *txn.View,
	s txn.FindConsumer) (performed, error) {
	by, err := a.consumer(ctx, v, *s.Tx.Nonce)
	if ctx.Err() != nil {
		return performed{}, ctx.Err()
	}
	use := &txn.NonceUse{
		CommandID: s.CommandID, Tx: s.Tx.ID, At: v.Now, Head: v.Head,
		By: by, Unavailable: err != nil,
	}
	if s.CommandID == 0 && (txn.Finding{Tx: s.Tx}).RefutedBy(by) { // its receipt was late
		a.track.Locate(by.TxHash, by.Block, by.BlockHash)
	}
	return performed{remember: func() { a.nonceUse = use }}, nil
}

// consumer returns nil for a nonce of unknown use.
func (a *actor) consumer(ctx context.Context, v *txn.View,
	nonce txn.Nonce) (*txn.Consumer, error) {
	calls, cancel := a.calls(ctx)
	defer cancel()
	by, err := a.chain.Consumer(calls, v.Submitter.Address, nonce)
	if err != nil {
		if ctx.Err() == nil {
			a.log.Warn("consumer of a nonce unknown", "nonce", uint64(nonce), "error", err)
		}
		return nil, err
	}
	return by, nil
}

// prepare quotes and signs for the cursor's nonce. It takes nothing: unrecorded bytes are dropped.
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
		return txn.Change{}, ctx.Err() // the lease may be gone: the results prove nothing
	}
	if p.SignErr != nil {
		a.log.Warn("signing failed", "tx_id", s.Tx.ID.String(),
			"signer", v.Submitter.Signer, "error", p.SignErr)
	}
	return txn.Prepared(v, s, p), a.e.Gate(ctx, BeforeAllocate, a.id)
}

// quote and sign are separate functions to limit stack depth: chain and signer calls are deep.
func (a *actor) quote(ctx context.Context, v *txn.View, tx *txn.Tx) *txn.Preparation {
	p := &txn.Preparation{}
	p.Quote, p.Outcome = a.chain.Quote(ctx, draftOf(v, tx))
	return p
}

func draftOf(v *txn.View, tx *txn.Tx) txn.Draft {
	committed := v.Committed()
	return txn.Draft{
		From:      v.Submitter.Address,
		Payload:   tx.Payload,
		Speed:     tx.Terms.Speed,
		MaxFee:    txn.LowerLimit(tx.Terms.MaxFee, v.Submitter.MaxFee),
		Committed: committed,
		Pending:   !committed.IsZero(),
	}
}

func (a *actor) sign(ctx context.Context, v *txn.View, s *txn.Prepare, p *txn.Preparation) {
	p.Signed, p.SignErr = a.e.Signer.Sign(ctx, v.Submitter.Signer, unsignedOf(v, s, p.Quote))
}

func unsignedOf(v *txn.View, s *txn.Prepare, q txn.Quote) txn.Unsigned {
	return txn.Unsigned{
		ChainID:  v.Submitter.Chain,
		From:     v.Submitter.Address,
		Nonce:    s.Nonce,
		Payload:  s.Tx.Payload,
		Fees:     q.Fees,
		GasLimit: q.GasLimit,
		Purpose:  s.Tx.Purpose(v, txn.Original),
	}
}

// broadcast sends recorded bytes to the chain.
func (a *actor) broadcast(ctx context.Context, v *txn.View, s txn.Broadcast) (txn.Change, error) {
	if err := a.e.Gate(ctx, BeforeSend, a.id); err != nil {
		return txn.Change{}, err
	}
	calls, cancel := a.calls(ctx)
	defer cancel()
	a.measureWait(ctx, &s)
	answer := a.send(calls, s.Attempt)
	if ctx.Err() != nil {
		// Our own stop interrupted the call: its outcome proves nothing, and the next owner
		// broadcasts the same bytes.
		return txn.Change{}, ctx.Err()
	}
	a.saveRules(calls, answer.Class, s.Attempt.No > 1)
	a.noteAnswer(ctx, s, answer)
	if err := a.e.Gate(ctx, AfterSend, a.id); err != nil {
		return txn.Change{}, err
	}
	if s.CommandID != 0 {
		a.recheck(s.Tx)
		return txn.OriginalSent(v, s, answer), nil
	}
	a.recheckSent(s.Tx, answer)
	return txn.Sent(v, s, answer), nil
}

// noteAnswer counts and logs the response to a broadcast.
func (a *actor) noteAnswer(ctx context.Context, s txn.Broadcast, answer txn.Outcome) {
	a.e.metrics.sent(ctx, answer.Class, s.Tx.LastOutcome != "")
	if txn.KnownUnsent(s, answer) {
		if a.twinChecks <= 0 {
			a.log.Warn("transaction known at its first broadcast; checking the next ones before",
				"tx_id", s.Tx.ID.String(), "tx_hash", s.Attempt.Hash.Hex())
		}
		a.twinChecks = maxTwinChecks
	}
	if a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.Debug("sent", "tx_id", s.Tx.ID.String(), "tx_hash", s.Attempt.Hash.Hex(), "outcome",
			string(answer.Class), "detail", answer.Detail)
	}
}

// recheckSent looks up the receipts of a transaction that may have been included before its
// broadcast.
func (a *actor) recheckSent(tx *txn.Tx, answer txn.Outcome) {
	if answer.Class != txn.Accepted || tx.State != txn.Allocated {
		a.recheck(tx)
	}
}
