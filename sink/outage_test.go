package sink_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// closed makes a receiver fail to open until it is told to.
func closed(s *sink.Settings) (tried, open *atomic.Bool) {
	tried, open = &atomic.Bool{}, &atomic.Bool{}
	opens := s.Open
	s.Open = func(ctx context.Context) (sink.Sink, error) {
		tried.Store(true)
		if !open.Load() {
			return nil, errors.New("no connection")
		}
		return opens(ctx)
	}
	return tried, open
}

// TestRunner_NewSinkUnreachable_EventsKept: a new sink keeps its events from its first start on,
// whether or not its receiver can be opened.
func TestRunner_NewSinkUnreachable_EventsKept(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	s := r.settings("hook")
	tried, open := closed(&s)
	a := l.run("a", s)
	l.eventually("the receiver was tried", tried.Load)
	l.create(a.Store, 3)
	open.Store(true)
	l.awaitAll(r)
}

// TestRunner_ReceiverUnavailable_ReasonShown: an active sink that delivers nothing has the reason,
// until it delivers again on any node.
func TestRunner_ReceiverUnavailable_ReasonShown(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	var away atomic.Bool
	away.Store(true)
	r.judge = func(*sink.Event) sink.Result {
		if away.Load() {
			return sink.Result{Verdict: sink.Unavailable, Cause: "the address \xff\x00is private"}
		}
		return sink.Result{}
	}
	s := r.settings("hook")
	_, open := closed(&s)
	a := l.run("a", s)
	reason := func(n *testNode, want string) {
		t.Helper()
		l.eventually(want, func() bool {
			all, err := n.SinkCursors(l.ctx, "hook")
			return err == nil && len(all) == 1 && all[0].Status == txn.SinkActive &&
				all[0].Reason == want
		})
	}
	reason(a, "delivers nothing: open: no connection")
	open.Store(true)
	reason(a, "")
	l.create(a.Store, 3)
	const down = "delivers nothing: the address ??is private"
	reason(a, down)
	a.stop()
	var next atomic.Pointer[testNode]
	var kept atomic.Bool
	opens := s.Open
	s.Open = func(ctx context.Context) (sink.Sink, error) {
		got, err := opens(ctx)
		return judged{got, func() {
			if n := next.Load(); n != nil && away.CompareAndSwap(true, false) {
				all, err := n.SinkCursors(l.ctx, "hook")
				kept.Store(err == nil && len(all) == 1 && all[0].Reason == down)
			}
		}}, err
	}
	b := l.run("b", s)
	next.Store(b)
	l.awaitAll(r)
	if reason(b, ""); !kept.Load() {
		t.Error("the reason is gone before anything was delivered")
	}
	const resumed = "moved"
	l.must(b.SetSinkStatus(l.ctx, store.SinkDecision{Sink: "hook", Reason: resumed},
		txn.SinkActive))
	l.create(b.Store, 3)
	l.awaitAll(r)
	reason(b, resumed)
}

// judged calls a function before each delivery.
type judged struct {
	sink.Sink
	before func()
}

func (j judged) Deliver(ctx context.Context, events []*sink.Event) []sink.Result {
	j.before()
	return j.Sink.Deliver(ctx, events)
}

// TestRunner_NothingDelivered_LagGrows: a sink that cannot begin is as late as one that cannot
// continue.
func TestRunner_NothingDelivered_LagGrows(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	metrics := sdkmetric.NewManualReader()
	l.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(metrics))
	away, paused := r.settings("away"), r.settings("paused")
	_, open := closed(&away)
	a := l.run("a", away, paused)
	l.await(a.Store, "paused")
	l.must(a.SetSinkStatus(l.ctx, store.SinkDecision{Sink: "paused"}, txn.SinkPaused))
	late := func(name string) func() bool {
		return func() bool { return l.lag(metrics, name) > 0.2 }
	}
	l.eventually("the unreachable sink is late", late("away"))
	l.eventually("the paused sink is late", late("paused"))
	open.Store(true)
	l.must(a.SetSinkStatus(l.ctx, store.SinkDecision{Sink: "paused"}, txn.SinkActive))
	for _, name := range []string{"away", "paused"} {
		l.eventually("the sink is not late any more",
			func() bool { return l.lag(metrics, name) == 0 })
	}
}

