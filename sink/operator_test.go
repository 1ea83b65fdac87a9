package sink_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// trial is a sink on which an operator decides at random while its receiver fails at random.
type trial struct {
	*ledger
	r        *receiver
	dice     *rand.Rand
	attempts atomic.Int64
	operator *store.Store
	node     *testNode // nil while none delivers
	boots    int
	kills    int
	skipped  map[string]bool // by the receiver's lock
}

const trialSink = "hook"

// start runs a node. Every second one delivers for another sink, too.
func (tr *trial) start() {
	sinks := []sink.Settings{tr.r.settings(trialSink)}
	if tr.boots++; tr.boots%2 == 0 {
		other := newReceiver(tr.t)
		sinks = append(sinks, other.settings("other"))
	}
	tr.node = tr.run(fmt.Sprint("n", tr.boots), sinks...)
}

// judge makes the receiver fail in one way, or not.
func (tr *trial) judge() {
	as := []sink.Verdict{sink.Done, sink.Retry, sink.Refused, sink.Unavailable,
		sink.Gone}[tr.dice.IntN(5)]
	one := uint64(1 + tr.dice.IntN(3))
	var n uint64
	tr.r.set(func(*sink.Event) sink.Result {
		tr.attempts.Add(1)
		if n++; n%one == 0 {
			return sink.Result{Verdict: as, Cause: "trial"}
		}
		return sink.Result{}
	})
}

// skip gives up the first event of a parked transaction.
func (tr *trial) skip() {
	parked, err := tr.operator.ListParked(tr.ctx, store.ParkedFilter{Sink: trialSink, Limit: 1})
	tr.must(err)
	if len(parked) == 0 {
		return
	}
	id := eventID(parked[0].Tx, int(parked[0].Next))
	tr.mark(id, true)
	err = tr.operator.SkipParked(tr.ctx, storeDecision(trialSink), parked[0].Tx, parked[0].Next)
	if errors.Is(err, store.ErrNotParked) { // delivered meanwhile
		tr.mark(id, false)
		return
	}
	tr.must(err)
}

func (tr *trial) mark(id string, skipped bool) {
	tr.r.mu.Lock()
	defer tr.r.mu.Unlock()
	tr.skipped[id] = skipped
}

// end ends the node, at once or in order.
func (tr *trial) end() {
	if tr.node == nil {
		return
	}
	if tr.kills < 2 && tr.dice.IntN(2) == 0 { // its lease must lapse
		tr.kills++
		tr.node.Close()
	}
	tr.node.stop()
	tr.node = nil
}

// decide takes a step of the operator, the receiver or the nodes.
func (tr *trial) decide() (what string) {
	d := storeDecision(trialSink)
	switch tr.dice.IntN(10) {
	case 0:
		tr.must(tr.operator.SetSinkStatus(tr.ctx, d, txn.SinkPaused))
		return "pause"
	case 1, 2:
		tr.must(tr.operator.SetSinkStatus(tr.ctx, d, txn.SinkActive))
		return "resume"
	case 3:
		_, err := tr.operator.RetryParked(tr.ctx, d, txn.TxID{})
		tr.must(err)
		return "retry"
	case 4:
		tr.skip()
		return "skip"
	case 5:
		head, err := tr.operator.Head(tr.ctx)
		tr.must(err)
		tr.must(tr.operator.ReplaySink(tr.ctx, d, store.Position{Epoch: head.Epoch,
			Timeline: head.Timeline, Seen: "3:3:"}))
		return "replay"
	case 6:
		tr.end()
		return "node ends"
	case 7:
		if tr.node == nil {
			tr.start()
		}
		return "node starts"
	}
	tr.judge()
	return "receiver changes"
}

// progress writes events, and waits until the receiver is tried if it can be.
func (tr *trial) progress() {
	before := tr.attempts.Load()
	tr.create(tr.operator, 1)
	tr.eventually("an attempt", func() bool {
		all, err := tr.operator.SinkCursors(tr.ctx, trialSink)
		tr.must(err)
		return tr.node == nil || all[0].Status != txn.SinkActive || tr.attempts.Load() > before
	})
}

