package txn

import "fmt"

// A transaction may become final as not executed although it has signed attempts: an operator
// failed it because its nonce was used elsewhere, or it was requeued and then cancelled. Both
// require that the nonce is settled below the audit depth; but a reorg may be deeper, and an
// operator's unproven statement may be wrong. So its attempts are tracked for another audit depth.
// If one of them is included, the ledger revokes the outcome: the transaction is tracked with its
// nonce and finalized again by that receipt.

// executedAfterFinal finds a transaction that is final as not executed and has an included attempt;
// nil: none.
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
					"transaction %s was final as not executed (%s, %s), but its attempt %s at "+
						"nonce %d is in block %d (%s)",
					tx.ID, tx.State, tx.Reason, a.Hash.Hex(), a.Nonce, seen.Receipt.BlockNumber,
					seen.Receipt.BlockHash.Hex()),
			}
		}
	}
	return nil
}

// reopen returns the write that revokes the outcome; watchers receive an event. A transaction that
// had given up its nonce gets the attempt's nonce back.
func reopen(v *View, f *Finding) []Write {
	tx, next := f.Tx, f.Tx.Status
	if next.Nonce == nil {
		next.Nonce, next.Slot = &f.Nonce, 0
	}
	next.State = Stuck
	next.Sub = None
	next.Executed = Unknown
	next.Released = true
	next.FinalBlock = 0
	next.Reason = f.Reason
	next.LastError = f.Evidence
	next.SubmitAttempts = 0
	next.LastOutcome = ""
	return v.move(tx, EventReorged, &next, 0)
}

// executedAfterFinalMessage describes the final outcome.
func (tx *Tx) executedAfterFinalMessage() string {
	return fmt.Sprintf(
		"it was final as not executed, but executed under nonce %d in block %d", *tx.Nonce,
		tx.Receipt.BlockNumber)
}
