package txn

import "fmt"

// A ledger restored from a backup, or one whose fail-over lost commits, lacks everything signed in
// the lost part. A transaction that it has as queued or in flight may have executed in an unknown
// attempt, under a nonce that the ledger considers free or used elsewhere. The outcome "not
// executed" means that a resend is safe; here that would be a guess about money. Regardless of the
// cause (a cancel, a deadline, a rejection, an operator's decision), such a transaction ends as
// UNKNOWN, and its caller has to check the chain. A receipt of one of our attempts is proof as
// always: SUCCESS and REVERTED stay.

// mayHaveExecuted reports whether a transaction that ends as not executed may have executed in
// commits that the ledger lost. Until the account was compared with the chain, that may be any
// transaction without a nonce, also one of a repeated request. One with a nonce lost it to its own
// cancel transaction, or is marked before an operator decides on it: see resolveLoss.
func (v *View) mayHaveExecuted(tx *Tx, next *Status) bool {
	return tx.Restored || next.Nonce == nil && (v.MayHaveLost || v.Lost != "")
}

// restoredDoubt returns why a transaction is not requeued after a restore; empty: it may be. Its
// nonce may have been used by the transaction, in an attempt signed after the backup.
func restoredDoubt(tx *Tx, c Command) string {
	if !tx.Restored || c.Action != ActionRequeue {
		return ""
	}
	return "the ledger was restored while it was in flight, so an unknown attempt of it may have " +
		"used the nonce: compare receiver, value and data in a block explorer; use FAIL if it " +
		"executed, REQUEUE_UNPROVEN if not"
}

// protectLost protects a submitter of which this node knows commits that the ledger has lost,
// before anything else is done. Without a cursor startCursor does so, before the first nonce is
// taken.
func protectLost(v *View) (Step, bool) {
	if v.Lost == "" || v.Cursor == nil || v.Cursor.awaitsLossDecision() {
		return nil, false
	}
	return Record{Change{Protect: restoredProtection(v, lostCommits(v.Lost))}}, true
}

// lossUndecided reports whether a fail-over may have lost commits, and no protection in force asks
// for a decision on that. The end of the protection in force may be lost too, with all that was
// sent after it.
func (v *View) lossUndecided() bool {
	return v.FailedOver && v.Cursor != nil && !v.Cursor.awaitsLossDecision()
}

// showsLoss reports whether a finding may be the work of commits that a fail-over lost.
func (v *View) showsLoss(f *Finding) bool {
	return f.Reason == ReasonNonceElsewhere && v.lossUndecided()
}

func (c *Cursor) awaitsLossDecision() bool {
	return c.Protected != nil && c.Protected.Reason == ProtectRestored
}

// restoredProtection returns the protection for lost commits. It replaces one in force for any
// other reason (L10): only this one marks the queue, and only its end holds earlier top-ups.
func restoredProtection(v *View, evidence string) *Protection {
	p := &Protection{Expect: v.Cursor.Next, Reason: ProtectRestored, Evidence: evidence}
	if was := v.Cursor.Protected; was != nil {
		p.Replaces = was.ID
		p.Evidence += fmt.Sprintf("; protected before that because of %s: %s", was.Reason,
			was.Evidence)
	}
	return p
}

// rejectLost rejects leaving a protection for another reason if the account has used nonces that
// the ledger never took, or if clients may hold lost ones, and protects for that. A lost nonce of a
// transaction in flight has to be resolved before: see resolveLoss.
func rejectLost(v *View, c Command) (Step, bool) {
	if !v.lossUndecided() {
		return nil, false
	}
	if v.Submitter.Mode == External {
		return rejectAsLost(v, c, failedOver), true
	}
	a, next := v.Account, v.Cursor.Next
	if _, missing := lowestMissing(v); missing || max(a.Latest, a.Pending) <= next {
		return nil, false
	}
	return rejectAsLost(v, c, lostCommits(fmt.Sprintf(
		"%sthe account's next nonce is %d on chain and %d in the pool, but %d here",
		afterFailOver, a.Latest, a.Pending, next))), true
}

