package txn

import (
	"fmt"
	"time"
)

// Policy configures the tracking of a chain's transactions.
type Policy struct {
	Confirmations uint64 // canonical blocks above the receipt's that make it final
	// depth at which the next nonce may be taken; 0: once it is final. See releases
	ReleaseDepth uint64
	// depth below which reorgs are considered impossible: a lost nonce may be resolved there
	AuditDepth uint64
	// how long the chain may lack transactions of the ledger before this is no longer lag
	LagGrace            time.Duration
	ReportConfirmations bool          // emit an event for each block above the receipt's
	PrepareMaxAge       time.Duration // longest wait at the head of the queue; 0: no limit
	ResubmitInterval    time.Duration // between two broadcasts of the same bytes
	// broadcasts after which a transaction is STUCK (still tracked and rebroadcast)
	ResubmitMax int
	// age of the first attempt after which it is STUCK regardless of RPC responses; 0: no limit
	ResubmitMaxAge time.Duration
	Diagnose       bool // look up the pool before each rebroadcast
	Stuck          bool // a stuck policy is configured
	// nil: replacements only on request, and cancel transactions are not bumped automatically
	Bump BumpPolicy
	// minimum factor of both fees of a replacement, in thousandths; pools require at least 1100
	BumpPermille uint64
	// highest fee cap of a replacement per unit of gas; zero: no limit
	BumpMaxFee Wei
}

// View is everything the owner of a submitter knows at one moment: its ledger, pending commands,
// and the chain under one frozen head.
type View struct {
	Now       time.Time
	Policy    Policy
	Submitter Submitter
	Cursor    *Cursor    // nil before the account was read
	Open      []Tx       // with a nonce and not final, lowest nonce first
	Queue     []Tx       // head of the queue, in order
	Audited   []Finished // final with a receipt, still within the audit depth
	// final as not executed, with signed attempts, still within the audit depth
	NotExecuted []Tx
	Commands    []Command
	Account     *Account // nil: not read since the lease was acquired, or since the last doubt
	Suspicion   *Suspicion
	NonceUse    *NonceUse // user of a nonce, for the last decision that needed it; nil: not queried
	Head        uint64    // number of the newest block of this view; 0: none yet
	Inclusion   func(Hash) Inclusion
	Canonical   func(number uint64) (Hash, bool) // for blocks of the view; nil: none
}

// Step is the owner's next action: at most one external effect, then one commit. Its pointers refer
// to the view and are valid only as long as that: a transaction is large.
type Step interface{ step() }

type (
	// Rest waits for a wake-up or until Until; the zero Until waits for a wake-up only.
	Rest struct{ Until time.Time }
	// Record commits a change that needs nothing external.
	Record struct{ Change Change }
	// ReadAccount reads the account from the chain, with Depth for its settled nonce;
	// AccountReadFailed returns the change that follows a failure. If Tx has attempts, their
	// receipts are fetched again too.
	ReadAccount struct {
		Tx    *Tx // zero: none
		Depth uint64
		// smallest acceptable depth if no endpoint has the state at Depth; 0: none, and
		// OldStateMissing follows
		MinDepth  uint64
		CommandID int64 // the command that needs it; 0: none
	}
	// Investigate finds the user of a nonce, for the operator; Investigated follows in any case.
	Investigate struct{ Finding Finding }
	// FindConsumer finds the user of a transaction's nonce, for an operator's decision.
	FindConsumer struct {
		Tx        *Tx
		CommandID int64 // the command
	}
	// Prepare quotes and signs the head of the queue for the next nonce; Prepared follows.
	Prepare struct {
		Tx    *Tx
		Nonce Nonce
		Slot  int16
	}
	// Broadcast sends recorded bytes to the chain; Sent follows, or OriginalSent for an operator's
	// request.
	Broadcast struct {
		Tx        *Tx
		Attempt   *Attempt
		CommandID int64 // the command that requests it; 0: none
	}
)

func (Rest) step()         {}
func (Record) step()       {}
func (ReadAccount) step()  {}
func (Investigate) step()  {}
func (FindConsumer) step() {}
func (Prepare) step()      {}
func (Broadcast) step()    {}

// Decide is the entire policy of an owner: given a view, the one next step. It is pure, so the step
// after a crash is the same as without it.
func Decide(v *View) Step {
	if step, ok := nextCommand(v); ok {
		return step
	}
	if step, ok := trackAll(v); ok {
		return step
	}
	if step, ok := auditFinality(v); ok {
		return step
	}
	if step, ok := protect(v); ok {
		return step
	}
	if step, ok := recordMaxAge(v); ok {
		return step
	}
	if step, ok := cancelRequeued(v); ok {
		return step
	}
	if b, ok := dueBroadcast(v); ok {
		return b
	}
	if len(v.Commands) == 0 { // the ledger takes no nonce while a command waits
		if step, ok := allocate(v); ok {
			return step
		}
	}
	return Rest{Until: nextDue(v)}
}

