package txn

import (
	"fmt"
	"time"
)

// Policy is how a chain's transactions are followed.
type Policy struct {
	Confirmations       uint64        // canonical blocks above the receipt's that make it final
	ReleaseDepth        uint64        // depth at which the next nonce may be taken; 0: once it is final. See releases
	AuditDepth          uint64        // depth below which no reorg is believed possible any more: a lost nonce may be given up there
	LagGrace            time.Duration // how long the chain may lack what the ledger has before that is no lag any more
	ReportConfirmations bool          // each block above the receipt's is an event
	PrepareMaxAge       time.Duration // how long the head of the queue may wait for something outside; 0: for ever
	ResubmitInterval    time.Duration // between two hand-overs of the same bytes
	ResubmitMax         int           // hand-overs after which a transaction is STUCK (and still followed and handed over)
	ResubmitMaxAge      time.Duration // age of its first form after which it is STUCK as well, whatever nodes have answered; 0: none
	Diagnose            bool          // look into the pool before a transaction is handed over again
	Stuck               bool          // a stuck policy is there to be asked
	Bump                BumpPolicy    // nil: only what callers and operators ask for is replaced, and no cancel offers more by itself
	BumpPermille        uint64        // what a replacement multiplies both fees by at least, in thousandths; pools ask for at least 1100
	BumpMaxFee          Wei           // most per unit of gas that a replacement offers; zero: no limit
}

// View is all that the owner of a submitter knows at one moment: its ledger, what others asked for, and what the chain shows under one frozen head.
type View struct {
	Now         time.Time
	Policy      Policy
	Submitter   Submitter
	Cursor      *Cursor    // nil before the account was looked at
	Open        []Tx       // with a nonce and not final, lowest nonce first
	Queue       []Tx       // head of the queue, in order
	Audited     []Finished // with a receipt, and not yet so deep that no reorg is believed possible
	NotExecuted []Tx       // final as never run, with signed forms, and that not yet so long ago that no reorg is believed to let one of them run
	Commands    []Command
	Account     *Account // nil: not looked at since the lease was taken, or since the last doubt
	Suspicion   *Suspicion
	NonceUse    *NonceUse // who used a nonce, as far as the last decision asked; nil: not asked
	Head        uint64    // number of the newest block of this view; 0 before there is one
	Inclusion   func(Hash) Inclusion
	Canonical   func(number uint64) (Hash, bool) // of the blocks that the view has; nil: none
}

// Step is what the owner does next. At most one thing outside, then one commit. What it names is the view's, and is good for as long as that: a transaction is large.
type Step interface{ step() }

type (
	// Rest waits until something is heard or Until has come; the zero Until is "until heard".
	Rest struct{ Until time.Time }
	// Record commits a change that needs nothing from outside.
	Record struct{ Change Change }
	// ReadAccount asks the chain for the account, with Depth for its settled nonce; AccountReadFailed tells what follows when it cannot be asked. Of Tx, if it has
	// attempts, the receipts are asked for again as well.
	ReadAccount struct {
		Tx        *Tx // the zero one: of none
		Depth     uint64
		MinDepth  uint64 // depth that does when no endpoint tells the state at Depth; 0: none, and OldStateMissing tells what follows
		CommandID int64  // the command that needs it; 0: none
	}
	// Investigate asks who used a nonce, for the operator; Investigated tells what follows, whether that was found or not.
	Investigate struct{ Finding Finding }
	// FindConsumer asks who used the nonce of a transaction, for a decision of an operator.
	FindConsumer struct {
		Tx        *Tx
		CommandID int64 // the command
	}
	// Prepare quotes and signs the head of the queue for the next nonce; Prepared tells what follows.
	Prepare struct {
		Tx    *Tx
		Nonce Nonce
		Slot  int16
	}
	// Broadcast hands recorded bytes to the chain; Sent tells what follows, and OriginalSent of what an operator asks for.
	Broadcast struct {
		Tx        *Tx
		Attempt   *Attempt
		CommandID int64 // the command that asks for it; 0: none
	}
)

func (Rest) step()         {}
func (Record) step()       {}
func (ReadAccount) step()  {}
func (Investigate) step()  {}
func (FindConsumer) step() {}
func (Prepare) step()      {}
func (Broadcast) step()    {}

// Decide is the whole policy of an owner: given what is known, the one thing to do next. It is pure, so that recovery after a crash is the same step that
// would have been taken without it.
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
	if len(v.Commands) == 0 { // the ledger takes no nonce while one waits
		if step, ok := allocate(v); ok {
			return step
		}
	}
	return Rest{Until: nextDue(v)}
}

// record writes a change down, if there is anything to write.
func record(c Change) (Step, bool) {
	if c.Empty() {
		return nil, false
	}
	return Record{c}, true
}

// nextCommand carries out the oldest command, or while that waits for what the chain shows, one behind it that never waits: a chain that is away must hold up nobody who
// protects or cancels. Behind a decision to leave a protection everything waits for that.
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