// TestRunner_OperatorDecidesInEveryState_NothingLost: whatever an operator decides, in whatever
// state a sink is, each event arrives that he did not skip, and first deliveries are in order.
func TestRunner_OperatorDecidesInEveryState_NothingLost(t *testing.T) {
	t.Parallel()
	for range 3 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			tr := &trial{ledger: newLedger(t), r: newReceiver(t), skipped: map[string]bool{},
				dice: rand.New(rand.NewPCG(seed, 0))}
			tr.r.skipped = func(id txn.TxID, seq int64) bool {
				return tr.skipped[eventID(id, int(seq))]
			}
			tr.operator = tr.open("operator")
			tr.start()
			tr.await(tr.operator, trialSink)
			tr.judge()
			for seq := 2; seq < 32; seq++ {
				t.Log(tr.decide())
				if seq%8 == 0 {
					for _, id := range tr.txs[:min(2, len(tr.txs))] {
						tr.growOne(id)
					}
				}
				tr.progress()
			}
			tr.r.set(nil)
			if tr.node == nil {
				tr.start()
			}
			d := storeDecision(trialSink)
			tr.must(tr.operator.SetSinkStatus(tr.ctx, d, txn.SinkActive))
			tr.eventually("nothing is parked, and every event delivered", func() bool {
				_, err := tr.operator.RetryParked(tr.ctx, d, txn.TxID{})
				tr.must(err)
				parked, dead, err := tr.operator.CountParked(tr.ctx, trialSink)
				tr.must(err)
				return parked+dead == 0 && tr.missing() == 0
			})
			tr.check(tr.r)
		})
	}
}

// growOne writes the next event of a transaction.
func (l *ledger) growOne(id txn.TxID) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := 2
	for l.events[eventID(id, seq)] {
		seq++
	}
	l.exec(insertEvent, int32(l.submitter), id.String(), seq)
	l.events[eventID(id, seq)] = true
}

// missing counts events that the receiver lacks and no one skipped.
func (tr *trial) missing() (n int) {
	tr.r.mu.Lock()
	defer tr.r.mu.Unlock()
	for id := range tr.events {
		if tr.r.got[id] == 0 && !tr.skipped[id] {
			n++
		}
	}
	return n
}

// TestRunner_FilterEdited_ParkedFollowIt: parked events that the sink does not want any more are
// not delivered, and the others of the same transactions are.
func TestRunner_FilterEdited_ParkedFollowIt(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	a := l.run("a", r.settings(trialSink))
	l.await(a.Store, trialSink)
	r.set(func(*sink.Event) sink.Result { return sink.Result{Verdict: sink.Retry, Cause: "no"} })
	l.create(a.Store, 4)
	l.grow(2)
	parked := func() (rows, whole int) {
		l.must(l.db.Pool.QueryRow(l.ctx, `SELECT count(*), count(*) FILTER (WHERE last_seq = 2)
			FROM sink_parked`).Scan(&rows, &whole))
		return rows, whole
	}
	l.eventually("all are parked", func() bool {
		_, whole := parked()
		return whole == 4
	})
	a.stop()
	r.set(nil)
	edited := r.settings(trialSink)
	edited.States = []txn.State{txn.Tracking} // of the second events
	edited.Labels = map[string]string{"n": "1"}
	r.skipped = func(_ txn.TxID, seq int64) bool { return seq == 1 }
	l.run("b", edited)
	l.eventually("nothing is parked", func() bool {
		rows, _ := parked()
		return rows == 0
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) != 2 || len(r.disorder) > 0 {
		t.Errorf("delivered %v, %v", r.got, r.disorder)
	}
	for i, id := range l.txs {
		if want := i % 2; r.got[eventID(id, 2)] != want {
			t.Errorf("event 2 of transaction %d came %d times", i, r.got[eventID(id, 2)])
		}
	}
}

// TestRunner_SinkRemovedAndPutBack_Continues: a sink that is in no configuration for a while
// continues where it was, also with parked events. A node without it leaves it alone.
func TestRunner_SinkRemovedAndPutBack_Continues(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r, other := newReceiver(t), newReceiver(t)
	a := l.run("a", r.settings(trialSink), other.settings("other"))
	l.await(a.Store, trialSink)
	l.await(a.Store, "other")
	l.create(a.Store, 2)
	l.awaitAll(r)
	r.set(func(*sink.Event) sink.Result { return sink.Result{Verdict: sink.Refused, Cause: "no"} })
	l.grow(2)
	l.eventually("all are dead", func() bool {
		_, dead, err := a.CountParked(l.ctx, trialSink)
		return err == nil && dead == 2
	})
	a.stop()
	before := l.expiry(trialSink)
	r.set(nil)
	without := l.run("without", other.settings("other"))
	l.grow(3)
	l.create(without.Store, 2)
	l.awaitAll(other)
	if at := l.expiry(trialSink); !at.Equal(before) {
		t.Errorf("the lease of a sink that no node has lasts until %v, was %v", at, before)
	}
	_, err := without.RetryParked(l.ctx, storeDecision(trialSink), txn.TxID{})
	l.must(err)
	l.run("again", r.settings(trialSink))
	l.awaitAll(r)
}