// rejectAsLost rejects a decision, and protects for lost commits in the same change.
func rejectAsLost(v *View, c Command, evidence string) Step {
	done := commandResult(c, ResultRefused, evidence+"; the submitter is now protected for that ("+
		ProtectRestored+"), so decide again under this protection")
	done.Protect = restoredProtection(v, evidence)
	return Record{done}
}

const afterFailOver = "the database failed over or was restored: "

// lostStart returns the protection that a cursor starts with; nil: none. By the ledger the account
// has never sent. After a fail-over that is a doubt if it has by the chain: where the account
// starts from the chain, nothing else would show that its first transactions were lost with the
// ledger's newest part, and its queue would be sent again.
func lostStart(v *View) *Protection {
	evidence := v.Lost
	if evidence == "" {
		if !v.FailedOver || v.Account.Latest == 0 || v.Submitter.StartFrom != StartChain {
			return nil
		}
		evidence = fmt.Sprintf("the database failed over or was restored, and by the ledger the "+
			"account has never sent, but its next nonce on chain is %d", v.Account.Latest)
	}
	return &Protection{
		Expect: v.Account.Latest, Reason: ProtectRestored, Evidence: lostCommits(evidence),
	}
}

// endsTrial reports whether the writes of a transaction end the trial after a fail-over: the first
// nonce taken since then is final in an attempt of the ledger. An earlier account read proves
// nothing: its endpoint may lag, or lack pending transactions. Neither does inclusion alone: the
// lost part may have signed the same bytes, and used higher nonces: see compareAgain.
func endsTrial(v *View, tx *Tx, list []Write) bool {
	next := &list[0].Next
	return v.FailedOver && v.Trial != nil && next.State.Final() && next.Receipt != nil &&
		tx.attempt(next.Receipt.TxHash).Nonce == *v.Trial
}

// compareAgain reads the account once more after the trial, while no nonce is out. It counts as
// compared if it is where the ledger is. If it cannot be read, the next nonce is another trial.
func compareAgain(v *View) (Step, bool) {
	if !v.FailedOver || !v.TrialOver || v.Cursor.Protected != nil {
		return nil, false
	}
	if _, missing := lowestMissing(v); missing {
		return nil, false
	}
	if v.Account == nil {
		return ReadAccount{Tx: &Tx{}, Depth: v.Policy.Confirmations}, true
	}
	if reason, _ := disagreement(v, v.Account); reason != "" {
		return nil, false
	}
	return Record{Change{Compared: true}}, true
}

// lostCommits is the evidence of a protection.
func lostCommits(what string) string {
	return what + "; transactions that the ledger lost, or shows as queued, may be on chain: " +
		"compare them with the chain before you decide, see docs/operations.md"
}

// unverifiedQueued finds a queued transaction that may have executed after the backup. Leaving the
// protection sends it, so an operator must confirm that the queue was compared with the chain. An
// account that is at the cursor proves nothing: it is one read, of an endpoint that may lag, or
// whose pool lacks the transactions sent. The confirmation is required again after each later
// protection: a nonce used then may belong to any of these transactions.
func unverifiedQueued(v *View) (*Tx, bool) {
	for i := range v.Queue {
		tx := &v.Queue[i]
		if tx.Restored || v.Cursor.Protected.Reason == ProtectRestored {
			return tx, true
		}
	}
	return nil, false
}

const unverifiedMessage = "queued transactions, %s first, may have executed after the backup: " +
	"compare the queue with the account's transactions on chain and cancel those that " +
	"executed, then use RESUME_KEEP_QUEUE if the account's next nonce is %d, as here, or " +
	"ALIGN_FORWARD_KEEP_QUEUE if it is ahead"

// keepsQueue reports whether a decision confirms that the queue was compared.
func (c Command) keepsQueue() bool {
	return c.Action == ActionResumeKeep || c.Action == ActionAlignKeep
}
