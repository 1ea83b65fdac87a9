package sink_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// await waits until a new sink has its position, so that later events are its own.
func (l *ledger) await(s *store.Store, name string) {
	l.t.Helper()
	l.eventually("the sink has a position", func() bool {
		all, err := s.SinkCursors(l.ctx, name)
		return err == nil && len(all) == 1 && all[0].Position != ""
	})
}

func TestRunner_Faults_EveryEventInOrder(t *testing.T) {
	t.Parallel()
	for name, as := range map[string]sink.Result{
		"event fails":          {Verdict: sink.Retry, Cause: "no"},
		"receiver unavailable": {Verdict: sink.Unavailable, Cause: "down"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, r := newLedger(t), newReceiver(t)
			r.judge = dice(4, as)
			a := l.run("a", r.settings("hook"))
			l.await(a.Store, "hook")
			l.create(a.Store, 20)
			for seq := 2; seq < 6; seq++ {
				l.grow(seq)
			}
			l.awaitAll(r)
			l.eventually("nothing is parked", func() bool {
				parked, dead, err := a.CountParked(l.ctx, "hook")
				return err == nil && parked+dead == 0
			})
		})
	}
}

// TestRunner_DiesBetweenAckAndCursor_Takeover: the receiver accepts, and the node ends before it
// moves the cursor; another one takes over.
func TestRunner_DiesBetweenAckAndCursor_Takeover(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	a := l.run("a", r.settings("hook"))
	l.await(a.Store, "hook")
	l.create(a.Store, 10)
	l.awaitAll(r)
	// The store of a fails from the next acceptance on, as for a process that is killed.
	var killed atomic.Bool
	r.set(func(*sink.Event) sink.Result {
		if killed.CompareAndSwap(false, true) {
			a.Store.Close()
		}
		return sink.Result{}
	})
	b := l.open("writer")
	l.create(b, 10)
	l.eventually("a died", killed.Load)
	for seq := 2; seq < 4; seq++ {
		l.grow(seq)
	}
	l.run("b", r.settings("hook"))
	l.awaitAll(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	twice := 0
	for _, n := range r.got {
		if n > 1 {
			twice++
		}
	}
	if twice == 0 {
		t.Error("no event was delivered twice: the node did not die between ack and cursor")
	}
}

func TestRunner_DatabaseRestarts_EveryEventDelivered(t *testing.T) {
	t.Parallel()
	l, pg := privateServer(t)
	r := newReceiver(t)
	a := l.run("a", r.settings("hook"))
	l.await(a.Store, "hook")
	l.create(a.Store, 10)
	l.grow(2)
	l.must(pg.Restart(l.ctx))
	l.db.Pool.Reset()
	l.eventually("the database is back", func() bool { return l.db.Pool.Ping(l.ctx) == nil })
	l.create(l.open("writer"), 10)
	l.awaitAll(r)
}

func TestRunner_Filter(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	states, labels := newReceiver(t), newReceiver(t)
	none := newReceiver(t)
	byState, byLabel := states.settings("states"), labels.settings("labels")
	bySubmitter := none.settings("none")
	byState.States = []txn.State{txn.Tracking}
	byLabel.Labels = map[string]string{"n": "1"}
	bySubmitter.Submitters = []string{"bob"}
	a := l.run("a", byState, byLabel, bySubmitter)
	for _, name := range []string{"states", "labels", "none"} {
		l.await(a.Store, name)
	}
	l.create(a.Store, 6)
	l.grow(2)
	l.eventually("the events are delivered",
		func() bool { return states.count() == 6 && labels.count() == 6 })
	l.eventually("the cursor passes events of others", func() bool {
		all, err := a.SinkCursors(l.ctx, "none")
		return err == nil && all[0].EventAt != nil
	})
	if none.count() != 0 || len(labels.disorder) > 0 {
		t.Errorf("%d events of others; disorder %v", none.count(), labels.disorder)
	}
}

// TestRunner_Refused_BlocksItsTransactionOnly: a dead event blocks later ones of its transaction,
// and nothing else, until an operator decides.
func TestRunner_Refused_BlocksItsTransactionOnly(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	a := l.run("a", r.settings("hook"))
	l.await(a.Store, "hook")
	l.create(a.Store, 4)
	poison := l.txs[0]
	r.set(func(e *sink.Event) sink.Result {
		if e.Tx == poison && e.Seq == 2 {
			return sink.Result{Verdict: sink.Refused, Cause: "too large"}
		}
		return sink.Result{}
	})
	l.grow(2)
	l.grow(3)
	l.eventually("the others flow", func() bool { return r.count() == 10 })
	l.eventually("it is dead", func() bool {
		_, dead, err := a.CountParked(l.ctx, "hook")
		return err == nil && dead == 1
	})
	l.must(a.SkipParked(l.ctx, storeDecision("hook"), poison, 2))
	l.eventually("the event after it is delivered", func() bool { return r.count() == 11 })
	if r.got[eventID(poison, 3)] != 1 || r.got[eventID(poison, 2)] != 0 {
		t.Errorf("got %v", r.got)
	}
}

func TestRunner_OperatorDecides(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	a := l.run("a", r.settings("hook"))
	l.await(a.Store, "hook")
	l.create(a.Store, 5)
	l.awaitAll(r)
	d := store.SinkDecision{Sink: "hook", Operator: "o"}
	l.must(a.SetSinkStatus(l.ctx, d, txn.SinkPaused))
	r.set(func(*sink.Event) sink.Result { return sink.Result{Verdict: sink.Gone, Cause: "410"} })
	l.eventually("the cursor stays", func() bool { return l.revisionKnown(a.Store) })
	l.create(a.Store, 5)
	l.must(a.SetSinkStatus(l.ctx, d, txn.SinkActive))
	l.eventually("the receiver disables the sink", func() bool {
		all, err := a.SinkCursors(l.ctx, "hook")
		return err == nil && all[0].Status == txn.SinkDisabled && all[0].Reason != ""
	})
	if r.count() != 5 {
		t.Fatalf("%d events", r.count())
	}
	r.set(nil)
	l.must(a.SetSinkStatus(l.ctx, d, txn.SinkActive))
	l.awaitAll(r)
	from, err := a.PositionFrom(l.ctx, time.Now().Add(-time.Hour))
	l.must(err)
	l.must(a.ReplaySink(l.ctx, d, from))
	l.eventually("all events are delivered again", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for id := range l.events {
			if r.got[id] < 2 {
				return false
			}
		}
		return true
	})
}

