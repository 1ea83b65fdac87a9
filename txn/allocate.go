package txn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// refusalBlocks is on how many blocks in a row the chain must refuse the head of the queue before it is failed.
const refusalBlocks = 3

// allocate decides whether the head of the queue gets the next nonce. ok is false when there is nothing to do about it now.
func allocate(v *View) (Step, bool) {
	if len(v.Queue) == 0 {
		return nil, false
	}
	if v.Submitter.Status != Active || v.Cursor != nil && v.Cursor.Protected != nil {
		return clearWaiting(v, &v.Queue[0])
	}
	slot, free := freeSlot(v)
	head := &v.Queue[0]
	late := head.pastDeadline(v.Now)
	if free && late && head.Requeued == 0 {
		return Record{failPastDeadline(v, head)}, true
	}
	if !free || head.Due.After(v.Now) || !noEarlierReceipt(v, head) {
		return nil, false
	}
	if v.Account == nil {
		return ReadAccount{Tx: head, Depth: v.Policy.Confirmations}, true
	}
	if !provenUnexecuted(v, head) {
		return Record{awaitProof(v, head)}, true
	}
	if late {
		return Record{failPastDeadline(v, head)}, true
	}
	if v.Account.HasCode {
		return Record{backOff(v, head, ReasonHasCode,
			"the account has code (EIP-7702), which can raise its nonce without a transaction of ours; remove the delegation, or use another account",
			0)}, true
	}
	if v.Cursor == nil {
		return startCursor(v, head), true
	}
	if reason, message := disagreement(v, v.Account); reason != "" {
		return Record{
			backOff(v, head, reason, message, 0),
		}, true // until a second look: see protect
	}
	return Prepare{Tx: head, Nonce: v.Cursor.Next, Slot: slot}, true
}

// failPastDeadline ends the head of the queue by its deadline. The database's clock says whether that has come.
func failPastDeadline(v *View, head *Tx) Change {
	c := failUnsent(v, head, ReasonDeadline, "not_after passed before its turn came")
	c.Writes[0].PastDeadline = true
	return c
}

// clearWaiting ends the wait of the head of the queue while nothing may be taken: time that is paused or protected is none in which it could have been sent, so
// that prepare.max_age begins anew with the next try. When that is due stays as it was: what was given back to the queue is looked at meanwhile too.
func clearWaiting(v *View, head *Tx) (Step, bool) {
	if head.WaitingSince.IsZero() {
		return nil, false
	}
	next := head.Status
	next.WaitingSince = time.Time{}
	return Record{Change{Writes: v.move(head, "", &next, max(0, head.Due.Sub(v.Now)))}}, true
}

// freeSlot is the slot of the in-flight set that the next nonce may use. None is free while a released transaction is out of the chain again: nothing new is allocated
// until all lower nonces are included (law L5).
func freeSlot(v *View) (int16, bool) {
	for i := range v.Open {
		tx := &v.Open[i]
		if !tx.Released {
			continue
		}
		if seen := v.inclusion(tx); tx.Sub != Included || !seen.Known || seen.Receipt == nil {
			return 0, false
		}
	}
	return unusedSlot(v.Submitter, v.Open)
}

// HasUnusedSlot tells whether the in-flight set of a submitter has room for another of its transactions, of which these are open, as far as that can be told without
// the chain: without such a slot nothing is allocated, and with one it may be.
func HasUnusedSlot(s Submitter, open []Tx) bool {
	_, unused := unusedSlot(s, open)
	return unused
}

// unusedSlot is the lowest slot that none of the open transactions has. A released one has given its own back.
func unusedSlot(s Submitter, open []Tx) (int16, bool) {
	for slot := range int16(s.Limit) {
		if !hasSlot(open, slot) {
			return slot, true
		}
	}
	return 0, false
}

func hasSlot(open []Tx, slot int16) bool {
	for i := range open {
		if !open[i].Released && open[i].Slot == slot {
			return true
		}
	}
	return false
}

