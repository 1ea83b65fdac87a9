package txn

import (
	"fmt"
)

// An account without money holds up whatever it would pay for: the original, the form that offers more and the form that cancels alike (H72). What that holds up
// says so by its sub-state, with a nonce or without one, from the answer that says it until the next one that says anything else. Nobody has to decide on it: it
// is tried as ever, and goes on by itself once there is money. Such hand-overs count like others, so that it becomes STUCK in time, since somebody has to send the
// money; but the lack of money stays the reason then, and once a node takes it, it is not STUCK any more.

// funded writes into the status that an answer leads to whether the account can pay for what was handed over, as far as that is known.
func (v *View) updateFunding(b *Broadcast, answer Outcome, next Status, kind Kind) (Status, Kind) {
	switch tx := b.Tx; {
	case (next.LastOutcome == InsufficientFunds || tx.Sub == Unfunded && unexamined(answer.Class)) && next.Receipt == nil && next.Reason != ReasonNonceElsewhere:
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

// unpaid is the status of what the account cannot pay for. An answer of a node that did not look at the bytes takes nothing of that back.
func (b *Broadcast) markUnfunded(answer Outcome, next Status) Status {
	tx := b.Tx
	message := b.unfundedMessage(answer)
	money := tx.State != Stuck && !tx.keepsReasonUntilFinal() || ageReasons[tx.Reason] // nothing else is the reason
	switch {
	case unexamined(answer.Class) && money && tx.Reason == ReasonInsufficientFunds:
		next.appendError(tx.baseError(), string(answer.Class)+": "+answer.Detail)
	case unexamined(answer.Class) && !money:
	case !money:
		next.appendError(tx.baseError(), message)
	case next.State == Stuck:
		next.LastError = fmt.Sprintf("handed over %d times and not included; now %s",
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

// hiding are the reasons of a STUCK transaction that say no more than how long it is in no block.
var ageReasons = map[string]bool{
	ReasonResubmitExhausted: true,
	ReasonMaxAge:            true,
	ReasonInsufficientFunds: true,
}

// paid is the status of what waited for money, and is told something else now.
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
	default: // the count begins anew with each form
		next.Reason = ReasonResubmitExhausted
		next.LastError = fmt.Sprintf(
			"an earlier form was handed over as often as one may be and not included; the last answer to the newest was %s; it is still followed and handed over",
			answer.Class)
	}
	return next
}

// unfundedMessage says what the account cannot pay for, as far as the node tells it, and what comes next.
func (b *Broadcast) unfundedMessage(answer Outcome) string {
	what, short := "this transaction", shortfall(answer)
	if b.Attempt.Kind == Cancel {
		what = "the form that cancels this transaction"
	}
	if short == "" && answer.Class == InsufficientFunds && answer.Detail != "" {
		short = " (" + answer.Detail + ")"
	}
	said := "the account cannot pay for " + what + short + "; it is handed over again, and goes on by itself once funded"
	if older := b.Tx.Pooled; older > 0 && older < b.Attempt.No {
		said += "; a pool may have an earlier form of it, which may be included as it is"
	}
	return said
}

// fundingEvent is the event which tells that the account cannot pay, or that this is not so any more, where no other event tells it.
func fundingEvent(s State, kind Kind) Kind {
	switch {
	case kind != "":
		return kind
	case s == Stuck:
		return EventStuck
	}
	return EventDelayed
}

// cheaper is the earlier form that a pool may have of what offers too much for the account; nil: none. Each second hand-over is of that one: the account could pay for it once, and
// a pool that has lost it would else not have it again before somebody sends money.
func (tx *Tx) pooledAttempt() *Attempt {
	newest := tx.newest()
	if tx.Sub != Unfunded || tx.Reason == ReasonReorgedFinal || newest.Kind != Bump ||
		tx.Pooled >= newest.No ||
		tx.SubmitAttempts%2 == 1 {
		return nil
	}
	for i := range tx.Attempts {
		if a := &tx.Attempts[i]; a.No == tx.Pooled && a.Nonce == *tx.Nonce {
			return a
		}
	}
	return nil
}

// pooledSent tells what follows from the answer about it: nothing for the newest form, of which alone is said whether the account can pay, and whose turn is soon.
func pooledSent(v *View, b *Broadcast, answer Outcome) Change {
	next := afterOutcome(b, answer)
	next.LastOutcome, next.SubmitAttempts = b.Tx.LastOutcome, b.Tx.SubmitAttempts // whether it was looked at or not it had its turn
	return Change{
		Writes: v.move(b.Tx, "", &next,
			min(max(backoffFirst, answer.RetryAfter), v.Policy.ResubmitInterval)),
	}
}

// plain is the sub-state of what is in no block and waits for nothing in particular.
func defaultSub(s State) Sub {
	if s == Tracking {
		return Pending
	}
	return None
}
