package engine

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// apply brings memory up to date with the committed change.
func (a *actor) apply(v *txn.View, c *txn.Change) {
	l := &a.ledger
	if c.Init != nil {
		l.Cursor = &txn.Cursor{Next: c.Init.Nonce, Init: c.Init.Nonce}
		a.log.Info("nonce sequence started", "nonce", uint64(c.Init.Nonce))
	}
	if c.Take != nil {
		moved := *l.Cursor
		moved.Next = c.Take.Next()
		moved.LastBlock = 0
		l.Cursor = &moved
		if l.FailedOver && a.trial == nil {
			a.trial = &c.Take.Nonce
		}
	}
	a.applyNonces(c)
	a.applyGuard(v, c)
	if c.TrialOver {
		a.trialOver = true
		a.forgetReads() // the next nonce needs a newer one
	}
	if c.Compared {
		l.FailedOver, l.MayHaveLost = false, false
		a.trial, a.trialOver = nil, false
	}
	a.remember(v.Cursor, c)
	if c.Status != "" {
		l.Submitter.Status = c.Status
		a.loaded = false // only the ledger has the number of the pause
		if c.StatusReason != "" {
			a.log.Warn("submitter paused; resume it to continue allocation", "reason",
				c.StatusReason)
		} else {
			a.log.Info("submitter status changed", "status", string(c.Status))
		}
	}
	if len(c.Commands) > 0 && len(a.inbox.Queue) > queueHeadOf(l.Submitter) {
		a.mail.Store(true) // transactions behind the queue head were read only for a command
	}
	for _, done := range c.Commands {
		same := func(k txn.Command) bool { return k.ID == done.ID }
		if i := slices.IndexFunc(a.inbox.Commands, same); i >= 0 {
			command := a.inbox.Commands[i]
			a.logCommand(command, done.Result)
			a.noteDecision(command, done.Result)
			a.loaded = a.loaded &&
				command.Kind != txn.CommandUpdate // the update is only in the ledger
		}
		a.inbox.Commands = slices.DeleteFunc(a.inbox.Commands, same)
	}
	a.publishFacts()
	for i := range c.Writes {
		a.applyWrite(v, &c.Writes[i])
	}
}

// noteDecision keeps a protection under which an operator has resolved a transaction: its evidence
// alone does not end it any more.
func (a *actor) noteDecision(c txn.Command, result string) {
	cursor := a.ledger.Cursor
	if result != txn.Applied || !c.GivesUpNonce() || cursor == nil || cursor.Protected == nil {
		return
	}
	decided, guard := *cursor, *cursor.Protected
	guard.Tx = txn.TxID{}
	decided.Protected = &guard
	a.ledger.Cursor = &decided
}

// applyGuard updates the protection in memory.
func (a *actor) applyGuard(v *txn.View, c *txn.Change) {
	if p := c.Protect; p != nil {
		guarded := *a.ledger.Cursor
		guarded.Protections++
		guarded.Protected = &txn.Protected{
			ID:       guarded.Protections,
			Reason:   p.Reason,
			Evidence: p.Evidence,
			At:       v.Now,
			Tx:       c.LostTx(),
		}
		a.ledger.Cursor = &guarded
		a.log.Error("submitter protected", "reason", p.Reason, "evidence", p.Evidence)
	}
	if u := c.Unprotect; u != nil {
		freed := *a.ledger.Cursor
		freed.Protected = nil
		if u.To > freed.Next {
			freed.Next, freed.LastBlock = u.To, 0
		}
		a.ledger.Cursor = &freed
		a.forgetReads() // for the decision; the next send needs its own read
		a.log.Warn("submitter protection lifted", "protection", u.ID, "reason", u.Reason, "from",
			uint64(u.Expect), "to", uint64(u.To))
	}
}

