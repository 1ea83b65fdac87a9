package txn

import (
	"fmt"
	"slices"
)

// Expected returns the account's next nonce on chain by the ledger: the lowest nonce that is in no
// block.
func (v *View) Expected() Nonce {
	if tx, ok := lowestMissing(v); ok {
		return *tx.Nonce
	}
	return v.Cursor.Next
}

// suspect updates the suspicion after a fresh account read.
func suspect(v *View, a *Account) *Suspicion {
	reason, nonce := "", Nonce(0)
	if tx, ok := lowestMissing(v); ok {
		if a.Latest > *tx.Nonce {
			reason, nonce = ReasonNonceElsewhere, *tx.Nonce
		}
	} else if v.Cursor != nil {
		reason, _ = disagreement(v, a)
		nonce = v.Cursor.Next
	}
	switch {
	case reason == "":
		return nil
	case v.Suspicion == nil || v.Suspicion.Reason != reason || v.Suspicion.Nonce != nonce:
	// the first read may be of a lagging endpoint
	case reason == ReasonChainBehind && v.Suspicion.Head < v.Cursor.LastBlock:
	default:
		return v.Suspicion
	}
	return &Suspicion{
		Reason: reason, Nonce: nonce, Latest: a.Latest, Head: a.Head, Hash: a.HeadHash,
		Since: v.Now,
	}
}

// AccountReadDone returns the owner's memory after an account read: the suspicion, and the
// transactions in flight without doubts. A nil account means that the read failed; the next
// rebroadcast doubts again.
func AccountReadDone(v *View, a *Account) (*Suspicion, []Tx) {
	open := slices.Clone(v.Open)
	for i := range open {
		open[i].Doubted = false
	}
	if a == nil {
		return v.Suspicion, open
	}
	return suspect(v, a), open
}

// protect decides whether the view forbids new nonces until an operator decides.
func protect(v *View) (Step, bool) {
	if v.Cursor == nil {
		return nil, false
	}
	f := executedAfterFinal(v)
	if f == nil {
		f = executedAfterRequeue(v)
	}
	if f == nil {
		f = finding(v)
	}
	switch {
	case f != nil && f.NonceUsed:
		return Investigate{*f}, true
	case f != nil:
		return Record{investigated(v, f, nil)}, true
	}
	if tx, ok := lowestMissing(v); ok && tx.Doubted && v.inclusion(tx).Known {
		return ReadAccount{Tx: tx, Depth: v.Policy.Confirmations}, true
	}
	return nil, false
}

// needsRecord reports whether a finding must be recorded. Under protection, or if none follows,
// that is only the transaction that lost its nonce: an operator cannot decide on it before, and a
// protection that ends automatically must not end meanwhile (L10). After an operator's RETRY, it is
// rebroadcast before it is recorded again.
func (v *View) needsRecord(f *Finding) bool {
	if (v.Cursor.Protected == nil || v.showsLoss(f)) && !v.clientMayUse(f) {
		return true
	}
	return f.Tx != nil && f.Tx.Reason != ReasonNonceElsewhere &&
		(f.Tx.LastOutcome != "" || executedUnexpectedly(f.Tx.Reason) || onHold(v, f.Tx))
}

// clientMayUse reports whether a finding may be the work of the client that holds the nonce: no
// protection follows it.
func (v *View) clientMayUse(f *Finding) bool {
	return f.Tx != nil && f.Reason == ReasonNonceElsewhere && v.Submitter.Mode == External
}

// finding returns the finding that two account reads prove together and that must be recorded; nil:
// none.
func finding(v *View) *Finding {
	a, s := v.Account, v.Suspicion
	if a == nil || s == nil || a.Head <= s.Head {
		return nil
	}
	twice := fmt.Sprintf("seen at block %d (%s) and at block %d (%s)", s.Head, s.Hash.Hex(), a.Head,
		a.HeadHash.Hex())
	if _, ok := lowestMissing(v); ok {
		return usedElsewhere(v, twice)
	}
	reason, message := disagreement(v, a)
	if reason == "" || s.Nonce != v.Cursor.Next {
		return nil
	}
	if last := v.Cursor.LastBlock; reason == ReasonChainBehind &&
		(v.Now.Sub(s.Since) < v.Policy.LagGrace || last == 0 || s.Head < last) {
		// an endpoint below the ledger's last block only lags, and so may any if the ledger has no
		// block
		return nil
	}
	f := &Finding{
		Reason:     reason,
		Nonce:      v.Cursor.Next,
		NonceUsed:  a.Latest > v.Cursor.Next,
		ChainNonce: new(max(a.Latest, a.Pending)),
		Evidence:   message + "; " + twice,
	}
	if !v.needsRecord(f) {
		return nil
	}
	return f
}