// immediateCommands are the commands that need nothing from outside.
var immediateCommands = map[CommandKind]bool{
	CommandPause:   true,
	CommandResume:  true,
	CommandCancel:  true,
	CommandProtect: true,
	CommandUpdate:  true,
}

// applyCommand carries out one command. ok is false while it waits for what the chain shows.
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
	case CommandUpdate: // whoever has recorded this reads the ledger anew
	case CommandProtect:
		return Record{protectOnCommand(v, c)}, true
	case CommandExitProtect:
		return exitProtect(v, c)
	case CommandResolve:
		return resolve(v, c)
	case CommandSpeedUp:
		return speedUp(v, c)
	default:
		done.Commands[0].Result = ResultUnknownCommand // it must not hold up the queue
	}
	return Record{done}, true
}

// told ends a command with a result other than APPLIED, and a sentence for whoever asked.
func commandResult(c Command, result, sentence string) Change {
	if sentence != "" {
		result += ": " + sentence
	}
	return Change{Commands: []CommandResult{{ID: c.ID, Result: result}}}
}

// refuse ends a command that the chain or the ledger does not bear out.
func rejectCommand(c Command, sentence string, args ...any) (Step, bool) {
	return Record{commandResult(c, ResultRefused, fmt.Sprintf(sentence, args...))}, true
}

// cancel writes down that a transaction shall not run; ok is false when it is final. No write: that was written before.
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
		next.CancelRequested, next.SubmitAttempts = true, 0 // now the tries of the cancel are counted
		return v.move(tx, EventCancelRequested, &next, 0), true
	}
	for i := range v.Queue {
		tx := &v.Queue[i]
		if tx.ID == id && tx.CancelRequested {
			return nil, true
		}
		if tx.ID == id && tx.Requeued > 0 { // what was signed for it before may have run
			next := tx.Status
			next.CancelRequested = true
			return v.move(tx, EventCancelRequested, &next, 0), true
		}
		if tx.ID == id {
			next := tx.Status
			next.State, next.Sub, next.Executed = Cancelled, None, No
			next.CancelRequested, next.Reason, next.LastError = true, ReasonCancelled, ""
			return v.move(tx, EventCancelled, &next, 0), true
		}
	}
	return nil, false
}

// follow writes down what the chain shows of the transactions in flight, and of those in the queue that were in flight before.
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

// shown adds what the chain shows of a transaction.
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
	c.Status = Paused // with the event that frees the slot, or may: what follows must not be sent before this is final
	if c.StatusReason != "" {
		c.StatusReason += "; "
	}
	c.StatusReason += pauseReason(tx, w)
}

// pauseReason tells an operator which transaction paused its account, and where it failed.
func pauseReason(tx *Tx, w *Write) string {
	r := w.Next.Receipt
	return fmt.Sprintf(
		"transaction %s (request %q) was included in block %d (%s) and reverted, and on_failure is PAUSE",
		tx.ID, tx.RequestID, r.BlockNumber, r.BlockHash.Hex())
}

// reverted tells whether a write says for the first time that what was to be sent is in a block and failed. Of what ran before it was given back to the queue
// its end says so.
func payloadReverted(tx *Tx, w *Write) bool {
	if w.Kind == EventFailed && w.Next.Executed == Reverted {
		return tx.Receipt == nil || tx.Receipt.TxHash != w.Next.Receipt.TxHash
	}
	return w.Kind == EventIncluded && !w.Next.Receipt.Success &&
		tx.attempt(w.Next.Receipt.TxHash).Kind != Cancel
}

