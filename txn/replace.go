package txn

import (
	"errors"
	"fmt"
	"time"

	"github.com/holiman/uint256"
)

// DefaultBumpPolicy decides when a transaction that is not included is replaced with higher fees.
// The Policy decides how much higher. One that no node has accepted is replaced without it.
type DefaultBumpPolicy struct {
	Enabled     bool          // also bump transactions that are not being cancelled
	MinInterval time.Duration // between two attempts of a transaction
	// automatic replacements of a transaction, and again of its cancel transaction
	MaxAttempts int
}

// Bump replaces an attempt that a node has had for a while, or rejects for its fees. A cancel is
// replaced even if bumping is disabled (H29), and also if no node has clearly accepted it.
func (b DefaultBumpPolicy) Bump(now time.Time, tx *Tx, last *Attempt, n int) bool {
	wanted, had := b.Enabled, tx.Accepted == last.No
	if last.Kind == Cancel {
		wanted, had = true, had || tx.Pooled == last.No
	}
	return wanted && n < b.MaxAttempts && now.Sub(last.At) >= b.MinInterval &&
		(had || feeOutcomes[tx.LastOutcome])
}

// feeOutcomes are the outcomes that higher fees can change.
var feeOutcomes = map[Class]bool{
	Underpriced:            true,
	ReplacementUnderpriced: true,
	FeeCapBelowBaseFee:     true,
}

// Replace signs another attempt for the nonce of a transaction; Replaced follows.
type Replace struct {
	Tx          *Tx
	Kind        AttemptKind
	Pooled      Fees // highest fees that a pool may have; zero: none
	Newest      Fees
	Permille    uint64
	Limit       Wei    // zero: none
	ForDeadline bool   // requested only by its deadline
	CommandID   int64  // the command that requests it; 0: none
	Estimate    uint64 // estimated gas of a cancel; 0: unknown
	// a node called the newest attempt, a cancel, invalid: another one needs more gas
	NewestInvalid bool
	// UNDERPRICED, FEE_CAP_BELOW_BASE_FEE or TX_TYPE_NOT_SUPPORTED: why the nodes refused the
	// newest attempt; empty: for another reason, or a node has it
	Refused Class
}

func (*Replace) step() {}

// FeeRequest is a request for the fees of a replacement.
type FeeRequest struct {
	Speed   Speed
	Limit   Wei   // highest fee cap per unit of gas; zero: none
	Newest  Fees  // of the attempt to replace
	Refused Class // see Replace
}

// FeeRequest returns the request for the fees of this replacement.
func (s *Replace) FeeRequest() FeeRequest {
	return FeeRequest{s.Tx.Terms.Speed, s.Limit, s.Newest, s.Refused}
}

// Unsigned returns the transaction to sign at these fees: the same payload, or the cancel payload.
func (s *Replace) Unsigned(v *View, fees Fees) Unsigned {
	u := Unsigned{
		ChainID:  v.Submitter.Chain,
		From:     v.Submitter.Address,
		Nonce:    *s.Tx.Nonce,
		Payload:  s.Tx.Payload,
		Fees:     fees,
		GasLimit: s.Tx.newest().GasLimit,
		Purpose:  s.Tx.Purpose(v, s.Kind),
	}
	if s.Kind == Cancel {
		u.Payload, u.GasLimit = CancelPayload(v.Submitter.Address), s.cancelGas()
	}
	return u
}

// CancelPayload returns the payload of a cancel transaction: a self-transfer of 0.
func CancelPayload(self Address) Payload { return Payload{To: &self} }

const (
	// transferGas is the gas of a transfer on Ethereum (yellow paper, G_transaction). Rollups may
	// need more.
	transferGas = 21_000
	// maxCancelGas bounds a node's estimate: rollups that charge for the layer below have needed
	// some millions.
	maxCancelGas = 10_000_000
	// maxCancelRetries bounds the cancels that are replaced to raise their gas: a node that rejects
	// them for another reason, on a chain with rising estimates, would cause them without end.
	maxCancelRetries = 20
)

