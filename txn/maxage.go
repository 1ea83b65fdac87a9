package txn

import (
	"fmt"
	"time"
)

// recordMaxAge marks transactions as STUCK that are past their maximal age, or whose receipts have
// been unreadable for too long. Failed broadcasts are not
// counted, so without this rule an unavailable chain would keep a transaction waiting unnoticed for
// ever. It asks for a decision once: after a RETRY or a reorg, a broadcast precedes the next mark.
// The due time of the next broadcast stays. With a stuck policy it is at least an interval away, so
// that a policy that always answers RETRY is not asked, with an event each time, for every quick
// early retry.
func recordMaxAge(v *View) (Step, bool) {
	var c Change
	for i := range v.Open {
		tx := &v.Open[i]
		due := func(at time.Time) bool {
			return !at.IsZero() && !at.After(v.Now) && tx.LastOutcome != ""
		}
		unreadable, fault := v.unreadableDueAt(tx)
		switch {
		case due(unreadable):
			c.Writes = append(c.Writes, exceedsAge(v, tx, ReasonReceiptUnreadable, fmt.Sprintf(
				"its receipt cannot be read for more than %s; check the chain's endpoints: %s",
				unreadableAge, fault))...)
		case due(v.maxAgeDueAt(tx)) && !v.blocked(tx):
			message := v.maxAgeMessage()
			if tx.LastError != "" {
				message += "; last: " + tx.LastError
			}
			c.Writes = append(c.Writes, exceedsAge(v, tx, ReasonMaxAge, message)...)
		}
	}
	return record(c)
}

// unreadableAge is how long a receipt may be unreadable before its transaction is STUCK. Receipts
// of a new block may be missing for seconds, while a node indexes it.
const unreadableAge = 10 * time.Minute

// unreadableDueAt returns when the receipt of a transaction has been unreadable for too long, and
// why it is; zero: never, or already recorded.
func (v *View) unreadableDueAt(tx *Tx) (at time.Time, fault string) {
	if tx.Receipt != nil || tx.keepsReason() || tx.State != Allocated && tx.State != Tracking ||
		v.inclusion(tx).Receipt != nil {
		return time.Time{}, ""
	}
	for _, a := range tx.Attempts {
		one := v.Inclusion(a.Hash)
		if a.Nonce != *tx.Nonce || one.FailingSince.IsZero() {
			continue
		}
		if due := one.FailingSince.Add(unreadableAge); at.IsZero() || due.Before(at) {
			at, fault = due, one.Fault
		}
	}
	return at, fault
}

func exceedsAge(v *View, tx *Tx, reason, message string) []Write {
	next := tx.Status
	next.State = Stuck
	next.Sub = None
	next.Reason = reason
	next.LastError = message
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