// trackOne is what the chain shows of a transaction in flight that is not written down; nil: nothing. As a rule it is nothing, so that what is written is made
// elsewhere: whoever asks stands on no more than that takes.
func trackOne(v *View, tx *Tx) []Write {
	seen := v.inclusion(tx)
	switch {
	case !seen.Known:
		return nil
	case seen.Receipt == nil:
		return reorged(v, tx)
	case tx.Receipt == nil || tx.Receipt.BlockHash != seen.Receipt.BlockHash || tx.Receipt.TxHash != seen.Receipt.TxHash:
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

// included says in which block it is.
func included(v *View, tx *Tx, seen *Inclusion) []Write {
	next := tx.Status
	next.Released = tx.Released || v.Policy.releases(seen)
	next.State, next.Sub = Tracking, Included
	next.Receipt, next.TxHash = seen.Receipt, seen.Receipt.TxHash
	tx.inPool(&next, tx.attempt(seen.Receipt.TxHash))
	if next.Above = nil; !tx.keepsReasonUntilFinal() {
		next.Reason, next.LastError = "", ""
	}
	w := v.move(tx, EventIncluded, &next, 0)
	w[0].NewFork = true // what was told of blocks before is void
	return w
}

// released gives its slot to the next nonce.
func released(v *View, tx *Tx) []Write {
	next := tx.Status
	next.Released = true
	return v.move(tx, "", &next, 0)
}

// reorged puts a transaction whose block left the canonical chain back on its way. Its slot, once released, stays so: what was allocated after it exists.
func reorged(v *View, tx *Tx) []Write {
	if tx.Receipt == nil {
		return nil
	}
	return uncovered(v, tx)
}

func uncovered(v *View, tx *Tx) []Write {
	next := tx.Status
	next.State, next.Sub, next.Receipt, next.SubmitAttempts, next.LastOutcome = Tracking, Pending, nil, 0, ""
	if next.Above = nil; tx.Reason != ReasonReorgedFinal { // see again
		next.TxHash = tx.newest().Hash
	}
	w := v.move(tx, EventReorged, &next, 0)
	w[0].NewFork = true
	return w
}

// final ends an included transaction by what its receipt says of the attempt that was included, or by that of an earlier one, if that alone ran.
func final(v *View, tx *Tx, earlier *Inclusion) []Write {
	next := tx.Status
	next.Sub, next.Released = None, true
	kind, cancelled := EventConfirmed, tx.attempt(tx.Receipt.TxHash).Kind == Cancel
	if r := earlier.Receipt; r != nil && (cancelled || r.Success && !tx.Receipt.Success) {
		return v.finalizeAs(tx, earlier)
	}
	switch {
	case cancelled && tx.Rejected != "":
		kind, next.State, next.Executed, next.Reason, next.LastError = EventFailed, Failed, No, ReasonRejected, tx.Rejected
	case cancelled:
		kind, next.State, next.Executed = EventCancelled, Cancelled, No
		next.Reason, next.LastError = tx.whyCancelled()
	case tx.Receipt.Success:
		next.State, next.Executed, next.Reason, next.LastError = Confirmed, Success, "", ""
		switch r := earlier.Receipt; {
		case r != nil && r.Success:
			next.Reason = ProtectExecutedAfterRequeue
			next.LastError = fmt.Sprintf(
				"it ran TWICE: under nonce %d, in block %d, before it was given back to the queue, and under nonce %d, in block %d",
				tx.attempt(r.TxHash).Nonce, r.BlockNumber, *tx.Nonce, tx.Receipt.BlockNumber)
		case tx.Reason == ProtectExecutedAfterFinal:
			next.Reason, next.LastError = ProtectExecutedAfterFinal, tx.executedAfterFinalMessage()
		case tx.abandoned():
			next.Reason, next.LastError = ReasonCancelLost, tx.whyAbandoned()+", and the transaction was included first"
		}
	case tx.Reason == ProtectExecutedAfterFinal:
		kind, next.State, next.Executed, next.LastError = EventFailed, Failed, Reverted, tx.executedAfterFinalMessage()+", and reverted"
	default:
		kind, next.State, next.Executed, next.Reason = EventFailed, Failed, Reverted, ReasonReverted
		next.LastError = "the transaction was included and reverted; gas was paid"
	}
	return v.move(tx, kind, &next, 0)
}

// whyCancelled says what its cancel, which is final, was signed for. Of what was final before, and reorged, there is no reason left that says so.
func (tx *Tx) whyCancelled() (reason, message string) {
	anew := tx.Reason == ReasonReorgedFinal && !tx.Terms.CancelLate
	switch {
	case tx.CancelRequested:
		return ReasonCancelled, ""
	case tx.Reason == ProtectExecutedAfterRequeue, anew && tx.Requeued > 0:
		return ProtectExecutedAfterRequeue, "it was seen to have run before it was given back to the queue, so it was cancelled; the chain has undone that since"
	case tx.Reason == ProtectExecutedAfterFinal, anew:
		return ProtectExecutedAfterFinal, "it had ended, and was seen on chain after that; a form that does nothing has used its nonce"
	}
	return ReasonDeadline, "not_after passed before it was in a block, so it was cancelled"
}

// nextDue is when time alone makes something to do.
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
		if i == 0 || tx.CancelRequested { // see withdraw
			earlier(tx.Due)
		}
	}
	return until
}

// seen is what the chain shows of a transaction: of whichever attempt is included. It is known only when no attempt is in doubt. Attempts of before a REQUEUE
// have other nonces and do not count here: see earlier.
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

// move makes the write of one move, or of a schedule when kind is empty, as a change has it: in a list.
func (v *View) move(tx *Tx, kind Kind, next *Status, delay time.Duration) []Write {
	list := make([]Write, 1)
	w := &list[0]
	w.Tx, w.Version, w.From, w.Kind, w.Next, w.Delay = tx.ID, tx.Version, tx.State, kind, *next, delay
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

// newest is the newest form for the nonce that it has.
func (tx *Tx) newest() *Attempt {
	for i := len(tx.Attempts) - 1; i >= 0 && tx.Nonce != nil; i-- {
		if a := &tx.Attempts[i]; a.Nonce == *tx.Nonce {
			return a
		}
	}
	return &tx.Attempts[len(tx.Attempts)-1]
}

// attempt is the form of a hash; the zero one if it has none.
func (tx *Tx) attempt(h Hash) *Attempt {
	for i := range tx.Attempts {
		if a := &tx.Attempts[i]; a.Hash == h {
			return a
		}
	}
	return &Attempt{}
}
