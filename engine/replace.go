package engine

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// replace fetches fees for a replacement and signs it. It sends nothing: the attempt is recorded
// first, and the next step broadcasts it.
func (a *actor) replace(ctx context.Context, v *txn.View, s *txn.Replace) (txn.Change, error) {
	calls, cancel := a.calls(ctx)
	defer cancel()
	var r txn.Replacement
	var market txn.Fees
	market, r.Outcome = a.chain.Fees(calls, s.FeeRequest())
	a.saveRules(calls, s.Refused, false)
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
		if s.Kind != txn.Cancel && v.Refuse != nil &&
			v.Refuse(s.Tx).Reason == txn.ReasonUnverified { // policies no longer apply
			r.SignErr = txn.ErrUnverified
		} else {
			r.Signed, r.SignErr = a.e.Signer.Sign(calls, v.Submitter.Signer,
				s.Unsigned(v, r.Fees))
		}
	}
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // the lease may be gone: the results prove nothing
	}
	if r.SignErr != nil {
		a.log.Warn("replacement signing failed", "tx_id", s.Tx.ID.String(), "kind",
			string(s.Kind), "signer", v.Submitter.Signer, "error", r.SignErr)
	}
	return txn.Replaced(v, s, r), a.e.Gate(ctx, BeforeRecordReplacement, a.id)
}

// cancelGas estimates the gas of a cancel transaction on this chain; 0 if no endpoint can. A
// failure does not delay the cancel, which then uses the last gas limit or a transfer's. The
// estimate gets half of the step's time for chain calls, so that time is left to sign.
func (a *actor) cancelGas(ctx context.Context, v *txn.View, s *txn.Replace) uint64 {
	limited, cancel := context.WithTimeout(ctx, a.e.ProgressTimeout/5*2)
	defer cancel()
	self := v.Submitter.Address
	gas, o := a.chain.Gas(limited, txn.Draft{From: self, Payload: txn.CancelPayload(self)})
	if o.Class != txn.Accepted {
		a.log.Debug("cancel gas estimate failed", "tx_id", s.Tx.ID.String(), "outcome",
			string(o.Class), "detail", o.Detail)
		return 0
	}
	return gas
}

// diagnose looks for a transaction in a pool. A failed lookup changes nothing: the transaction is
// rebroadcast.
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
		a.log.Debug("pool lookup failed", "tx_id", s.Tx.ID.String(), "error", err)
		found = txn.Undiagnosed
	}
	return performed{remember: func() {
		a.ledger.Open = txn.Diagnosed(v, s, found)
		if txn.ClearsTwin(s, found) {
			a.twinChecks--
		}
	}}, nil
}

// askPolicy asks the policy about a STUCK transaction. The request is already recorded, so a
// successor waits before it asks again.
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
			"stuck policy failed; transaction waits and is rebroadcast",
			"tx_id", s.Case.Tx.ID.String(), "action_id", s.Case.ActionID, "error", err)
		action = txn.StuckWait
	case action != txn.StuckRetry && action != txn.StuckBump && action != txn.StuckCancel:
		action = txn.StuckWait // unknown actions too
	}
	a.e.metrics.decisions.Add(ctx, 1, labelled("action", string(action)))
	a.log.Info("stuck policy decided", "tx_id", s.Case.Tx.ID.String(),
		"action_id", s.Case.ActionID, "action", string(action), "reason", s.Case.Tx.Reason)
	return performed{remember: func() { a.ledger.Open = txn.PolicyAnswered(v, s, action) }}, nil
}