// TestRunner_PausedBeforeItBegan_EventsKept: a sink is paused before a node delivers for it, as
// PauseSink does in ledgers that lack it.
func TestRunner_PausedBeforeItBegan_EventsKept(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	s := l.open("operator")
	l.must(s.EnsureSinks(l.ctx, []string{"hook"}))
	l.must(s.SetSinkStatus(l.ctx, storeDecision("hook"), txn.SinkPaused))
	l.run("a", r.settings("hook"))
	l.eventually("a node has the lease", func() bool {
		c, err := s.SinkCursors(l.ctx, "hook")
		l.must(err)
		return c[0].Owner != ""
	})
	l.create(s, 3)
	l.must(s.SetSinkStatus(l.ctx, storeDecision("hook"), txn.SinkActive))
	l.awaitAll(r)
}

// revisionKnown reports whether the pause was recorded.
func (l *ledger) revisionKnown(s *store.Store) bool {
	all, err := s.SinkCursors(l.ctx, "hook")
	return err == nil && all[0].Status == txn.SinkPaused
}

// TestRunner_LedgerMoved_EveryEventDelivered: a copy of the ledger on another server delivers what
// the old one had not, and tells the receiver.
func TestRunner_LedgerMoved_EveryEventDelivered(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	a := l.run("a", r.settings("hook"))
	l.await(a.Store, "hook")
	l.create(a.Store, 6)
	l.awaitAll(r)
	a.stop()
	writer := l.open("writer")
	l.grow(2)
	l.create(writer, 6)
	l.exec("UPDATE ledger SET system_id = 1")
	owner, err := store.Open(l.ctx, store.Config{URL: l.db.URL, Schema: l.db.Schema,
		Node: "operator/boot", LeaseDuration: testLease, Adopts: true})
	l.must(err)
	defer owner.Close()
	_, err = owner.Move(l.ctx)
	l.must(err)
	l.create(l.open("writer2"), 3)
	l.run("b", r.settings("hook"))
	l.awaitAll(r)
	l.eventually("the receiver is told once", func() bool {
		all, err := owner.SinkCursors(l.ctx, "hook")
		return err == nil && !all[0].Restored
	})
	if r.restored != 1 {
		t.Errorf("told %d times", r.restored)
	}
}
