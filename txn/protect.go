package txn

import (
	"fmt"
	"slices"
	"time"
)

// Expected is the next nonce that the account should have on chain: the lowest that is in no block, as far as the ledger knows.
func (v *View) Expected() Nonce {
	if tx, ok := lowestMissing(v); ok {
		return *tx.Nonce
	}
	return v.Cursor.Next
}

// Suspicion is a first look at the account that disagrees with the ledger. Only a second one, at a later block, makes it a finding: one reading may come from
// anywhere (requirements H18, H21). It is the owner's, in memory alone: a new owner looks twice again.
type Suspicion struct {
	Reason string
	Nonce  Nonce // that it is about: the cursor's, or one in flight
	Head   uint64
	Hash   Hash // of the head
	Since  time.Time
}

// Finding is a suspicion that was confirmed.
type Finding struct {
	Reason     string
	Nonce      Nonce
	Evidence   string
	ChainNonce *Nonce // the account's next nonce on chain; nil: unknown
	Tx         *Tx    // that lost its nonce; nil: the cursor's was used
	NonceUsed  bool
}

// suspect tells what a fresh look at the account makes of the suspicion that there was.
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
	case reason == ReasonChainBehind && v.Suspicion.Head < v.Cursor.LastBlock: // it was a look at an endpoint that might only have lagged
	default:
		return v.Suspicion
	}
	return &Suspicion{Reason: reason, Nonce: nonce, Head: a.Head, Hash: a.HeadHash, Since: v.Now}
}

// AccountReadDone tells what the owner remembers after it has asked for the account: the suspicion, and the transactions in flight, whose doubts are answered.
// A nil account could not be looked at; then the next hand-over doubts again.
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