// usedElsewhere finds the lowest nonce in flight that both reads show as used, that is settled, and
// of which no attempt is included up to there; nil: none.
func usedElsewhere(v *View, twice string) *Finding {
	a, s := v.Account, v.Suspicion
	if v.Head < a.Head {
		return nil
	}
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.Sub == Included {
			continue
		}
		suspected := s.Nonce == *tx.Nonce ||
			v.concurrent() && s.Nonce < *tx.Nonce && *tx.Nonce < s.Latest
		if !suspected || a.Settled <= *tx.Nonce || !v.inclusion(tx).Known {
			if v.concurrent() {
				continue
			}
			return nil
		}
		found := *tx
		f := &Finding{
			Reason:     ReasonNonceElsewhere,
			Nonce:      *tx.Nonce,
			Tx:         &found,
			NonceUsed:  true,
			ChainNonce: new(a.Settled),
			Evidence: fmt.Sprintf(
				"nonce %d of transaction %s was used outside this ledger: the account's next "+
					"settled nonce is %d, and none of the %d recorded attempts is in a block; "+
					"%s",
				*tx.Nonce, tx.ID, a.Settled, len(tx.Attempts), twice),
		}
		if v.needsRecord(f) {
			return f
		}
		if !v.concurrent() {
			return nil
		}
	}
	return nil
}

// RefutedBy reports whether the nonce was used by the transaction that seemed to have lost it: then
// its receipts were not reliable.
func (f Finding) RefutedBy(by *Consumer) bool {
	return f.Tx != nil && by != nil &&
		slices.ContainsFunc(f.Tx.Attempts, func(a Attempt) bool { return a.Hash == by.TxHash })
}

// LostTx returns the transaction that a change protects the submitter for, because its nonce seems
// to be used elsewhere; zero: none.
func (c *Change) LostTx() TxID {
	if p := c.Protect; p != nil && p.Reason == ReasonNonceElsewhere && len(c.Writes) == 1 &&
		c.Writes[0].Kind == EventStuck && c.Writes[0].Next.LastError == p.Evidence {
		return c.Writes[0].Tx
	}
	return TxID{}
}

// refuted returns the end of a protection for a nonce used elsewhere, once an attempt of that very
// transaction is final in its place: no other program used it, and the receipts that led to the
// protection were incomplete. Nothing else may have been found under the protection meanwhile.
func (v *View) refuted() *Unprotection {
	p := v.Cursor.Protected
	if p == nil || p.Tx == (TxID{}) {
		return nil
	}
	var own *Finished
	for i := range v.Audited {
		tx := &v.Audited[i]
		switch {
		case tx.ID == p.Tx && tx.Requeued == 0: // it has had one nonce
			own = tx
		case executedUnexpectedly(tx.Reason):
			return nil
		}
	}
	for i := range v.Open {
		if r := v.Open[i].Reason; r == ReasonNonceElsewhere || v.Open[i].keepsReasonUntilFinal() {
			return nil
		}
	}
	for i := range v.Queue {
		if tx := &v.Queue[i]; tx.Restored || executedUnexpectedly(tx.Reason) {
			return nil
		}
	}
	if own == nil {
		return nil
	}
	hash, known := v.canonicalHash(own.Receipt.BlockNumber)
	if !known || hash != own.Receipt.BlockHash {
		return nil // not compared with the chain yet
	}
	return &Unprotection{
		ID:     p.ID,
		Expect: v.Cursor.Next,
		To:     v.Cursor.Next,
		Reason: fmt.Sprintf("the evidence is refuted: nonce %d was used by transaction %s itself, "+
			"by %s in block %d (%s)", *own.Nonce, own.ID, own.Receipt.TxHash.Hex(),
			own.Receipt.BlockNumber, own.Receipt.BlockHash.Hex()),
	}
}

// Evidence formats the use of a nonce as the end of a sentence; empty if unknown.
func (by *Consumer) Evidence() string {
	switch {
	case by == nil:
		return ""
	case by.TxHash == (Hash{}):
		return fmt.Sprintf(
			"; used in block %d (%s) by no transaction of the account: an authorization or the "+
				"account's code raised it",
			by.Block, by.BlockHash.Hex())
	}
	return fmt.Sprintf("; used by transaction %s in block %d (%s)", by.TxHash.Hex(), by.Block,
		by.BlockHash.Hex())
}

// Investigated returns the change that follows a finding: the submitter is protected, and the
// transaction that lost its nonce is marked.
func Investigated(v *View, s Investigate, by *Consumer) Change {
	return investigated(v, &s.Finding, by)
}