// start begins the sequence of nonces, once, from an account that stands still.
func startCursor(v *View, head *Tx) Step {
	a := v.Account
	if a.Latest != a.Pending || a.Latest != a.Settled {
		return Record{backOff(v, head, ReasonNotQuiescent, fmt.Sprintf(
			"the account has transactions that are not settled (next nonce %d by the newest block, %d by the pool, %d when settled); waiting for them to settle",
			a.Latest,
			a.Pending,
			a.Settled,
		), 0)}
	}
	if v.Submitter.StartFrom != StartChain &&
		v.Submitter.StartFrom != strconv.FormatUint(uint64(a.Latest), 10) {
		return Record{backOff(v, head, ReasonStartNonce, fmt.Sprintf(
			"start_from is %s but the account's next nonce is %d; register the submitter again with start_from %d or \"chain\" if it may go on from there",
			v.Submitter.StartFrom,
			a.Latest,
			a.Latest,
		), 0)}
	}
	return Record{Change{Init: &CursorInit{Nonce: a.Latest, Block: a.Head, BlockHash: a.HeadHash}}}
}

// AccountReadFailed tells what follows when the account could not be looked at.
func AccountReadFailed(v *View, s ReadAccount) Change {
	switch {
	case s.CommandID != 0:
		return commandResult(Command{ID: s.CommandID}, ResultRefused,
			"the chain cannot be asked for the account now; ask again once it answers")
	case s.Tx.Nonce != nil:
		return Change{} // the next hand-over asks again
	}
	return backOff(v, s.Tx, ReasonChainUnavailable,
		"the chain cannot be asked for the account; waiting for it", 0)
}

// OldStateMissing tells what follows for a command that rests on older state than any endpoint tells.
func OldStateMissing(v *View, s ReadAccount) Change {
	i := slices.IndexFunc(v.Commands, func(c Command) bool { return c.ID == s.CommandID })
	if i < 0 {
		return Change{}
	}
	c := v.Commands[i]
	if s.MinDepth > 0 { // not even that is there
		return commandResult(
			c,
			ResultRefused,
			fmt.Sprintf(
				"no endpoint that answers tells the state of %d blocks below the newest; use one that keeps older state",
				min(s.MinDepth, s.Depth)),
		)
	}
	return commandResult(
		c,
		ResultRefused,
		fmt.Sprintf(
			"no endpoint that answers tells the state of %d blocks below the newest (finality.audit_depth), so it cannot be shown that nonce %d is used as deep as that: "+
				"use an endpoint that keeps older state, or find out from a block explorer that it is, and not by this transaction, and say %s_UNPROVEN",
			s.Depth,
			*s.Tx.Nonce,
			c.Action,
		),
	)
}

// Preparation is what quoting and signing gave.
type Preparation struct {
	Quote   Quote
	Outcome Outcome // of the quote; ACCEPTED or the reason why there is none
	Signed  Signed
	SignErr error
}

