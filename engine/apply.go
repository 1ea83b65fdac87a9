package engine

import (
	"context"
	"log/slog"
	"slices"
	"sort"

	"github.com/fencepost/fencepost/txn"
)

// apply brings memory to where the committed change has brought the ledger.
func (a *actor) apply(v *txn.View, c *txn.Change) {
	l := &a.ledger
	if c.Init != nil {
		l.Cursor = &txn.Cursor{Next: c.Init.Nonce, Init: c.Init.Nonce}
		a.log.Info("nonce sequence started", "nonce", uint64(c.Init.Nonce))
	}
	if c.Take != nil {
		moved := *l.Cursor
		moved.Next, moved.LastBlock = moved.Next+1, 0
		l.Cursor = &moved
	}
	a.applyGuard(v, c)
	a.stand()
	if c.Status != "" {
		l.Submitter.Status = c.Status
		if c.StatusReason != "" {
			a.log.Warn("submitter is paused: no nonce is taken until somebody resumes it", "reason",
				c.StatusReason)
		} else {
			a.log.Info("submitter status changed", "status", string(c.Status))
		}
	}
	if len(c.Commands) > 0 && len(a.inbox.Queue) > queueHead {
		a.mail.Store(true) // what is not of the head of the queue is there for a command alone
	}
	for _, done := range c.Commands {
		if i := slices.IndexFunc(a.inbox.Commands, func(k txn.Command) bool { return k.ID == done.ID }); i >= 0 {
			command := a.inbox.Commands[i]
			a.tellCommand(command, done.Result)
			a.loaded = a.loaded &&
				command.Kind != txn.CommandUpdate // what was changed is in the ledger alone
		}
		a.inbox.Commands = slices.DeleteFunc(a.inbox.Commands,
			func(k txn.Command) bool { return k.ID == done.ID })
	}
	for i := range c.Writes {
		a.applyWrite(v, &c.Writes[i])
	}
}

// applyGuard brings the protection in memory to where the change has brought it.
func (a *actor) applyGuard(v *txn.View, c *txn.Change) {
	if p := c.Protect; p != nil {
		guarded := *a.ledger.Cursor
		guarded.Protections++
		guarded.Protected = &txn.Protected{
			ID:       guarded.Protections,
			Reason:   p.Reason,
			Evidence: p.Evidence,
			At:       v.Now,
		}
		a.ledger.Cursor = &guarded
		a.log.Error("submitter is protected: no nonce is taken until an operator decides", "reason",
			p.Reason, "evidence", p.Evidence)
	}
	if u := c.Unprotect; u != nil {
		freed := *a.ledger.Cursor
		freed.Protected = nil
		if u.To > freed.Next {
			freed.Next, freed.LastBlock = u.To, 0
		}
		a.ledger.Cursor = &freed
		a.account, a.suspicion = nil, nil // looked at for the decision; what is sent next rests on a look of its own
		a.log.Warn("submitter is protected no more", "protection", u.ID, "reason", u.Reason, "from",
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
	tx.Status, tx.Turn, tx.Due = w.Next, w.Turn, v.Now.Add(w.Delay)
	if w.Attempt != nil {
		tx.Attempts = append(slices.Clone(tx.Attempts), *w.Attempt)
		a.track.FollowNew(w.Attempt.Hash, a.wake)
	}
	a.tell(tx, w)
	a.measure(tx, w)
	if w.Kind == txn.EventReorged || w.Kind == txn.EventIncluded {
		a.used = txn.UsedNonce{}
	}
	if w.Kind == txn.EventReorged || w.Kind == txn.EventIncluded && a.suspicion != nil {
		a.account, a.suspicion = nil, nil // they tell of the branch that was left, or of a transaction that was thought lost
	}
	if a.put(tx, list) {
		*list = slices.Delete(*list, i, i+1)
	}
	if list == &a.inbox.Queue && len(a.inbox.Queue) == 0 {
		a.more.Store(true) // there may be more behind what was read
	}
}

// noteLastBlock keeps the block of the nonce before the cursor's, which is that of the write, as the ledger tells it.
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

// put puts a transaction where it belongs now, and tells whether that is another list than the one that it is in. Lists change in place: nobody looks at a view any
// more once its change is committed.
func (a *actor) put(tx *txn.Tx, in *[]txn.Tx) (moved bool) {
	queue, open := &a.inbox.Queue, &a.ledger.Open
	switch {
	case tx.State.Final() && tx.FinalBlock > 0:
		a.ended = append(a.ended, *tx)
	case tx.State.Final():
		a.unfollow(tx.Attempts)
		if tx.Receipt != nil {
			a.audited, a.auditTold = append(a.audited, tx.Finished()), false
		}
	case tx.Nonce == nil:
		a.account = nil // it waits for something outside: look again when its time comes
		if tx.Reason == txn.ReasonStartNonce {
			a.loaded = false // the registration may have been corrected by then
		}
		if in == queue {
			return false
		}
		insert(queue, tx,
			func(other *txn.Tx) bool { return other.QueueSeq >= tx.QueueSeq }) // one that was given back keeps its attempts: they are still followed
	case in == open:
		return false
	default:
		insert(open, tx, func(other *txn.Tx) bool { return *other.Nonce >= *tx.Nonce })
	}
	return true
}

// insert puts a transaction into a list, before the first that comes after it.
func insert(list *[]txn.Tx, tx *txn.Tx, after func(*txn.Tx) bool) {
	at := sort.Search(len(*list), func(i int) bool { return after(&(*list)[i]) })
	longer := slices.Grow(*list, 1)[:len(*list)+1]
	copy(longer[at+1:], longer[at:])
	longer[at] = *tx
	*list = longer
}

// find is where memory has a transaction that is not final.
func (a *actor) find(id txn.TxID) (list *[]txn.Tx, i int) {
	if i := placeOf(a.ledger.Open, id); i >= 0 {
		return &a.ledger.Open, i
	}
	return &a.inbox.Queue, placeOf(a.inbox.Queue, id)
}

// placeOf is where a list has a transaction, -1: nowhere. A transaction is large, so that none is copied to be looked at.
func placeOf(list []txn.Tx, id txn.TxID) int {
	for i := range list {
		if list[i].ID == id {
			return i
		}
	}
	return -1
}

// tellCommand logs what was decided on a command.
func (a *actor) tellCommand(k txn.Command, result string) {
	log := a.log
	if k.Tx != (txn.TxID{}) {
		log = log.With("tx_id", k.Tx.String())
	}
	log.Info("command decided", "command_id", k.ID, "kind", string(k.Kind), "action",
		string(k.Action), "operator", k.Operator, "result", result)
}

// tell logs a move: what an operator must notice loudly, the rest for whoever looks.
func (a *actor) tell(tx *txn.Tx, w *txn.Write) {
	level := slog.LevelDebug
	switch w.Kind {
	case txn.EventStuck, txn.EventFailed, txn.EventReorged, txn.EventDelayed:
		level = slog.LevelWarn
	}
	if !a.log.Enabled(context.Background(), level) {
		return // what a line would tell takes longer to write than the move itself
	}
	attributes := []any{
		"tx_id",
		tx.ID.String(),
		"event",
		string(w.Kind),
		"state",
		string(tx.State),
		"sub_state",
		string(tx.Sub),
		"version",
		tx.Version,
	}
	if tx.TxHash != (txn.Hash{}) { // before anything is signed there is none
		attributes = append(attributes, "tx_hash", tx.TxHash.Hex())
	}
	a.log.Log(
		context.Background(),
		level,
		"transaction moved",
		append(attributes, "reason", tx.Reason, "last_error", tx.LastError)...)
}
