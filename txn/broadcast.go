package txn

import "strings"

// dueBroadcast rebroadcasts the lowest nonce that is not included, when it is due; higher nonces
// would have to wait for it in any pool. Nothing is sent while its inclusion is unknown.
func dueBroadcast(v *View) (Step, bool) {
	if v.concurrent() {
		return dueRange(v)
	}
	for i := range v.Open {
		tx := &v.Open[i]
		seen := v.inclusion(tx)
		if seen.Known && seen.Receipt != nil {
			continue
		}
		if !seen.Known || tx.Due.After(v.Now) && !tx.Turn.Claimed && !cancelDueNow(v, tx) ||
			!mayBroadcast(v, tx) {
			return nil, false
		}
		if onHold(v, tx) {
			return recheckAccount(v, tx), true
		}
		if executedUnexpectedly(tx.Reason) && tx.newest().Kind != Cancel && !tx.Signed {
			return replace(v, tx, Cancel, 0), true // the cancel transaction fills the nonce
		}
		return broadcastNext(v, tx), true
	}
	return nil, false
}

// cancelDueNow reports whether the deadline requires a cancel now, regardless of the due time: none
// has been tried yet. After a try, the next one is due an interval later.
func cancelDueNow(v *View, tx *Tx) bool {
	if !tx.Terms.CancelLate || !tx.pastDeadline(v.Now) {
		return false // without a look at the others: this is asked of every transaction in flight
	}
	s := replacement(v, tx)
	return s != nil && s.ForDeadline && tx.Due.Before(tx.Deadline.Add(v.Policy.ResubmitInterval))
}

// onHold reports whether a protection forbids the next action of a transaction: to sign the cancel
// that fills the nonce of an executed transaction, or a requested cancel. A transaction to be
// cancelled is not rebroadcast meanwhile, even if a pool may have it (H29 goes before H19). A
// reorged final one is, because no watcher may see two outcomes (H22), and its protection does not
// end otherwise. A protection after an unexpected execution allows the cancel that fills the nonce:
// it takes no new nonce, and while it waits the other attempt may execute a second time.
func onHold(v *View, tx *Tx) bool {
	p := v.Cursor.Protected
	switch {
	case p == nil || tx.newest().Kind == Cancel:
		return false
	case executedUnexpectedly(tx.Reason):
		return !executedUnexpectedly(p.Reason)
	}
	return tx.Reason != ReasonReorgedFinal &&
		(tx.CancelRequested || tx.Terms.CancelLate && tx.pastDeadline(v.Now))
}

// recheckAccount schedules one account read per interval for a transaction on hold: without
// broadcasts, no RPC response would reveal that its nonce was used elsewhere.
func recheckAccount(v *View, tx *Tx) Step {
	next := tx.Status
	next.Doubted = true
	return Record{Change{Writes: v.move(tx, "", &next, v.Policy.ResubmitInterval)}}
}

// broadcastNext returns the next step of a due transaction. Recording an attempt claims its first
// broadcast; each other one is claimed in the ledger before any external call, so that a crash
// costs an interval and nothing runs twice concurrently (C27, H28).
func broadcastNext(v *View, tx *Tx) Step {
	if step, ok := checkUnsent(v, tx); ok {
		return step
	}
	if v.Policy.Diagnose && tx.Receipt == nil && tx.SubmitAttempts > 0 && !tx.Turn.Diagnosed {
		return Diagnose{tx}
	}
	if tx.Turn.KeepNewest {
		return Broadcast{Tx: tx, Attempt: tx.newest()}
	}
	if s := replacement(v, tx); s != nil {
		return s
	}
	if tx.LastOutcome != "" && !tx.Turn.Claimed {
		return Record{Change{Writes: v.claim(tx, &tx.Status, "", v.Policy.ResubmitInterval)}}
	}
	if step, ok := applyStuckPolicy(v, tx); ok {
		return step
	}
	return Broadcast{Tx: tx, Attempt: tx.rebroadcastAttempt()}
}

