package txn

import (
	"fmt"
	"time"
)

// A requeued transaction has attempts under nonces that it gave up. Each nonce was used elsewhere
// and settled, so none of the attempts can execute, unless a deeper reorg happens or the operator
// was wrong. Then the transaction has executed and the ledger must record it: it is not sent again,
// a nonce that it has taken meanwhile is filled by a cancel, and it is finalized by the receipt of
// the attempt that executed.

// earlierInclusion returns the chain's state of the attempts from before a REQUEUE: of one that
// succeeded, before ones that reverted. It is known only if none of them is in doubt.
func (v *View) earlierInclusion(tx *Tx) Inclusion {
	ran, known := Inclusion{}, tx.Requeued == 0 ||
		len(tx.Attempts) > 0 // otherwise they are not loaded yet
	for _, a := range tx.Attempts {
		if tx.Nonce != nil && a.Nonce == *tx.Nonce {
			continue
		}
		one := v.Inclusion(a.Hash)
		known = known && one.Known
		if one.Known && one.Receipt != nil &&
			(ran.Receipt == nil || one.Receipt.Success && !ran.Receipt.Success) {
			ran = one
		}
	}
	ran.Known = known
	return ran
}

// noEarlierReceipt reports whether no attempt from before a REQUEUE is included. While that is
// unknown nothing is signed.
func noEarlierReceipt(v *View, tx *Tx) bool {
	e := v.earlierInclusion(tx)
	return e.Known && e.Receipt == nil
}

// provenUnexecuted reports whether it is proven that a requeued transaction has not executed and
// cannot: no attempt is included, and each nonce that it gave up is used in settled blocks, up to
// which the receipts are known.
func provenUnexecuted(v *View, tx *Tx) bool {
	if tx.Requeued == 0 {
		return true
	}
	a := v.Account
	return noEarlierReceipt(v, tx) && a != nil && v.Head+v.Policy.Confirmations >= a.Head &&
		highestNonce(tx) < a.Settled
}

// highestNonce returns the highest nonce of its attempts.
func highestNonce(tx *Tx) (n Nonce) {
	for _, a := range tx.Attempts {
		n = max(n, a.Nonce)
	}
	return n
}

// reusesNonce reports whether its nonce is one that it gave up before: each requeue gives up one.
func reusesNonce(tx *Tx) bool {
	nonces := map[Nonce]bool{}
	for _, a := range tx.Attempts {
		nonces[a.Nonce] = true
	}
	return tx.Requeued > 0 && len(nonces) <= tx.Requeued
}

// mayBroadcast reports whether a transaction may be broadcast. Of one that executed before, only a
// cancel may be: see onHold.
func mayBroadcast(v *View, tx *Tx) bool {
	return executedUnexpectedly(tx.Reason) || noEarlierReceipt(v, tx)
}

// executedAfterRequeue finds a transaction that executed before it was requeued, and is not marked
// so yet; nil: none.
func executedAfterRequeue(v *View) *Finding {
	for _, txs := range [][]Tx{v.Open, v.Queue} {
		for i := range txs {
			tx := &txs[i]
			e := v.earlierInclusion(tx)
			marked := executedUnexpectedly(tx.Reason) ||
				tx.Reason == ReasonNonceElsewhere && tx.Nonce != nil &&
					v.Cursor.Protected != nil // the latter awaits a decision anyway
			if e.Receipt == nil || marked {
				continue
			}
			return earlierExecution(tx, e.Receipt)
		}
	}
	return nil
}

func earlierExecution(tx *Tx, r *Receipt) *Finding {
	ran, found := tx.attempt(r.TxHash), *tx // the finding outlives the view
	return &Finding{Reason: ProtectExecutedAfterRequeue, Nonce: ran.Nonce, Tx: &found,
		Evidence: fmt.Sprintf(
			"transaction %s was requeued, but its attempt %s at nonce %d is in block %d (%s)",
			tx.ID,
			ran.Hash.Hex(),
			ran.Nonce,
			r.BlockNumber,
			r.BlockHash.Hex(),
		)}
}

// recordExecution returns the write that marks it. An included transaction keeps its state: its
// nonce is used.
func recordExecution(v *View, f *Finding) []Write {
	tx := f.Tx
	next := f.Tx.Status
	kind := EventStuck
	next.Reason, next.LastError = f.Reason, f.Evidence
	switch {
	case tx.State.Final():
		return reopen(v, f)
	case tx.State == Queued:
		kind, next.Sub = EventDelayed, BackingOff
	case tx.Sub == Included:
		kind = EventIncluded // of the same block, with the reason
	default:
		next.State, next.Sub = Stuck, None
	}
	return v.move(tx, kind, &next, 0)
}

// finalizeRequeued finalizes a queued transaction that executed before, once that is final and
// recorded.
func finalizeRequeued(v *View, tx *Tx) []Write {
	e := v.earlierInclusion(tx)
	if tx.Reason != ProtectExecutedAfterRequeue || e.Receipt == nil || !e.Known || !e.Final {
		return nil
	}
	return v.finalizeAs(tx, &e)
}

// finalizeAs finalizes a transaction by the receipt of an attempt from before a REQUEUE. If it has
// taken no other nonce since, it gets that attempt's nonce back.
func (v *View) finalizeAs(tx *Tx, e *Inclusion) []Write {
	next := tx.Status
	ran := tx.attempt(e.Receipt.TxHash)
	kind := EventConfirmed
	if next.Nonce == nil {
		next.Nonce, next.Slot = &ran.Nonce, 0
	}
	next.State = Confirmed
	next.Sub = None
	next.Executed = Success
	next.Released = true
	next.WaitingSince = time.Time{}
	next.Receipt = e.Receipt
	next.TxHash = e.Receipt.TxHash
	next.Above = e.Above
	tx.notePooled(&next, ran)
	if !e.Receipt.Success {
		kind = EventFailed
		next.State = Failed
		next.Executed = Reverted
	}
	next.Reason = ProtectExecutedAfterRequeue
	next.LastError = fmt.Sprintf(
		"it was requeued, but executed under nonce %d in block %d",
		ran.Nonce, e.Receipt.BlockNumber)
	w := v.move(tx, kind, &next, 0)
	w[0].NewFork, w[0].Above = true, e.Above
	return w
}
