package txn

// A ledger that was restored from a backup does not know what was signed after that. So of what it has as queued, or in flight, one more form may have run, under a
// nonce that the ledger believes free, or used by somebody else. An end that says "did not run" tells the caller that the same may be sent again; here that would be
// a guess about money. Whatever leads to it (a cancel, a deadline, a refusal, an operator's decision), such a transaction ends as UNKNOWN, and its caller has to look
// on chain. A receipt of one of our forms is proof as ever: SUCCESS and REVERTED stay what they are.

// unproven is an end as not run of what may have run before the ledger was restored.
func (next *Status) markUnproven() {
	next.LastError = RestoredMayHaveExecuted(next.Reason, next.LastError)
	next.Executed, next.Reason = Unknown, ReasonRestored
}

// RestoredMayHaveExecuted is the sentence of such an end: what ended it, and why nobody can tell whether it ran.
func RestoredMayHaveExecuted(reason, message string) string {
	if message != "" {
		reason += ": " + message
	}
	return "it is ended (" + reason + "), but it may have run: the ledger was restored from a backup that has it, and what was sent after the backup is not known. " +
		"See on chain whether it ran before you send the same again"
}

// restoredDoubt tells why a transaction is not given back to the queue after a restore; empty: nothing forbids it. Whoever used its nonce may be itself, in a form that
// was signed after the backup.
func restoredDoubt(tx *Tx, c Command) string {
	if !tx.Restored || c.Action != ActionRequeue {
		return ""
	}
	return "the ledger was restored while it was in flight, so what used its nonce may be this transaction, in a form that was signed after the backup and is not known: " +
		"compare it (receiver, value, data) in a block explorer with what the account sent under that nonce, and after it. If it ran, say FAIL; if it did not, REQUEUE_UNPROVEN"
}

// unverifiedQueued finds what is queued and may have run after the backup. To go on sends it: so somebody has to say that it was compared with the chain. That the account
// stands where the cursor does says nothing: it is one look, at an endpoint that may be behind, or whose pool lacks what was sent. So it is asked for again with each
// protection after that: what used a nonce then may be any of these.
func unverifiedQueued(v *View) (*Tx, bool) {
	for i := range v.Queue {
		tx := &v.Queue[i]
		if tx.Restored || v.Cursor.Protected.Reason == ProtectRestored {
			return tx, true
		}
	}
	return nil, false
}

const unverifiedMessage = "transactions are queued, %s before others, that may have run after the backup from which the ledger was restored: compare them with what the account sent " +
	"on chain, cancel those that ran, and say for the others RESUME_KEEP_QUEUE where the account's next nonce is %d, as here, or ALIGN_FORWARD_KEEP_QUEUE where it is ahead"

// keepsQueue tells whether a decision says that what is queued was compared.
func (c Command) keepsQueue() bool {
	return c.Action == ActionResumeKeep || c.Action == ActionAlignKeep
}