// record returns a Record of a change that is not empty.
func record(c Change) (Step, bool) {
	if c.Empty() {
		return nil, false
	}
	return Record{c}, true
}

// nextCommand applies the oldest command. While that waits for the chain, it applies a later one
// that needs no external data: an unavailable chain must not delay PROTECT or CANCEL. All commands
// wait behind an EXIT_PROTECT.
func nextCommand(v *View) (Step, bool) {
	for i, c := range v.Commands {
		switch {
		case i > 0 && c.Kind == CommandExitProtect:
			return nil, false
		case i > 0 && !immediateCommands[c.Kind]:
			continue
		}
		if step, ok := applyCommand(v, c); ok {
			return step, true
		}
	}
	return nil, false
}

// immediateCommands need no external data.
var immediateCommands = map[CommandKind]bool{
	CommandPause:   true,
	CommandResume:  true,
	CommandCancel:  true,
	CommandProtect: true,
	CommandUpdate:  true,
}

// applyCommand applies one command. ok is false while it waits for chain data.
func applyCommand(v *View, c Command) (step Step, ok bool) {
	done := Change{Commands: []CommandResult{{ID: c.ID, Result: Applied}}}
	switch c.Kind {
	case CommandPause:
		done.Status = Paused
	case CommandResume:
		done.Status = Active
	case CommandCancel:
		write, ok := cancel(v, c.Tx)
		if !ok {
			done.Commands[0].Result = ResultAlreadyFinal
			break
		}
		if write != nil {
			done.Writes = write
		}
	case CommandUpdate: // the owner reloads the ledger after this commit
	case CommandProtect:
		return Record{protectOnCommand(v, c)}, true
	case CommandExitProtect:
		return exitProtect(v, c)
	case CommandResolve:
		return resolve(v, c)
	case CommandSpeedUp:
		return speedUp(v, c)
	default:
		done.Commands[0].Result = ResultUnknownCommand // it must not block the queue
	}
	return Record{done}, true
}

// commandResult returns the change that finishes a command with a result other than APPLIED, and a
// message.
func commandResult(c Command, result, sentence string) Change {
	if sentence != "" {
		result += ": " + sentence
	}
	return Change{Commands: []CommandResult{{ID: c.ID, Result: result}}}
}

// rejectCommand finishes a command that the chain or the ledger contradicts.
func rejectCommand(c Command, sentence string, args ...any) (Step, bool) {
	return Record{commandResult(c, ResultRefused, fmt.Sprintf(sentence, args...))}, true
}

// cancel requests the cancellation of a transaction; ok is false if it is final. No write: it was
// requested before.
func cancel(v *View, id TxID) (w []Write, ok bool) {
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.ID != id {
			continue
		}
		if tx.CancelRequested {
			return nil, true
		}
		next := tx.Status
		// counts the tries of the cancel transaction from here
		next.CancelRequested, next.SubmitAttempts = true, 0
		return v.move(tx, EventCancelRequested, &next, 0), true
	}
	for i := range v.Queue {
		tx := &v.Queue[i]
		if tx.ID == id && tx.CancelRequested {
			return nil, true
		}
		if tx.ID == id && tx.Requeued > 0 { // earlier attempts may have executed
			next := tx.Status
			next.CancelRequested = true
			return v.move(tx, EventCancelRequested, &next, 0), true
		}
		if tx.ID == id {
			next := tx.Status
			next.State = Cancelled
			next.Sub = None
			next.Executed = No
			next.CancelRequested = true
			next.Reason = ReasonCancelled
			next.LastError = ""
			return v.move(tx, EventCancelled, &next, 0), true
		}
	}
	return nil, false
}

// trackAll records the chain's state of transactions in flight, and of requeued ones.
func trackAll(v *View) (Step, bool) {
	var c Change
	for i := range v.Open {
		if w := trackOne(v, &v.Open[i]); w != nil {
			c.addTracked(v, &v.Open[i], w)
		}
	}
	for i := range v.Queue {
		if w := finalizeRequeued(v, &v.Queue[i]); w != nil {
			c.addTracked(v, &v.Queue[i], w)
		}
	}
	return record(c)
}

// addTracked adds the writes of one tracked transaction.
func (c *Change) addTracked(v *View, tx *Tx, list []Write) {
	if c.Writes == nil {
		c.Writes = list
	} else {
		c.Writes = append(c.Writes, list...)
	}
	w := &list[0]
	if v.Submitter.OnFailure != PauseOnFailure || !payloadReverted(tx, w) {
		return
	}
	// with the event that may free the slot: the next transaction must not be sent first
	c.Status = Paused
	if c.StatusReason != "" {
		c.StatusReason += "; "
	}
	c.StatusReason += pauseReason(tx, w)
}

