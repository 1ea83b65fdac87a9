package txn

import (
	"fmt"
	"slices"
	"time"
)

// Policy is how a chain's transactions are followed.
type Policy struct {
	Confirmations    uint64        // canonical blocks above the receipt's that make it final
	ReleaseDepth     uint64        // depth at which the next nonce may be taken: 1 is "its receipt is in a canonical block"
	AuditDepth       uint64        // depth below which no reorg is believed possible any more: a lost nonce may be given up there
	LagGrace         time.Duration // how long the chain may lack what the ledger has before that is no lag any more
	TellAbove        bool          // each block above the receipt's is an event
	PrepareMaxAge    time.Duration // how long the head of the queue may wait for something outside; 0: for ever
	ResubmitInterval time.Duration // between two hand-overs of the same bytes
	ResubmitMax      int           // hand-overs after which a transaction is STUCK (and still followed and handed over)
	Diagnose         bool          // look into the pool before a transaction is handed over again
	Stuck            bool          // a stuck policy is there to be asked
	Bump             BumpPolicy    // nil: only what callers and operators ask for is replaced
	BumpPermille     uint64        // what a replacement multiplies both fees by at least, in thousandths
	BumpMaxFee       Wei           // most per unit of gas that a replacement offers; zero: no limit
}

// View is all that the owner of a submitter knows at one moment: its ledger, what others asked for, and what the chain shows under one frozen head.
type View struct {
	Now       time.Time
	Policy    Policy
	Submitter Submitter
	Cursor    *Cursor // nil before the account was looked at
	Open      []Tx    // with a nonce and not final, lowest nonce first
	Queue     []Tx    // head of the queue, in order
	Audited   []Tx    // final, with a receipt, and not yet so deep that no reorg is believed possible; without attempts
	Commands  []Command
	Account   *Account // nil: not looked at since the lease was taken, or since the last doubt
	Suspicion *Suspicion
	Used      *Used  // who used a nonce, as far as the last decision asked; nil: not asked
	Head      uint64 // number of the newest block of this view; 0 before there is one
	Seen      func(Hash) Inclusion
	Canonical func(number uint64) (Hash, bool) // of the blocks that the view has; nil: none
}

// Step is what the owner does next. At most one thing outside, then one commit.
type Step interface{ step() }

type (
	// Rest waits until something is heard or Until has come; the zero Until is "until heard".
	Rest struct{ Until time.Time }
	// Record commits a change that needs nothing from outside.
	Record struct{ Change Change }
	// LookAtAccount asks the chain for the account, with Depth for its settled nonce; AccountUnseen tells what follows when it cannot be asked. Of Tx, if it has
	// attempts, the receipts are asked for again as well.
	LookAtAccount struct {
		Tx    Tx
		Depth uint64
		For   int64 // the command that needs it; 0: none
	}
	// Investigate asks who used a nonce, for the operator; Investigated tells what follows, whether that was found or not.
	Investigate struct{ Finding Finding }
	// AskWho asks who used the nonce of a transaction, for a decision of an operator.
	AskWho struct {
		Tx  Tx
		For int64 // the command
	}
	// Prepare quotes and signs the head of the queue for the next nonce; Prepared tells what follows.
	Prepare struct {
		Tx    Tx
		Nonce Nonce
		Slot  int16
	}
	// Broadcast hands recorded bytes to the chain; Sent tells what follows.
	Broadcast struct {
		Tx      Tx
		Attempt Attempt
	}
)

func (Rest) step()          {}
func (Record) step()        {}
func (LookAtAccount) step() {}
func (Investigate) step()   {}
func (AskWho) step()        {}
func (Prepare) step()       {}
func (Broadcast) step()     {}

