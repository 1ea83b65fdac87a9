package txn

import (
	"fmt"
	"strings"
	"time"
)

// recordMaxAge marks transactions past their maximal age as STUCK. Failed broadcasts are not
// counted, so without this rule an unavailable chain would keep a transaction waiting unnoticed for
// ever. It asks for a decision once: after a RETRY or a reorg, a broadcast precedes the next mark.
// The due time of the next broadcast stays. With a stuck policy it is at least an interval away, so
// that a policy that always answers RETRY is not asked, with an event each time, for every quick
// early retry.
func recordMaxAge(v *View) (Step, bool) {
	var c Change
	for i := range v.Open {
		tx := &v.Open[i]
		at := v.maxAgeDueAt(tx)
		if at.IsZero() || at.After(v.Now) || tx.LastOutcome == "" {
			continue
		}
		c.Writes = append(c.Writes, exceedsMaxAge(v, tx)...)
	}
	return record(c)
}

func exceedsMaxAge(v *View, tx *Tx) []Write {
	next := tx.Status
	next.State = Stuck
	next.Sub = None
	next.Reason = ReasonMaxAge
	next.LastError = v.maxAgeMessage()
	if tx.LastError != "" {
		next.LastError += "; last: " + tx.LastError
	}
	if tx.Sub == Unfunded {
		next.Sub, next.Reason = Unfunded, ReasonInsufficientFunds
	}
	delay := max(0, tx.Due.Sub(v.Now))
	if v.Policy.Stuck {
		delay = max(delay, v.Policy.ResubmitInterval)
	}
	return v.move(tx, EventStuck, &next, delay)
}

// maxAgeDueAt returns when a transaction exceeds its maximal age; zero: never, or already recorded.
func (v *View) maxAgeDueAt(tx *Tx) time.Time {
	if tx.Receipt != nil || tx.keepsReason() || tx.State != Allocated && tx.State != Tracking {
		return time.Time{}
	}
	return v.maxAgeAt(tx)
}

// maxAgeAt returns when the first attempt reaches the maximal age; zero: never.
func (v *View) maxAgeAt(tx *Tx) time.Time {
	if v.Policy.ResubmitMaxAge == 0 {
		return time.Time{}
	}
	for _, a := range tx.Attempts {
		if a.Nonce == *tx.Nonce {
			return a.At.Add(v.Policy.ResubmitMaxAge)
		}
	}
	return time.Time{}
}

func (v *View) maxAgeMessage() string {
	return fmt.Sprintf("not included for more than %s; still tracked and rebroadcast",
		v.Policy.ResubmitMaxAge)
}

// dueBroadcast rebroadcasts the lowest nonce that is not included, when it is due; higher nonces
// would have to wait for it in any pool. Nothing is sent while its inclusion is unknown.
func dueBroadcast(v *View) (Step, bool) {
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
		if executedUnexpectedly(tx.Reason) && tx.newest().Kind != Cancel {
			return replace(v, tx, Cancel, 0), true // the cancel transaction fills the nonce
		}
		return broadcastNext(v, tx), true
	}
	return nil, false
}

