package txn

import "fmt"

// resolve applies an operator's decision on a transaction.
func resolve(v *View, c Command) (Step, bool) {
	tx, ok := openTx(v, c.Tx)
	if ok && c.Expect != 0 && c.Expect != tx.Version {
		return rejectCommand(c,
			"it is %s at version %d, but the decision was about version %d; check it and "+
				"decide again",
			tx.State, tx.Version, c.Expect)
	}
	if v.Submitter.Mode == External && c.requeues() {
		return rejectCommand(c, "its nonce was reserved by a client; use FAIL, and send again "+
			"under another nonce")
	}
	switch c.Action {
	case ActionRetry:
		return retry(v, c)
	case ActionBump, ActionCancel:
		if !ok || tx.State != Stuck {
			return rejectCommand(c, notStuck)
		}
		c.Kind = CommandCancel
		if c.Action == ActionBump {
			c.Kind = CommandSpeedUp
		}
		return applyCommand(v, c)
	case ActionFail, ActionFailUnproven, ActionRequeue, ActionRequeueUnproven:
		if !ok {
			return rejectCommand(c,
				"not in flight: it has no nonce, or is final; one that executed before it was "+
					"requeued becomes final automatically")
		}
		return resolveLoss(v, tx, c)
	}
	return Record{
		commandResult(c, ResultUnknownCommand, fmt.Sprintf(
			"unknown decision %q", string(c.Action))),
	}, true
}

// resolveLoss applies a decision on a transaction whose nonce was used elsewhere, once that is
// certain. Each decision revokes the promise of exactly one execution, so neither may rest on
// blocks that may still change.
func resolveLoss(v *View, tx *Tx, c Command) (Step, bool) {
	if v.Account == nil || v.Account.CommandID != c.ID {
		look := ReadAccount{Tx: tx, Depth: v.Policy.deepest(), CommandID: c.ID}
		if c.unproven() { // the operator vouches for a fact that no endpoint can show
			look.MinDepth = v.Policy.Confirmations
		}
		return look, true
	}
	sentence, decided := mayStillExecute(v, tx, c)
	switch {
	case sentence != "":
		return rejectCommand(c, "%s", sentence)
	case !decided:
		return nil, false // the receipts are being fetched again, or a reorg is recorded first
	case v.lossUndecided(): // its nonce may have been used by a lost attempt
		return rejectAsLost(v, c, lostCommits(fmt.Sprintf(
			"%snonce %d of transaction %s is used on chain (settled next nonce %d)",
			afterFailOver, *tx.Nonce, tx.ID, v.Account.Settled))), true
	case v.NonceUse == nil || v.NonceUse.CommandID != c.ID:
		return FindConsumer{Tx: tx, CommandID: c.ID}, true
	}
	for _, sentence := range []string{consumerDoubt(*v.NonceUse, tx, c), restoredDoubt(tx, c)} {
		if sentence != "" {
			return rejectCommand(c, "%s", sentence)
		}
	}
	return Record{resolved(v, tx, c)}, true
}

// consumerDoubt returns why a decision is rejected by the known user of the nonce; empty: it is
// not.
func consumerDoubt(used NonceUse, tx *Tx, c Command) string {
	const doubt = "so this transaction may have used it, with its receipt missing"
	switch {
	case (Finding{Tx: tx}).RefutedBy(used.By):
		return fmt.Sprintf(
			"it executed: %s used nonce %d in block %d, and the endpoint lacks its receipt",
			used.By.TxHash.Hex(), *tx.Nonce, used.By.Block)
	case used.By != nil || c.unproven():
		return ""
	case used.Unavailable:
		return fmt.Sprintf(
			"the user of nonce %d is unknown while the chain is unavailable, %s: retry later, "+
				"or check a block explorer and use %s_UNPROVEN",
			*tx.Nonce, doubt, c.Action)
	}
	return fmt.Sprintf(
		"no endpoint can show the user of nonce %d, %s: use an endpoint that keeps older "+
			"state, or check a block explorer and use %s_UNPROVEN",
		*tx.Nonce, doubt, c.Action)
}

func (c Command) unproven() bool {
	return c.Action == ActionFailUnproven || c.Action == ActionRequeueUnproven
}

