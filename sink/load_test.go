package sink_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// bulk creates transactions, each with one event.
func (l *ledger) bulk(s *store.Store, n int) {
	l.t.Helper()
	for begun := 0; begun < n; begun += 500 {
		intents := make([]store.Intent, 500)
		for i := range intents {
			intents[i] = store.Intent{Submitter: l.submitter,
				RequestID: fmt.Sprint("bulk", begun+i), Payload: txn.Payload{To: &txn.Address{2}}}
		}
		for _, created := range s.CreateTxs(l.ctx, intents) {
			l.must(created.Err)
		}
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// parkedFlag is how many transactions are parked: a million take minutes to insert.
var parkedFlag = flag.Int("parked", 100_000, "parked transactions of the test of memory")

// TestRunner_ManyParked_MemoryFlat: parked transactions cost rows, not memory.
func TestRunner_ManyParked_MemoryFlat(t *testing.T) {
	l, r := newLedger(t), newReceiver(t)
	many := *parkedFlag
	a := l.run("a", r.settings("hook"))
	l.await(a.Store, "hook")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	l.exec(`INSERT INTO sink_parked (sink, tx_id, submitter_id, next_seq, last_seq, attempts,
	                                 due_at, reason)
		SELECT 'hook', gen_random_uuid(), $1, 1, 1, 1, clock_timestamp() + INTERVAL '1 hour', 'no'
		  FROM generate_series(1, $2)`, int32(l.submitter), many)
	l.exec("ANALYZE sink_parked")
	l.create(a.Store, 20)
	l.awaitAll(r)
	grown := int64(heap()) - int64(before)
	t.Logf("%d parked: heap %d -> +%d bytes", many, before, grown)
	if grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes with %d parked transactions", grown, many)
	}
	if got, _, err := a.CountParked(l.ctx, "hook"); err != nil ||
		got != int64(min(many, txn.CountedParked)) {
		t.Errorf("%d parked, %v", got, err)
	}
}

// BenchmarkKafka measures a backlog that is delivered to an in-process broker: events per second,
// CPU of the process (node, and the broker in it) per event.
func BenchmarkKafka(b *testing.B) {
	const events = 20_000
	c := cluster(b)
	for b.Loop() {
		b.StopTimer()
		l := newLedger(b)
		a := l.run("a", brokerSettings("kafka", func(ctx context.Context) (sink.Sink, error) {
			return sink.OpenKafka(ctx, kafkaOptions(c))
		}))
		l.await(a.Store, "kafka")
		l.must(a.SetSinkStatus(l.ctx, storeDecision("kafka"), txn.SinkPaused))
		l.bulk(a.Store, events)
		l.must(a.SetSinkStatus(l.ctx, storeDecision("kafka"), txn.SinkActive))
		b.StartTimer()
		used := cpu()
		started := time.Now()
		l.eventually("all events are delivered", func() bool {
			all, err := a.SinkCursors(l.ctx, "kafka")
			return err == nil && all[0].Delivered >= events
		})
		b.ReportMetric(events/time.Since(started).Seconds(), "events/s")
		b.ReportMetric(float64((cpu()-used).Microseconds())/events, "us-cpu/event")
		b.StopTimer()
		a.stop()
		b.StartTimer()
	}
}
