package txn

import "fmt"

// An account without funds holds up any attempt: original, replacement or cancel (H72). The
// sub-state UNFUNDED shows it, with or without a nonce, from the RPC response that reports it until
// the next one with another outcome. No decision is needed: the transaction is retried on the
// normal schedule and proceeds once the account is funded. These broadcasts count like others, so
// that it becomes STUCK in time and an operator notices; but the reason stays INSUFFICIENT_FUNDS,
// and it leaves STUCK once a node accepts it.

// updateFunding updates the status after a response by whether the account could pay for the
// attempt, if known.
func (v *View) updateFunding(b *Broadcast, answer Outcome, next Status, kind Kind) (Status, Kind) {
	switch tx := b.Tx; {
	case (next.LastOutcome == InsufficientFunds ||
		tx.Sub == Unfunded && unexamined(answer.Class)) && next.Receipt == nil &&
		next.Reason != ReasonNonceElsewhere:
		next = b.markUnfunded(answer, next)
		if tx.Sub != Unfunded || tx.Reason != next.Reason {
			kind = fundingEvent(next.State, kind)
		}
	case tx.Sub == Unfunded:
		next = v.clearUnfunded(tx, answer, next)
		kind = fundingEvent(next.State, kind)
	}
	return next, kind
}

// markUnfunded returns the status of a transaction that the account cannot afford. A response
// without examination of the bytes changes none of that.
func (b *Broadcast) markUnfunded(answer Outcome, next Status) Status {
	tx := b.Tx
	message := b.unfundedMessage(answer)
	// no other reason applies
	money := tx.State != Stuck && !tx.keepsReasonUntilFinal() || ageReasons[tx.Reason]
	switch {
	case unexamined(answer.Class) && money && tx.Reason == ReasonInsufficientFunds:
		next.appendError(tx.baseError(), string(answer.Class)+": "+answer.Detail)
	case unexamined(answer.Class) && !money:
	case !money:
		next.appendError(tx.baseError(), message)
	case next.State == Stuck:
		next.LastError = fmt.Sprintf("broadcast %d times and not included; now %s",
			next.SubmitAttempts, message)
	default:
		next.LastError = message
	}
	next.Sub = Unfunded
	if money {
		next.Reason = ReasonInsufficientFunds
	}
	return next
}

// ageReasons are the reasons of a STUCK transaction that mean no more than a long wait for
// inclusion.
var ageReasons = map[string]bool{
	ReasonResubmitExhausted: true,
	ReasonMaxAge:            true,
	ReasonInsufficientFunds: true,
}

// clearUnfunded returns the status of an unfunded transaction after a response with another
// outcome.
func (v *View) clearUnfunded(tx *Tx, answer Outcome, next Status) Status {
	if next.Sub == Unfunded {
		next.Sub = defaultSub(next.State)
	}
	old := v.maxAgeAt(tx)
	switch {
	case next.State != Stuck || next.Reason != ReasonInsufficientFunds:
		if next.Reason == tx.Reason {
			next.LastError = next.baseError()
		}
	case next.SubmitAttempts >= v.Policy.ResubmitMax:
		next.Reason, next.LastError = ReasonResubmitExhausted, broadcastMessage(next.SubmitAttempts,
			answer.Class)
	case !old.IsZero() && !old.After(v.Now):
		next.Reason, next.LastError = ReasonMaxAge, v.maxAgeMessage()
	default: // the count restarts with each attempt
		next.Reason = ReasonResubmitExhausted
		next.LastError = fmt.Sprintf(
			"an earlier attempt reached the broadcast limit without inclusion; last response "+
				"to the newest: %s; still tracked and rebroadcast",
			answer.Class)
	}
	return next
}

// unfundedMessage describes the attempt that the account cannot afford, the shortfall as far as the
// node reports it, and the next step.
func (b *Broadcast) unfundedMessage(answer Outcome) string {
	what, short := "this transaction", shortfall(answer)
	if b.Attempt.Kind == Cancel {
		what = "the cancel transaction"
	}
	if short == "" && answer.Class == InsufficientFunds && answer.Detail != "" {
		short = " (" + answer.Detail + ")"
	}
	said := "insufficient funds for " + what + short + "; it is rebroadcast and proceeds once " +
		"the account is funded"
	if older := b.Tx.Pooled; older > 0 && older < b.Attempt.No {
		said += "; a pool may have an earlier attempt, which may still be included"
	}
	return said
}

// fundingEvent returns the event for a change of funding, unless another event reports it.
func fundingEvent(s State, kind Kind) Kind {
	switch {
	case kind != "":
		return kind
	case s == Stuck:
		return EventStuck
	}
	return EventDelayed
}
