package txn

import (
	"fmt"
	"strings"
	"time"
)

// overdue says of what is in no block for too long that it needs a decision. Hand-overs that reach nobody are not counted, so without this a chain that is away
// would keep a transaction waiting unnoticed for ever. It asks for a decision once: after a RETRY, or a reorg, there is a hand-over before it does so again. When
// the next one is due stays as it was; where there is a policy to ask, it is not before an interval is over, or one which always says RETRY of what is always refused would
// be asked, and everybody told, with each of the tries that come quickly after a first one.
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
	next.State, next.Sub, next.Reason = Stuck, None, ReasonMaxAge
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

// maxAgeDueAt is when a transaction is too old not to be in a block; zero: never, or that was said.
func (v *View) maxAgeDueAt(tx *Tx) time.Time {
	if tx.Receipt != nil || tx.keepsReason() || tx.State != Allocated && tx.State != Tracking {
		return time.Time{}
	}
	return v.maxAgeAt(tx)
}

// maxAgeAt is when its first form has the age at which it asks for a decision; zero: never.
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
	return fmt.Sprintf("in no block for more than %s; it is still followed and handed over",
		v.Policy.ResubmitMaxAge)
}

// dueBroadcast hands over the lowest nonce that is not included, when its time has come; what is above it would have to wait for it in any pool. While it is
// not known whether it is included already, nothing is handed over.
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
			return replace(v, tx, Cancel, 0), true // it does nothing, and fills the nonce
		}
		return broadcastNext(v, tx), true
	}
	return nil, false
}

// cancelDueNow tells whether its deadline asks for a cancel at once, whenever the next hand-over is due: nobody has tried to make one yet. Whoever tries is next due an
// interval later.
func cancelDueNow(v *View, tx *Tx) bool {
	s := replacement(v, tx)
	return s != nil && s.ForDeadline && tx.Due.Before(tx.Deadline.Add(v.Policy.ResubmitInterval))
}

// heldBack tells whether a protection forbids what would be done about a transaction: to sign the form that does nothing for the nonce of what has run, or the one
// that cancels. What shall be cancelled is not handed over meanwhile, whether or not a pool may have it (H29 goes before H19); but what was final is, since nobody is
// told of two ends (H22), and its protection ends by nothing else. The protection because something ran forbids the former least: what is signed takes no new nonce,
// and each moment that it waits is one in which the other form may run a second time.
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

// recheckAccount has the account looked at once an interval for what is held back: no answer to a hand-over would tell that somebody else has used its nonce.
func recheckAccount(v *View, tx *Tx) Step {
	next := tx.Status
	next.Doubted = true
	return Record{Change{Writes: v.move(tx, "", &next, v.Policy.ResubmitInterval)}}
}

// broadcastNext is the next step of a transaction whose turn it is. Its own record claims the first hand-over of a form; each other one is claimed in the ledger
// before anybody outside hears of it, so that a crash costs an interval and nothing is done twice at once (C27, H28).
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

// claim counts a hand-over before it is made; Sent takes the count back if nobody looked at the bytes.
func (v *View) claim(tx *Tx, next *Status, kind Kind, delay time.Duration) []Write {
	w := v.move(tx, kind, next, delay)
	w[0].Turn = tx.Turn
	if !tx.Turn.Claimed {
		w[0].Next.SubmitAttempts++
		w[0].Turn.Claimed = true
	}
	return w
}

// Sent tells what follows from the chain's answer to a broadcast. No answer frees the nonce.
func Sent(v *View, b Broadcast, answer Outcome) Change {
	answer = b.credible(answer)
	if older := b.Tx.pooledAttempt(); older != nil && older.No == b.Attempt.No {
		return pooledSent(v, &b, answer)
	}
	tx, next := b.Tx, afterOutcome(&b, answer)
	kind, delay, taken := Kind(""), v.Policy.ResubmitInterval, answer.inPool()
	if !taken {
		delay = min(max(Backoff(next.SubmitAttempts), answer.RetryAfter), v.Policy.ResubmitInterval)
	}
	switch {
	case answer.Class == Invalid && tx.Pooled == 0 && b.Attempt.Kind != Cancel: // no node can have any form: a cancel uses the nonce up (H13)
		next, delay = rejected(tx, next, answer), v.Policy.ResubmitInterval
		if tx.Rejected == "" && v.Cursor.Protected == nil {
			delay = 0 // what cancels it is signed next
		}
	case tx.State == Stuck && taken && (tx.Reason == ReasonInsufficientFunds || transientReasons[tx.Reason] && b.Attempt.No > tx.Accepted):
		kind, next.State, next.Sub, next.Reason, next.LastError, next.SubmitAttempts = EventUnstuck, Tracking, Pending, "", "", 1
	case tx.keepsReason():
	case taken && tx.State == Allocated:
		kind, next.State, next.Sub, next.Reason, next.LastError = EventSubmitted, Tracking, Pending, "", ""
		next.SubmitAttempts = 1 // what failed before reached nobody's pool
	case taken && tx.Sub == Unfunded: // the node may have had it once, and not as long as there was no money
		kind, next.Sub, next.Reason, next.LastError, next.SubmitAttempts = EventResubmitted, Pending, "", "", 1
	case answer.Class == Invalid:
		kind, next.State, next.Sub, next.Reason, next.LastError = EventStuck, Stuck, None, ReasonRejected, answer.Detail
		delay = v.Policy.ResubmitInterval
	case next.SubmitAttempts >= v.Policy.ResubmitMax:
		kind, next.State, next.Sub, next.Reason = EventStuck, Stuck, None, ReasonResubmitExhausted
		next.LastError = broadcastMessage(next.SubmitAttempts, answer.Class)
	case taken:
		next.Reason, next.LastError = "", ""
		if answer.Class == Accepted {
			kind = EventResubmitted // the node had lost it
		}
	default:
		next.Reason, next.LastError = string(answer.Class), answer.Detail
	}
	next, kind = v.updateFunding(&b, answer, next, kind)
	return Change{Writes: v.move(tx, kind, &next, delay)}
}

