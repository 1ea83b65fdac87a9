package engine

import (
	"context"
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// perform does the one outside effect of a step, if it has one, and tells what shall be recorded.
func (a *actor) perform(ctx context.Context, v txn.View, step txn.Step) (txn.Change, error) {
	switch s := step.(type) {
	case txn.Record:
		return s.Change, a.e.Gate(ctx, BeforeRecord, a.id)
	case txn.LookAtAccount:
		return a.lookAtAccount(ctx, v, s)
	case txn.Prepare:
		return a.prepare(ctx, v, s)
	case txn.Broadcast:
		return a.broadcast(ctx, v, s)
	}
	panic("engine: a step that is not known")
}

func (a *actor) lookAtAccount(ctx context.Context, v txn.View, s txn.LookAtAccount) (txn.Change, error) {
	account, err := a.chain.Account(ctx, v.Submitter.Address, v.Policy.Confirmations)
	if err != nil {
		if ctx.Err() != nil {
			return txn.Change{}, ctx.Err()
		}
		a.log.Debug("account cannot be looked at", "error", err)
		return txn.AccountUnseen(v, s), nil
	}
	if v.Cursor != nil {
		account.Expected = v.Cursor.Next
	}
	a.account = &account
	return txn.Change{}, nil
}

// prepare quotes and signs for the nonce at which the cursor stands. Nothing is taken yet: bytes that are not recorded are dropped.
func (a *actor) prepare(ctx context.Context, v txn.View, s txn.Prepare) (txn.Change, error) {
	if err := a.e.Gate(ctx, BeforeQuote, a.id); err != nil {
		return txn.Change{}, err
	}
	var p txn.Preparation
	p.Quote, p.Outcome = a.chain.Quote(ctx, txn.Draft{From: v.Submitter.Address, Payload: s.Tx.Payload})
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

// apply brings memory to where the committed change has brought the ledger.
func (a *actor) apply(v txn.View, c txn.Change) {
	l := &a.ledger
	if c.Init != nil {
		l.Cursor = &txn.Cursor{Next: c.Init.Nonce, Init: c.Init.Nonce}
		a.log.Info("nonce sequence started", "nonce", uint64(c.Init.Nonce))
	}
	if c.Take != nil {
		moved := *l.Cursor
		moved.Next++
		l.Cursor = &moved
	}
	if c.Protect != nil {
		guarded := *l.Cursor
		guarded.Protected = &txn.Protected{Reason: c.Protect.Reason, Evidence: c.Protect.Evidence, At: v.Now}
		l.Cursor = &guarded
		a.log.Error("submitter is protected: no nonce is taken until an operator decides", "reason", c.Protect.Reason, "evidence", c.Protect.Evidence)
	}
	if c.Status != "" {
		l.Submitter.Status = c.Status
		a.log.Info("submitter status changed", "status", string(c.Status))
	}
	for _, done := range c.Commands {
		a.inbox.Commands = slices.DeleteFunc(a.inbox.Commands, func(k txn.Command) bool { return k.ID == done.ID })
	}
	for _, w := range c.Writes {
		a.applyWrite(v, w)
	}
}

func (a *actor) applyWrite(v txn.View, w txn.Write) {
	tx, queued := a.take(w.Tx)
	tx.Status, tx.Due = w.Next, v.Now.Add(w.Delay)
	if w.Attempt != nil {
		tx.Attempts = append(slices.Clone(tx.Attempts), *w.Attempt)
		a.track.followNew(w.Attempt.Hash, a.wake)
	}
	a.tell(tx, w)
	switch {
	case tx.State.Final():
		if !queued {
			a.unfollow(tx)
		}
	case tx.Nonce == nil:
		a.account = nil // it waits for something outside: look again when its time comes
		if tx.Reason == txn.ReasonStartNonce {
			a.loaded = false // the registration may have been corrected by then
		}
		a.inbox.Queue = slices.Insert(a.inbox.Queue, 0, tx)
	default:
		at, _ := slices.BinarySearchFunc(a.ledger.Open, *tx.Nonce, func(o txn.Tx, n txn.Nonce) int { return int(int64(*o.Nonce) - int64(n)) })
		a.ledger.Open = slices.Insert(a.ledger.Open, at, tx)
	}
	if queued && len(a.inbox.Queue) == 0 {
		a.mail.Store(true) // there may be more behind what was read
	}
}

// take removes a transaction from memory, to be put back where it belongs now.
func (a *actor) take(id txn.TxID) (tx txn.Tx, queued bool) {
	is := func(t txn.Tx) bool { return t.ID == id }
	if i := slices.IndexFunc(a.ledger.Open, is); i >= 0 {
		tx = a.ledger.Open[i]
		a.ledger.Open = slices.Delete(slices.Clone(a.ledger.Open), i, i+1)
		return tx, false
	}
	i := slices.IndexFunc(a.inbox.Queue, is)
	tx = a.inbox.Queue[i]
	a.inbox.Queue = slices.Delete(slices.Clone(a.inbox.Queue), i, i+1)
	return tx, true
}

// tell logs a move: what an operator must notice loudly, the rest for whoever looks.
func (a *actor) tell(tx txn.Tx, w txn.Write) {
	log := a.log.Debug
	switch w.Kind {
	case txn.EventStuck, txn.EventFailed, txn.EventReorged, txn.EventDelayed:
		log = a.log.Warn
	}
	log("transaction moved", "tx_id", tx.ID.String(), "event", string(w.Kind), "state", string(tx.State), "sub_state", string(tx.Sub), "version", tx.Version,
		"tx_hash", tx.TxHash.Hex(), "reason", tx.Reason, "last_error", tx.LastError)
}