// lag reads fencepost.sink.lag of a sink; -1 before its first value.
func (l *ledger) lag(metrics *sdkmetric.ManualReader, name string) float64 {
	l.t.Helper()
	return gauge[float64](l, metrics, "fencepost.sink.lag", name)
}

// gauge reads a value of a sink; -1 before its first value.
func gauge[N int64 | float64](l *ledger, metrics *sdkmetric.ManualReader, metric, name string) N {
	l.t.Helper()
	var all metricdata.ResourceMetrics
	l.must(metrics.Collect(l.ctx, &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			g, is := m.Data.(metricdata.Gauge[N])
			if !is || m.Name != metric {
				continue
			}
			for _, point := range g.DataPoints {
				if of, _ := point.Attributes.Value("sink"); of.AsString() == name {
					return point.Value
				}
			}
		}
	}
	return -1
}

// TestRunner_Owned_OnOneNode: each node reports whether it delivers, so that an alert can notice a
// sink that no node delivers for.
func TestRunner_Owned_OnOneNode(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	metrics := [2]*sdkmetric.ManualReader{}
	nodes := [2]*testNode{}
	for i := range nodes {
		metrics[i] = sdkmetric.NewManualReader()
		l.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(metrics[i]))
		nodes[i] = l.run(string(rune('a'+i)), r.settings("hook"))
		l.await(nodes[0].Store, "hook")
	}
	owned := func(first, second int64) func() bool {
		return func() bool {
			const name = "fencepost.sink.owned"
			return gauge[int64](l, metrics[0], name, "hook") == first &&
				gauge[int64](l, metrics[1], name, "hook") == second
		}
	}
	l.eventually("the first node delivers", owned(1, 0))
	l.exec(`UPDATE sink_lease SET owner_node = 'other', fencing_token = fencing_token + 1,
		expires_at = clock_timestamp() + INTERVAL '1 hour', lasts = INTERVAL '1 hour'`)
	l.eventually("no node delivers", owned(0, 0))
	l.exec("UPDATE sink_lease SET expires_at = clock_timestamp()")
	l.eventually("one node delivers", func() bool { return owned(1, 0)() || owned(0, 1)() })
}

// TestRunner_OutageLongerThanRetryFor_NothingDead: an outage of the receiver counts for no parked
// transaction.
func TestRunner_OutageLongerThanRetryFor_NothingDead(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	s := r.settings("hook")
	s.RetryFor = time.Millisecond
	a := l.run("a", s)
	l.await(a.Store, "hook")
	var outage atomic.Int64
	r.set(func(*sink.Event) sink.Result {
		if outage.Add(1) == 1 {
			return sink.Result{Verdict: sink.Retry, Cause: "no"}
		}
		return sink.Result{Verdict: sink.Unavailable, Cause: "down"}
	})
	l.create(a.Store, 1)
	l.eventually("it was retried several times", func() bool { return outage.Load() > 5 })
	_, dead, err := a.CountParked(l.ctx, "hook")
	l.must(err)
	if dead != 0 {
		t.Fatalf("%d dead", dead)
	}
	r.set(nil)
	l.awaitAll(r)
}

// TestRunner_RestoredLedger_ReceiverFails_ToldAgain: one failure does not keep the news from the
// receiver.
func TestRunner_RestoredLedger_ReceiverFails_ToldAgain(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	a := l.run("a", r.settings("hook"))
	l.await(a.Store, "hook")
	a.stop()
	before := time.Now().Add(-time.Second)
	l.exec("UPDATE sink_cursor SET updated_at = clock_timestamp() - INTERVAL '1 hour'")
	owner, err := store.Open(l.ctx, store.Config{URL: l.db.URL, Schema: l.db.Schema,
		Node: "operator/boot", LeaseDuration: testLease, Adopts: true})
	l.must(err)
	defer owner.Close()
	ids := map[string]bool{}
	for range 2 {
		var tries atomic.Int64
		r.set(func(e *sink.Event) sink.Result {
			ids[e.Content.GetId()] = true
			if at := e.Content.GetRestored().GetTime().AsTime(); at.Before(before) {
				t.Errorf("restored at %v", at)
			}
			if tries.Add(1) == 1 {
				return sink.Result{Verdict: sink.Retry, Cause: "status 500"}
			}
			return sink.Result{}
		})
		_, err = owner.Move(l.ctx)
		l.must(err)
		// As if the same backup was restored again.
		l.exec("UPDATE sink_cursor SET revision = 7")
		b := l.run("b", r.settings("hook"))
		l.eventually("the receiver is told", func() bool {
			all, err := owner.SinkCursors(l.ctx, "hook")
			return err == nil && !all[0].Restored
		})
		b.stop()
	}
	if r.restored != 2 || len(ids) != 2 {
		t.Errorf("told %d times, with %d ids", r.restored, len(ids))
	}
}