// Prepared tells what follows from a preparation: the nonce is taken together with the signed bytes, or it is not taken.
func Prepared(v *View, s Prepare, p *Preparation) Change {
	switch {
	case p.Outcome.Class == ExecutionReverted:
		return countRefusal(v, s.Tx, ReasonPrepareReverted,
			"the chain says that it would revert: "+p.Outcome.Detail)
	case p.Outcome.Class == Invalid:
		return countRefusal(v, s.Tx, ReasonInvalid,
			"the chain says that it can never pass: "+p.Outcome.Detail)
	case p.Outcome.Class == FeeCapBelowBaseFee:
		limit, end := capOf(v, s.Tx, p.Outcome.ChainCap)
		return backOff(v, s.Tx, ReasonFeeCap,
			"the chain's fees are above "+limit+"; waiting until they fall, or "+end+": "+p.Outcome.Detail,
			0)
	case p.Outcome.Class == InsufficientFunds:
		return backOff(
			v,
			s.Tx,
			ReasonInsufficientFunds,
			"the account cannot pay for this transaction"+shortfall(
				p.Outcome)+"; it goes on by itself once funded",
			0,
		)
	case p.Outcome.Class != Accepted:
		return backOff(v, s.Tx, ReasonChainUnavailable,
			"the chain gave no quote ("+string(p.Outcome.Class)+"): "+p.Outcome.Detail,
			p.Outcome.RetryAfter)
	case errors.Is(p.SignErr, ErrKeyMissing):
		return failUnsent(
			v,
			s.Tx,
			ReasonSignerKeyMissing,
			fmt.Sprintf(
				"signer %q has no key for %s; add the key and send it under a new request_id",
				v.Submitter.Signer, v.Submitter.Address.Hex()),
		)
	case errors.Is(p.SignErr, ErrSignerFault):
		return backOff(v, s.Tx, ReasonSignerFault,
			"the signer returned a transaction that was not asked for; its bytes were dropped", 0)
	case len(p.Signed.Raw) > maxRawBytes:
		return failUnsent(
			v,
			s.Tx,
			ReasonInvalid,
			fmt.Sprintf(
				"the signed transaction has %d bytes and no node takes more than %d; send less data",
				len(p.Signed.Raw), maxRawBytes),
		)
	case p.SignErr != nil:
		return backOff(v, s.Tx, ReasonSignerUnavailable,
			"the signer did not answer; waiting for it", 0)
	}
	return takeNonce(v, s, p)
}

// capOf names the fee cap of a draft that counts, with what holds it, and what ends the wait besides lower fees.
func capOf(v *View, tx *Tx, chains bool) (limit, end string) {
	own, account := tx.Terms.MaxFee, v.Submitter.MaxFee
	end = "the cap is raised"
	switch {
	case chains:
		return "the chain's cap (fees.max_fee_cap_gwei in the configuration)", end
	case own.IsZero() || !account.IsZero() && account.Lt(&own):
		return "the account's cap (max_fee of the submitter, " + InGwei(account) + " gwei)", end
	}
	return "the transaction's own cap (its max_fee, " + InGwei(
		own) + " gwei)", "it is cancelled (this cap cannot be raised)"
}

// lacking says what the account has and what is missing, if that is known.
func shortfall(o Outcome) string {
	if o.Have == nil || o.Want == nil || o.Short == nil {
		return ""
	}
	bound := ""
	if o.AtLeast {
		bound = "at least "
	}
	return fmt.Sprintf(": it has %s ether, may need %s%s, and %s%s ether are missing",
		InEther(*o.Have), bound, InEther(*o.Want), bound, InEther(*o.Short))
}

// maxRawBytes is the largest transaction that go-ethereum's pool takes (four slots of 32 KiB, core/txpool/legacypool); other clients allow as much or more.
// What is larger would hold its nonce for ever.
const maxRawBytes = 128 << 10

func takeNonce(v *View, s Prepare, p *Preparation) Change {
	next := s.Tx.Status
	nonce := s.Nonce
	next.State, next.Sub, next.Nonce, next.Slot, next.Released = Allocated, None, &nonce, s.Slot, false
	next.TxHash, next.SubmitAttempts, next.LastOutcome, next.Reason, next.LastError, next.WaitingSince = p.Signed.Hash, 0, "", "", "", time.Time{}
	next.Accepted, next.Pooled, next.Rejected = 0, 0, ""
	w := v.move(s.Tx, EventAllocated, &next, 0)
	w[0].Attempt = &Attempt{
		No:       len(s.Tx.Attempts) + 1,
		Kind:     Original,
		Nonce:    nonce,
		Hash:     p.Signed.Hash,
		Raw:      p.Signed.Raw,
		GasLimit: p.Quote.GasLimit,
		Fees:     p.Quote.Fees,
		At:       v.Now,
	}
	return Change{Take: &Take{Nonce: nonce}, Writes: w}
}

