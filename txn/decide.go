package txn

import "time"

// Decide is the entire policy of an owner: given a view, the one next step. It is pure, so the step
// after a crash is the same as without it.
func Decide(v *View) Step {
	if step, ok := protectLost(v); ok {
		return step
	}
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
	if step, ok := external(v); ok {
		return step
	}
	if step, ok := takeSigned(v); ok {
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
	if step, ok := compareAgain(v); ok {
		return step
	}
	if len(v.Commands) == 0 { // the ledger takes no nonce while a command waits
		if step, ok := allocate(v); ok {
			return step
		}
	}
	return Rest{Until: nextDue(v)}
}

// nextCommand applies the oldest command. While that waits for the chain, it applies a later one
// that needs no external data: an unavailable chain must not delay PROTECT or CANCEL. All commands
// wait behind an EXIT_PROTECT, which waits until all known receipts are recorded: it is refused
// while they are not, and a stream of such commands would be refused for ever.
func nextCommand(v *View) (Step, bool) {
	for i, c := range v.Commands {
		if i == 0 && c.Kind == CommandExitProtect {
			if step, ok := trackAll(v); ok {
				return step, true
			}
		}
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
		if s := v.Submitter; c.Expect != 0 && s.Status == Paused && c.Expect != s.PauseID {
			done.Commands[0].Result = ResultPauseChanged
			break
		}
		done.Status = Active
	case CommandCancel:
		if clientSigned(v, c.Tx) {
			return rejectCommand(c, byClient)
		}
		if queuedFill(v, c.Tx) {
			return rejectCommand(c, "it fills a reserved nonce, which nothing else can close")
		}
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
			unreadable, _ := v.unreadableDueAt(tx)
			earlier(unreadable)
			if tx.Terms.CancelLate && tx.newest().Kind != Cancel {
				earlier(tx.Deadline)
			}
		}
	}
	nonceDue(v, earlier)
	for i := range v.Queue {
		tx := &v.Queue[i]
		if i == 0 || tx.CancelRequested { // see cancelRequeued
			earlier(tx.Due)
		}
	}
	return until
}