func (a *actor) applyWrite(v *txn.View, w *txn.Write) {
	if a.applyToFinal(w) {
		return
	}
	list, i := a.find(w.Tx)
	tx := &(*list)[i]
	a.noteLastBlock(tx.Nonce, w)
	a.countFork(tx.Receipt, w)
	tx.Status, tx.Turn = w.Next, w.Turn
	tx.Due = v.Now.Add(w.Delay)
	if w.Attempt != nil {
		tx.Attempts = append(slices.Clone(tx.Attempts), *w.Attempt)
		if tx.Signed { // its client may have sent it before
			a.track.Follow(w.Attempt.Hash, nil, a.wake)
		} else {
			a.track.FollowNew(w.Attempt.Hash, a.wake)
		}
		a.nonces.taken(w.Attempt.Hash)
	}
	a.logMove(tx, w)
	a.measure(tx, w)
	a.traceReceipt(tx, w)
	a.traceMove(tx, w)
	if w.Kind == txn.EventReorged || w.Kind == txn.EventIncluded {
		a.used = txn.UsedNonce{}
	}
	if w.Kind == txn.EventReorged || w.Kind == txn.EventIncluded && a.suspicion != nil {
		a.forgetReads() // of the old branch, or a suspicion of a transaction that is included
	}
	if a.put(tx, list) {
		*list = slices.Delete(*list, i, i+1)
	}
	if list == &a.inbox.Queue && len(a.inbox.Queue) == 0 {
		a.more.Store(true) // the queue may be longer than the part that was read
	}
}

// noteLastBlock keeps the block of the nonce below the cursor's, like the ledger does.
func (a *actor) noteLastBlock(nonce *txn.Nonce, w *txn.Write) {
	cursor := a.ledger.Cursor
	if cursor == nil || nonce == nil || *nonce+1 != cursor.Next {
		return
	}
	block := uint64(0)
	if w.Next.Receipt != nil && w.Next.Requeued == 0 {
		block = w.Next.Receipt.BlockNumber
	}
	if block == cursor.LastBlock {
		return
	}
	noted := *cursor
	noted.LastBlock = block
	a.ledger.Cursor = &noted
}

// put moves a transaction to the list of its state, and reports whether that is another list. Lists
// change in place: no view is used after the commit of its change.
func (a *actor) put(tx *txn.Tx, in *[]txn.Tx) (moved bool) {
	queue, open := &a.inbox.Queue, &a.ledger.Open
	switch {
	case tx.State.Final() && tx.FinalBlock > 0:
		a.ended = append(a.ended, *tx)
	case tx.State.Final():
		a.unfollow(tx.Attempts)
		if tx.Receipt != nil {
			a.audited, a.auditSent = append(a.audited, tx.Finished()), false
		}
	case tx.Nonce == nil:
		if tx.Reason != txn.ReasonLowerNonces {
			a.account = nil // it waits for an external condition: read again when it is due
		}
		if tx.Reason == txn.ReasonStartNonce {
			a.loaded = false // the registration may be corrected by then
		}
		if in == queue {
			return false
		}
		// A requeued transaction keeps its attempts: they are still followed.
		insert(queue, tx, func(other *txn.Tx) bool { return other.QueueSeq >= tx.QueueSeq })
	case in == open:
		return false
	default:
		insert(open, tx, func(other *txn.Tx) bool { return *other.Nonce >= *tx.Nonce })
	}
	return true
}

// insert puts a transaction into a sorted list, before the first for which after is true.
func insert(list *[]txn.Tx, tx *txn.Tx, after func(*txn.Tx) bool) {
	at := sort.Search(len(*list), func(i int) bool { return after(&(*list)[i]) })
	longer := slices.Grow(*list, 1)[:len(*list)+1]
	copy(longer[at+1:], longer[at:])
	longer[at] = *tx
	*list = longer
}

// find returns the list and index of a transaction that is not final.
func (a *actor) find(id txn.TxID) (list *[]txn.Tx, i int) {
	if i := placeOf(a.ledger.Open, id); i >= 0 {
		return &a.ledger.Open, i
	}
	return &a.inbox.Queue, placeOf(a.inbox.Queue, id)
}

// placeOf returns the index of a transaction, or -1. It copies none: transactions are large.
func placeOf(list []txn.Tx, id txn.TxID) int {
	for i := range list {
		if list[i].ID == id {
			return i
		}
	}
	return -1
}

