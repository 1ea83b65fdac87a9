package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// headSeen is the newest head in an owner's views and the time it was first seen.
type headSeen struct {
	number uint64
	at     time.Time
}

// awaitReorgs subscribes to reorgs down to the final transactions to compare, and renews the
// subscription when these change.
func (a *actor) awaitReorgs() {
	if len(a.audited) == 0 || a.auditSent {
		return
	}
	blocks := make([]uint64, len(a.audited))
	for i := range a.audited {
		blocks[i] = a.audited[i].Receipt.BlockNumber
	}
	a.track.Audit(a.id, blocks, a.wake)
	a.auditSent = true
}

// dropSettled drops final transactions below the audit depth, once they were compared with the
// chain from there. Depth alone is not enough: during a chain outage, the chain may grow by more
// than the audit depth.
func (a *actor) dropSettled(v *txn.View) {
	if v.Head != a.headAt.number {
		a.headAt = headSeen{v.Head, a.e.Clock.Now()}
	}
	if v.Head == 0 {
		return // the chain is not known yet
	}
	deep := func(block uint64) bool { return block+a.track.AuditDepth() <= v.Head }
	if len(a.ended) > 0 {
		a.letEndedGo(v, deep)
	}
	compared := func(tx *txn.Finished) bool {
		r := tx.Receipt
		if !deep(r.BlockNumber) || v.Cursor.Protected != nil && v.Cursor.Protected.Tx == tx.ID {
			return false // the latter ends that protection first
		}
		hash, known := v.Canonical(r.BlockNumber)
		return known && hash == r.BlockHash
	}
	kept := 0
	for i := range a.audited {
		if compared(&a.audited[i]) {
			continue
		}
		if kept != i {
			a.audited[kept] = a.audited[i]
		}
		kept++
	}
	if kept == len(a.audited) {
		return
	}
	clear(a.audited[kept:])
	a.audited, a.auditSent = a.audited[:kept], false
	if len(a.audited) == 0 {
		a.track.StopAudit(a.id)
	}
}

func (a *actor) letEndedGo(v *txn.View, deep func(block uint64) bool) {
	doubted := func(f txn.Attempt) bool {
		seen := v.Inclusion(f.Hash)
		return !seen.Known || seen.Receipt != nil
	}
	a.ended = slices.DeleteFunc(a.ended, func(tx txn.Tx) bool {
		if !deep(tx.FinalBlock) || slices.ContainsFunc(tx.Attempts, doubted) {
			return false
		}
		a.unfollow(tx.Attempts)
		return true
	})
}

// neededUntil returns when an owner without work may leave. An owner that audits stays while the
// chain progresses, because only an owner detects a reorg after finality. A chain without new
// blocks has no reorgs, and the next owner compares with the chain again. It also stays until its
// last comparison is recorded. On a full node, submitters with work take precedence.
func (a *actor) neededUntil() time.Time {
	since := a.busyAt
	unrecorded := a.settled.Load() > a.recorded.Load()
	if unrecorded {
		a.e.settler.nudge()
	}
	if (unrecorded || len(a.audited)+len(a.ended) > 0) && a.headAt.at.After(since) &&
		a.e.router.count() < a.e.MaxSubmitters {
		since = a.headAt.at
	}
	return since.Add(a.e.IdleAfter)
}

// finals returns the final transactions within reach of a reorg: those with a receipt, and those
// that ended as not executed, with their signed attempts.
func (a *actor) finals(ctx context.Context, ledger store.Ledger,
	depth uint64) (audited []txn.Finished, ended []txn.Tx, err error) {
	if ledger.Cursor == nil {
		return nil, nil, nil // it never sent a transaction
	}
	all, err := a.e.Store.RecentFinals(ctx, a.lease, depth, len(ledger.Open))
	if err != nil {
		return nil, nil, err
	}
	for _, tx := range all {
		if tx.FinalBlock == 0 {
			audited = append(audited, tx.Finished())
			continue
		}
		if tx.Attempts, err = a.e.Store.SignedAttempts(ctx, a.lease, tx.ID); err != nil {
			return nil, nil, err
		}
		ended = append(ended, tx)
	}
	return audited, ended, nil
}

// readProtected completes a protection with the transaction that it is about.
func (a *actor) readProtected(ctx context.Context, l *store.Ledger,
	audited []txn.Finished) (err error) {
	if l.Cursor == nil || l.Cursor.Protected == nil ||
		l.Cursor.Protected.Reason != txn.ReasonNonceElsewhere {
		return nil
	}
	var ids []txn.TxID
	for i := range l.Open {
		ids = append(ids, l.Open[i].ID)
	}
	for i := range audited {
		ids = append(ids, audited[i].ID)
	}
	l.Cursor.Protected.Tx, err = a.e.Store.ProtectedTx(ctx, a.lease, ids)
	return err
}

// applyToFinal applies a write to a final transaction. Everything is then loaded again, because
// memory does not have the attempts of audited transactions.
func (a *actor) applyToFinal(w *txn.Write) bool {
	for i := range a.audited {
		if tx := &a.audited[i]; tx.ID == w.Tx {
			a.revokeFinal(&txn.Tx{ID: tx.ID, Status: tx.Status}, w,
				"final transaction left the chain; rebroadcasting")
			a.audited = slices.Delete(a.audited, i, i+1)
			return true
		}
	}
	if i := placeOf(a.ended, w.Tx); i >= 0 {
		a.unfollow(a.ended[i].Attempts)
		a.revokeFinal(&a.ended[i], w, "transaction reported as not executed is on chain")
		a.ended = slices.Delete(a.ended, i, i+1)
		return true
	}
	return false
}

func (a *actor) revokeFinal(tx *txn.Tx, w *txn.Write, said string) {
	a.countFork(tx.Receipt, w)
	tx.Status = w.Next
	a.loaded = false
	a.e.metrics.reorged.Add(context.Background(), 1)
	a.log.Error(said, "tx_id", tx.ID.String(), "tx_hash", tx.TxHash.Hex(), "nonce",
		uint64(*tx.Nonce), "evidence", tx.LastError)
	a.logMove(tx, w)
}

// measure updates the metrics of a write. The age of a transaction mixes this node's clock with the
// database's, which is accurate enough for a metric.
func (a *actor) measure(tx *txn.Tx, w *txn.Write) {
	if w.Kind != "" && w.Next.Reason == txn.ReasonUnverified {
		a.e.metrics.unverified.Add(context.Background(), 1)
	}
	if w.Next.State.Final() {
		a.e.metrics.finals.Add(context.Background(), 1, a.e.metrics.states.of(string(w.Next.State)))
		a.e.metrics.lifetimes.Record(context.Background(),
			max(0, a.e.Clock.Now().Sub(tx.CreatedAt)).Seconds())
	}
	if w.Attempt != nil && w.Attempt.Kind != txn.Original {
		a.e.metrics.replaced.Add(context.Background(), 1,
			a.e.metrics.kinds.of(string(w.Attempt.Kind)))
	}
}

// countFork counts a write that voids a block reported to clients: the receipt's, or one above it.
func (a *actor) countFork(before *txn.Receipt, w *txn.Write) {
	void := w.Kind == txn.EventConfirmations && w.NewFork
	if before != nil {
		void = void || w.Kind == txn.EventReorged ||
			w.Kind == txn.EventIncluded && before.BlockHash != w.Next.Receipt.BlockHash
	}
	if void {
		a.e.metrics.forks.Add(context.Background(), 1)
	}
}