// Sent returns the change that follows the chain's response to a broadcast. No response frees the
// nonce.
func Sent(v *View, b Broadcast, answer Outcome) Change {
	return SentRange(v, BroadcastRange{[]Broadcast{b}}, []Outcome{answer})
}

func sentOne(v *View, b Broadcast, answer Outcome) Change {
	answer = b.credible(v, answer)
	if blockedOutcomes[answer.Class] && v.blocked(b.Tx) {
		return sentBlocked(v, &b, answer)
	}
	if older := b.Tx.pooledAttempt(); older != nil && older.No == b.Attempt.No {
		return pooledSent(v, &b, answer)
	}
	tx, next := b.Tx, afterOutcome(&b, answer)
	kind := Kind("")
	delay := v.Policy.ResubmitInterval
	taken := answer.inPool()
	if !taken {
		delay = Backoff(next.SubmitAttempts)
		if answer.Class == Unavailable {
			delay = outageBackoff(next.SubmitAttempts)
		}
		if v.replacesRefused(tx, next, b.Attempt) {
			// the first replacement comes soon; without one, it waits like any other
			delay = Backoff(max(tx.replacements(), next.SubmitAttempts-1))
		}
		delay = min(max(delay, answer.RetryAfter), v.Policy.ResubmitInterval)
	}
	if taken && tx.Turn.counted() && v.blocked(tx) {
		next.SubmitAttempts-- // it could not be included, however often it is broadcast
	}
	switch {
	// no node has any attempt: a cancel uses the nonce up (H13)
	case answer.Class == Invalid && v.unlikelyPooled(tx) && b.Attempt.Kind != Cancel &&
		!tx.Signed:
		next, delay = rejected(tx, next, answer), v.Policy.ResubmitInterval
		if tx.Rejected == "" && v.Cursor.Protected == nil {
			delay = 0 // the cancel is signed next
		}
	case tx.State == Stuck && taken && (tx.Reason == ReasonInsufficientFunds ||
		transientReasons[tx.Reason] && b.Attempt.No > tx.Accepted):
		kind = EventUnstuck
		next.State = Tracking
		next.Sub = Pending
		next.Reason = ""
		next.LastError = ""
		next.SubmitAttempts = 1
	case tx.keepsReason():
	case taken && tx.State == Allocated:
		kind = EventSubmitted
		next.State = Tracking
		next.Sub = Pending
		next.Reason = ""
		next.LastError = ""
		next.SubmitAttempts = 1 // failed broadcasts before reached no pool
	// the node may have had it once, and dropped it while the account was unfunded
	case taken && tx.Sub == Unfunded:
		kind = EventResubmitted
		next.Sub = Pending
		next.Reason = ""
		next.LastError = ""
		next.SubmitAttempts = 1
	case answer.Class == Invalid:
		kind = EventStuck
		next.State = Stuck
		next.Sub = None
		next.Reason = ReasonRejected
		next.LastError = answer.Detail
		delay = v.Policy.ResubmitInterval
	case next.SubmitAttempts >= v.Policy.ResubmitMax && !v.blocked(tx):
		kind = EventStuck
		next.State = Stuck
		next.Sub = None
		next.Reason = ReasonResubmitExhausted
		next.LastError = broadcastMessage(next.SubmitAttempts, answer.Class)
	case taken:
		next.Reason, next.LastError = "", ""
		if answer.Class == Accepted {
			kind = EventResubmitted // the node had dropped it
		}
	default:
		next.Reason, next.LastError = string(answer.Class), answer.Detail
	}
	var turn Turn
	if planned := tx.Turn.Early; !planned.IsZero() {
		delay, turn.Hurried = min(delay, max(0, planned.Sub(v.Now))), v.Now
	}
	next, kind = v.updateFunding(&b, answer, next, kind)
	w := sent(v.move(tx, kind, &next, delay))
	w[0].Turn = turn
	return Change{Writes: w}
}

// sent marks the writes that follow a broadcast.
func sent(writes []Write) []Write {
	for i := range writes {
		writes[i].Sent = true
	}
	return writes
}

