package txn

import (
	"fmt"
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
