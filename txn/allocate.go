package txn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

const (
	// refusalBlocks is the number of consecutive blocks on which the chain must refuse the head of
	// the queue before it fails.
	refusalBlocks = 3
	// refusalAge is the least time from the first of these refusals to the last. Three blocks of a
	// fast chain are less than a node's lag.
	refusalAge = 10 * time.Second
)

// allocate decides whether the head of the queue takes the next nonce. ok is false if there is
// nothing to do now.
func allocate(v *View) (Step, bool) {
	if len(v.Queue) == 0 {
		return nil, false
	}
	if v.Submitter.Mode == External {
		return fillReserved(v)
	}
	if v.Submitter.Status != Active || v.Cursor != nil && v.Cursor.Protected != nil {
		return clearWaiting(v, &v.Queue[0])
	}
	slot, free := freeSlot(v)
	head := &v.Queue[0]
	if head.Approval.State == ApprovalWaiting { // the queue that the ledger returns has none
		return nil, false
	}
	late := head.pastDeadline(v.Now)
	if free && late && head.Requeued == 0 {
		return Record{failPastDeadline(v, head)}, true
	}
	why, refused := v.refused(head)
	if free && refused && head.Requeued == 0 && (!why.Hold || dueNow(v, head)) {
		return Record{refuse(v, head, why)}, true
	}
	if !free || !dueNow(v, head) || !noEarlierReceipt(v, head) {
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
	if refused {
		return Record{refuse(v, head, why)}, true
	}
	if !v.acceptsCode() {
		return Record{backOff(v, head, ReasonHasCode, v.hasCode(), 0)}, true
	}
	if v.Cursor == nil {
		return startCursor(v, head), true
	}
	if reason, message := disagreement(v, v.Account); reason != "" {
		return Record{
			backOff(v, head, reason, message, 0),
		}, true // until a second read confirms it: see protect
	}
	return prepareRange(v, Prepare{Tx: head, Nonce: v.Cursor.Next, Slot: slot}), true
}

// failPastDeadline fails the head of the queue past its deadline. The database's clock decides
// whether it has passed.
func failPastDeadline(v *View, head *Tx) Change {
	c := failUnsent(v, head, ReasonDeadline, "not_after passed before the transaction took a nonce")
	c.Writes[0].PastDeadline = true
	return c
}

// clearWaiting resets the waiting time of the head of the queue while no nonce may be taken. Time
// paused or protected does not count towards prepare.max_age. The due time stays, because requeued
// transactions are checked meanwhile.
func clearWaiting(v *View, head *Tx) (Step, bool) {
	if head.WaitingSince.IsZero() {
		return nil, false
	}
	next := head.Status
	next.WaitingSince = time.Time{}
	return Record{Change{Writes: v.move(head, "", &next, max(0, head.Due.Sub(v.Now)))}}, true
}

// freeSlot returns the slot for the next nonce. There is none while a released transaction is out
// of the chain again: nothing new is allocated until all lower nonces are included (law L5).
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
	of := v.Submitter
	of.Limit = v.limit()
	if v.FailedOver { // the comparison with the chain rests on one nonce
		of.Limit = 1
	}
	return unusedSlot(of, v.Open)
}

// HasUnusedSlot reports whether a submitter with these open transactions has an unused slot.
// Without one nothing is allocated; with one, the chain's state decides.
func HasUnusedSlot(s Submitter, open []Tx) bool {
	_, unused := unusedSlot(s, open)
	return unused
}

