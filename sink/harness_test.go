package sink_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m).Run()) }

// patience bounds the wait for a condition. Only a failing test waits that long.
const patience = 60 * time.Second

const testLease = 3 * time.Second

// ledger is a ledger without an engine, whose events the test writes.
type ledger struct {
	t   testing.TB
	ctx context.Context
	db  *dbtest.DB

	submitter txn.SubmitterID
	mu        sync.Mutex
	txs       []txn.TxID
	events    map[string]bool // ids of all events written
	meters    metric.MeterProvider
	book      func(node.SinkLedger) sink.Ledger // nil: the store itself
}

func newLedger(t testing.TB) *ledger {
	t.Helper()
	return newLedgerIn(t, dbtest.New(t))
}

func newLedgerIn(t testing.TB, db *dbtest.DB) *ledger {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	l := &ledger{t: t, ctx: ctx, db: db, events: map[string]bool{},
		meters: noopmetric.NewMeterProvider()}
	s := l.open("setup")
	info, _, err := s.Register(ctx, store.Registration{Name: "alice", Chain: 31337,
		Address: txn.Address{1}, Signer: "local", Mode: txn.Strict, StartFrom: "0"})
	l.must(err)
	l.submitter = info.ID
	// Events beyond those of moves are written directly.
	l.exec("ALTER TABLE tx_event DISABLE TRIGGER USER")
	return l
}

func (l *ledger) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) exec(sql string, args ...any) {
	l.t.Helper()
	_, err := l.db.Pool.Exec(l.ctx, sql, args...)
	l.must(err)
}

func (l *ledger) open(name string) *store.Store {
	l.t.Helper()
	s, err := store.Open(l.ctx, store.Config{URL: l.db.NodeURL, Schema: l.db.Schema,
		Node: name + "/boot", LeaseDuration: testLease})
	l.must(err)
	l.t.Cleanup(s.Close)
	return s
}