// cancelDueNow reports whether the deadline requires a cancel now, regardless of the due time: none
// has been tried yet. After a try, the next one is due an interval later.
func cancelDueNow(v *View, tx *Tx) bool {
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

// claim counts a broadcast before it happens; Sent undoes the count if no node examined the bytes.
func (v *View) claim(tx *Tx, next *Status, kind Kind, delay time.Duration) []Write {
	w := v.move(tx, kind, next, delay)
	w[0].Turn = tx.Turn
	if !tx.Turn.Claimed {
		w[0].Next.SubmitAttempts++
		w[0].Turn.Claimed = true
	}
	return w
}

// Sent returns the change that follows the chain's response to a broadcast. No response frees the
// nonce.
func Sent(v *View, b Broadcast, answer Outcome) Change {
	answer = b.credible(answer)
	if older := b.Tx.pooledAttempt(); older != nil && older.No == b.Attempt.No {
		return pooledSent(v, &b, answer)
	}
	tx, next := b.Tx, afterOutcome(&b, answer)
	kind := Kind("")
	delay := v.Policy.ResubmitInterval
	taken := answer.inPool()
	if !taken {
		delay = min(max(Backoff(next.SubmitAttempts), answer.RetryAfter), v.Policy.ResubmitInterval)
	}
	switch {
	// no node can have any attempt: a cancel uses the nonce up (H13)
	case answer.Class == Invalid && tx.Pooled == 0 && b.Attempt.Kind != Cancel:
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
	case next.SubmitAttempts >= v.Policy.ResubmitMax:
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
	next, kind = v.updateFunding(&b, answer, next, kind)
	return Change{Writes: v.move(tx, kind, &next, delay)}
}

func broadcastMessage(n int, last Class) string {
	return fmt.Sprintf(
		"broadcast %d times and not included (last response: %s); still tracked and rebroadcast",
		n, last)
}

// credible downgrades an invalid response if a pool may have the bytes: one node cannot speak for
// all, and the transaction may still be included.
func (b *Broadcast) credible(answer Outcome) Outcome {
	if answer.Class == Invalid && b.Attempt.No <= b.Tx.Pooled {
		answer.Class = Ambiguous
		answer.Detail = strings.TrimSuffix(
			"one node considers it invalid, but another may have it: "+answer.Detail, ": ")
	}
	return answer
}

// afterOutcome returns the status with the information of a response, regardless of the next step.
func afterOutcome(b *Broadcast, answer Outcome) Status {
	next, claimed := b.Tx.Status, b.Tx.Turn.Claimed
	switch {
	case !unexamined(answer.Class) && !claimed:
		next.SubmitAttempts++
	case unexamined(answer.Class) && claimed:
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

// notePooled records that a pool has, or had, an attempt. Unless the attempt is a cancel, the node
// that called it invalid was wrong, except if a cancel was signed because of that.
func (tx *Tx) notePooled(next *Status, form *Attempt) {
	next.Pooled = max(next.Pooled, form.No)
	if form.Kind != Cancel && tx.newest().Kind != Cancel {
		next.Rejected = ""
	}
}

// keepsReason reports whether the reason stays, regardless of responses, until it is included.
func (tx *Tx) keepsReason() bool { return tx.State == Stuck || tx.keepsReasonUntilFinal() }

// keepsReasonUntilFinal reports whether the reason stays until it is final, included or not: until
// then an earlier outcome is revoked.
func (tx *Tx) keepsReasonUntilFinal() bool {
	return executedUnexpectedly(tx.Reason) || tx.Reason == ReasonReorgedFinal
}

func (o Outcome) inPool() bool { return o.Class == Accepted || o.Class == AlreadyKnown }

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

// notPooled are the outcomes after which no pool has the bytes. REPLACEMENT_UNDERPRICED is not one
// of them: a pool has another attempt, which the next one must outbid.
var notPooled = map[Class]bool{
	NonceGap:           true,
	Underpriced:        true,
	FeeCapBelowBaseFee: true,
	InsufficientFunds:  true,
	PoolFull:           true,
	ExecutionReverted:  true,
	WrongChain:         true,
	Invalid:            true,
}

// unexamined reports whether the node did not examine the bytes: such responses do not describe
// the transaction, however many there are.
func unexamined(c Class) bool { return c == Unavailable || c == RateLimited || c == Unauthorized }

// WasBroadcast reports whether, by the ledger, it is in no block and an attempt was broadcast. A
// replacement restarts its count.
func (tx *Tx) WasBroadcast() bool {
	return len(tx.Attempts) > 0 && tx.Sub != Included &&
		(tx.SubmitAttempts > 0 || tx.LastOutcome != "" || tx.newest().Kind != Original)
}

// rebroadcastAttempt returns the attempt to rebroadcast. For a reorged final transaction it is the
// attempt that was included, because no watcher may see two outcomes (H22). If that has an earlier
// nonce which a node reports as used, the current nonce must be filled as well.
func (tx *Tx) rebroadcastAttempt() *Attempt {
	was := tx.attempt(tx.TxHash)
	if older := tx.pooledAttempt(); older != nil {
		return older
	}
	if tx.Reason != ReasonReorgedFinal || was.No == 0 ||
		was.Nonce != *tx.Nonce && tx.LastOutcome == NonceTooLow {
		return tx.newest()
	}
	return was
}

const (
	backoffFirst = 500 * time.Millisecond
	backoffMax   = 15 * time.Second
)

// Backoff returns the delay after the n-th failed try in a row, n from 0: half a second, doubling,
// at most 15 seconds.
func Backoff(n int) time.Duration {
	if n > 5 {
		return backoffMax
	}
	return min(backoffFirst<<n, backoffMax)
}
