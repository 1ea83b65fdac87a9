package txn

import (
	"cmp"
	"fmt"
)

// trackAll records the chain's state of transactions in flight, and of requeued ones.
func trackAll(v *View) (Step, bool) {
	var c Change
	for i := range v.Open {
		if w := trackOne(v, &v.Open[i]); w != nil {
			c.Protect = cmp.Or(c.Protect, sentByOther(v, &v.Open[i], &w[0].Next))
			c.addTracked(v, &v.Open[i], w)
			c.TrialOver = c.TrialOver || endsTrial(v, &v.Open[i], w)
		}
		if len(c.Writes) >= maxTracked {
			return record(c)
		}
	}
	if v.concurrent() {
		c.Writes = append(c.Writes, alsoAffected(v, c.Writes)...)
	}
	for i := range v.Queue {
		if w := finalizeRequeued(v, &v.Queue[i]); w != nil {
			c.addTracked(v, &v.Queue[i], w)
		}
	}
	return record(c)
}

// addTracked adds the writes of one tracked transaction.
func (c *Change) addTracked(v *View, tx *Tx, list []Write) {
	if c.Writes == nil {
		c.Writes = list
	} else {
		c.Writes = append(c.Writes, list...)
	}
	w := &list[0]
	if v.Submitter.OnFailure != PauseOnFailure || !payloadReverted(tx, w) {
		return
	}
	// with the event that may free the slot: the next transaction must not be sent first
	c.Status = Paused
	if c.StatusReason != "" {
		c.StatusReason += "; "
	}
	c.StatusReason += pauseReason(tx, w)
}

// pauseReason explains which transaction paused the account, and where it reverted.
func pauseReason(tx *Tx, w *Write) string {
	r := w.Next.Receipt
	return fmt.Sprintf(
		"transaction %s (request %q) was included in block %d (%s) and reverted, and "+
			"on_failure is PAUSE",
		tx.ID, tx.RequestID, r.BlockNumber, r.BlockHash.Hex())
}

// payloadReverted reports whether a write is the first to record that the payload was included and
// reverted. For an execution before a requeue, that is its final event.
func payloadReverted(tx *Tx, w *Write) bool {
	if w.Kind == EventFailed && w.Next.Executed == Reverted {
		return tx.Receipt == nil || tx.Receipt.TxHash != w.Next.Receipt.TxHash
	}
	return w.Kind == EventIncluded && !w.Next.Receipt.Success &&
		tx.attempt(w.Next.Receipt.TxHash).Kind != Cancel
}

// trackOne returns the writes for unrecorded chain state of a transaction in flight; nil: none.
// None is the common case, so the writes are built in separate functions to keep this stack frame
// small.
func trackOne(v *View, tx *Tx) []Write {
	seen := v.inclusion(tx)
	switch {
	case !seen.Known:
		return nil
	case seen.Receipt == nil:
		return reorged(v, tx)
	case tx.Receipt == nil || tx.Receipt.BlockHash != seen.Receipt.BlockHash ||
		tx.Receipt.TxHash != seen.Receipt.TxHash || tx.Receipt.Success != seen.Receipt.Success:
		return included(v, tx, &seen)
	}
	if w := reportConfirmations(v, tx, &seen); w != nil {
		return w
	}
	if e := v.earlierInclusion(tx); seen.Final && e.Known &&
		(e.Receipt == nil || e.Final && executedUnexpectedly(tx.Reason)) {
		return final(v, tx, &e)
	}
	if !tx.Released && v.Policy.releases(&seen) {
		return released(v, tx)
	}
	return nil
}

// included records the block of a transaction.
func included(v *View, tx *Tx, seen *Inclusion) []Write {
	next := tx.Status
	next.Released = tx.Released || v.Policy.releases(seen)
	next.State, next.Sub = Tracking, Included
	next.Receipt, next.TxHash = seen.Receipt, seen.Receipt.TxHash
	tx.notePooled(&next, tx.attempt(seen.Receipt.TxHash))
	next.Unsent = false
	if next.Above = nil; !tx.keepsReasonUntilFinal() {
		next.Reason, next.LastError = "", ""
	}
	w := v.move(tx, EventIncluded, &next, 0)
	w[0].NewFork = true // blocks reported before are void
	return w
}