// protect decides whether what is known forbids any new nonce until an operator decides.
func protect(v *View) (Step, bool) {
	if v.Cursor == nil {
		return nil, false
	}
	f := executedAfterFinal(v)
	if f == nil {
		f = executedAfterRequeue(v)
	}
	if f == nil {
		if f = finding(v); f != nil && !v.needsRecord(f) {
			f = nil
		}
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

// needsRecord tells whether anybody has to be told of a finding. Under protection that is only which transaction lost its nonce: until it says so nobody can decide on
// it, and a protection that ends by itself must not end over it (L10). One that is handed over again because an operator says RETRY is, before it says so again.
func (v *View) needsRecord(f *Finding) bool {
	if v.Cursor.Protected == nil {
		return true
	}
	return f.Tx != nil && f.Tx.Reason != ReasonNonceElsewhere &&
		(f.Tx.LastOutcome != "" || executedUnexpectedly(f.Tx.Reason) || onHold(v, f.Tx))
}

// finding is what the newest look at the account proves, together with an older one; nil: nothing.
func finding(v *View) *Finding {
	a, s := v.Account, v.Suspicion
	if a == nil || s == nil || a.Head <= s.Head {
		return nil
	}
	twice := fmt.Sprintf("seen at block %d (%s) and at block %d (%s)", s.Head, s.Hash.Hex(), a.Head,
		a.HeadHash.Hex())
	if tx, ok := lowestMissing(v); ok {
		// Ours is in no block up to where somebody else's use of the nonce is settled.
		if s.Nonce != *tx.Nonce || a.Settled <= *tx.Nonce || !v.inclusion(tx).Known || v.Head < a.Head {
			return nil
		}
		found := *tx
		return &Finding{
			Reason:     ReasonNonceElsewhere,
			Nonce:      *tx.Nonce,
			Tx:         &found,
			NonceUsed:  true,
			ChainNonce: new(a.Settled),
			Evidence: fmt.Sprintf(
				"nonce %d of transaction %s was used by something that is not in the ledger: the account's next nonce is %d in settled blocks, and none of the %d recorded attempts is in a block; %s",
				*tx.Nonce, tx.ID, a.Settled, len(tx.Attempts), twice),
		}
	}
	reason, message := disagreement(v, a)
	if reason == "" || s.Nonce != v.Cursor.Next {
		return nil
	}
	if last := v.Cursor.LastBlock; reason == ReasonChainBehind &&
		(v.Now.Sub(s.Since) < v.Policy.LagGrace || last == 0 || s.Head < last) {
		return nil // an endpoint that is behind the block which the ledger knows only lags, and so may any when the ledger knows none
	}
	return &Finding{
		Reason:     reason,
		Nonce:      v.Cursor.Next,
		NonceUsed:  a.Latest > v.Cursor.Next,
		ChainNonce: new(max(a.Latest, a.Pending)),
		Evidence:   message + "; " + twice,
	}
}

// RefutedBy tells whether whoever used the nonce is the very transaction that was thought to have lost it: then it was the receipts that could not be trusted.
func (f Finding) RefutedBy(by *Consumer) bool {
	return f.Tx != nil && by != nil &&
		slices.ContainsFunc(f.Tx.Attempts, func(a Attempt) bool { return a.Hash == by.TxHash })
}

// Evidence is the end of a sentence about the use of a nonce: by whom, as far as that is known.
func (by *Consumer) Evidence() string {
	switch {
	case by == nil:
		return ""
	case by.TxHash == (Hash{}):
		return fmt.Sprintf(
			"; used in block %d (%s), by no transaction of the account: an authorization or the account's code raised it",
			by.Block, by.BlockHash.Hex())
	}
	return fmt.Sprintf("; used by transaction %s in block %d (%s)", by.TxHash.Hex(), by.Block,
		by.BlockHash.Hex())
}

// Investigated tells what follows from a finding: the submitter is protected, and the transaction that lost its nonce says so.
func Investigated(v *View, s Investigate, by *Consumer) Change {
	return investigated(v, &s.Finding, by)
}

func investigated(v *View, f *Finding, by *Consumer) Change {
	f.Evidence += by.Evidence()
	var c Change
	if !v.Cursor.AwaitsDecision() {
		c.Protect = &Protection{
			Expect: v.Cursor.Next, Reason: f.Reason, Evidence: f.Evidence, ChainNonce: f.ChainNonce,
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
		kind = "" // told before
	}
	next.State, next.Sub, next.Reason, next.LastError, next.Doubted = Stuck, None, f.Reason, f.Evidence, false
	c.Writes = v.move(f.Tx, kind, &next, v.Policy.ResubmitInterval)
	return c
}

// lowestMissing is the transaction with the lowest nonce that is in flight and not in a block, as far as the ledger knows.
func lowestMissing(v *View) (*Tx, bool) {
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.Sub != Included {
			return tx, true
		}
	}
	return nil, false
}

// disagreement tells why the chain's view of the account forbids taking the next nonce, when all that were taken are in blocks. The view was taken at the last
// acquisition or doubt; since then only we may have moved it, and the cursor moves first.
func disagreement(v *View, a *Account) (reason, message string) {
	next := v.Cursor.Next
	if a.Latest > next || a.Pending > next {
		return ReasonNonceElsewhere, fmt.Sprintf(
			"the account's next nonce is %d on chain and %d in its pool, and %d here: its key is used elsewhere; nothing is sent until that is cleared up",
			a.Latest,
			a.Pending,
			next,
		)
	}
	if a.Latest < a.Expected {
		return ReasonChainBehind, fmt.Sprintf(
			"the account's next nonce is %d on chain and was %d here: the endpoint lags, or the chain has lost blocks; a nonce above the gap would never be included",
			a.Latest,
			a.Expected,
		)
	}
	return "", ""
}

// protectOnCommand protects because somebody says so: an operator, or the auditor. That takes the place of a protection which would end by itself: what somebody has
// asked for ends by a decision alone (L10).
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
		evidence = fmt.Sprintf("%s (in place of %s: %s)", evidence, p.Reason, p.Evidence)
	}
	done.Protect = &Protection{
		Expect:    v.Cursor.Next,
		Reason:    reason,
		Evidence:  evidence,
		ByCommand: true,
	}
	return done
}