// logCommand logs the result of a command.
func (a *actor) logCommand(k txn.Command, result string) {
	log := a.log
	if k.Tx != (txn.TxID{}) {
		log = log.With("tx_id", k.Tx.String())
	}
	log.Info("command decided", "command_id", k.ID, "kind", string(k.Kind), "action",
		string(k.Action), "operator", k.Operator, "result", result)
}

// logMove logs a move: as a warning if operators must notice it, otherwise some of them.
func (a *actor) logMove(tx *txn.Tx, w *txn.Write) {
	const moved = "transaction moved"
	switch w.Kind {
	case txn.EventStuck, txn.EventFailed, txn.EventReorged, txn.EventDelayed:
		a.log.Warn(moved, moveAttributes(tx, w)...)
	default:
		// building the attributes costs more than the move
		a.e.moves.log(a.log, moved, func() []any { return moveAttributes(tx, w) })
	}
}

func moveAttributes(tx *txn.Tx, w *txn.Write) []any {
	attributes := []any{
		"tx_id", tx.ID.String(),
		"event", string(w.Kind),
		"state", string(tx.State),
		"sub_state", string(tx.Sub),
		"version", tx.Version,
	}
	if tx.TxHash != (txn.Hash{}) { // zero before the first signature
		attributes = append(attributes, "tx_hash", tx.TxHash.Hex())
	}
	return append(attributes, "reason", tx.Reason, "last_error", tx.LastError)
}

// logCommit counts the outcome of a commit, and logs it unless it is done: apply logs those.
func (a *actor) logCommit(ctx context.Context, step txn.Step, c *txn.Change, o store.Outcome) {
	a.e.metrics.commits.Add(ctx, 1, a.e.metrics.outcomes.of(o.String()))
	if o == store.Done {
		return
	}
	op := opOf(step)
	log := a.log
	if len(c.Writes) > 0 {
		log = log.With("tx_id", c.Writes[0].Tx.String())
	}
	if own := a.e.keeper.stopping.Load() && ctx.Err() != nil; own ||
		o != store.Fenced { // a stopping node released its leases itself
		log.Debug("commit not done", "op", op, "outcome", o.String())
		return
	}
	a.e.metrics.fences.Add(ctx, 1, labelled("op", op))
	log.Warn("commit fenced", "op", op)
}

// opOf returns the operation of a change, for logs and metrics.
func opOf(s txn.Step) string {
	switch s := s.(type) {
	case txn.Record:
		if s.Change.Nonces != nil {
			return "nonce"
		}
	case txn.Prepare, txn.PrepareRange:
		return "allocate"
	case *txn.Replace:
		return "replace"
	case txn.Broadcast, txn.BroadcastRange:
		return "submit"
	case txn.ReadAccount:
		return "start"
	case txn.Investigate:
		return "protect"
	}
	return "record"
}

// arrived is called when the ledger is known. The first call records how long the submitter had no
// owner, if it had work.
func (a *actor) arrived(ctx context.Context) {
	if a.begun {
		return
	}
	a.begun = true
	a.e.router.learn(a.id, a.ledger.Submitter.Chain)
	before := a.lease.Before()
	if before.Owner == "" || before.Owner == a.e.members.self ||
		!a.hadWork(a.lease.TakenAt().Add(-before.Gap)) {
		return
	}
	without := before.Gap + a.e.Clock.Now().Sub(a.lease.TakenAt())
	a.e.metrics.takeovers.Record(ctx, without.Seconds())
	a.e.owners.log(a.log, "submitter taken over", func() []any {
		return []any{"before", before.Owner, "released", before.Released,
			"without_owner", without.Round(time.Millisecond).String(),
			"expires_at", a.lease.ExpiresAt()}
	})
}

// hadWork reports whether work existed when the previous lease ended. Work queued later waited for
// no takeover. The comparison mixes this node's clock with the database's, which is accurate enough
// for a metric.
func (a *actor) hadWork(ended time.Time) bool {
	return len(a.ledger.Open) > 0 ||
		len(a.inbox.Queue) > 0 && a.inbox.Queue[0].CreatedAt.Before(ended)
}