// TestRunner_RestoredLedger_OutageAndDecision_TimeKept: neither an outage, nor a decision about the
// sink, nor a takeover changes the time of the restore that its receiver is told.
func TestRunner_RestoredLedger_OutageAndDecision_TimeKept(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	s := r.settings("hook")
	_, open := closed(&s)
	open.Store(true)
	a := l.run("a", s)
	l.await(a.Store, "hook")
	a.stop()
	l.exec(`UPDATE sink_cursor SET restored = TRUE, revision = revision + 1,
		updated_at = clock_timestamp() - INTERVAL '1 day'`)
	cursor := func(n *testNode) txn.SinkCursor {
		t.Helper()
		all, err := n.SinkCursors(l.ctx, "hook")
		l.must(err)
		return all[0]
	}
	restored := cursor(a).UpdatedAt
	var news, tries atomic.Int64
	r.set(func(e *sink.Event) sink.Result {
		at := e.Content.GetRestored()
		if at == nil {
			return sink.Result{}
		}
		if !at.GetTime().AsTime().Equal(restored) || !e.At.Equal(restored) {
			t.Errorf("restored at %v, sent at %v, want %v", at.GetTime().AsTime(), e.At, restored)
		}
		news.Add(1)
		switch tries.Add(1) {
		case 1:
			return sink.Result{Verdict: sink.Gone, Cause: "away"}
		case 2:
			return sink.Result{Verdict: sink.Unavailable, Cause: "down", After: time.Hour}
		}
		return sink.Result{}
	})
	open.Store(false)
	b := l.run("b", s)
	l.eventually("the reason", func() bool { return cursor(b).Reason != "" })
	open.Store(true)
	disabled := func() bool { return cursor(b).Status == txn.SinkDisabled }
	l.eventually("the receiver is gone", disabled)
	l.must(b.SetSinkStatus(l.ctx, store.SinkDecision{Sink: "hook"}, txn.SinkActive))
	l.eventually("the receiver is down", func() bool { return tries.Load() == 2 })
	b.stop()
	c := l.run("c", s)
	l.eventually("told", func() bool { return !cursor(c).Restored })
	if got := cursor(c).UpdatedAt; news.Load() != 3 || !got.After(restored) {
		t.Errorf("sent %d times, updated at %v", news.Load(), got)
	}
}

// TestRunner_ReceiverHoldsWorker_OtherSinksDeliver: a receiver that does not return, even when its
// lease is lost, delays no other sink.
func TestRunner_ReceiverHoldsWorker_OtherSinksDeliver(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t), newReceiver(t)
	stuck := newReceiver(t)
	release := make(chan struct{})
	defer close(release)
	held := stuck.settings("held")
	var entered atomic.Bool
	held.Open = func(context.Context) (sink.Sink, error) {
		entered.Store(true)
		<-release
		return nil, errors.New("released")
	}
	a := l.run("a", held, r.settings("hook"))
	l.eventually("a receiver holds its worker", entered.Load)
	l.await(a.Store, "hook")
	l.exec(`UPDATE sink_lease SET owner_node = 'other', fencing_token = fencing_token + 1,
		expires_at = clock_timestamp() + INTERVAL '1 hour', lasts = INTERVAL '1 hour'
		WHERE sink = 'held'`)
	before := l.expiry("hook")
	l.eventually("the lease of the other sink is renewed",
		func() bool { return l.expiry("hook").After(before.Add(2 * testLease)) })
	l.create(a.Store, 2)
	l.awaitAll(r)
}

func (l *ledger) expiry(name string) (at time.Time) {
	l.t.Helper()
	l.must(l.db.Pool.QueryRow(l.ctx, "SELECT expires_at FROM sink_lease WHERE sink = $1",
		name).Scan(&at))
	return at
}
