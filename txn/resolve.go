package txn

import "fmt"

// resolve carries out an operator's decision on a transaction.
func resolve(v *View, c Command) (Step, bool) {
	tx, ok := openTx(v, c.Tx)
	if ok && c.Expect != 0 && c.Expect != tx.Version {
		return rejectCommand(c,
			"it is %s and of version %d now, the decision was about version %d; look at it and decide again",
			tx.State, tx.Version, c.Expect)
	}
	switch c.Action {
	case ActionRetry:
		return retry(v, c)
	case ActionBump, ActionCancel:
		if !ok || tx.State != Stuck {
			return rejectCommand(c, notStuck)
		}
		c.Kind = map[Action]CommandKind{ActionBump: CommandSpeedUp, ActionCancel: CommandCancel}[c.Action]
		return applyCommand(v, c)
	case ActionFail, ActionFailUnproven, ActionRequeue, ActionRequeueUnproven:
		if !ok {
			return rejectCommand(c,
				"it is not in flight: it has no nonce, or is final; one that ran before it was given back to the queue ends by itself")
		}
		return resolveLoss(v, tx, c)
	}
	return Record{
		commandResult(c, ResultUnknownCommand, fmt.Sprintf("no decision %q", string(c.Action))),
	}, true
}

// resolveLoss decides on a transaction whose nonce somebody else has used, once that is beyond doubt. Either decision takes back what was promised: that it runs once.
// So neither rests on blocks that may still change.
func resolveLoss(v *View, tx *Tx, c Command) (Step, bool) {
	if v.Account == nil || v.Account.CommandID != c.ID {
		look := ReadAccount{Tx: tx, Depth: v.Policy.deepest(), CommandID: c.ID}
		if c.unproven() { // somebody has looked, and vouches for what no endpoint can show
			look.MinDepth = v.Policy.Confirmations
		}
		return look, true
	}
	sentence, decided := mayStillExecute(v, tx, c)
	switch {
	case sentence != "":
		return rejectCommand(c, "%s", sentence)
	case !decided:
		return nil, false // the receipts are being looked up once more, or a reorg is written down first
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

// consumerDoubt tells why a decision on a transaction is refused, for what is known of who used its nonce; empty: it is not.
func consumerDoubt(used NonceUse, tx *Tx, c Command) string {
	const doubt = "so it may have been this transaction, with its receipt missing"
	switch {
	case (Finding{Tx: tx}).RefutedBy(used.By):
		return fmt.Sprintf(
			"it ran: %s used nonce %d in block %d, and the endpoint does not tell its receipt",
			used.By.TxHash.Hex(), *tx.Nonce, used.By.Block)
	case used.By != nil || c.unproven():
		return ""
	case used.Unavailable:
		return fmt.Sprintf(
			"the chain cannot be asked now who used nonce %d, %s: ask again once it answers, or find out from a block explorer and say %s_UNPROVEN",
			*tx.Nonce, doubt, c.Action)
	}
	return fmt.Sprintf(
		"no endpoint can show who used nonce %d, %s: use an endpoint that keeps older state, or find out from a block explorer and say %s_UNPROVEN",
		*tx.Nonce, doubt, c.Action)
}

// deepest is the depth of what no reorg is believed to change.
func (p Policy) deepest() uint64 { return max(p.Confirmations, p.AuditDepth) }

// settledDepth is how deep the settled nonce of a look for a decision lies.
func (v *View) settledDepth() uint64 {
	if v.Account.Shallow {
		return v.Policy.Confirmations
	}
	return v.Policy.deepest()
}

func (c Command) unproven() bool {
	return c.Action == ActionFailUnproven || c.Action == ActionRequeueUnproven
}

func (c Command) requeues() bool {
	return c.Action == ActionRequeue || c.Action == ActionRequeueUnproven
}

// mayStillExecute tells why a decision on a transaction is refused; decided is false while that is not known. What is not STUCK is given back to nobody, and ended only
// because its nonce is gone for good: held back under a protection, it may never come to be STUCK.
func mayStillExecute(v *View, tx *Tx, c Command) (sentence string, decided bool) {
	seen, e := v.inclusion(tx), v.earlierInclusion(tx)
	switch {
	case seen.Known && seen.Receipt != nil:
		return fmt.Sprintf("it is in block %d; it becomes final by itself",
			seen.Receipt.BlockNumber), true
	case tx.State != Stuck && c.requeues():
		return fmt.Sprintf("it is %s, not STUCK; it is still on its way", tx.State), true
	case v.Account.Settled <= highestNonce(tx):
		return fmt.Sprintf(
			"nonce %d is not used by anybody in the blocks that are at least %d below the newest (next nonce there is %d): ours may still be included",
			highestNonce(tx), v.settledDepth(), v.Account.Settled), true
	case !seen.Known || !e.Known || v.Head < v.Account.Head || tx.Receipt != nil:
		return "", false
	case e.Receipt != nil && c.requeues():
		return fmt.Sprintf(
			"it ran under nonce %d, in block %d, before it was given back to the queue: FAIL ends it by that receipt",
			tx.attempt(e.Receipt.TxHash).Nonce, e.Receipt.BlockNumber), true
	case e.Receipt != nil && !e.Final:
		return fmt.Sprintf(
			"it ran under nonce %d, in block %d, before it was given back to the queue; decide again once that block is final",
			tx.attempt(e.Receipt.TxHash).Nonce, e.Receipt.BlockNumber), true
	case c.requeues() && reusesNonce(tx):
		return fmt.Sprintf("it has given up nonce %d once already: say FAIL", *tx.Nonce), true
	case c.requeues() && tx.abandoned():
		return fmt.Sprintf("it shall not run any more, since %s: say FAIL", tx.whyAbandoned()), true
	}
	return "", true
}

// resolved is what a decision that is borne out changes. That somebody else used the nonce puts the submitter under a protection that only a decision ends, if
// none is in force (L10): it may not have been found out before.
func resolved(v *View, tx *Tx, c Command) Change {
	done := commandResult(c, Applied, "")
	if !v.Cursor.AwaitsDecision() {
		done.Protect = &Protection{
			Expect: v.Cursor.Next,
			Reason: ReasonNonceElsewhere,
			Evidence: fmt.Sprintf(
				"nonce %d of transaction %s was used by something that is not in the ledger, in settled blocks; an operator decided on the transaction (%s)",
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
		next.State, next.Executed, next.Released, next.Reason = Failed, No, true, ReasonNonceElsewhere
		next.LastError = "an operator ended it: its nonce was used by somebody else"
	} else {
		kind, next.State, next.Nonce, next.Slot, next.Released, next.TxHash = EventRequeued, Queued, nil, 0, false, Hash{}
		next.Accepted, next.LastOutcome, next.Pooled, next.Rejected = 0, "", 0, "" // said of forms for the nonce that it gives up
		next.Reason, next.LastError, next.SubmitAttempts = "", "", 0
		next.Requeued++
	}
	done.Writes = v.move(tx, kind, &next, 0)
	return done
}

func openTx(v *View, id TxID) (*Tx, bool) {
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.ID == id {
			return tx, true
		}
	}
	return nil, false
}