func investigated(v *View, f *Finding, by *Consumer) Change {
	f.Evidence += by.Evidence()
	var c Change
	switch {
	case v.clientMayUse(f):
	case v.showsLoss(f):
		c.Protect = restoredProtection(v, lostCommits(afterFailOver+f.Evidence))
		c.Protect.ChainNonce = f.ChainNonce
		return c // the transaction that lost its nonce follows, under the protection
	case v.needsProtection(f.Reason):
		c.Protect = &Protection{
			Expect: v.Cursor.Next, Replaces: v.Cursor.replaceable(),
			Reason: f.Reason, Evidence: f.Evidence, ChainNonce: f.ChainNonce,
		}
	}
	switch {
	case f.Tx == nil:
		return c
	case executedUnexpectedly(f.Reason):
		c.Writes = recordExecution(v, f)
		return c
	}
	next, kind := f.Tx.Status, EventStuck
	if f.Tx.State == Stuck && f.Tx.Reason == f.Reason {
		kind = "" // reported before
	}
	next.State = Stuck
	next.Sub = None
	next.Reason = f.Reason
	next.LastError = f.Evidence
	next.Doubted = false
	c.Writes = v.move(f.Tx, kind, &next, v.Policy.ResubmitInterval)
	return c
}

// needsProtection reports whether a finding starts a protection. A lost nonce needs no other one
// than the one for a lost nonce that is in force: that ends only when all of them are refuted.
func (v *View) needsProtection(reason string) bool {
	p := v.Cursor.Protected
	return !v.Cursor.AwaitsDecision() &&
		(p == nil || p.Reason != ReasonNonceElsewhere || reason != ReasonNonceElsewhere)
}

// lowestMissing returns the transaction in flight with the lowest nonce that is in no block, by the
// ledger.
func lowestMissing(v *View) (*Tx, bool) {
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.Sub != Included && !v.lost(tx) {
			return tx, true
		}
	}
	return nil, false
}

// disagreement returns why the account's state on chain forbids taking the next nonce, if all taken
// nonces are included. The state was read at the last acquisition or doubt; since then only this
// owner can have moved it, and the cursor moves first.
func disagreement(v *View, a *Account) (reason, message string) {
	next := v.Cursor.Next
	if a.Latest > next || a.Pending > next {
		return ReasonNonceElsewhere, fmt.Sprintf(
			"the account's next nonce is %d on chain and %d in the pool, but %d here: its key "+
				"is used elsewhere; nothing is sent until this is resolved",
			a.Latest,
			a.Pending,
			next,
		)
	}
	if a.Latest < a.Expected && v.Submitter.Mode != External { // clients may not have sent yet
		return ReasonChainBehind, fmt.Sprintf(
			"the account's next nonce is %d on chain, but was %d here: the endpoint lags, or "+
				"the chain lost blocks; a nonce above the gap would never be included",
			a.Latest,
			a.Expected,
		)
	}
	return "", ""
}

// protectOnCommand protects on request of an operator or the auditor. It replaces a protection that
// may end automatically: a requested one ends only by a decision (L10).
func protectOnCommand(v *View, c Command) Change {
	switch {
	case v.Cursor == nil:
		return commandResult(c, ResultNotStarted,
			"no nonce was ever taken for this submitter; pause it instead")
	case v.Cursor.AwaitsDecision():
		return commandResult(c, ResultAlreadyProtected, "")
	}
	done := commandResult(c, Applied, "")
	reason, evidence := string(c.Action), c.Reason
	if reason == "" {
		reason = ProtectByOperator
	}
	if p := v.Cursor.Protected; p != nil {
		evidence = fmt.Sprintf("%s (replaces %s: %s)", evidence, p.Reason, p.Evidence)
	}
	done.Protect = &Protection{
		Expect:    v.Cursor.Next,
		Replaces:  v.Cursor.replaceable(),
		Reason:    reason,
		Evidence:  evidence,
		ByCommand: true,
	}
	return done
}

// exitProtect applies an operator's decision to continue, if the chain supports it. Otherwise the
// submitter would be protected again, or send transactions that cannot be included.
func exitProtect(v *View, c Command) (Step, bool) {
	switch {
	case v.Cursor == nil || v.Cursor.Protected == nil:
		return Record{commandResult(c, ResultNotProtected, "")}, true
	case c.Expect != v.Cursor.Protected.ID:
		return Record{commandResult(c, ResultProtectionChanged, fmt.Sprintf(
			"protection %d is in force, but the decision was about %d; check its evidence and "+
				"decide again",
			v.Cursor.Protected.ID,
			c.Expect,
		))}, true
	case v.Account == nil || v.Account.CommandID != c.ID:
		return ReadAccount{
			Tx:        &Tx{},
			Depth:     v.depthOf(c),
			MinDepth:  v.Policy.Confirmations,
			CommandID: c.ID,
		}, true
	}
	if first, ok := rejectLost(v, c); ok {
		return first, true
	}
	switch c.Action {
	case ActionResume, ActionResumeKeep:
		return resume(v, c)
	case ActionAlign, ActionAlignKeep:
		return align(v, c)
	}
	return Record{
		commandResult(c, ResultUnknownCommand, fmt.Sprintf(
			"unknown decision %q", string(c.Action))),
	}, true
}