// cancelGas returns the gas limit of a cancel: the chain's estimate, or the limit of the last one.
func (s *Replace) cancelGas() uint64 {
	switch last := s.Tx.newest(); {
	case s.Estimate > 0:
		return min(max(s.Estimate, transferGas), maxCancelGas)
	case last.Kind == Cancel:
		return last.GasLimit
	}
	return transferGas
}

// RepeatsInvalid reports whether another attempt would repeat one that a node called invalid.
func (s *Replace) RepeatsInvalid() bool {
	return s.NewestInvalid && s.cancelGas() <= s.Tx.newest().GasLimit
}

// BumpedFees returns the fees of the replacement at these market fees. ok is false if the limit
// does not allow fees that a pool would accept.
//
// A legacy market changes the type. The gas price then stands for both fees, so it is at least the
// higher one: pools compare each fee with that of the attempt they have. A legacy attempt stays
// one, because every node accepts it.
func (s *Replace) BumpedFees(market Fees) (fees Fees, ok bool) {
	fees.Legacy = s.Newest.Legacy || market.Legacy
	fees.Cap, fees.Tip = bumpedFee(s.Pooled.Cap, s.Permille), bumpedFee(s.Pooled.Tip, s.Permille)
	fees.Cap, fees.Tip = maxWei(fees.Cap, plusOne(s.Newest.Cap)), maxWei(fees.Tip,
		plusOne(s.Newest.Tip))
	needed := fees.Cap
	if fees.Legacy != s.Newest.Legacy && s.Pooled == (Fees{}) {
		needed.Clear() // the type was refused, not the price, and no pool has anything to outbid
	}
	if s.Refused == Underpriced { // a wei more would be refused as well
		fees.Cap = maxWei(fees.Cap, bumpedFee(s.Newest.Cap, s.Permille))
		fees.Tip = maxWei(fees.Tip, bumpedFee(s.Newest.Tip, s.Permille))
	}
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

// bumpedFee returns the fee times the factor, rounded up, and at least 1 wei more. geth requires
// both fields to be strictly higher and 10 % up (core/txpool/legacypool, list.Add), and 100 % up
// for blob transactions (core/txpool/blobpool). Rounded down, a fee of 1 wei would never rise.
func bumpedFee(fee Wei, permille uint64) Wei {
	if fee.IsZero() {
		return fee
	}
	var up Wei
	_, overflow := up.MulDivOverflow(&fee, uint256.NewInt(permille), uint256.NewInt(1000))
	if overflow {
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

// replacement decides whether a due transaction gets another attempt before it is rebroadcast.
// Under protection nothing new is signed. A reorged final transaction is rebroadcast unchanged
// until it is included again, even after an operator has lifted the protection: no watcher may see
// two outcomes (H22).
func replacement(v *View, tx *Tx) *Replace {
	if v.Cursor.Protected != nil || tx.Reason == ReasonReorgedFinal || tx.Signed {
		return nil
	}
	last := tx.newest()
	switch {
	case last.Kind != Cancel && (tx.CancelRequested || tx.Rejected != "" ||
		tx.Terms.CancelLate && tx.pastDeadline(v.Now)):
		s := replace(v, tx, Cancel, 0)
		s.ForDeadline = !tx.CancelRequested && tx.Rejected == ""
		return s
	case last.Kind == Cancel && tx.LastOutcome == Invalid && tx.replacements() < maxCancelRetries:
		s := replace(v, tx, Cancel, 0)
		s.NewestInvalid = true
		return s
	case tx.LastOutcome != "" && !unexamined(tx.LastOutcome) &&
		tx.LastOutcome != InsufficientFunds && v.Policy.Bump != nil &&
		v.Policy.Bump.Bump(v.Now, tx, last, tx.replacements()) && hadChance(v, tx, last) &&
		v.mayBump(tx):
		return replace(v, tx, Bump, 0)
	case refusedType(tx, last), refusedPrice(v, tx, last):
		s := replace(v, tx, Bump, 0)
		if s.Kind != Cancel { // these are still the fees of a first attempt
			s.Limit = s.lowestLimit(v, v.Policy.MaxFee)
		}
		return s
	}
	return nil
}

// maxReprices bounds the attempts that replace one which every node found too cheap. A fee that is
// doubled that often has risen a million times.
const maxReprices = 20

// refusedType reports whether the newest attempt is not a legacy transaction and its type is why
// the nodes refused it. Its replacement is one.
func refusedType(tx *Tx, last *Attempt) bool {
	return tx.LastOutcome == TypeNotSupported && !last.Fees.Legacy && unaccepted(tx, last)
}

// refusedPrice reports whether the fees of the newest attempt are why the nodes refused it.
func refusedPrice(v *View, tx *Tx, last *Attempt) bool {
	return (tx.LastOutcome == Underpriced || tx.LastOutcome == FeeCapBelowBaseFee) &&
		!v.Policy.FixedPrice && unaccepted(tx, last) && tx.replacements() < maxReprices
}

// unaccepted reports whether no node has accepted any attempt at the nonce or, of a cancel, the
// newest one. A transaction that a node has accepted costs more only by the bump policy.
func unaccepted(tx *Tx, last *Attempt) bool {
	return tx.Accepted == 0 || last.Kind == Cancel && tx.Accepted < last.No
}

// refusals are the outcomes that ask for other fees or another type.
var refusals = map[Class]bool{
	Underpriced:        true,
	FeeCapBelowBaseFee: true,
	TypeNotSupported:   true,
}

// hadChance reports whether a block was made since an attempt. While a chain makes none, no fee is
// too low for it: every bump would only raise the price of the first block after the halt. An
// attempt that no pool has is excepted, because a chain that mines on demand waits for it.
func hadChance(v *View, tx *Tx, last *Attempt) bool {
	return tx.Pooled == 0 || v.BlockAt.After(last.At)
}

func replace(v *View, tx *Tx, kind AttemptKind, command int64) *Replace {
	s := &Replace{
		Tx:        tx,
		Kind:      kind,
		Newest:    tx.newest().Fees,
		Permille:  v.Policy.BumpPermille,
		CommandID: command,
	}
	if tx.abandoned() || executedUnexpectedly(tx.Reason) {
		s.Kind = Cancel // an abandoned or executed transaction is not sent again
	}
	for i := range tx.Attempts { // each attempt has higher fees than the ones before
		if a := &tx.Attempts[i]; a.No == tx.Pooled ||
			a.No == tx.newest().No && tx.LastOutcome == "" {
			s.Pooled = a.Fees
		}
	}
	if refusals[tx.LastOutcome] {
		s.Refused = tx.LastOutcome
	}
	s.Limit = s.lowestLimit(v, v.Policy.BumpMaxFee)
	return s
}

// lowestLimit returns the lowest of the chain's limit and those of the account and, unless it is
// cancelled, of the transaction.
func (s *Replace) lowestLimit(v *View, chains Wei) Wei {
	limit := LowerLimit(chains, v.Submitter.MaxFee)
	if s.Kind != Cancel {
		limit = LowerLimit(limit, s.Tx.Terms.MaxFee)
	}
	return limit
}

// LowerLimit returns the lower of two limits; zero means no limit.
func LowerLimit(a, b Wei) Wei {
	if a.IsZero() || !b.IsZero() && b.Lt(&a) {
		return b
	}
	return a
}

// Replacement is the result of reading fees and signing.
type Replacement struct {
	Outcome    Outcome // of reading fees; ACCEPTED, or why there are none
	Fees       Fees    // used
	AboveLimit bool    // BumpedFees was not ok
	Signed     Signed
	SignErr    error
}

// Replaced returns the change that follows: the new attempt is recorded and broadcast next, or the
// old one continues.
func Replaced(v *View, s *Replace, p Replacement) Change {
	if reason, message := p.failure(v, s); reason != "" {
		return notReplaced(v, s, reason, message, unexamined(p.Outcome.Class))
	}
	tx := s.Tx
	next := s.Tx.Status
	u := s.Unsigned(v, p.Fees)
	next.TxHash = p.Signed.Hash
	next.SubmitAttempts = 0
	next.LastOutcome = "" // the new attempt is broadcast before any other decision
	if !tx.keepsReason() && tx.Rejected == "" &&
		tx.Sub != Unfunded { // unknown for the new attempt until its response
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

// failure returns why there is no new attempt; an empty reason: there is one.
func (p Replacement) failure(v *View, s *Replace) (reason, message string) {
	switch {
	case p.Outcome.Class == FeeCapBelowBaseFee:
		return ReasonFeeCapReached, "the chain's fees are above the limit of replacements, " +
			s.limitName(v) + ": " + p.Outcome.Detail
	case p.Outcome.Class != Accepted:
		return ReasonChainUnavailable, "no fees from the chain (" + string(
			p.Outcome.Class) + "): " + p.Outcome.Detail
	case s.RepeatsInvalid():
		return ReasonRejected, "a node called the cancel invalid, and the chain's gas estimate " +
			"is not higher than its limit"
	// a first cancel at the cap still wins where the pool has dropped its predecessor
	case p.AboveLimit && !s.firstCancel() && !s.NewestInvalid:
		return ReasonFeeCapReached, "a replacement needs more than " + s.limitName(
			v) + "; the last attempt is still rebroadcast"
	case errors.Is(p.SignErr, ErrKeyMissing):
		return ReasonSignerKeyMissing, fmt.Sprintf(
			"signer %q has no key for %s, which a replacement needs; add the key",
			v.Submitter.Signer,
			v.Submitter.Address.Hex())
	case errors.Is(p.SignErr, ErrUnverified):
		why := Unverified()
		return why.Reason, why.Message
	case errors.Is(p.SignErr, ErrSignerFault):
		return ReasonSignerFault, "the signer returned a different transaction; its bytes were " +
			"discarded"
	case p.SignErr != nil:
		return ReasonSignerUnavailable, "the signer did not respond; waiting"
	}
	return "", ""
}

// limitName names the limit of a replacement and its source.
func (s *Replace) limitName(v *View) string {
	where := "gas_bump.max_fee_cap_gwei in the configuration"
	switch own := s.Tx.Terms.MaxFee; {
	case s.Kind != Cancel && !own.IsZero() && s.Limit == own:
		where = "the transaction's own max_fee"
	case !v.Submitter.MaxFee.IsZero() && s.Limit == v.Submitter.MaxFee:
		where = "max_fee of the submitter"
	case s.Limit == v.Policy.MaxFee && s.Limit != v.Policy.BumpMaxFee:
		where = "fees.max_fee_cap_gwei in the configuration"
	}
	return "the cap of " + InGwei(s.Limit) + " gwei (" + where + ")"
}

// firstCancel reports whether it would be the first cancel. Nothing is broadcast until there is
// one: that would only send the transaction to be cancelled again.
func (s *Replace) firstCancel() bool { return s.Kind == Cancel && s.Tx.newest().Kind != Cancel }

// notReplaced returns the change that follows when no new attempt could be made: the newest is
// rebroadcast. A cancel that failed as often as broadcasts may becomes STUCK and is still tried
// (H13); an unavailable chain does not count.
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
	if tx.State != Stuck &&
		(reason == ReasonFeeCapReached || reason == ReasonUnverified || tired) {
		kind = EventStuck
		next.State = Stuck
		next.Sub = None
	}
	if s.firstCancel() &&
		// nothing is broadcast: see recheckAccount. It no longer waits for funds
		tx.Sub == Unfunded {
		kind, next.Sub = fundingEvent(next.State, kind), defaultSub(next.State)
	}
	if !tx.keepsReason() || s.firstCancel() && tx.Reason == ReasonInsufficientFunds ||
		reason == ReasonFeeCapReached &&
			(tx.Reason == ReasonFeeCapReached || tx.Reason == ReasonResubmitExhausted ||
				tx.Reason == ReasonMaxAge) {
		next.Reason, next.LastError = reason, message
	}
	if tx.State == Stuck && next.Reason != tx.Reason {
		kind = EventStuck
	}
	if s.firstCancel() {
		next.Doubted = true // nothing is broadcast: see recheckAccount
		return Change{Writes: v.move(tx, kind, &next, v.Policy.ResubmitInterval)}
	}
	w := v.claim(tx, &next, kind, v.Policy.ResubmitInterval)
	w[0].Turn.KeepNewest = true
	return Change{Writes: w}
}

// speedUp makes a replacement with higher fees on request, regardless of the bump policy.
func speedUp(v *View, c Command) (Step, bool) {
	tx, ok := openTx(v, c.Tx)
	switch {
	case !ok:
		return rejectCommand(c, "not in flight: it has no nonce yet, or is final")
	case tx.Signed:
		return rejectCommand(c, byClient)
	case tx.Receipt != nil:
		return rejectCommand(c,
			"already included; watch it until it is final")
	case v.Cursor.Protected != nil:
		return rejectCommand(c, "the submitter is protected; nothing new is signed")
	case tx.Reason == ReasonReorgedFinal:
		return rejectCommand(c, "it was final before a reorg; it is rebroadcast unchanged until "+
			"it is included again")
	case !mayBroadcast(v, tx):
		return rejectCommand(c,
			"an attempt from before its requeue is included, or its receipt is still unknown")
	}
	return replace(v, tx, Bump, c.ID), true
}

const notStuck = "not STUCK; speed it up or cancel it if it is in flight"

// retry resets the broadcast count of a STUCK transaction. An abandoned one is broadcast once more
// itself.
func retry(v *View, c Command) (Step, bool) {
	tx, ok := openTx(v, c.Tx)
	if !ok || tx.State != Stuck {
		return rejectCommand(c, notStuck)
	}
	if executedUnexpectedly(tx.Reason) {
		return rejectCommand(c,
			"it executed although it was abandoned; it becomes final automatically once its "+
				"nonce is used")
	}
	if tx.abandoned() && tx.Reason != ReasonReorgedFinal && tx.Reason != ReasonNonceElsewhere {
		return sendOriginal(v, tx, c)
	}
	done := commandResult(c, Applied, "")
	next := tx.Status
	next.State = Tracking
	next.Sub = Pending
	next.SubmitAttempts = 0
	next.LastOutcome = ""
	if !tx.keepsReasonUntilFinal() {
		next.Reason, next.LastError = "", ""
	}
	done.Writes = v.move(tx, EventUnstuck, &next, 0)
	return Record{done}, true
}

// sendOriginal broadcasts an abandoned transaction once, on an operator's request: no node may
// accept its cancel, and then nothing else would ever use the nonce. This never happens
// automatically (H29). The command completes with a node's response; a crash before costs another
// broadcast of the same bytes.
func sendOriginal(v *View, tx *Tx, c Command) (Step, bool) {
	seen := v.inclusion(tx)
	switch {
	case seen.Known && seen.Receipt != nil:
		return rejectCommand(c,
			"already included; watch it until it is final")
	case !seen.Known || !v.earlierInclusion(tx).Known:
		return nil, false // the receipts are being looked up
	case !mayBroadcast(v, tx):
		return rejectCommand(c,
			"an attempt from before its requeue is included")
	}
	for i := len(tx.Attempts) - 1; i >= 0; i-- {
		if a := &tx.Attempts[i]; a.Kind != Cancel && a.Nonce == *tx.Nonce {
			return Broadcast{Tx: tx, Attempt: a, CommandID: c.ID}, true
		}
	}
	return rejectCommand(c, "only cancels were signed for its nonce")
}

// OriginalSent returns the change that follows the response to a broadcast that an operator
// requested. From here it is a race: the cancel is due again after an interval.
func OriginalSent(v *View, b Broadcast, answer Outcome) Change {
	tx, next := b.Tx, b.Tx.Status
	if !answer.inPool() && answer.Class != Ambiguous {
		return commandResult(
			Command{ID: b.CommandID},
			ResultRefused,
			fmt.Sprintf("the broadcast failed: %s: %s", answer.Class,
				answer.Detail),
		)
	}
	if answer.inPool() {
		next.Accepted = max(next.Accepted, b.Attempt.No)
	}
	next.Pooled, next.Doubted = max(next.Pooled, b.Attempt.No), true
	next.Unsent = false
	next.State = Tracking
	next.Sub = Pending
	next.Reason = ""
	next.SubmitAttempts = 0
	next.LastOutcome = ""
	next.LastError = "an operator had it rebroadcast although " + tx.whyAbandoned() + "; the " +
		"first of the two to be included wins"
	done := commandResult(Command{ID: b.CommandID}, Applied, "")
	done.Writes = sent(v.move(tx, EventUnstuck, &next, v.Policy.ResubmitInterval))
	return done
}