// Decide is the whole policy of an owner: given what is known, the one thing to do next. It is pure, so that recovery after a crash is the same step that
// would have been taken without it.
func Decide(v View) Step {
	if len(v.Commands) > 0 {
		if step, ok := obey(v, v.Commands[0]); ok {
			return step
		}
	}
	if change := follow(v); !change.Empty() {
		return Record{change}
	}
	if change := audit(v); !change.Empty() {
		return Record{change}
	}
	if step, ok := protect(v); ok {
		return step
	}
	if step, ok := withdraw(v); ok {
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

// obey carries out one command. ok is false while it waits for what the chain shows.
func obey(v View, c Command) (step Step, ok bool) {
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
		if write.Tx != (TxID{}) {
			done.Writes = []Write{write}
		}
	case CommandUpdate: // whoever has recorded this reads the ledger anew
	case CommandProtect:
		return Record{protectAsTold(v, c)}, true
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
func told(c Command, result, sentence string) Change {
	if sentence != "" {
		result += ": " + sentence
	}
	return Change{Commands: []CommandResult{{ID: c.ID, Result: result}}}
}

// cancel writes down that a transaction shall not run; ok is false when it is final. The zero Write: that was written before.
func cancel(v View, id TxID) (Write, bool) {
	for _, tx := range v.Open {
		if tx.ID != id {
			continue
		}
		if tx.CancelRequested {
			return Write{}, true
		}
		next := tx.Status
		next.CancelRequested = true
		return v.move(tx, EventCancelRequested, next, 0), true
	}
	for _, tx := range v.Queue {
		if tx.ID == id && tx.Requeued > 0 { // what was signed for it before may have run
			next := tx.Status
			next.CancelRequested = true
			return v.move(tx, EventCancelRequested, next, 0), true
		}
		if tx.ID == id {
			next := tx.Status
			next.State, next.Sub, next.Executed = Cancelled, None, No
			next.CancelRequested, next.Reason, next.LastError = true, ReasonCancelled, ""
			return v.move(tx, EventCancelled, next, 0), true
		}
	}
	return Write{}, false
}

// follow writes down what the chain shows of the transactions in flight, and of those in the queue that were in flight before.
func follow(v View) Change {
	var c Change
	add := func(w Write, ok bool) {
		if !ok {
			return
		}
		c.Writes = append(c.Writes, w)
		if w.Kind == EventFailed && v.Submitter.OnFailure == PauseOnFailure {
			c.Status = Paused
		}
	}
	for _, tx := range v.Open {
		add(followOne(v, tx))
	}
	for _, tx := range v.Queue {
		add(endedBefore(v, tx))
	}
	return c
}

func followOne(v View, tx Tx) (Write, bool) {
	seen := v.seen(tx)
	if !seen.Known {
		return Write{}, false
	}
	if seen.Receipt == nil {
		return reorged(v, tx)
	}
	next := tx.Status
	next.Released = tx.Released || seen.Confirmations+1 >= v.Policy.ReleaseDepth
	if tx.Receipt == nil || tx.Receipt.BlockHash != seen.Receipt.BlockHash || tx.Receipt.TxHash != seen.Receipt.TxHash {
		next.State, next.Sub = Tracking, Included
		next.Receipt, next.TxHash = seen.Receipt, seen.Receipt.TxHash
		if next.Above = nil; tx.Reason != ProtectRanBefore { // that stays told
			next.Reason, next.LastError = "", ""
		}
		w := v.move(tx, EventIncluded, next, 0)
		w.NewFork = true // what was told of blocks before is void
		return w, true
	}
	if w, ok := tellAbove(v, tx, seen); ok {
		return w, true
	}
	if e := v.earlier(tx); seen.Final && e.Known && (e.Receipt == nil || e.Final && tx.Reason == ProtectRanBefore) {
		return final(v, tx, e), true
	}
	if next.Released != tx.Released {
		return v.move(tx, "", next, 0), true
	}
	return Write{}, false
}

// reorged puts a transaction whose block left the canonical chain back on its way. Its slot, once released, stays so: what was allocated after it exists.
func reorged(v View, tx Tx) (Write, bool) {
	if tx.Receipt == nil {
		return Write{}, false
	}
	next := tx.Status
	next.State, next.Sub, next.Receipt, next.SubmitAttempts = Tracking, Pending, nil, 0
	next.TxHash, next.Above = tx.newest().Hash, nil
	w := v.move(tx, EventReorged, next, 0)
	w.NewFork = true
	return w, true
}

// final ends an included transaction by what its receipt says of the attempt that was included, or by that of an earlier one, if that alone ran.
func final(v View, tx Tx, earlier Inclusion) Write {
	next := tx.Status
	next.Sub, next.Released = None, true
	kind, cancelled := EventConfirmed, tx.attempt(tx.Receipt.TxHash).Kind == Cancel
	if r := earlier.Receipt; r != nil && (cancelled || r.Success && !tx.Receipt.Success) {
		return v.endAs(tx, earlier)
	}
	switch {
	case cancelled:
		kind, next.State, next.Executed, next.Reason = EventCancelled, Cancelled, No, ReasonCancelled
		switch {
		case tx.CancelRequested:
		case tx.Reason == ProtectRanBefore:
			next.Reason, next.LastError = ProtectRanBefore, "it was seen to have run before it was given back to the queue, so it was cancelled; the chain has undone that since"
		default:
			next.Reason, next.LastError = ReasonDeadline, "not_after passed before it was in a block, so it was cancelled"
		}
	case tx.Receipt.Success:
		next.State, next.Executed, next.Reason, next.LastError = Confirmed, Success, "", ""
		switch r := earlier.Receipt; {
		case r != nil && r.Success:
			next.Reason = ProtectRanBefore
			next.LastError = fmt.Sprintf("it ran TWICE: under nonce %d, in block %d, before it was given back to the queue, and under nonce %d, in block %d",
				tx.attempt(r.TxHash).Nonce, r.BlockNumber, *tx.Nonce, tx.Receipt.BlockNumber)
		case tx.givenUp():
			next.Reason, next.LastError = ReasonCancelLost, "a cancel was asked for, and the transaction was included first"
			if !tx.CancelRequested {
				next.LastError = "not_after passed and a cancel was sent, and the transaction was included first"
			}
		}
	default:
		kind, next.State, next.Executed, next.Reason = EventFailed, Failed, Reverted, ReasonReverted
		next.LastError = "the transaction was included and reverted; gas was paid"
	}
	return v.move(tx, kind, next, 0)
}

// dueBroadcast hands over the lowest nonce that is not included, when its time has come; what is above it would have to wait for it in any pool. While it is
// not known whether it is included already, nothing is handed over.
func dueBroadcast(v View) (Step, bool) {
	for _, tx := range v.Open {
		seen := v.seen(tx)
		if seen.Known && seen.Receipt != nil {
			continue
		}
		if !seen.Known || tx.Due.After(v.Now) && !tx.Claimed && tx.Answer == "" || !mayGo(v, tx) {
			return nil, false
		}
		if v.Policy.Diagnose && tx.Receipt == nil && tx.SubmitAttempts > 0 && !tx.Diagnosed {
			return Diagnose{tx}, true
		}
		if tx.Reason == ProtectRanBefore && tx.newest().Kind != Cancel {
			return fill(v, tx)
		}
		if tx.Kept {
			return Broadcast{Tx: tx, Attempt: tx.newest()}, true
		}
		if step, ok := replacement(v, tx); ok {
			return step, true
		}
		if step, ok := govern(v, tx); ok {
			return step, true
		}
		return Broadcast{Tx: tx, Attempt: tx.again()}, true
	}
	return nil, false
}

// Sent tells what follows from the chain's answer to a broadcast. No answer frees the nonce.
func Sent(v View, b Broadcast, answer Outcome) Change {
	tx, next := b.Tx, b.Tx.Status
	if !unasked(answer.Class) {
		next.SubmitAttempts++
	}
	next.Doubted = answer.Class == NonceTooLow || next.SubmitAttempts > 1 || b.Attempt.Kind != Original // a node that takes anything never says that the nonce is used
	next.Claimed, next.Answer, next.Diagnosed, next.Kept = false, "", false, false
	kind, delay := Kind(""), v.Policy.ResubmitInterval
	taken := answer.Class == Accepted || answer.Class == AlreadyKnown
	if taken {
		next.Accepted = max(next.Accepted, b.Attempt.No)
	}
	if !taken {
		delay = min(max(Backoff(next.SubmitAttempts), answer.RetryAfter), v.Policy.ResubmitInterval)
	}
	switch {
	case tx.State == Stuck && tx.Reason == ReasonFeeCapReached && taken && b.Attempt.No > tx.Accepted: // the fees fell, or the cap was raised
		kind, next.State, next.Sub, next.Reason, next.LastError, next.SubmitAttempts = EventUnstuck, Tracking, Pending, "", "", 1
	case tx.State == Stuck: // keeps its reason until a block has it
	case taken && tx.State == Allocated:
		kind, next.State, next.Sub, next.Reason, next.LastError = EventSubmitted, Tracking, Pending, "", ""
		next.SubmitAttempts = 1 // what failed before reached nobody's pool
	case answer.Class == Invalid:
		kind, next.State, next.Sub, next.Reason, next.LastError = EventStuck, Stuck, None, ReasonRejected, answer.Detail
		delay = v.Policy.ResubmitInterval
	case next.SubmitAttempts >= v.Policy.ResubmitMax:
		kind, next.State, next.Sub, next.Reason = EventStuck, Stuck, None, ReasonResubmitExhausted
		next.LastError = fmt.Sprintf("handed over %d times and not included (the last answer was %s); it is still followed and handed over", next.SubmitAttempts, answer.Class)
	case taken:
		next.Reason, next.LastError = "", ""
		if answer.Class == Accepted {
			kind = EventResubmitted // the node had lost it
		}
	default:
		next.Reason, next.LastError = string(answer.Class), answer.Detail
	}
	return Change{Writes: []Write{v.move(tx, kind, next, delay)}}
}

// unasked are the answers of a node that did not look at the bytes: they say nothing of the transaction, however often they come.
func unasked(c Class) bool { return c == Unavailable || c == RateLimited || c == Unauthorized }

// nextDue is when time alone makes something to do.
func nextDue(v View) time.Time {
	var until time.Time
	earlier := func(t time.Time) {
		if t.After(v.Now) && (until.IsZero() || t.Before(until)) {
			until = t
		}
	}
	for _, tx := range v.Open {
		if tx.Receipt == nil {
			earlier(tx.Due)
		}
	}
	if len(v.Queue) > 0 {
		earlier(v.Queue[0].Due)
	}
	return until
}

// seen is what the chain shows of a transaction: of whichever attempt is included. It is known only when no attempt is in doubt. Attempts of before a REQUEUE
// have other nonces and do not count here: see earlier.
func (v View) seen(tx Tx) Inclusion {
	all, counted := Inclusion{}, false
	for _, a := range tx.Attempts {
		if tx.Nonce == nil || a.Nonce != *tx.Nonce {
			continue
		}
		one := v.Seen(a.Hash)
		if one.Known && one.Receipt != nil {
			return one
		}
		all.Known = one.Known && (all.Known || !counted)
		counted = true
	}
	return all
}

// move makes the write of one move, or of a schedule when kind is empty.
func (v View) move(tx Tx, kind Kind, next Status, delay time.Duration) Write {
	if kind != "" {
		next.Version = tx.Version + 1
	}
	return Write{Tx: tx.ID, Version: tx.Version, From: tx.State, Kind: kind, Next: next, Delay: delay}
}

// HandedOver tells whether it is in no block, as far as the ledger knows, and some form of it was given to the chain. A replacement begins its count anew.
func (tx Tx) HandedOver() bool {
	return len(tx.Attempts) > 0 && tx.Sub != Included && (tx.SubmitAttempts > 0 || tx.newest().Kind != Original)
}

// newest is the newest form for the nonce that it has.
func (tx Tx) newest() Attempt {
	for _, a := range slices.Backward(tx.Attempts) {
		if tx.Nonce != nil && a.Nonce == *tx.Nonce {
			return a
		}
	}
	return tx.Attempts[len(tx.Attempts)-1]
}

// again is the form that is handed over again. Of what was final it is the one that was in the block: nobody is told twice of different ends (H22).
func (tx Tx) again() Attempt {
	if was := tx.attempt(tx.TxHash); tx.Reason == ReasonReorgedFinal && was.No > 0 {
		return was
	}
	return tx.newest()
}

func (tx Tx) attempt(h Hash) Attempt {
	for _, a := range tx.Attempts {
		if a.Hash == h {
			return a
		}
	}
	return Attempt{}
}

const (
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 15 * time.Second
)

// Backoff is the wait after the n-th fruitless try in a row, n from 0: half a second, doubling, at most 15 seconds.
func Backoff(n int) time.Duration {
	if n > 5 {
		return backoffMost
	}
	return min(backoffFirst<<n, backoffMost)
}
