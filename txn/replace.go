package txn

import (
	"errors"
	"fmt"
	"time"

	"github.com/holiman/uint256"
)

// DefaultBumpPolicy is when a transaction that is not included offers more. How much is the Policy's, whoever asks for it.
type DefaultBumpPolicy struct {
	Enabled     bool          // what is not being cancelled, too
	MinInterval time.Duration // between two signed forms of a transaction
	MaxAttempts int           // replacements of a transaction by this policy, and again of the form that cancels it
}

// BumpPolicy chooses whether a transaction that is due for another hand-over gets a replacement first. It is asked with what the ledger has, and must be pure.
type BumpPolicy interface {
	// Bump tells whether to offer more now; last is the newest attempt, n how many replacements there were: of the first form that cancels, if last is one. A
	// cancel that never rises may never be included, and nothing else is handed over meanwhile (H29).
	Bump(now time.Time, tx *Tx, last *Attempt, n int) bool
}

// Bump is the default policy: replace what a node has had for a while, or refuses for its fees; a cancel whether or not anything else is (H29), and also when no
// node has said more than that it may have it.
func (b DefaultBumpPolicy) Bump(now time.Time, tx *Tx, last *Attempt, n int) bool {
	wanted, had := b.Enabled, tx.Accepted == last.No
	if last.Kind == Cancel {
		wanted, had = true, had || tx.Pooled == last.No
	}
	return wanted && n < b.MaxAttempts && now.Sub(last.At) >= b.MinInterval &&
		(had || feeOutcomes[tx.LastOutcome])
}

// priced are the answers that a higher fee answers.
var feeOutcomes = map[Class]bool{
	Underpriced:            true,
	ReplacementUnderpriced: true,
	FeeCapBelowBaseFee:     true,
}

// replacements is how many forms for the nonce that it has came after the first, or if it is being cancelled, after the first that cancels. Those of before a
// REQUEUE do not count.
func (tx *Tx) replacements() (n int) {
	cancelling := tx.newest().Kind == Cancel
	for _, a := range tx.Attempts {
		if a.Nonce == *tx.Nonce && (a.Kind == Cancel || !cancelling) {
			n++
		}
	}
	return n - 1
}

// Replace makes another signed form for the nonce that a transaction has; Replaced tells what follows.
type Replace struct {
	Tx            *Tx
	Kind          AttemptKind
	Pooled        Fees // highest that a pool may have; zero: none
	Newest        Fees
	Permille      uint64
	Limit         Wei    // zero: none
	ForDeadline   bool   // its deadline alone asks for it
	CommandID     int64  // the command that asks for it; 0: none
	Estimate      uint64 // gas that a form which cancels takes, as the chain says; 0: it does not say
	NewestInvalid bool   // a node said that the newest form, which cancels, can never pass: another is of use only with more gas
}

func (*Replace) step() {}

// Unsigned is what is to be signed, at these fees: the same payload, or for a cancel nothing, sent to oneself.
func (s *Replace) Unsigned(v *View, fees Fees) Unsigned {
	u := Unsigned{
		ChainID:  v.Submitter.Chain,
		From:     v.Submitter.Address,
		Nonce:    *s.Tx.Nonce,
		Payload:  s.Tx.Payload,
		Fees:     fees,
		GasLimit: s.Tx.newest().GasLimit,
	}
	if s.Kind == Cancel {
		u.Payload, u.GasLimit = CancelPayload(v.Submitter.Address), s.cancelGas()
	}
	return u
}

// Nothing is the payload of a cancel.
func CancelPayload(self Address) Payload { return Payload{To: &self} }

const (
	// transferGas is what a transfer takes on Ethereum (yellow paper, G_transaction). Rollups may ask for more.
	transferGas = 21_000
	// maxCancelGas bounds what a node that estimates can talk us into: rollups that charge for the layer below have asked for some millions.
	maxCancelGas = 10_000_000
	// maxCancelRetries is how many cancels there may be for what their gas may be the reason of: a node that refuses them for another, on a chain whose estimates rise,
	// would have no end.
	maxCancelRetries = 20
)