// pauseReason explains which transaction paused the account, and where it reverted.
func pauseReason(tx *Tx, w *Write) string {
	r := w.Next.Receipt
	return fmt.Sprintf(
		"transaction %s (request %q) was included in block %d (%s) and reverted, and "+
			"on_failure is PAUSE",
		tx.ID, tx.RequestID, r.BlockNumber, r.BlockHash.Hex())
}

// payloadReverted reports whether a write is the first to record that the payload was included and
// reverted. For an execution before a requeue, that is its final event.
func payloadReverted(tx *Tx, w *Write) bool {
	if w.Kind == EventFailed && w.Next.Executed == Reverted {
		return tx.Receipt == nil || tx.Receipt.TxHash != w.Next.Receipt.TxHash
	}
	return w.Kind == EventIncluded && !w.Next.Receipt.Success &&
		tx.attempt(w.Next.Receipt.TxHash).Kind != Cancel
}

// trackOne returns the writes for unrecorded chain state of a transaction in flight; nil: none.
// None is the common case, so the writes are built in separate functions to keep this stack frame
// small.
func trackOne(v *View, tx *Tx) []Write {
	seen := v.inclusion(tx)
	switch {
	case !seen.Known:
		return nil
	case seen.Receipt == nil:
		return reorged(v, tx)
	case tx.Receipt == nil || tx.Receipt.BlockHash != seen.Receipt.BlockHash ||
		tx.Receipt.TxHash != seen.Receipt.TxHash:
		return included(v, tx, &seen)
	}
	if w := reportConfirmations(v, tx, &seen); w != nil {
		return w
	}
	if e := v.earlierInclusion(tx); seen.Final && e.Known &&
		(e.Receipt == nil || e.Final && executedUnexpectedly(tx.Reason)) {
		return final(v, tx, &e)
	}
	if !tx.Released && v.Policy.releases(&seen) {
		return released(v, tx)
	}
	return nil
}

// included records the block of a transaction.
func included(v *View, tx *Tx, seen *Inclusion) []Write {
	next := tx.Status
	next.Released = tx.Released || v.Policy.releases(seen)
	next.State, next.Sub = Tracking, Included
	next.Receipt, next.TxHash = seen.Receipt, seen.Receipt.TxHash
	tx.notePooled(&next, tx.attempt(seen.Receipt.TxHash))
	if next.Above = nil; !tx.keepsReasonUntilFinal() {
		next.Reason, next.LastError = "", ""
	}
	w := v.move(tx, EventIncluded, &next, 0)
	w[0].NewFork = true // blocks reported before are void
	return w
}

// released frees the slot for the next nonce.
func released(v *View, tx *Tx) []Write {
	next := tx.Status
	next.Released = true
	return v.move(tx, "", &next, 0)
}

// reorged moves a transaction whose block left the canonical chain back to pending. A released slot
// stays released, because later allocations exist.
func reorged(v *View, tx *Tx) []Write {
	if tx.Receipt == nil {
		return nil
	}
	return uncovered(v, tx)
}

func uncovered(v *View, tx *Tx) []Write {
	next := tx.Status
	next.State = Tracking
	next.Sub = Pending
	next.Receipt = nil
	next.SubmitAttempts = 0
	next.LastOutcome = ""
	if next.Above = nil; tx.Reason != ReasonReorgedFinal { // see rebroadcastAttempt
		next.TxHash = tx.newest().Hash
	}
	w := v.move(tx, EventReorged, &next, 0)
	w[0].NewFork = true
	return w
}

// final finalizes an included transaction by its receipt, or by the receipt of an earlier attempt,
// if only that executed the payload.
func final(v *View, tx *Tx, earlier *Inclusion) []Write {
	next := tx.Status
	next.Sub, next.Released = None, true
	kind, cancelled := EventConfirmed, tx.attempt(tx.Receipt.TxHash).Kind == Cancel
	if r := earlier.Receipt; r != nil && (cancelled || r.Success && !tx.Receipt.Success) {
		return v.finalizeAs(tx, earlier)
	}
	switch {
	case cancelled && tx.Rejected != "":
		kind = EventFailed
		next.State = Failed
		next.Executed = No
		next.Reason = ReasonRejected
		next.LastError = tx.Rejected
	case cancelled:
		kind = EventCancelled
		next.State = Cancelled
		next.Executed = No
		next.Reason, next.LastError = tx.whyCancelled()
	case tx.Receipt.Success:
		next.State = Confirmed
		next.Executed = Success
		next.Reason = ""
		next.LastError = ""
		switch r := earlier.Receipt; {
		case r != nil && r.Success:
			next.Reason = ProtectExecutedAfterRequeue
			next.LastError = fmt.Sprintf(
				"it executed TWICE: under nonce %d in block %d, before it was requeued, and "+
					"under nonce %d in block %d",
				tx.attempt(r.TxHash).Nonce, r.BlockNumber, *tx.Nonce, tx.Receipt.BlockNumber)
		case tx.Reason == ProtectExecutedAfterFinal:
			next.Reason, next.LastError = ProtectExecutedAfterFinal, tx.executedAfterFinalMessage()
		case tx.abandoned():
			next.Reason, next.LastError = ReasonCancelLost, tx.whyAbandoned()+", but the "+
				"transaction was included first"
		}
	case tx.Reason == ProtectExecutedAfterFinal:
		kind = EventFailed
		next.State = Failed
		next.Executed = Reverted
		next.LastError = tx.executedAfterFinalMessage() + ", and reverted"
	default:
		kind = EventFailed
		next.State = Failed
		next.Executed = Reverted
		next.Reason = ReasonReverted
		next.LastError = "the transaction was included and reverted; gas was paid"
	}
	return v.move(tx, kind, &next, 0)
}