// released frees the slot for the next nonce.
func released(v *View, tx *Tx) []Write {
	next := tx.Status
	next.Released = true
	return v.move(tx, "", &next, 0)
}

// reorged moves a transaction whose block left the canonical chain back to pending. A released slot
// stays released, because later allocations exist.
func reorged(v *View, tx *Tx) []Write {
	if tx.Receipt == nil {
		return nil
	}
	return uncovered(v, tx)
}

func uncovered(v *View, tx *Tx) []Write {
	next := tx.Status
	next.State = Tracking
	next.Sub = Pending
	next.Receipt = nil
	next.SubmitAttempts = 0
	next.LastOutcome = ""
	if next.Above = nil; tx.Reason != ReasonReorgedFinal { // see rebroadcastAttempt
		next.TxHash = tx.newest().Hash
	}
	w := v.move(tx, EventReorged, &next, 0)
	w[0].NewFork = true
	return w
}

// final finalizes an included transaction by its receipt, or by the receipt of an earlier attempt,
// if only that executed the payload.
func final(v *View, tx *Tx, earlier *Inclusion) []Write {
	next := tx.Status
	next.Sub, next.Released = None, true
	kind, cancelled := EventConfirmed, tx.attempt(tx.Receipt.TxHash).Kind == Cancel
	if r := earlier.Receipt; r != nil && (cancelled || r.Success && !tx.Receipt.Success) {
		return v.finalizeAs(tx, earlier)
	}
	switch {
	case cancelled && tx.Rejected != "":
		kind = EventFailed
		next.State = Failed
		next.Executed = No
		next.Reason = ReasonRejected
		next.LastError = tx.Rejected
	case cancelled:
		kind = EventCancelled
		next.State = Cancelled
		next.Executed = No
		next.Reason, next.LastError = tx.whyCancelled()
	case tx.Receipt.Success:
		next.State = Confirmed
		next.Executed = Success
		next.Reason = ""
		next.LastError = ""
		switch r := earlier.Receipt; {
		case r != nil && r.Success:
			next.Reason = ProtectExecutedAfterRequeue
			next.LastError = fmt.Sprintf(
				"it executed TWICE: under nonce %d in block %d, before it was requeued, and "+
					"under nonce %d in block %d",
				tx.attempt(r.TxHash).Nonce, r.BlockNumber, *tx.Nonce, tx.Receipt.BlockNumber)
		case tx.Reason == ProtectExecutedAfterFinal:
			next.Reason, next.LastError = ProtectExecutedAfterFinal, tx.executedAfterFinalMessage()
		case tx.abandoned():
			next.Reason, next.LastError = ReasonCancelLost, tx.whyAbandoned()+", but the "+
				"transaction was included first"
		}
	case tx.Reason == ProtectExecutedAfterFinal:
		kind = EventFailed
		next.State = Failed
		next.Executed = Reverted
		next.LastError = tx.executedAfterFinalMessage() + ", and reverted"
	default:
		kind = EventFailed
		next.State = Failed
		next.Executed = Reverted
		next.Reason = ReasonReverted
		next.LastError = "the transaction was included and reverted; gas was paid"
	}
	return v.move(tx, kind, &next, 0)
}

// whyCancelled returns the reason of a final cancel transaction. A reorg after finality has removed
// the recorded reason, so it is derived.
func (tx *Tx) whyCancelled() (reason, message string) {
	reopened := tx.Reason == ReasonReorgedFinal && !tx.Terms.CancelLate
	switch {
	case tx.CancelRequested:
		return ReasonCancelled, ""
	case tx.Reason == ProtectExecutedAfterRequeue, reopened && tx.Requeued > 0:
		return ProtectExecutedAfterRequeue, "it had executed before it was requeued, so it was " +
			"cancelled; a reorg has undone that execution"
	case tx.Reason == ProtectExecutedAfterFinal, reopened:
		return ProtectExecutedAfterFinal, "it was final, then found executed on chain; a cancel " +
			"transaction has used its nonce"
	}
	return ReasonDeadline, "not_after passed before it was included, so it was cancelled"
}