// cancelGas is the limit of a cancel: what the chain says that it takes, or what the last one had.
func (s *Replace) cancelGas() uint64 {
	switch last := s.Tx.newest(); {
	case s.Estimate > 0:
		return min(max(s.Estimate, transferGas), maxCancelGas)
	case last.Kind == Cancel:
		return last.GasLimit
	}
	return transferGas
}

// RepeatsInvalid tells whether another form would be what a node has said can never pass.
func (s *Replace) RepeatsInvalid() bool {
	return s.NewestInvalid && s.cancelGas() <= s.Tx.newest().GasLimit
}

// Offer is what the replacement bids when the market asks this much. ok is false when the limit does not allow a bid that a pool would take.
func (s *Replace) BumpedFees(market Fees) (fees Fees, ok bool) {
	fees.Legacy = s.Newest.Legacy
	fees.Cap, fees.Tip = bumpedFee(s.Pooled.Cap, s.Permille), bumpedFee(s.Pooled.Tip, s.Permille)
	fees.Cap, fees.Tip = maxWei(fees.Cap, plusOne(s.Newest.Cap)), maxWei(fees.Tip,
		plusOne(s.Newest.Tip))
	needed := fees.Cap
	fees.Cap, fees.Tip = maxWei(fees.Cap, market.Cap), maxWei(fees.Tip, market.Tip)
	if fees.Legacy {
		fees.Cap = maxWei(fees.Cap, fees.Tip)
		fees.Tip = fees.Cap
	}
	fees.Cap = maxWei(fees.Cap, fees.Tip)
	if s.Limit.IsZero() || !fees.Cap.Gt(&s.Limit) {
		return fees, true
	}
	fees.Cap = s.Limit
	if fees.Legacy || fees.Tip.Gt(&fees.Cap) {
		fees.Tip = fees.Cap
	}
	return fees, !needed.Gt(&s.Limit)
}

// raised is the fee times the factor, rounded up, and at least one more: geth asks for both fields to be strictly higher and 10 % up (core/txpool/legacypool,
// list.Add), of transactions with blobs for 100 % (core/txpool/blobpool); rounded down, a fee of 1 wei would never rise.
func bumpedFee(fee Wei, permille uint64) Wei {
	if fee.IsZero() {
		return fee
	}
	var up Wei
	if _, overflow := up.MulDivOverflow(&fee, uint256.NewInt(permille), uint256.NewInt(1000)); overflow {
		return *up.SetAllOne()
	}
	var rest Wei
	if rest.MulMod(&fee, uint256.NewInt(permille), uint256.NewInt(1000)); !rest.IsZero() {
		up.AddUint64(&up, 1)
	}
	return maxWei(up, plusOne(fee))
}

func plusOne(fee Wei) Wei {
	var up Wei
	if _, overflow := up.AddOverflow(&fee, uint256.NewInt(1)); overflow {
		return fee
	}
	return up
}

func maxWei(a, b Wei) Wei {
	if a.Lt(&b) {
		return b
	}
	return a
}

// replacement decides whether a transaction that is due gets another signed form before it is handed over. Under protection nothing new is signed, and what
// was final is handed over as it was until it is in a block again, also after an operator has ended the protection: nobody is told of two ends (H22).
func replacement(v *View, tx *Tx) *Replace {
	if v.Cursor.Protected != nil || tx.Reason == ReasonReorgedFinal {
		return nil
	}
	last := tx.newest()
	switch {
	case last.Kind != Cancel && (tx.CancelRequested || tx.Rejected != "" || tx.Terms.CancelLate && tx.pastDeadline(v.Now)):
		s := replace(v, tx, Cancel, 0)
		s.ForDeadline = !tx.CancelRequested && tx.Rejected == ""
		return s
	case last.Kind == Cancel && tx.LastOutcome == Invalid && tx.replacements() < maxCancelRetries:
		s := replace(v, tx, Cancel, 0)
		s.NewestInvalid = true
		return s
	case tx.LastOutcome != "" && !unexamined(tx.LastOutcome) && tx.LastOutcome != InsufficientFunds && v.Policy.Bump != nil && v.Policy.Bump.Bump(v.Now, tx, last, tx.replacements()):
		return replace(v, tx, Bump, 0)
	}
	return nil
}

