package txn

import (
	"fmt"
	"time"
)

// A transaction that was given back to the queue has signed forms under nonces that it gave up. Each was used by somebody else, deep down, so none of them can
// run; unless the chain changes that far down, or the operator who said so was wrong. Then the transaction has run, and the ledger must say so: it is not sent
// anew, a nonce that it has taken meanwhile is filled by a form that does nothing, and it ends by the receipt of the form that ran.

// earlier is what the chain shows of the forms of before a REQUEUE: of the one that ran, if one did, before others that reverted. It is known only when none of
// them is in doubt.
func (v *View) earlierInclusion(tx *Tx) Inclusion {
	ran, known := Inclusion{}, tx.Requeued == 0 ||
		len(tx.Attempts) > 0 // otherwise they are not read yet
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

// noEarlierReceipt tells whether no form of before a REQUEUE is in a block. While that is not known nothing is signed anew.
func noEarlierReceipt(v *View, tx *Tx) bool {
	e := v.earlierInclusion(tx)
	return e.Known && e.Receipt == nil
}

// provenUnexecuted tells whether it is beyond doubt that what was given back to the queue has not run and cannot: no form is in a block, and each nonce that it gave up
// is used in settled blocks, up to which the receipts are known.
func provenUnexecuted(v *View, tx *Tx) bool {
	if tx.Requeued == 0 {
		return true
	}
	a := v.Account
	return noEarlierReceipt(v, tx) && a != nil && v.Head+v.Policy.Confirmations >= a.Head &&
		highestNonce(tx) < a.Settled
}

// highest is the highest nonce that anything was signed for.
func highestNonce(tx *Tx) (n Nonce) {
	for _, a := range tx.Attempts {
		n = max(n, a.Nonce)
	}
	return n
}

// reusesNonce tells whether it has a nonce again that it gave up before: each time that it is requeued gives up one.
func reusesNonce(tx *Tx) bool {
	nonces := map[Nonce]bool{}
	for _, a := range tx.Attempts {
		nonces[a.Nonce] = true
	}
	return tx.Requeued > 0 && len(nonces) <= tx.Requeued
}

// mayBroadcast tells whether a transaction may be handed over. Of what ran before only a form that does nothing is: see heldBack.
func mayBroadcast(v *View, tx *Tx) bool {
	return executedUnexpectedly(tx.Reason) || noEarlierReceipt(v, tx)
}

// executedAfterRequeue finds a transaction that ran before it was given back to the queue, and does not say so yet; nil: there is none.
func executedAfterRequeue(v *View) *Finding {
	for _, txs := range [][]Tx{v.Open, v.Queue} {
		for i := range txs {
			tx := &txs[i]
			e := v.earlierInclusion(tx)
			told := executedUnexpectedly(tx.Reason) ||
				tx.Reason == ReasonNonceElsewhere && tx.Nonce != nil &&
					v.Cursor.Protected != nil // the latter waits for a decision as it is
			if e.Receipt == nil || told {
				continue
			}
			return earlierExecution(tx, e.Receipt)
		}
	}
	return nil
}

func earlierExecution(tx *Tx, r *Receipt) *Finding {
	ran, found := tx.attempt(r.TxHash), *tx // the finding outlives the look
	return &Finding{Reason: ProtectExecutedAfterRequeue, Nonce: ran.Nonce, Tx: &found, Evidence: fmt.Sprintf(
		"transaction %s was given back to the queue, and its attempt %s under nonce %d is in block %d (%s) all the same",
		tx.ID,
		ran.Hash.Hex(),
		ran.Nonce,
		r.BlockNumber,
		r.BlockHash.Hex(),
	)}
}

// recordExecution is the write that says so. What is in a block keeps its state: its nonce is used.
func recordExecution(v *View, f *Finding) []Write {
	tx, next, kind := f.Tx, f.Tx.Status, EventStuck
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

// finalizeRequeued ends a queued transaction that ran before, once that is final and was told.
func finalizeRequeued(v *View, tx *Tx) []Write {
	e := v.earlierInclusion(tx)
	if tx.Reason != ProtectExecutedAfterRequeue || e.Receipt == nil || !e.Known || !e.Final {
		return nil
	}
	return v.finalizeAs(tx, &e)
}

// finalizeAs ends a transaction by the receipt of a form of before a REQUEUE. One that has taken no other nonce since has that form's again.
func (v *View) finalizeAs(tx *Tx, e *Inclusion) []Write {
	next, ran, kind := tx.Status, tx.attempt(e.Receipt.TxHash), EventConfirmed
	if next.Nonce == nil {
		next.Nonce, next.Slot = &ran.Nonce, 0
	}
	next.State, next.Sub, next.Executed, next.Released, next.WaitingSince = Confirmed, None, Success, true, time.Time{}
	next.Receipt, next.TxHash, next.Above = e.Receipt, e.Receipt.TxHash, e.Above
	tx.inPool(&next, ran)
	if !e.Receipt.Success {
		kind, next.State, next.Executed = EventFailed, Failed, Reverted
	}
	next.Reason = ProtectExecutedAfterRequeue
	next.LastError = fmt.Sprintf(
		"it was given back to the queue, and ran all the same under nonce %d, in block %d",
		ran.Nonce, e.Receipt.BlockNumber)
	w := v.move(tx, kind, &next, 0)
	w[0].NewFork, w[0].Above = true, e.Above
	return w
}

// withdraw ends what was given back to the queue and shall not run, once it is beyond doubt that it did not. The account is looked at after the wish was
// written, and the receipts are asked for once more with it.
func cancelRequeued(v *View) (Step, bool) {
	for i := range v.Queue {
		tx := &v.Queue[i]
		switch {
		case !tx.CancelRequested || tx.Due.After(v.Now) || !noEarlierReceipt(v, tx):
			continue
		case v.Account == nil:
			return ReadAccount{Tx: tx, Depth: v.Policy.Confirmations}, true
		case !provenUnexecuted(v, tx):
			return Record{awaitProof(v, tx)}, true
		}
		next := tx.Status
		next.State, next.Sub, next.Executed, next.Reason, next.LastError = Cancelled, None, No, ReasonCancelled, ""
		return Record{Change{Writes: v.move(tx, EventCancelled, &next, 0)}}, true
	}
	return nil, false
}

// unsure lets what was given back to the queue wait until the chain shows again that it cannot have run. Nothing ends it meanwhile.
func awaitProof(v *View, tx *Tx) Change {
	return waitFor(v, tx, ReasonChainBehind, fmt.Sprintf(
		"nonces up to %d, which it gave up, are not shown as used in settled blocks: what was signed for them may still run; waiting for the chain",
		highestNonce(tx),
	), 0)
}
