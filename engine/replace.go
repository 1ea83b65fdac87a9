package engine

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// replace asks for the fees of another signed form and signs it. Nothing is sent: it is recorded first, and handed over by the next step.
func (a *actor) replace(ctx context.Context, v *txn.View, s *txn.Replace) (txn.Change, error) {
	calls, cancel := a.calls(ctx)
	defer cancel()
	var r txn.Replacement
	var market txn.Fees
	market, r.Outcome = a.chain.Fees(calls, s.Tx.Terms.Speed, s.Limit)
	if s.Kind == txn.Cancel && r.Outcome.Class == txn.Accepted {
		s.Estimate = a.cancelGas(calls, v, s)
	}
	if err := a.e.Gate(ctx, BeforeReplace, a.id); err != nil {
		return txn.Change{}, err
	}
	if r.Outcome.Class == txn.Accepted && !s.RepeatsInvalid() {
		var ok bool
		r.Fees, ok = s.BumpedFees(market)
		r.AboveLimit = !ok
		r.Signed, r.SignErr = a.e.Signer.Sign(calls, v.Submitter.Signer, s.Unsigned(v, r.Fees))
	}
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // the lease may be gone: what came back says nothing
	}
	if r.SignErr != nil {
		a.log.Warn("a replacement was not signed", "tx_id", s.Tx.ID.String(), "kind",
			string(s.Kind), "signer", v.Submitter.Signer, "error", r.SignErr)
	}
	return txn.Replaced(v, s, r), a.e.Gate(ctx, BeforeRecordReplacement, a.id)
}

// cancelGas asks what a form that cancels takes on this chain; 0: nobody says. That holds no cancel up: it has what the last one had, or what a transfer takes, and
// the question has half of the time that there is, so that some is left for the signature.
func (a *actor) cancelGas(ctx context.Context, v *txn.View, s *txn.Replace) uint64 {
	limited, cancel := context.WithTimeout(ctx, a.e.ProgressTimeout/5*2)
	defer cancel()
	self := v.Submitter.Address
	gas, o := a.chain.Gas(limited, txn.Draft{From: self, Payload: txn.CancelPayload(self)})
	if o.Class != txn.Accepted {
		a.log.Debug("the gas of a cancel cannot be estimated", "tx_id", s.Tx.ID.String(), "outcome",
			string(o.Class), "detail", o.Detail)
		return 0
	}
	return gas
}

// diagnose looks for a transaction in a pool. That nobody can tell changes nothing: it is handed over all the same.
func (a *actor) diagnose(ctx context.Context, v *txn.View,
	s txn.Diagnose) (performed, error) {
	var hashes []txn.Hash
	for _, attempt := range s.Tx.Attempts {
		if attempt.Nonce == *s.Tx.Nonce {
			hashes = append(hashes, attempt.Hash)
		}
	}
	calls, cancel := a.calls(ctx)
	defer cancel()
	found, err := a.chain.Pooled(calls, v.Submitter.Address, *s.Tx.Nonce, hashes)
	if ctx.Err() != nil {
		return performed{}, ctx.Err()
	}
	if err != nil {
		a.log.Debug("the pool cannot be looked into", "tx_id", s.Tx.ID.String(), "error", err)
		found = txn.Undiagnosed
	}
	return performed{remember: func() { a.ledger.Open = txn.Diagnosed(v, s, found) }}, nil
}

// askPolicy asks what to do about a STUCK transaction. The asking is in the ledger already, so that whoever takes over waits before it asks again.
func (a *actor) askPolicy(ctx context.Context, v *txn.View,
	s txn.AskPolicy) (performed, error) {
	limited, cancel := context.WithTimeout(ctx, a.e.StuckTimeout)
	defer cancel()
	action, err := a.e.Stuck.Decide(limited, *s.Case)
	if ctx.Err() != nil {
		return performed{}, ctx.Err()
	}
	switch {
	case err != nil:
		a.log.Warn(
			"the policy for stuck transactions gave no answer; it waits, and is handed over meanwhile",
			"tx_id", s.Case.Tx.ID.String(), "action_id", s.Case.ActionID, "error", err)
		action = txn.StuckWait
	case action != txn.StuckRetry && action != txn.StuckBump && action != txn.StuckCancel:
		action = txn.StuckWait // also what is not known
	}
	a.e.metrics.decisions.Add(ctx, 1, labelled("action", string(action)))
	a.log.Info("a policy decided about a stuck transaction", "tx_id", s.Case.Tx.ID.String(),
		"action_id", s.Case.ActionID, "action", string(action), "reason", s.Case.Tx.Reason)
	return performed{remember: func() { a.ledger.Open = txn.PolicyAnswered(v, s, action) }}, nil
}