// rejectUnresolved rejects leaving a protection before an operator has resolved a lost nonce, and
// then transactions that were queued before a restore.
func rejectUnresolved(v *View, c Command) (Step, bool) {
	if missing, ok := lowestMissing(v); ok && v.Account.Latest > *missing.Nonce {
		return rejectCommand(c,
			"nonce %d of transaction %s is used on chain (next nonce %d); resolve the "+
				"transaction first",
			*missing.Nonce, missing.ID, v.Account.Latest)
	}
	if tx, ok := unverifiedQueued(v); ok && !c.keepsQueue() {
		return rejectCommand(c, unverifiedMessage, tx.ID, v.Expected())
	}
	if v.Submitter.Mode == External && v.Cursor.Protected.Reason == ProtectRestored &&
		!c.keepsQueue() {
		return rejectCommand(c, "clients may hold nonces from %d on that this ledger lost: stop "+
			"them, see docs/external.md, then confirm with %s_KEEP_QUEUE", v.Cursor.Next, c.Action)
	}
	return nil, false
}

// align continues at the chain's settled nonce.
func align(v *View, c Command) (Step, bool) {
	if first, ok := rejectUnresolved(v, c); ok {
		return first, true
	}
	a, next := v.Account, v.Cursor.Next
	if missing, ok := lowestMissing(v); ok {
		return rejectCommand(c, "transaction %s holds nonce %d and is in no block; resolve it "+
			"first",
			missing.ID, *missing.Nonce)
	}
	switch {
	case a.Latest != a.Settled || a.Pending != a.Settled:
		return rejectCommand(c,
			"the account is not settled (next nonce %d at the head, %d in the pool, %d "+
				"settled); retry when these agree: settled means chains.*.finality.audit_depth "+
				"blocks deep, or confirmations if no endpoint has older state",
			a.Latest, a.Pending, a.Settled)
	case a.Settled < next:
		return rejectCommand(c,
			"the account's settled next nonce is %d, below the cursor at %d; a cursor never "+
				"moves back",
			a.Settled, next)
	}
	return Record{unprotect(v, c, a.Settled)}, true
}

// resume continues at the cursor.
func resume(v *View, c Command) (Step, bool) {
	if first, ok := rejectUnresolved(v, c); ok {
		return first, true
	}
	a := v.Account
	next := v.Cursor.Next
	lowest := min(a.Expected, v.Expected()) // a receipt may have been recorded since the read
	other := ActionAlign
	if c.keepsQueue() {
		other = ActionAlignKeep
	}
	switch {
	case a.Latest > next || a.Pending > next:
		return rejectCommand(c,
			"the account's next nonce is %d on chain and %d in the pool, but %d here; align "+
				"forward (%s) once it has settled",
			a.Latest, a.Pending, next, other)
	case a.Latest < lowest && v.Submitter.Mode != External:
		return rejectCommand(c,
			"the account's next nonce is %d on chain, but all below %d are included here; the "+
				"chain lacks them, so new transactions could not be included",
			a.Latest, lowest)
	}
	return Record{unprotect(v, c, next)}, true
}

// depthOf returns the depth of the settled nonce for a decision. Skipped nonces are final, so they
// must not rest on blocks that may still change.
func (v *View) depthOf(c Command) uint64 {
	if c.Action == ActionAlign || c.Action == ActionAlignKeep {
		return v.Policy.deepest()
	}
	return v.Policy.Confirmations
}

func unprotect(v *View, c Command, to Nonce) Change {
	done := commandResult(c, Applied, "")
	// a decision for another reason rests on one account read, of an endpoint that may lag
	done.Compared = v.FailedOver && v.Cursor.Protected.Reason == ProtectRestored
	done.Unprotect = &Unprotection{
		ID:        v.Cursor.Protected.ID,
		Expect:    v.Cursor.Next,
		To:        to,
		Reason:    c.Reason,
		ByCommand: true,
	}
	done.Writes = makeDue(v)
	return done
}

// makeDue makes pending transactions due at once when a protection ends: they wait for a step
// that it forbade, such as a cancel. A claimed broadcast continues unchanged.
func makeDue(v *View) (writes []Write) {
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.Receipt == nil && tx.Due.After(v.Now) && !tx.Turn.Claimed {
			writes = append(writes, v.move(tx, "", &tx.Status, 0)...)
		}
	}
	return writes
}
