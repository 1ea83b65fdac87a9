package txn

import "fmt"

// A transaction may end as never run although there are signed forms of it: an operator has failed it, since somebody else used its nonce, or it was given back
// to the queue and was cancelled there. That is said only of what lies below the audit depth; but a reorg may go deeper, and an operator who says so without proof
// may be wrong. So its forms are followed for an audit depth more. If a block has one of them, the ledger takes its word back: the transaction is followed as one
// that has a nonce, and ends again, by that receipt.

// executedAfterFinal finds a transaction that had ended as never run, and has a form in a block; nil: there is none.
func executedAfterFinal(v *View) *Finding {
	for i := range v.NotExecuted {
		tx := &v.NotExecuted[i]
		for _, a := range tx.Attempts {
			seen := v.Inclusion(a.Hash)
			if !seen.Known || seen.Receipt == nil {
				continue
			}
			found := *tx
			return &Finding{
				Reason: ProtectExecutedAfterFinal,
				Nonce:  a.Nonce,
				Tx:     &found,
				Evidence: fmt.Sprintf(
					"transaction %s had ended as never run (%s, %s), and its attempt %s under nonce %d is in block %d (%s) all the same",
					tx.ID, tx.State, tx.Reason, a.Hash.Hex(), a.Nonce, seen.Receipt.BlockNumber,
					seen.Receipt.BlockHash.Hex()),
			}
		}
	}
	return nil
}

// reopened is the write that takes the end back: whoever was told of it is told that it does not hold. One that had given up its nonce has the form's again.
func reopen(v *View, f *Finding) []Write {
	tx, next := f.Tx, f.Tx.Status
	if next.Nonce == nil {
		next.Nonce, next.Slot = &f.Nonce, 0
	}
	next.State, next.Sub, next.Executed, next.Released, next.FinalBlock = Stuck, None, Unknown, true, 0
	next.Reason, next.LastError, next.SubmitAttempts, next.LastOutcome = f.Reason, f.Evidence, 0, ""
	return v.move(tx, EventReorged, &next, 0)
}

// executedAfterFinalMessage says what became of it, once that is final.
func (tx *Tx) executedAfterFinalMessage() string {
	return fmt.Sprintf(
		"it had ended as never run, and ran all the same under nonce %d, in block %d", *tx.Nonce,
		tx.Receipt.BlockNumber)
}