// unusedSlot returns the lowest slot that no open transaction holds. A released transaction holds
// none.
func unusedSlot(s Submitter, open []Tx) (int16, bool) {
	if unreleased(open) >= s.Limit { // the limit may have been lowered
		return 0, false
	}
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

// startCursor starts the nonce sequence, once, from an account without unsettled transactions.
func startCursor(v *View, head *Tx) Step {
	a := v.Account
	if a.Latest != a.Pending || a.Latest != a.Settled {
		return Record{backOff(v, head, ReasonNotQuiescent, fmt.Sprintf(
			"the account has unsettled transactions (next nonce %d at the head, %d in the "+
				"pool, %d settled); waiting for them to settle",
			a.Latest,
			a.Pending,
			a.Settled,
		), 0)}
	}
	if v.Submitter.StartFrom != StartChain &&
		v.Submitter.StartFrom != strconv.FormatUint(uint64(a.Latest), 10) {
		return Record{backOff(v, head, ReasonStartNonce, fmt.Sprintf(
			"start_from is %s but the account's next nonce is %d; register the submitter again "+
				"with start_from %d or \"chain\"",
			v.Submitter.StartFrom,
			a.Latest,
			a.Latest,
		), 0)}
	}
	return Record{Change{
		Init:    &CursorInit{Nonce: a.Latest, Block: a.Head, BlockHash: a.HeadHash},
		Protect: lostStart(v),
	}}
}

// AccountReadFailed returns the change that follows when the account could not be read.
func AccountReadFailed(v *View, s ReadAccount, fault string) Change {
	switch {
	case s.CommandID != 0:
		return commandResult(Command{ID: s.CommandID}, ResultRefused,
			"cannot read the account: the chain is unavailable; retry later")
	case s.Tx.Nonce != nil || s.Tx.ID == (TxID{}):
		return Change{} // the next rebroadcast reads it again, or no transaction waits for it
	}
	return backOff(v, s.Tx, ReasonChainUnavailable,
		"cannot read the account; waiting: "+fault, 0)
}

// OldStateMissing returns the change that follows for a command that needs older state than any
// endpoint has.
func OldStateMissing(v *View, s ReadAccount) Change {
	i := slices.IndexFunc(v.Commands, func(c Command) bool { return c.ID == s.CommandID })
	if i < 0 {
		return Change{}
	}
	c := v.Commands[i]
	if s.MinDepth > 0 { // even the smaller depth is missing
		return commandResult(
			c,
			ResultRefused,
			fmt.Sprintf(
				"no endpoint has the state %d blocks below the head; use one that keeps older "+
					"state",
				min(s.MinDepth, s.Depth)),
		)
	}
	return commandResult(
		c,
		ResultRefused,
		fmt.Sprintf(
			"no endpoint has the state %d blocks below the head (finality.audit_depth), so the "+
				"use of nonce %d is unproven: use an endpoint that keeps older state, or check "+
				"a block explorer and use %s_UNPROVEN",
			s.Depth,
			*s.Tx.Nonce,
			c.Action,
		),
	)
}

// Preparation is the result of quoting and signing.
type Preparation struct {
	Quote   Quote
	Outcome Outcome // of the quote; ACCEPTED, or why there is none
	Signed  Signed
	SignErr error
}

// Prepared returns the change that follows a preparation: the nonce is taken together with the
// signed bytes, or not at all.
func Prepared(v *View, s Prepare, p *Preparation) Change {
	if _, lower := lowestMissing(v); lower && v.concurrent() && dependsOnLower[p.Outcome.Class] {
		return awaitLower(v, s.Tx, p.Outcome)
	}
	switch {
	case p.Outcome.Class == ExecutionReverted:
		return countRefusal(v, s.Tx, ReasonPrepareReverted,
			"the transaction would revert: "+p.Outcome.Detail)
	case p.Outcome.Class == Invalid && p.Outcome.GasCap:
		return countRefusal(v, s.Tx, ReasonGasCap, p.Outcome.Detail)
	case p.Outcome.Class == Invalid:
		return countRefusal(v, s.Tx, ReasonInvalid,
			"the transaction is invalid: "+p.Outcome.Detail)
	case p.Outcome.Class == FeeCapBelowBaseFee:
		limit, end := capOf(v, s.Tx, p.Outcome.ChainCap)
		return backOff(v, s.Tx, ReasonFeeCap,
			"the chain's fees are above "+limit+"; waiting until they fall or "+end+": "+
				p.Outcome.Detail,
			0)
	case p.Outcome.Class == InsufficientFunds:
		return backOff(
			v,
			s.Tx,
			ReasonInsufficientFunds,
			"insufficient funds for this transaction"+shortfall(
				p.Outcome)+"; it proceeds once the account is funded",
			0,
		)
	case p.Outcome.Class == Ambiguous:
		return backOff(v, s.Tx, ReasonNoEstimate,
			"no node estimated its gas; it is estimated again: "+p.Outcome.Detail,
			p.Outcome.RetryAfter)
	case p.Outcome.Class != Accepted:
		return backOff(v, s.Tx, ReasonChainUnavailable,
			"no quote from the chain ("+string(p.Outcome.Class)+"): "+p.Outcome.Detail,
			p.Outcome.RetryAfter)
	case errors.Is(p.SignErr, ErrKeyMissing):
		remedy := "add the key and resend under a new request_id"
		if s.Tx.fills() {
			remedy = "add the key; it then proceeds"
		}
		return failUnsent(v, s.Tx, ReasonSignerKeyMissing,
			fmt.Sprintf("signer %q has no key for %s; %s", v.Submitter.Signer,
				v.Submitter.Address.Hex(), remedy))
	case errors.Is(p.SignErr, ErrSignerFault):
		return backOff(v, s.Tx, ReasonSignerFault,
			"the signer returned a different transaction; its bytes were discarded", 0)
	case len(p.Signed.Raw) > maxRawBytes:
		return failUnsent(
			v,
			s.Tx,
			ReasonInvalid,
			fmt.Sprintf(
				"the signed transaction has %d bytes, above the pools' limit of %d; send less data",
				len(p.Signed.Raw), maxRawBytes),
		)
	case p.SignErr != nil:
		return backOff(v, s.Tx, ReasonSignerUnavailable,
			"the signer did not respond; waiting", 0)
	}
	return takeNonce(v, s, p)
}

// capOf names the effective fee cap of a draft and its source, and the event other than lower fees
// that ends the wait.
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

// maxRawBytes is the largest transaction that go-ethereum's pool accepts (four slots of 32 KiB,
// core/txpool/legacypool); other clients accept as much or more. A larger one would hold its nonce
// for ever.
const maxRawBytes = 128 << 10

func takeNonce(v *View, s Prepare, p *Preparation) Change {
	next := s.Tx.Status
	nonce := s.Nonce
	next.State = Allocated
	next.Sub = None
	next.Nonce = &nonce
	next.Slot = s.Slot
	next.Released = false
	next.TxHash = p.Signed.Hash
	next.SubmitAttempts = 0
	next.LastOutcome = ""
	next.Reason = ""
	next.LastError = ""
	next.WaitingSince = time.Time{}
	next.Accepted = 0
	next.Pooled = 0
	next.Rejected = ""
	next.Unsent = true
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
	if s.Tx.Reservation != (ReservationID{}) {
		w[0].Reserved = true
		return Change{Writes: w}
	}
	return Change{Take: &Take{Nonce: nonce}, Writes: w}
}

// countRefusal counts the blocks on which the chain has refused a draft. A single reading may come
// from a node that is behind, so a repeat at the last counted block adds nothing.
func countRefusal(v *View, tx *Tx, reason, message string) Change {
	again, since := tx.Reason == reason, tx.RefusedSince
	if !again || since.IsZero() {
		since = v.Now
	}
	left := refusalAge - v.Now.Sub(since)
	enough := again && v.Head > tx.RefusedAt && tx.SubmitAttempts+1 >= refusalBlocks
	if enough && left <= 0 {
		return failUnsent(v, tx, reason, message)
	}
	c := backOff(v, tx, reason, message, 0)
	w := &c.Writes[0]
	if again && v.Head <= tx.RefusedAt {
		w.Next.SubmitAttempts = tx.SubmitAttempts
	} else {
		w.Next.RefusedAt = v.Head
	}
	w.Next.RefusedSince = since
	if enough {
		w.Delay = min(w.Delay, left)
	}
	return c
}

// countedRefusals are the reasons that count refusals. inconclusive are the reasons of RPC
// responses that do not judge the draft: they neither count as a refusal nor reset the count, so
// that a node that fails every second time does not prolong the wait for ever.
var (
	countedRefusals = map[string]bool{
		ReasonPrepareReverted: true, ReasonInvalid: true, ReasonGasCap: true,
	}
	inconclusive = map[string]bool{
		ReasonChainUnavailable: true, ReasonChainBehind: true, ReasonNoEstimate: true,
	}
)

// waitInconclusive delays a refused draft as if a few calls in a row had failed. Its reason stays,
// and with it the count.
func waitInconclusive(v *View, tx *Tx, reason, message string, hint time.Duration) Change {
	next := tx.Status
	next.Sub = BackingOff
	next.appendError(tx.baseError(), reason+": "+message)
	if next.WaitingSince.IsZero() {
		next.WaitingSince = v.Now
	}
	return Change{Writes: v.move(tx, "", &next, max(Backoff(inconclusiveTries), hint))}
}

// inconclusiveTries is the number of tries that determines the delay where tries are not counted.
const inconclusiveTries = 3

// failUnsent fails a transaction without a nonce. One with attempts under earlier nonces must be
// proven not executed. One that fills a reserved nonce waits instead: see Tx.fills.
func failUnsent(v *View, tx *Tx, reason, message string) Change {
	if tx.fills() && reason != ReasonNonceElsewhere {
		return waitFor(v, tx, reason, message, 0)
	}
	if !provenUnexecuted(v, tx) {
		return awaitProof(v, tx)
	}
	next := tx.Status
	next.State = Failed
	next.Sub = None
	next.Executed = No
	next.Reason = reason
	next.LastError = message
	return Change{Writes: v.move(tx, EventFailed, &next, 0)}
}

// backOff delays the head of the queue. It keeps its place: the order of the queue never changes. A
// new reason is an event, a repeated one is not.
func backOff(v *View, tx *Tx, reason, message string, hint time.Duration) Change {
	if age := v.Policy.PrepareMaxAge; age > 0 && !tx.WaitingSince.IsZero() &&
		v.Now.Sub(tx.WaitingSince) > age {
		return failUnsent(
			v,
			tx,
			ReasonPrepareTimeout,
			fmt.Sprintf("it waited at the head of the queue for more than %s, most recently for "+
				"%s: %s",
				age, reason, message),
		)
	}
	return waitFor(v, tx, reason, message, hint)
}

// waitFor is backOff without a time limit.
func waitFor(v *View, tx *Tx, reason, message string, hint time.Duration) Change {
	if inconclusive[reason] && countedRefusals[tx.Reason] {
		return waitInconclusive(v, tx, reason, message, hint)
	}
	next, kind := tx.Status, Kind("")
	next.Sub = BackingOff
	next.Reason = reason
	next.LastError = message
	if reason == ReasonInsufficientFunds {
		next.Sub = Unfunded
	}
	if tx.Reason != reason || tx.Sub != next.Sub {
		kind = EventDelayed
		// endpoints that contradict each other cause an event per response: do not ask them faster
		if !tx.WaitingSince.IsZero() {
			hint = max(Backoff(inconclusiveTries), hint)
		}
		// the tries counted so far were not refusals
		if tx.WaitingSince.IsZero() || countedRefusals[reason] {
			next.SubmitAttempts = 0
		}
	}
	if next.WaitingSince.IsZero() {
		next.WaitingSince = v.Now
	}
	delay := Backoff(next.SubmitAttempts)
	if reason == ReasonChainUnavailable {
		delay = outageBackoff(next.SubmitAttempts)
	}
	delay = max(delay, hint)
	next.SubmitAttempts++
	return Change{Writes: v.move(tx, kind, &next, delay)}
}

// cancelRequeued cancels a requeued transaction once it is proven not executed. The account is read
// after the request was recorded, and the receipts are fetched again with it.
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
		next.State = Cancelled
		next.Sub = None
		next.Executed = No
		next.Reason = ReasonCancelled
		next.LastError = ""
		return Record{Change{Writes: v.move(tx, EventCancelled, &next, 0)}}, true
	}
	return nil, false
}

// awaitProof delays a requeued transaction until the chain proves again that it cannot have
// executed. Nothing finalizes it meanwhile.
func awaitProof(v *View, tx *Tx) Change {
	return waitFor(v, tx, ReasonChainBehind, fmt.Sprintf(
		"nonces up to %d, which it gave up, are not settled on chain: its earlier attempts may "+
			"still execute; waiting for the chain",
		highestNonce(tx),
	), 0)
}
