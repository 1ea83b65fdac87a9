package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// headSeen is the newest head of an owner's views and when it was first seen.
type headSeen struct {
	number uint64
	at     time.Time
}

// awaitReorgs has the tracker tell of reorgs, and look as far down as there are final transactions to compare. It is told again when these are others.
func (a *actor) awaitReorgs() {
	if len(a.audited) == 0 || a.auditTold {
		return
	}
	blocks := make([]uint64, len(a.audited))
	for i := range a.audited {
		blocks[i] = a.audited[i].Receipt.BlockNumber
	}
	a.track.Audit(a.id, blocks, a.wake)
	a.auditTold = true
}

// letGo forgets final transactions that are deeper than any reorg is believed to reach, once they were compared with the chain from there: while the chain was
// away it may have grown by more than is audited.
func (a *actor) letGo(v *txn.View) {
	if v.Head != a.headAt.number {
		a.headAt = headSeen{v.Head, a.e.Clock.Now()}
	}
	if v.Head == 0 {
		return // nothing is known of the chain yet
	}
	deep := func(block uint64) bool { return block+a.track.AuditDepth() <= v.Head }
	if len(a.ended) > 0 {
		a.letEndedGo(v, deep)
	}
	compared := func(r *txn.Receipt) bool {
		if !deep(r.BlockNumber) {
			return false
		}
		hash, known := v.Canonical(r.BlockNumber)
		return known && hash == r.BlockHash
	}
	kept := 0
	for i := range a.audited {
		if compared(a.audited[i].Receipt) {
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
	a.audited, a.auditTold = a.audited[:kept], false
	if len(a.audited) == 0 {
		a.track.StopAudit(a.id)
	}
}

func (a *actor) letEndedGo(v *txn.View, deep func(block uint64) bool) {
	doubted := func(f txn.Attempt) bool { seen := v.Inclusion(f.Hash); return !seen.Known || seen.Receipt != nil }
	a.ended = slices.DeleteFunc(a.ended, func(tx txn.Tx) bool {
		if !deep(tx.FinalBlock) || slices.ContainsFunc(tx.Attempts, doubted) {
			return false
		}
		a.unfollow(tx.Attempts)
		return true
	})
}

// neededUntil is how long an owner without work stays. One that audits stays for as long as the chain goes on: only an owner sees a reorg after finality. A
// chain that makes no blocks makes no reorgs either, and whoever takes the submitter later compares with the chain again. Where the node has no room for
// others, work goes first.
func (a *actor) neededUntil() time.Time {
	since := a.busyAt
	if len(a.audited)+len(a.ended) > 0 && a.headAt.at.After(since) &&
		a.e.router.count() < a.e.MaxSubmitters {
		since = a.headAt.at
	}
	return since.Add(a.e.IdleAfter)
}

// finals are the final transactions that a reorg could still reach: those with a receipt, and those that ended as never run, with their signed forms.
func (a *actor) finals(ctx context.Context, ledger store.Ledger,
	depth uint64) (audited []txn.Finished, ended []txn.Tx, err error) {
	if ledger.Cursor == nil {
		return nil, nil, nil // it never sent anything
	}
	all, err := a.e.Store.RecentFinals(ctx, a.lease, depth)
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

// applyToFinal brings memory to where a write has brought a transaction that was final. All is read anew: what was audited has its signed forms in the ledger
// alone.
func (a *actor) applyToFinal(w *txn.Write) bool {
	for i := range a.audited {
		if tx := &a.audited[i]; tx.ID == w.Tx {
			a.isFinalNoMore(&txn.Tx{ID: tx.ID, Status: tx.Status}, w,
				"a transaction that was final is on the chain no more; it is handed over again")
			a.audited = slices.Delete(a.audited, i, i+1)
			return true
		}
	}
	if i := placeOf(a.ended, w.Tx); i >= 0 {
		a.unfollow(a.ended[i].Attempts)
		a.isFinalNoMore(&a.ended[i], w,
			"a transaction that had ended as never run is on the chain; whoever was told so must know that it ran")
		a.ended = slices.Delete(a.ended, i, i+1)
		return true
	}
	return false
}

func (a *actor) isFinalNoMore(tx *txn.Tx, w *txn.Write, said string) {
	tx.Status = w.Next
	a.loaded = false
	a.e.metrics.reorged.Add(context.Background(), 1)
	a.log.Error(said, "tx_id", tx.ID.String(), "tx_hash", tx.TxHash.Hex(), "nonce",
		uint64(*tx.Nonce), "evidence", tx.LastError)
	a.tell(tx, w)
}

// measure counts what a write tells. How old a transaction is tells this node's clock beside the database's, which is good enough for a measurement.
func (a *actor) measure(tx *txn.Tx, w *txn.Write) {
	if w.Next.State.Final() {
		a.e.metrics.finals.Add(context.Background(), 1, a.e.metrics.states.of(string(w.Next.State)))
		a.e.metrics.lifetimes.Record(context.Background(),
			max(0, a.e.Clock.Now().Sub(tx.CreatedAt)).Seconds())
	}
	if w.Attempt != nil && w.Attempt.Kind != txn.Original {
		a.e.metrics.replaced.Add(context.Background(), 1,
			a.e.metrics.kinds.of(string(w.Attempt.Kind)))
	}
	if w.Kind == txn.EventConfirmations && w.NewFork {
		a.e.metrics.forks.Add(context.Background(), 1)
	}
}