func replace(v *View, tx *Tx, kind AttemptKind, command int64) *Replace {
	s := &Replace{
		Tx:        tx,
		Kind:      kind,
		Newest:    tx.newest().Fees,
		Permille:  v.Policy.BumpPermille,
		Limit:     v.Policy.BumpMaxFee,
		CommandID: command,
	}
	if tx.abandoned() || executedUnexpectedly(tx.Reason) {
		s.Kind = Cancel // what was given up, or has run, is not taken up again
	}
	for i := range tx.Attempts { // each offers more than those before it
		if a := &tx.Attempts[i]; a.No == tx.Pooled ||
			a.No == tx.newest().No && tx.LastOutcome == "" {
			s.Pooled = a.Fees
		}
	}
	s.Limit = LowerLimit(s.Limit, v.Submitter.MaxFee)
	if s.Kind != Cancel {
		s.Limit = LowerLimit(s.Limit, tx.Terms.MaxFee)
	}
	return s
}

// givenUp tells whether it shall not run any more: because somebody asked for that, because a node says that it can never pass, or by its deadline or since it
// has run before, which have made a form that cancels.
func (tx *Tx) abandoned() bool {
	return tx.CancelRequested || tx.Rejected != "" ||
		len(tx.Attempts) > 0 && tx.newest().Kind == Cancel
}

func (tx *Tx) whyAbandoned() string {
	switch {
	case tx.CancelRequested:
		return "a cancel was asked for"
	case tx.Rejected != "":
		return "a node said that it can never pass and it was being cancelled"
	case tx.Reason == ProtectExecutedAfterRequeue:
		return "it was seen to have run before it was given back to the queue and a cancel was sent"
	}
	return "not_after passed and a cancel was sent"
}

// Lower is the lower of two limits, of which zero is none.
func LowerLimit(a, b Wei) Wei {
	if a.IsZero() || !b.IsZero() && b.Lt(&a) {
		return b
	}
	return a
}

// Replacement is what asking for fees and signing gave.
type Replacement struct {
	Outcome    Outcome // of asking for fees; ACCEPTED, or why there are none
	Fees       Fees    // offered
	AboveLimit bool    // Offer was not ok
	Signed     Signed
	SignErr    error
}

// Replaced tells what follows: the new form is recorded, to be handed over next, or the old one goes on.
func Replaced(v *View, s *Replace, p Replacement) Change {
	if reason, message := p.failure(v, s); reason != "" {
		return notReplaced(v, s, reason, message, unexamined(p.Outcome.Class))
	}
	tx, next, u := s.Tx, s.Tx.Status, s.Unsigned(v, p.Fees)
	next.TxHash, next.SubmitAttempts, next.LastOutcome = p.Signed.Hash, 0, "" // the new form is handed over before anything else is decided
	if !tx.keepsReason() && tx.Rejected == "" &&
		tx.Sub != Unfunded { // whether the account can pay for the new form is not known before its answer
		next.Reason, next.LastError = "", ""
	}
	w := v.move(tx, EventReplaced, &next, 0)
	w[0].PastDeadline = s.ForDeadline
	w[0].Attempt = &Attempt{
		No:       len(tx.Attempts) + 1,
		Kind:     s.Kind,
		Nonce:    *tx.Nonce,
		Hash:     p.Signed.Hash,
		Raw:      p.Signed.Raw,
		GasLimit: u.GasLimit,
		Fees:     p.Fees,
		At:       v.Now,
	}
	c := Change{Writes: w}
	if s.CommandID != 0 {
		c.Commands = []CommandResult{{ID: s.CommandID, Result: Applied}}
	}
	return c
}