// whyCancelled returns the reason of a final cancel transaction. A reorg after finality has removed
// the recorded reason, so it is derived.
func (tx *Tx) whyCancelled() (reason, message string) {
	anew := tx.Reason == ReasonReorgedFinal && !tx.Terms.CancelLate
	switch {
	case tx.CancelRequested:
		return ReasonCancelled, ""
	case tx.Reason == ProtectExecutedAfterRequeue, anew && tx.Requeued > 0:
		return ProtectExecutedAfterRequeue, "it had executed before it was requeued, so it was " +
			"cancelled; a reorg has undone that execution"
	case tx.Reason == ProtectExecutedAfterFinal, anew:
		return ProtectExecutedAfterFinal, "it was final, then found executed on chain; a cancel " +
			"transaction has used its nonce"
	}
	return ReasonDeadline, "not_after passed before it was included, so it was cancelled"
}

// nextDue returns the next time at which a step becomes due without new information.
func nextDue(v *View) time.Time {
	var until time.Time
	earlier := func(t time.Time) {
		if t.After(v.Now) && (until.IsZero() || t.Before(until)) {
			until = t
		}
	}
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.Receipt == nil {
			earlier(tx.Due)
			earlier(v.maxAgeDueAt(tx))
			if tx.Terms.CancelLate && tx.newest().Kind != Cancel {
				earlier(tx.Deadline)
			}
		}
	}
	for i := range v.Queue {
		tx := &v.Queue[i]
		if i == 0 || tx.CancelRequested { // see cancelRequeued
			earlier(tx.Due)
		}
	}
	return until
}

// inclusion returns the chain's state of a transaction: of the attempt that is included. It is
// known only if no attempt is in doubt. Attempts from before a REQUEUE have other nonces and are
// excluded: see earlierInclusion.
func (v *View) inclusion(tx *Tx) Inclusion {
	all, counted := Inclusion{}, false
	for _, a := range tx.Attempts {
		if tx.Nonce == nil || a.Nonce != *tx.Nonce {
			continue
		}
		one := v.Inclusion(a.Hash)
		if one.Known && one.Receipt != nil {
			return one
		}
		all.Known = one.Known && (all.Known || !counted)
		counted = true
	}
	return all
}

// move returns the write of one move, or of a schedule if kind is empty, as a list of one.
func (v *View) move(tx *Tx, kind Kind, next *Status, delay time.Duration) []Write {
	list := make([]Write, 1)
	w := &list[0]
	w.Tx = tx.ID
	w.Version = tx.Version
	w.From = tx.State
	w.Kind = kind
	w.Next = *next
	w.Delay = delay
	if kind != "" {
		w.Next.Version = tx.Version + 1
	}
	w.Next.LastErrorBase = validBase(next.LastError, next.LastErrorBase)
	if tx.Restored && next.State.Final() && next.Executed == No {
		w.Next.markUnproven()
	}
	if next.State.Final() && next.Receipt == nil && len(tx.Attempts) > 0 {
		w.Next.FinalBlock = max(v.Head, 1)
	}
	return list
}

// newest returns the newest attempt at the current nonce.
func (tx *Tx) newest() *Attempt {
	for i := len(tx.Attempts) - 1; i >= 0 && tx.Nonce != nil; i-- {
		if a := &tx.Attempts[i]; a.Nonce == *tx.Nonce {
			return a
		}
	}
	return &tx.Attempts[len(tx.Attempts)-1]
}

// attempt returns the attempt with a hash; the zero value if there is none.
func (tx *Tx) attempt(h Hash) *Attempt {
	for i := range tx.Attempts {
		if a := &tx.Attempts[i]; a.Hash == h {
			return a
		}
	}
	return &Attempt{}
}