func broadcastMessage(n int, last Class) string {
	return fmt.Sprintf(
		"handed over %d times and not included (the last answer was %s); it is still followed and handed over",
		n, last)
}

// believed is what an answer is taken for. That these bytes can never pass is not said by one node for all, once a pool may have them: they may be included yet.
func (b *Broadcast) credible(answer Outcome) Outcome {
	if answer.Class == Invalid && b.Attempt.No <= b.Tx.Pooled {
		answer.Class = Ambiguous
		answer.Detail = strings.TrimSuffix(
			"a node says that it can never pass, and another may have it: "+answer.Detail, ": ")
	}
	return answer
}

// answered is what an answer adds to what is known of the forms, whatever follows from it.
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
		b.Attempt.Kind != Original // a node that takes anything never says that the nonce is used
	if answer.inPool() {
		next.Accepted = max(next.Accepted, b.Attempt.No)
		b.Tx.inPool(&next, b.Attempt)
	}
	if !notPooled[answer.Class] && !unexamined(answer.Class) {
		next.Pooled = max(next.Pooled, b.Attempt.No)
	}
	return next
}

// inPool notes that some pool has, or had, a form. If that does not cancel, whoever said that it can never pass was wrong, unless a cancel was signed on that word.
func (tx *Tx) inPool(next *Status, form *Attempt) {
	next.Pooled = max(next.Pooled, form.No)
	if form.Kind != Cancel && tx.newest().Kind != Cancel {
		next.Rejected = ""
	}
}

// keepsReason tells whether its reason stays, whatever is answered, until a block has it.
func (tx *Tx) keepsReason() bool { return tx.State == Stuck || tx.keepsReasonUntilFinal() }

// keepsReasonUntilFinal tells whether its reason stays, in blocks and out of them, until it is final: as long as that, what was promised of it once does not hold.
func (tx *Tx) keepsReasonUntilFinal() bool {
	return executedUnexpectedly(tx.Reason) || tx.Reason == ReasonReorgedFinal
}

func (o Outcome) inPool() bool { return o.Class == Accepted || o.Class == AlreadyKnown }

// rejected notes that a node says it can never pass; from now on the tries of the cancel are counted.
func rejected(tx *Tx, next Status, answer Outcome) Status {
	next.Rejected, next.SubmitAttempts = answer.Detail, 0
	if answer.Detail == "" {
		next.Rejected = "a node says that these bytes can never pass"
	}
	if !tx.keepsReason() || tx.Reason == ReasonInsufficientFunds {
		next.Reason, next.LastError = ReasonRejected, next.Rejected
	}
	return next
}

// refusals are the answers after which no pool has the bytes. REPLACEMENT_UNDERPRICED is none: what was offered is too little for what a pool has, so that the
// next form has to outbid it.
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

// unexamined are the answers of a node that did not look at the bytes: they say nothing of the transaction, however often they come.
func unexamined(c Class) bool { return c == Unavailable || c == RateLimited || c == Unauthorized }

// WasBroadcast tells whether it is in no block, as far as the ledger knows, and some form of it was given to the chain. A replacement begins its count anew.
func (tx *Tx) WasBroadcast() bool {
	return len(tx.Attempts) > 0 && tx.Sub != Included &&
		(tx.SubmitAttempts > 0 || tx.LastOutcome != "" || tx.newest().Kind != Original)
}

// again is the form that is handed over again. Of what was final it is the one that was in the block: nobody is told of two different ends (H22). If that is of a
// nonce that it had before, and a node says that this is used, the nonce that it has must be used as well.
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

// Backoff is the wait after the n-th fruitless try in a row, n from 0: half a second, doubling, at most 15 seconds.
func Backoff(n int) time.Duration {
	if n > 5 {
		return backoffMax
	}
	return min(backoffFirst<<n, backoffMax)
}