// missing tells why there is no new form; an empty reason: there is one.
func (p Replacement) failure(v *View, s *Replace) (reason, message string) {
	switch {
	case p.Outcome.Class == FeeCapBelowBaseFee:
		return ReasonFeeCapReached, "the chain's fees are above what a replacement may offer, by " + s.limitName(
			v) + ": " + p.Outcome.Detail
	case p.Outcome.Class != Accepted:
		return ReasonChainUnavailable, "the chain tells no fees (" + string(
			p.Outcome.Class) + "): " + p.Outcome.Detail
	case s.RepeatsInvalid():
		return ReasonRejected, "a node says that the cancel can never pass, and more gas than it has is not what the chain asks for"
	case p.AboveLimit && !s.firstCancel() && !s.NewestInvalid: // a first cancel at the cap still wins where the pool has lost what it shall replace
		return ReasonFeeCapReached, "a replacement would have to offer more than " + s.limitName(
			v) + "; the last form is still handed over"
	case errors.Is(p.SignErr, ErrKeyMissing):
		return ReasonSignerKeyMissing, fmt.Sprintf(
			"signer %q has no key for %s; a replacement needs it", v.Submitter.Signer,
			v.Submitter.Address.Hex())
	case errors.Is(p.SignErr, ErrSignerFault):
		return ReasonSignerFault, "the signer returned a transaction that was not asked for; its bytes were dropped"
	case p.SignErr != nil:
		return ReasonSignerUnavailable, "the signer did not answer; waiting for it"
	}
	return "", ""
}

// cap names the limit of a replacement, and what holds it.
func (s *Replace) limitName(v *View) string {
	where := "gas_bump.max_fee_cap_gwei in the configuration"
	switch own := s.Tx.Terms.MaxFee; {
	case s.Kind != Cancel && !own.IsZero() && s.Limit == own:
		where = "the transaction's own max_fee"
	case !v.Submitter.MaxFee.IsZero() && s.Limit == v.Submitter.MaxFee:
		where = "max_fee of the submitter"
	}
	return "the cap of " + InGwei(s.Limit) + " gwei (" + where + ")"
}

// firstCancel tells whether it would be the first form that cancels. Until there is one nothing is handed over: what shall be cancelled would only be sent again.
func (s *Replace) firstCancel() bool { return s.Kind == Cancel && s.Tx.newest().Kind != Cancel }

// passing are the reasons of a STUCK transaction that lacks a new form, or one that can pass; they have passed once a node takes one.
var transientReasons = map[string]bool{
	ReasonRejected:          true,
	ReasonFeeCapReached:     true,
	ReasonChainUnavailable:  true,
	ReasonSignerKeyMissing:  true,
	ReasonSignerFault:       true,
	ReasonSignerUnavailable: true,
}

// notReplaced tells what follows when no new form could be made: the newest is handed over as it is. A cancel that could not be made as often as anything may
// be handed over is told as STUCK, and goes on being tried (H13); silence of the chain does not count for that.
func notReplaced(v *View, s *Replace, reason, message string, unasked bool) Change {
	if s.CommandID != 0 {
		return commandResult(Command{ID: s.CommandID}, ResultRefused, message)
	}
	tx, next := s.Tx, s.Tx.Status
	kind := Kind("")
	if s.firstCancel() && !unasked {
		next.SubmitAttempts++
	}
	tired := s.firstCancel() && next.SubmitAttempts >= v.Policy.ResubmitMax
	if tx.State != Stuck && (reason == ReasonFeeCapReached || tired) {
		kind, next.State, next.Sub = EventStuck, Stuck, None
	}
	if s.firstCancel() &&
		tx.Sub == Unfunded { // nothing is handed over: see recheckAccount. It waits for something else than money now
		kind, next.Sub = fundingEvent(next.State, kind), defaultSub(next.State)
	}
	if !tx.keepsReason() || s.firstCancel() && tx.Reason == ReasonInsufficientFunds ||
		reason == ReasonFeeCapReached &&
			(tx.Reason == ReasonFeeCapReached || tx.Reason == ReasonResubmitExhausted || tx.Reason == ReasonMaxAge) {
		next.Reason, next.LastError = reason, message
	}
	if tx.State == Stuck && next.Reason != tx.Reason {
		kind = EventStuck
	}
	if s.firstCancel() {
		next.Doubted = true // nothing is handed over: see recheckAccount
		return Change{Writes: v.move(tx, kind, &next, v.Policy.ResubmitInterval)}
	}
	w := v.claim(tx, &next, kind, v.Policy.ResubmitInterval)
	w[0].Turn.KeepNewest = true
	return Change{Writes: w}
}