// exitProtect carries out an operator's decision to go on, if the chain bears it out: going on against the evidence would only protect again, or send what
// can never be included.
func exitProtect(v *View, c Command) (Step, bool) {
	switch {
	case v.Cursor == nil || v.Cursor.Protected == nil:
		return Record{commandResult(c, ResultNotProtected, "")}, true
	case c.Expect != v.Cursor.Protected.ID:
		return Record{commandResult(c, ResultProtectionChanged, fmt.Sprintf(
			"protection %d is in force, the decision was about %d; look at its evidence and decide again",
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
	switch c.Action {
	case ActionResume, ActionResumeKeep:
		return resume(v, c)
	case ActionAlign, ActionAlignKeep:
		return align(v, c)
	}
	return Record{
		commandResult(c, ResultUnknownCommand, fmt.Sprintf("no decision %q", string(c.Action))),
	}, true
}

// rejectUnresolved refuses to go on, either way, before what an operator has to look at: what has lost its nonce, and then what is queued since before a restore.
func rejectUnresolved(v *View, c Command) (Step, bool) {
	if missing, ok := lowestMissing(v); ok && v.Account.Latest > *missing.Nonce {
		return rejectCommand(c,
			"nonce %d of transaction %s is used on chain, whose next nonce is %d; resolve the transaction first",
			*missing.Nonce, missing.ID, v.Account.Latest)
	}
	if tx, ok := unverifiedQueued(v); ok && !c.keepsQueue() {
		return rejectCommand(c, unverifiedMessage, tx.ID, v.Expected())
	}
	return nil, false
}

// align goes on at the chain's settled nonce.
func align(v *View, c Command) (Step, bool) {
	if first, ok := rejectUnresolved(v, c); ok {
		return first, true
	}
	a, next := v.Account, v.Cursor.Next
	if missing, ok := lowestMissing(v); ok {
		return rejectCommand(c, "transaction %s holds nonce %d and is in no block; resolve it first",
			missing.ID, *missing.Nonce)
	}
	switch {
	case a.Latest != a.Settled || a.Pending != a.Settled:
		return rejectCommand(c,
			"the account does not stand still (next nonce %d by the newest block, %d by the pool, %d when settled); ask again when these agree: settled is what is chains.*.finality.audit_depth blocks deep, or confirmations where no endpoint keeps state as old as that",
			a.Latest, a.Pending, a.Settled)
	case a.Settled < next:
		return rejectCommand(c,
			"the account's settled next nonce is %d and the cursor stands at %d; a cursor never goes back",
			a.Settled, next)
	}
	return Record{unprotect(v, c, a.Settled)}, true
}

// resume goes on where the cursor stands.
func resume(v *View, c Command) (Step, bool) {
	if first, ok := rejectUnresolved(v, c); ok {
		return first, true
	}
	a, next, lowest := v.Account, v.Cursor.Next, v.Expected()
	other := ActionAlign
	if c.keepsQueue() {
		other = ActionAlignKeep
	}
	switch {
	case a.Latest > next || a.Pending > next:
		return rejectCommand(c,
			"the account's next nonce is %d on chain and %d in its pool, and %d here; align forward (%s) once it has settled",
			a.Latest, a.Pending, next, other)
	case a.Latest < lowest:
		return rejectCommand(c,
			"the account's next nonce is %d on chain and all below %d are in blocks here; the chain does not have them, so what is sent now could not be included",
			a.Latest, lowest)
	}
	return Record{unprotect(v, c, next)}, true
}

// depthOf is how deep the settled nonce of a decision lies. Numbers that are passed over are for good, so that this rests on no block that may still change.
func (v *View) depthOf(c Command) uint64 {
	if c.Action == ActionAlign || c.Action == ActionAlignKeep {
		return v.Policy.deepest()
	}
	return v.Policy.Confirmations
}

func unprotect(v *View, c Command, to Nonce) Change {
	done := commandResult(c, Applied, "")
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

// dueAgain makes what is in no block due at once when a protection ends: what it waits for is what was forbidden, as its cancel was. A hand-over that has begun
// goes on as it is.
func makeDue(v *View) (writes []Write) {
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.Receipt == nil && tx.Due.After(v.Now) && !tx.Turn.Claimed {
			writes = append(writes, v.move(tx, "", &tx.Status, 0)...)
		}
	}
	return writes
}
