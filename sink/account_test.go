package sink_test

import (
	"testing"

	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestRunner_AccountEvents_OnceInOrder: events of an account arrive in their order, also when the
// receiver rejects some, and while its transactions have events. A sink with a filter of states or
// labels gets none.
func TestRunner_AccountEvents_OnceInOrder(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	other := newReceiver(t)
	r.judge = dice(3, sink.Result{Verdict: sink.Retry, Cause: "no"})
	filtered := other.settings("filtered")
	filtered.States = []txn.State{txn.Queued}
	a := l.run("a", r.settings("hook"), filtered)
	l.await(a.Store, "hook")
	l.await(a.Store, "filtered")
	const falls = 6
	for i := range uint64(2 * falls) {
		_, err := a.Store.RecordLow(l.ctx, l.submitter, store.LowChange{Low: i%2 == 0, Block: i,
			Emit: &txn.LowBalance{Balance: "3", Committed: "0", Low: "5", Block: i}})
		l.must(err)
		if i%2 == 0 {
			l.events[eventID(txn.AccountStream(l.submitter), int(i/2+1))] = true
			l.create(a.Store, 1)
		}
	}
	l.awaitAll(r)
	l.eventually("the other sink has the transactions", func() bool {
		return other.count() == falls
	})
	l.eventually("nothing is parked", func() bool {
		parked, dead, err := a.CountParked(l.ctx, "hook")
		return err == nil && parked+dead == 0
	})
}