// replacesRefused reports whether a refused attempt is replaced next. The first replacement follows
// soon, because nodes report what they require, and further ones ever later: a pool that is full
// for a moment must not drive the fees up to the cap.
func (v *View) replacesRefused(tx *Tx, next Status, sent *Attempt) bool {
	after := *tx
	after.Status = next
	if tx.Signed {
		return false
	}
	return refusedType(&after, sent) || refusedPrice(v, &after, sent)
}

// credible downgrades an invalid response if a pool may have the bytes: one node cannot speak for
// all, and the transaction may still be included. A node that refuses the type of a legacy
// transaction accepts none.
func (b *Broadcast) credible(v *View, answer Outcome) Outcome {
	if answer.Class == TypeNotSupported && b.Attempt.Fees.Legacy {
		answer.Class = Invalid
	}
	if answer.Class == Invalid && !v.unlikelyPooled(b.Tx) && b.Attempt.No <= b.Tx.Pooled {
		answer.Class = Ambiguous
		answer.Detail = strings.TrimSuffix(
			"one node considers it invalid, but another may have it: "+answer.Detail, ": ")
	}
	return answer
}

// maxUncertain is how many broadcasts may find no node that accepts a transaction before an invalid
// response to one that blocks higher nonces is believed, although the response to an earlier
// broadcast is unknown.
const maxUncertain = 8

// unlikelyPooled reports whether no pool has an attempt, as far as the responses tell. If one has,
// the cancel competes with it, and the receipt decides.
func (v *View) unlikelyPooled(tx *Tx) bool {
	return tx.Pooled == 0 ||
		tx.Accepted == 0 && tx.SubmitAttempts >= maxUncertain && v.blocksOthers(tx)
}

// blocksOthers reports whether a higher nonce is in flight.
func (v *View) blocksOthers(tx *Tx) bool {
	return *v.Open[len(v.Open)-1].Nonce > *tx.Nonce
}

// afterOutcome returns the status with the information of a response, regardless of the next step.
func afterOutcome(b *Broadcast, answer Outcome) Status {
	next, turn := b.Tx.Status, b.Tx.Turn
	next.Unsent = false
	switch {
	case !unexamined(answer.Class) && !turn.Claimed:
		next.SubmitAttempts++
	case unexamined(answer.Class) && turn.counted():
		next.SubmitAttempts--
	}
	if !unexamined(answer.Class) || next.LastOutcome == "" {
		next.LastOutcome = answer.Class
	}
	next.Doubted = answer.Class == NonceTooLow || next.SubmitAttempts > 1 ||
		b.Attempt.Kind != Original // a node that accepts anything never reports a used nonce
	if answer.inPool() {
		next.Accepted = max(next.Accepted, b.Attempt.No)
		b.Tx.notePooled(&next, b.Attempt)
	}
	if !notPooled[answer.Class] && !unexamined(answer.Class) {
		next.Pooled = max(next.Pooled, b.Attempt.No)
	}
	return next
}

// rejected records that a node considers it invalid; the tries of the cancel are counted from here.
func rejected(tx *Tx, next Status, answer Outcome) Status {
	next.Rejected, next.SubmitAttempts = answer.Detail, 0
	if answer.Detail == "" {
		next.Rejected = "a node considers the transaction invalid"
	}
	if !tx.keepsReason() || tx.Reason == ReasonInsufficientFunds {
		next.Reason, next.LastError = ReasonRejected, next.Rejected
	}
	return next
}

// pooledSent returns the change that follows its response. It does not describe the newest
// attempt, which alone determines the funding and is due soon.
func pooledSent(v *View, b *Broadcast, answer Outcome) Change {
	next := afterOutcome(b, answer)
	// examined or not, it had its turn
	next.LastOutcome, next.SubmitAttempts = b.Tx.LastOutcome, b.Tx.SubmitAttempts
	return Change{
		Writes: sent(v.move(b.Tx, "", &next,
			min(max(backoffFirst, answer.RetryAfter), v.Policy.ResubmitInterval))),
	}
}