// refused counts on how many blocks the chain has refused a draft. One reading may come from a node that is behind; what the last counted block says again is
// no news.
func countRefusal(v *View, tx *Tx, reason, message string) Change {
	again := tx.Reason == reason
	if again && v.Head > tx.RefusedAt && tx.SubmitAttempts+1 >= refusalBlocks {
		return failUnsent(v, tx, reason, message)
	}
	c := backOff(v, tx, reason, message, 0)
	if next := &c.Writes[0].Next; again && v.Head <= tx.RefusedAt {
		next.SubmitAttempts = tx.SubmitAttempts
	} else {
		next.RefusedAt = v.Head
	}
	return c
}

// countedRefusals are the reasons that count refusals; saysNothing those of an answer that says nothing of the draft, and so neither counts as one nor ends the count:
// of a node that answers every second time the refusals are as many in a row as it answers.
var (
	countedRefusals = map[string]bool{ReasonPrepareReverted: true, ReasonInvalid: true}
	inconclusive    = map[string]bool{ReasonChainUnavailable: true, ReasonChainBehind: true}
)

// unanswered lets what was refused wait, for as long as others wait that get no answer a few times in a row. Its reason, and the count with it, stay.
func waitInconclusive(v *View, tx *Tx, reason, message string, hint time.Duration) Change {
	next := tx.Status
	next.Sub = BackingOff
	next.appendError(tx.baseError(), reason+": "+message)
	if next.WaitingSince.IsZero() {
		next.WaitingSince = v.Now
	}
	return Change{Writes: v.move(tx, "", &next, max(Backoff(inconclusiveTries), hint))}
}

// inconclusiveTries is how many tries the wait is for of what cannot be counted.
const inconclusiveTries = 3

// failUnsent ends a transaction that has no nonce. One that had some before must not have run under any of them.
func failUnsent(v *View, tx *Tx, reason, message string) Change {
	if !provenUnexecuted(v, tx) {
		return awaitProof(v, tx)
	}
	next := tx.Status
	next.State, next.Sub, next.Executed, next.Reason, next.LastError = Failed, None, No, reason, message
	return Change{Writes: v.move(tx, EventFailed, &next, 0)}
}

// backOff lets the head of the queue wait for something outside. It keeps its place: the order of the queue is never changed. A new reason is told, the same
// again is not.
func backOff(v *View, tx *Tx, reason, message string, hint time.Duration) Change {
	if age := v.Policy.PrepareMaxAge; age > 0 && !tx.WaitingSince.IsZero() &&
		v.Now.Sub(tx.WaitingSince) > age {
		return failUnsent(
			v,
			tx,
			ReasonPrepareTimeout,
			fmt.Sprintf("it waited at the head of the queue for more than %s, at last for %s: %s",
				age, reason, message),
		)
	}
	return waitFor(v, tx, reason, message, hint)
}

// wait is backOff without an end.
func waitFor(v *View, tx *Tx, reason, message string, hint time.Duration) Change {
	if inconclusive[reason] && countedRefusals[tx.Reason] {
		return waitInconclusive(v, tx, reason, message, hint)
	}
	next, kind := tx.Status, Kind("")
	next.Sub, next.Reason, next.LastError = BackingOff, reason, message
	if reason == ReasonInsufficientFunds {
		next.Sub = Unfunded
	}
	if tx.Reason != reason || tx.Sub != next.Sub {
		kind = EventDelayed
		if !tx.WaitingSince.IsZero() { // of endpoints that contradict each other each answer is an event: they are not asked faster for that
			hint = max(Backoff(inconclusiveTries), hint)
		}
		if tx.WaitingSince.IsZero() || countedRefusals[reason] { // what was counted were no refusals
			next.SubmitAttempts = 0
		}
	}
	if next.WaitingSince.IsZero() {
		next.WaitingSince = v.Now
	}
	delay := max(Backoff(next.SubmitAttempts), hint)
	next.SubmitAttempts++
	return Change{Writes: v.move(tx, kind, &next, delay)}
}
