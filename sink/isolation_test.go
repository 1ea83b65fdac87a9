package sink_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/txn"
)

// counts are the calls for a sink that deliveries cause.
type counts struct {
	facts    int // reads of labels and parked transactions
	commits  int // that record deliveries
	attempts int // events that were passed to the receiver
}

// countingLedger counts the calls for each sink. Commits that only pass events depend on the time,
// and are not counted.
type countingLedger struct {
	node.SinkLedger
	mu sync.Mutex
	of map[string]*counts
}

func (l *countingLedger) count(name string, add func(*counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[name] == nil {
		l.of[name] = &counts{}
	}
	add(l.of[name])
}

func (l *countingLedger) SinkFacts(ctx context.Context, name string,
	ids []txn.TxID) (map[txn.TxID]txn.SinkFact, error) {
	l.count(name, func(c *counts) { c.facts++ })
	return l.SinkLedger.SinkFacts(ctx, name, ids)
}

func (l *countingLedger) CommitSink(ctx context.Context, lease txn.SinkLease,
	p txn.SinkProgress) error {
	if p.Delivered > 0 || len(p.Failures) > 0 {
		l.count(lease.Sink, func(c *counts) { c.commits++ })
	}
	return l.SinkLedger.CommitSink(ctx, lease, p)
}

// hangingWebhook is a receiver that accepts requests and never answers until the test ends.
func hangingWebhook(t *testing.T) (settings sink.Settings, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	return brokerSettings("dead", func(context.Context) (sink.Sink, error) {
		return sink.NewWebhook(sink.WebhookOptions{URL: server.URL, Timeout: time.Hour,
			Encoder: sink.Encoder{Source: "urn:test"}, Concurrency: 4, AllowPrivate: true,
			Clock: clock.Real{}, Secrets: func() ([]string, error) {
				return []string{"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"}, nil
			}})
	}), requests
}

// TestRunner_DeadWebhookAmongTen_AddsNothing: nine sinks that share a node with a receiver that
// hangs work exactly as without it. Each event takes them one read, one attempt and one commit. The
// receiver that hangs causes one read and one request, however many events follow.
func TestRunner_DeadWebhookAmongTen_AddsNothing(t *testing.T) {
	t.Parallel()
	const live, events = 9, 20
	for name, dead := range map[string]bool{"nine alone": false, "nine and a dead one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			book := &countingLedger{of: map[string]*counts{}}
			l.book = func(s node.SinkLedger) sink.Ledger { book.SinkLedger = s; return book }
			var sinks []sink.Settings
			var receivers []*receiver
			for i := range live {
				r := newReceiver(t)
				name := fmt.Sprint("live-", i)
				r.set(func(*sink.Event) sink.Result {
					book.count(name, func(c *counts) { c.attempts++ })
					return sink.Result{}
				})
				receivers = append(receivers, r)
				sinks = append(sinks, r.settings(name))
			}
			var requests *atomic.Int64
			if dead {
				hanging, n := hangingWebhook(t)
				sinks, requests = append(sinks, hanging), n
			}
			a := l.run("a", sinks...)
			for _, s := range sinks {
				l.await(a.Store, s.Name)
			}
			// One event at a time: pages of several would depend on the time.
			for range events {
				l.create(a.Store, 1)
				for i, r := range receivers {
					l.awaitAll(r)
					l.eventually("the delivery is recorded", func() bool {
						all, err := a.SinkCursors(l.ctx, sinks[i].Name)
						return err == nil && all[0].Delivered == int64(len(l.events))
					})
				}
			}
			book.mu.Lock()
			defer book.mu.Unlock()
			for _, s := range sinks[:live] {
				if got := *book.of[s.Name]; got != (counts{events, events, events}) {
					t.Errorf("sink %s took %+v for %d events", s.Name, got, events)
				}
			}
			if !dead {
				return
			}
			if got := *book.of["dead"]; got != (counts{facts: 1}) || requests.Load() != 1 {
				t.Errorf("the dead sink took %+v and %d requests", got, requests.Load())
			}
		})
	}
}