// speedUp makes a replacement with higher fees because somebody asks for it, whatever the policy says.
func speedUp(v *View, c Command) (Step, bool) {
	tx, ok := openTx(v, c.Tx)
	switch {
	case !ok:
		return rejectCommand(c, "it is not in flight: it has no nonce yet, or is final")
	case tx.Receipt != nil:
		return rejectCommand(c,
			"it is in a block already, so nothing is left to speed up; watch it until it is final")
	case v.Cursor.Protected != nil:
		return rejectCommand(c, "the submitter is protected: nothing new is signed")
	case tx.Reason == ReasonReorgedFinal:
		return rejectCommand(c, "it was final: it is handed over as it was until it is in a block again")
	case !mayBroadcast(v, tx):
		return rejectCommand(c,
			"what was signed for it before it was given back to the queue is in a block, or is being looked for")
	}
	return replace(v, tx, Bump, c.ID), true
}

const notStuck = "it is not STUCK, so nothing waits for this decision; look at its state, and speed up or cancel what is in flight"

// retry counts the hand-overs of a STUCK transaction anew. One that shall not run any more is handed over again itself.
func retry(v *View, c Command) (Step, bool) {
	tx, ok := openTx(v, c.Tx)
	if !ok || tx.State != Stuck {
		return rejectCommand(c, notStuck)
	}
	if executedUnexpectedly(tx.Reason) {
		return rejectCommand(c,
			"it ran, although it was given up; it ends by itself once its nonce is used")
	}
	if tx.abandoned() && tx.Reason != ReasonReorgedFinal && tx.Reason != ReasonNonceElsewhere {
		return sendOriginal(v, tx, c)
	}
	done := commandResult(c, Applied, "")
	next := tx.Status
	next.State, next.Sub, next.SubmitAttempts, next.LastOutcome = Tracking, Pending, 0, ""
	if !tx.keepsReasonUntilFinal() {
		next.Reason, next.LastError = "", ""
	}
	done.Writes = v.move(tx, EventUnstuck, &next, 0)
	return Record{done}, true
}

// sendOriginal hands over what shall not run any more, once, because an operator asks for it: its cancel may be what no node takes, and then nothing else would ever
// use the nonce. By itself nobody does that (H29). The command is done when a node has answered; a crash before costs another hand-over of the same bytes.
func sendOriginal(v *View, tx *Tx, c Command) (Step, bool) {
	seen := v.inclusion(tx)
	switch {
	case seen.Known && seen.Receipt != nil:
		return rejectCommand(c,
			"it is in a block already, so nothing is left to hand over; watch it until it is final")
	case !seen.Known || !v.earlierInclusion(tx).Known:
		return nil, false // the receipts are being looked up
	case !mayBroadcast(v, tx):
		return rejectCommand(c,
			"what was signed for it before it was given back to the queue is in a block")
	}
	for i := len(tx.Attempts) - 1; i >= 0; i-- {
		if a := &tx.Attempts[i]; a.Kind != Cancel && a.Nonce == *tx.Nonce {
			return Broadcast{Tx: tx, Attempt: a, CommandID: c.ID}, true
		}
	}
	return rejectCommand(c, "nothing but cancels was signed for its nonce")
}

// OriginalSent tells what follows from the chain's answer to a hand-over that an operator asked for. It is a race from here on: the cancel, which is due again after
// an interval, is not taken back.
func OriginalSent(v *View, b Broadcast, answer Outcome) Change {
	tx, next := b.Tx, b.Tx.Status
	if !answer.inPool() && answer.Class != Ambiguous {
		return commandResult(
			Command{ID: b.CommandID},
			ResultRefused,
			fmt.Sprintf("it was handed over, and the answer was %s: %s", answer.Class,
				answer.Detail),
		)
	}
	if answer.inPool() {
		next.Accepted = max(next.Accepted, b.Attempt.No)
	}
	next.Pooled, next.Doubted = max(next.Pooled, b.Attempt.No), true
	next.State, next.Sub, next.Reason, next.SubmitAttempts, next.LastOutcome = Tracking, Pending, "", 0, ""
	next.LastError = "an operator had it handed over again although " + tx.whyAbandoned() + ": whichever of the two is in a block first wins"
	done := commandResult(Command{ID: b.CommandID}, Applied, "")
	done.Writes = v.move(tx, EventUnstuck, &next, v.Policy.ResubmitInterval)
	return done
}
