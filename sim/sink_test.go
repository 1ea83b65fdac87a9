package sim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	noopmetric "go.opentelemetry.io/otel/metric/noop"

	nodepkg "github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// sinkName is the sink that the nodes of a plan with Sinks deliver for.
const sinkName = "receiver"

// deliveries are what the receiver of the sink has accepted.
type deliveries struct {
	first    map[string]bool // ids of events
	last     map[txn.TxID]int64
	total    int
	restored int // times that the news of a restored ledger came
}

// deliver runs the feed and the sinks of a node until ctx ends.
func (n *node) deliver(ctx context.Context, log *slog.Logger) (ended *sync.WaitGroup, err error) {
	ended = &sync.WaitGroup{}
	if !n.w.plan.Sinks {
		return ended, nil
	}
	f, err := feed.New(feed.Options{Store: n.store, Tail: n.store.TailFeed(), Clock: n.clock,
		Logger: log, MeterProvider: noopmetric.NewMeterProvider(),
		Limits: feed.Limits{RingEvents: 8, PageEvents: watchPage, Poll: 2 * time.Second,
			MinGap: 500 * time.Millisecond, Outage: 30 * time.Second,
			ReadTimeout: 10 * time.Second}})
	if err != nil {
		return nil, err
	}
	r, err := sink.NewRunner(sink.Options{Ledger: nodepkg.SinkLedger{Store: n.store},
		Feed: nodepkg.SinkFeed{Feed: f}, Clock: n.clock, Logger: log,
		MeterProvider: noopmetric.NewMeterProvider(), LeaseDuration: leaseDuration,
		RenewInterval: renewInterval, Random: func() float64 { return 0.5 },
		Sinks: []sink.Settings{{Name: sinkName, Kind: "sim", RetryMin: time.Second,
			RetryMax: 5 * time.Second, RetryFor: time.Hour,
			Open: func(context.Context) (sink.Sink, error) { return simSink{n}, nil }}},
	})
	if err != nil {
		return nil, err
	}
	ended.Go(func() { f.Run(ctx) })
	ended.Go(func() { r.Run(ctx) })
	return ended, nil
}

// simSink is the receiver as a node reaches it: a delivery is a step, and its reply may be lost.
type simSink struct{ n *node }

func (s simSink) Close() {}

// Deliver lets the receiver accept, or reject one transaction, or be unavailable.
func (s simSink) Deliver(ctx context.Context, events []*sink.Event) []sink.Result {
	w := s.n.w
	results := make([]sink.Result, len(events))
	it := &item{node: s.n, kind: "sink", label: fmt.Sprint("deliver ", len(events))}
	it.run = func() {
		v := w.pass(it, "sink:deliver")
		if !v.again && v.err == nil {
			v.err = w.receive(events, results)
		}
		it.answer(v)
	}
	if v := w.ask(ctx, it); v.err != nil {
		return []sink.Result{{Verdict: sink.Unavailable, Cause: "unavailable"}}
	}
	return results
}

// receive is the receiver's part of a delivery, a step of the scheduler.
func (w *World) receive(events []*sink.Event, results []sink.Result) error {
	if now := w.now(); w.noReceiver[0] <= now && now < w.noReceiver[1] {
		return errSwitch
	}
	dice := 6
	if w.healed {
		dice = 0
	}
	rejected := map[txn.TxID]bool{}
	for i, e := range events {
		if dice > 0 && w.dice.IntN(dice) == 0 {
			rejected[e.Tx] = true
		}
		if rejected[e.Tx] {
			results[i] = sink.Result{Verdict: sink.Retry, Cause: "rejected"}
			continue
		}
		w.accept(e)
	}
	if dice > 0 && w.dice.IntN(dice) == 0 {
		return errSwitch // accepted, and the reply is lost
	}
	return nil
}

// accept checks an event as the receiver accepts it: it is committed, and if it is new, the next
// one of its transaction.
func (w *World) accept(e *sink.Event) {
	id := e.Content.GetId()
	if e.Content.GetRestored() != nil {
		w.received.restored++
		return
	}
	committed, err := w.db.number(`SELECT count(*) FROM tx_event
		WHERE tx_id = $1::TEXT::UUID AND seq = $2`, e.Tx.String(), e.Seq)
	if err != nil {
		w.violated("sim", "%v", err)
	}
	if committed == 0 {
		w.violated("E1", "event %s was delivered before its commit", id)
	}
	w.received.total++
	if w.received.first[id] {
		return
	}
	w.received.first[id] = true
	if last := w.received.last[e.Tx]; e.Seq != last+1 {
		w.violated("E2", "event %s was delivered after event %d of its transaction", id, last)
	}
	w.received.last[e.Tx] = e.Seq
}

// beginSink makes the sink begin before all events.
func (w *World) beginSink() error {
	if !w.plan.Sinks {
		return nil
	}
	epoch, err := w.db.number("SELECT feed_epoch FROM ledger")
	if err != nil {
		return err
	}
	from := store.Position{Epoch: epoch, Seen: "3:3:"}
	_, err = w.db.conn.Exec(w.db.ctx, `WITH l AS (INSERT INTO sink_lease (sink) VALUES ($1))
		INSERT INTO sink_cursor (sink, position) VALUES ($1, $2)`, sinkName, from.String())
	return err
}

// undelivered counts the events that the receiver lacks.
func (w *World) undelivered() int64 {
	recorded, err := w.db.number(`SELECT count(*) FROM tx_event`)
	if err != nil {
		w.violated("sim", "%v", err)
	}
	return recorded - int64(len(w.received.first))
}

// TestSinkSeeds runs simulations whose nodes deliver events to a receiver that fails.
func TestSinkSeeds(t *testing.T) {
	t.Parallel()
	if *huntFlag != 0 || *seedFlag != 0 {
		return
	}
	for i := range max(2, *seedsFlag/5) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := Draw(*firstFlag + uint64(i))
			p.Sinks = true
			r := Play(t, p)
			t.Logf("seed %d: %d steps, %d deliveries, at rest after %.0fs", p.Seed, r.Steps,
				r.deliveries, r.Rest.Seconds())
			if len(r.Broken) > 0 {
				t.Errorf("broken: %q\n%s\n%s", r.Broken, r.Plan, r.tail)
			}
			if r.deliveries == 0 {
				t.Error("nothing was delivered")
			}
		})
	}
}
