package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// headSeen is the newest head of an owner's views and when it was first seen.
type headSeen struct {
	number uint64
	at     time.Time
}

// awaitReorgs has the tracker tell of reorgs, and look as far down as there are final transactions to compare.
func (a *actor) awaitReorgs() {
	if len(a.audited) == 0 {
		return
	}
	lowest := a.audited[0].Receipt.BlockNumber
	for _, tx := range a.audited[1:] {
		lowest = min(lowest, tx.Receipt.BlockNumber)
	}
	a.track.audit(a.id, lowest, a.wake)
}

// letGo forgets final transactions that are deeper than any reorg is believed to reach.
func (a *actor) letGo(head uint64) {
	if head != a.headAt.number {
		a.headAt = headSeen{head, a.e.Clock.Now()}
	}
	if head == 0 || len(a.audited) == 0 {
		return // nothing is known of the chain yet: a new owner compares before it lets go
	}
	deep := func(tx txn.Tx) bool { return tx.Receipt.BlockNumber+a.track.auditDepth() <= head }
	if !slices.ContainsFunc(a.audited, deep) {
		return
	}
	a.audited = slices.DeleteFunc(slices.Clone(a.audited), deep)
	if len(a.audited) == 0 {
		a.track.auditNoMore(a.id)
	}
}

// neededUntil is how long an owner without work stays. One that audits stays for as long as the chain goes on: only an owner sees a reorg after finality. A
// chain that makes no blocks makes no reorgs either, and whoever takes the submitter later compares with the chain again. Where the node has no room for
// others, work goes first.
func (a *actor) neededUntil() time.Time {
	since := a.busyAt
	if len(a.audited) > 0 && a.headAt.at.After(since) && a.e.router.count() < a.e.MaxSubmitters {
		since = a.headAt.at
	}
	return since.Add(a.e.IdleAfter)
}

// applyToAudited brings memory to where a write has brought a transaction that was final. It has its signed forms in the ledger alone, so all is read anew.
func (a *actor) applyToAudited(w txn.Write) bool {
	i := slices.IndexFunc(a.audited, func(tx txn.Tx) bool { return tx.ID == w.Tx })
	if i < 0 {
		return false
	}
	tx := a.audited[i]
	a.audited = slices.Delete(slices.Clone(a.audited), i, i+1)
	tx.Status = w.Next
	a.loaded = false
	a.e.metrics.reorged.Add(context.Background(), 1)
	a.log.Error("a transaction that was final is on the chain no more; it is handed over again", "tx_id", tx.ID.String(), "tx_hash", tx.TxHash.Hex(), "nonce", uint64(*tx.Nonce))
	a.tell(tx, w)
	return true
}

// measure counts what a write tells.
func (a *actor) measure(w txn.Write) {
	if w.Attempt != nil && w.Attempt.Kind != txn.Original {
		a.e.metrics.replaced.Add(context.Background(), 1, labelled("kind", string(w.Attempt.Kind)))
	}
	if w.Kind == txn.EventConfirmations && w.NewFork {
		a.e.metrics.forks.Add(context.Background(), 1)
	}
}