// privateServer is a ledger on a PostgreSQL server of its own.
func privateServer(t testing.TB) (*ledger, *pgembed.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pg, err := pgembed.Start(ctx, pgembed.Options{Settings: pgembed.Disposable()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := pg.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	url := pg.URL("postgres")
	db := &dbtest.DB{URL: url, NodeURL: url, Schema: "ledger"}
	if db.Pool, err = pgxpool.New(ctx, db.ScopedURL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Pool.Close)
	if _, err := store.Migrate(ctx, url, db.Schema); err != nil {
		t.Fatal(err)
	}
	return newLedgerIn(t, db), pg
}

// create writes transactions, each with its first event.
func (l *ledger) create(s *store.Store, n int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		info, _, err := s.CreateTx(l.ctx, store.Intent{Submitter: l.submitter,
			RequestID: fmt.Sprint("r", len(l.txs)), Payload: txn.Payload{To: &txn.Address{2}},
			Labels: map[string]string{"n": fmt.Sprint(len(l.txs) % 2)}})
		l.must(err)
		l.txs = append(l.txs, info.ID)
		l.events[eventID(info.ID, 1)] = true
	}
}

// grow writes an event with this number for each transaction, in separate database transactions.
func (l *ledger) grow(seq int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range l.txs {
		_, err := l.db.Pool.Exec(l.ctx, insertEvent, int32(l.submitter), id.String(), seq)
		l.must(err)
		l.events[eventID(id, seq)] = true
	}
}

const insertEvent = `INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state,
	executed, reason, message) VALUES ($1, $2, $3, 'SUBMITTED', 'TRACKING', 'PENDING', 'UNKNOWN',
	'', '')`

func eventID(id txn.TxID, seq int) string { return fmt.Sprintf("%s/%d", id, seq) }

// testNode is a feed and a runner over one store.
type testNode struct {
	*store.Store
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// run starts a node that delivers for these sinks.
func (l *ledger) run(name string, sinks ...sink.Settings) *testNode {
	l.t.Helper()
	n := &testNode{Store: l.open(name)}
	return l.runOn(n, sinks...)
}

func (l *ledger) runOn(n *testNode, sinks ...sink.Settings) *testNode {
	l.t.Helper()
	log := slog.New(slog.NewTextHandler(testLog{l.t}, nil))
	f, err := feed.New(feed.Options{Store: n.Store, Tail: n.Store.TailFeed(), Clock: clock.Real{},
		Logger: log, MeterProvider: noopmetric.NewMeterProvider(),
		Limits: feed.Limits{RingEvents: 512, PageEvents: 64, Poll: 20 * time.Millisecond,
			MinGap: time.Millisecond, Outage: 10 * time.Second, ReadTimeout: 5 * time.Second}})
	l.must(err)
	var book sink.Ledger = node.SinkLedger{Store: n.Store}
	if l.book != nil {
		book = l.book(node.SinkLedger{Store: n.Store})
	}
	r, err := sink.NewRunner(sink.Options{Ledger: book,
		Feed: node.SinkFeed{Feed: f}, Sinks: sinks, Clock: clock.Real{}, Logger: log,
		MeterProvider: l.meters, LeaseDuration: testLease,
		RenewInterval: 100 * time.Millisecond})
	l.must(err)
	ctx, cancel := context.WithCancel(l.ctx)
	n.cancel = cancel
	n.ended.Go(func() { f.Run(ctx) })
	n.ended.Go(func() { r.Run(ctx) })
	l.t.Cleanup(n.stop)
	return n
}

func (n *testNode) stop() {
	n.cancel()
	n.ended.Wait()
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

// receiver records deliveries, and fails as it is told.
type receiver struct {
	t  testing.TB
	mu sync.Mutex

	got      map[string]int // times that an event was accepted
	last     map[txn.TxID]int64
	disorder []string
	restored int
	// judge may reject an event; nil accepts all. It is called with the lock.
	judge func(e *sink.Event) sink.Result
	// skipped reports whether an event need not come before later ones; nil: none. It is called
	// with the lock.
	skipped func(id txn.TxID, seq int64) bool
}

func newReceiver(t testing.TB) *receiver {
	return &receiver{t: t, got: map[string]int{}, last: map[txn.TxID]int64{}}
}

func (r *receiver) settings(name string) sink.Settings {
	return sink.Settings{Name: name, Kind: "test", RetryMin: 5 * time.Millisecond,
		RetryMax: 50 * time.Millisecond, RetryFor: time.Hour,
		Open: func(context.Context) (sink.Sink, error) { return r, nil }}
}

// Deliver records the events that are accepted.
func (r *receiver) Deliver(_ context.Context, events []*sink.Event) []sink.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	results := make([]sink.Result, len(events))
	failed := map[txn.TxID]sink.Result{}
	for i, e := range events {
		if before, is := failed[e.Tx]; is {
			results[i] = before
			continue
		}
		if r.judge != nil {
			if results[i] = r.judge(e); results[i].Verdict != sink.Done {
				failed[e.Tx] = results[i]
				continue
			}
		}
		if e.Content.GetRestored() != nil {
			r.restored++
			continue
		}
		r.record(e)
	}
	return results
}

func (r *receiver) record(e *sink.Event) {
	id := e.Content.GetId()
	if r.got[id]++; r.got[id] > 1 {
		return // only first deliveries are in order
	}
	skips := func(seq int64) bool { return r.skipped != nil && r.skipped(e.Tx, seq) }
	if e.Seq <= r.last[e.Tx] && skips(e.Seq) {
		return // replayed
	}
	before := r.last[e.Tx]
	for before+1 < e.Seq && skips(before+1) {
		before++
	}
	if e.Seq != before+1 {
		r.disorder = append(r.disorder, fmt.Sprintf("%s after %d", id, r.last[e.Tx]))
	}
	r.last[e.Tx] = e.Seq
}

func (*receiver) Close() {}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func (r *receiver) set(judge func(e *sink.Event) sink.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge = judge
}

// awaitAll waits until the receiver has every event of the ledger, and checks the order.
func (l *ledger) awaitAll(r *receiver) {
	l.t.Helper()
	l.eventually("every event is delivered", func() bool { return r.count() == len(l.events) })
	l.check(r)
}

// check compares the deliveries with the ledger: nothing that was not committed, and each first
// delivery in order.
func (l *ledger) check(r *receiver) {
	l.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.got {
		if !l.events[id] {
			l.t.Errorf("event %s was delivered, but not committed", id)
		}
	}
	for _, text := range r.disorder {
		l.t.Errorf("out of order: %s", text)
	}
}

func (l *ledger) eventually(what string, holds func() bool) {
	l.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func storeDecision(name string) store.SinkDecision {
	return store.SinkDecision{Sink: name, Operator: "o"}
}

// dice makes about one of n deliveries fail.
func dice(n int, as sink.Result) func(*sink.Event) sink.Result {
	return func(*sink.Event) sink.Result {
		if rand.IntN(n) == 0 {
			return as
		}
		return sink.Result{}
	}
}