// GivesUpNonce reports whether a decision accepts that a nonce was used elsewhere.
func (c Command) GivesUpNonce() bool {
	return c.Kind == CommandResolve &&
		(c.requeues() || c.Action == ActionFail || c.Action == ActionFailUnproven)
}

func (c Command) requeues() bool {
	return c.Action == ActionRequeue || c.Action == ActionRequeueUnproven
}

// mayStillExecute returns why a decision is rejected; decided is false while that is unknown. A
// transaction that is not STUCK is never requeued, and failed only if its nonce is lost for good:
// on hold under a protection, it may never become STUCK.
func mayStillExecute(v *View, tx *Tx, c Command) (sentence string, decided bool) {
	seen, e := v.inclusion(tx), v.earlierInclusion(tx)
	switch {
	case seen.Known && seen.Receipt != nil:
		return fmt.Sprintf("included in block %d; it becomes final automatically",
			seen.Receipt.BlockNumber), true
	case tx.State != Stuck && c.requeues():
		return fmt.Sprintf("%s, not STUCK; it is still being sent",
			tx.State), true
	case v.Account.Settled <= highestNonce(tx):
		return fmt.Sprintf(
			"nonce %d is unused at least %d blocks below the head (next nonce there: %d): our "+
				"transaction may still be included",
			highestNonce(tx), v.settledDepth(), v.Account.Settled), true
	case !seen.Known || !e.Known || v.Head < v.Account.Head || tx.Receipt != nil:
		return "", false
	case e.Receipt != nil && c.requeues():
		return fmt.Sprintf(
			"it executed under nonce %d in block %d, before it was requeued; use FAIL to "+
				"finalize it by that receipt",
			tx.attempt(e.Receipt.TxHash).Nonce, e.Receipt.BlockNumber), true
	case e.Receipt != nil && !e.Final:
		return fmt.Sprintf(
			"it executed under nonce %d in block %d, before it was requeued; decide again once "+
				"that block is final",
			tx.attempt(e.Receipt.TxHash).Nonce, e.Receipt.BlockNumber), true
	case c.requeues() && reusesNonce(tx):
		return fmt.Sprintf("it has already given up nonce %d once; use FAIL", *tx.Nonce), true
	case c.requeues() && tx.abandoned():
		return fmt.Sprintf("it is being cancelled, because %s; use FAIL", tx.whyAbandoned()), true
	}
	return "", true
}

// resolved returns the change of a supported decision. If no protection is in force for a use of
// the nonce elsewhere, or that awaits a decision, that use starts one (L10): it may not have been
// found before. After this decision, a refutation no longer ends one in force.
func resolved(v *View, tx *Tx, c Command) Change {
	done := commandResult(c, Applied, "")
	if v.needsProtection(ReasonNonceElsewhere) && v.Submitter.Mode != External {
		done.Protect = &Protection{
			Expect:   v.Cursor.Next,
			Replaces: v.Cursor.replaceable(),
			Reason:   ReasonNonceElsewhere,
			Evidence: fmt.Sprintf(
				"nonce %d of transaction %s was used outside this ledger, in settled blocks; "+
					"an operator decided on the transaction (%s)",
				*tx.Nonce, tx.ID, c.Action) +
				v.NonceUse.By.Evidence(),
		}
	}
	if e := v.earlierInclusion(tx); e.Receipt != nil {
		done.Writes = v.finalizeAs(tx, &e)
		return done
	}
	next, kind := tx.Status, EventFailed
	next.Sub, next.Doubted = None, false
	if !c.requeues() {
		next.State = Failed
		next.Executed = No
		next.Released = true
		next.Reason = ReasonNonceElsewhere
		next.LastError = "an operator failed it: its nonce was used elsewhere"
	} else {
		kind = EventRequeued
		next.State = Queued
		next.Nonce = nil
		next.Slot = 0
		next.Released = false
		next.TxHash = Hash{}
		next.Accepted = 0
		next.LastOutcome = ""
		next.Pooled = 0
		next.Rejected = "" // these belong to attempts at the nonce that it gives up
		next.Reason = ""
		next.LastError = ""
		next.SubmitAttempts = 0
		next.Requeued++
	}
	done.Writes = v.move(tx, kind, &next, 0)
	return done
}
