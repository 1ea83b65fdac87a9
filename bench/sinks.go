package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/bench/internal/wire"
	"github.com/fencepost/fencepost/cmd/load"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

const (
	sinkTopic = wire.SinkTopic
	// sinkTxs have the events among them: each step is one event of each.
	sinkTxs = 1000
	// sinkSteps are the steps of the backlog.
	sinkSteps = 100
	// sinkPace is the time between steps at the pace of 10,000 events per second.
	sinkPace  = 100 * time.Millisecond
	sinkLimit = 2 * time.Minute
	sinkPoll  = 5 * time.Millisecond
	// sinkRecord is the size of a record as it is sent, in bytes.
	sinkRecord = 900
)

func startBroker() (*kfake.Cluster, error) {
	return kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, sinkTopic),
		kfake.BlackholeProduce())
}

// bareKafka measures the client and the broker alone: records of the same size, as many at once as
// a sink passes.
func bareKafka(ctx context.Context, b *bench) error {
	broker, err := startBroker()
	if err != nil {
		return err
	}
	defer broker.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...),
		kgo.DefaultProduceTopic(sinkTopic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer client.Close()
	const page = 256 // watch.page_events
	produced, began := 0, time.Now()
	for time.Since(began) < b.size.spell {
		records := make([]*kgo.Record, page)
		for i := range records {
			records[i] = &kgo.Record{Key: fmt.Append(nil, "tx-", i),
				Value: make([]byte, sinkRecord)}
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		produced += page
	}
	b.add("limit.kafka", "records/s", load.Rate(produced, time.Since(began)))
	return nil
}

// stream is a node that delivers to a broker in this process.
type stream struct {
	*service
	admin *store.Store
	conn  *pgx.Conn // reads the cursor
	txs   []uuid.UUID
	seq   int // the last event of each transaction
}

// deliverToKafka measures a backlog, and events at a pace of 10,000 per second.
func deliverToKafka(ctx context.Context, b *bench) (err error) {
	broker, err := startBroker()
	if err != nil {
		return err
	}
	defer broker.Close()
	s, err := newService(ctx, b, serviceOptions{submitters: 1, period: 250 * time.Millisecond,
		brokers: broker.ListenAddrs()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	t := &stream{service: s}
	if t.admin, err = store.Open(ctx, store.Config{URL: s.ledger.url,
		Node: "bench/sink"}); err != nil {
		return err
	}
	defer t.admin.Close()
	if t.conn, err = pgx.Connect(ctx, s.ledger.url); err != nil {
		return err
	}
	defer t.conn.Close(context.WithoutCancel(ctx))
	if err := t.prepare(ctx); err != nil {
		return err
	}
	if err := t.backlog(ctx); err != nil {
		return err
	}
	return t.paced(ctx)
}

// prepare creates the transactions, of an account that no node works on.
func (t *stream) prepare(ctx context.Context) error {
	for _, statement := range []string{
		"UPDATE submitter_lease SET owner_node = 'nobody', fencing_token = fencing_token + 1, " +
			"expires_at = clock_timestamp() + INTERVAL '1 day', " +
			"lasts = INTERVAL '1 day', released = FALSE",
		"ALTER TABLE tx_event DISABLE TRIGGER USER", // it requires a move for each event
	} {
		if _, err := t.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare the ledger: %w", err)
		}
	}
	if err := t.wait(ctx, "the sink has a position",
		func(c txn.SinkCursor) bool { return c.Position != "" }); err != nil {
		return err
	}
	intents := make([]store.Intent, sinkTxs)
	for i := range intents {
		intents[i] = store.Intent{Submitter: 1, RequestID: fmt.Sprint("order-", i),
			Payload: txn.Payload{To: &txn.Address{2}}, Labels: map[string]string{"team": "a"}}
	}
	for part := range slices.Chunk(intents, 100) {
		for _, created := range t.admin.CreateTxs(ctx, part) {
			if created.Err != nil {
				return created.Err
			}
			t.txs = append(t.txs, uuid.UUID(created.Info.ID))
		}
	}
	t.seq = 1
	return t.delivered(ctx)
}

// step writes an event of each transaction, in one commit.
func (t *stream) step(ctx context.Context) error {
	t.seq++
	_, err := t.conn.Exec(ctx, `INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state,
		sub_state, executed, reason, message)
		SELECT 1, unnest($1::UUID[]), $2, 'SUBMITTED', 'TRACKING', 'PENDING', 'UNKNOWN', '', ''`,
		t.txs, t.seq)
	return err
}

func (t *stream) cursor(ctx context.Context) (txn.SinkCursor, error) {
	all, err := t.admin.SinkCursors(ctx, sinkTopic)
	if err != nil || len(all) == 0 {
		return txn.SinkCursor{}, err
	}
	return all[0], nil
}

func (t *stream) wait(ctx context.Context, what string, holds func(txn.SinkCursor) bool) error {
	ctx, cancel := context.WithTimeout(ctx, sinkLimit)
	defer cancel()
	for {
		c, err := t.cursor(ctx)
		switch {
		case err != nil:
			return err
		case holds(c):
			return nil
		}
		select {
		case <-time.After(sinkPoll):
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		}
	}
}

// delivered waits until all events are.
func (t *stream) delivered(ctx context.Context) error {
	want := int64(t.seq * sinkTxs)
	return t.wait(ctx, "the events are delivered",
		func(c txn.SinkCursor) bool { return c.Delivered >= want })
}

// used is the work and the CPU time since a moment, per event.
func (t *stream) used(ctx context.Context, name string, events int, before state) error {
	after, err := t.measure(ctx)
	if err != nil {
		return err
	}
	t.b.add(name+"cpu.node", "us/event",
		float64((after.node.cpu-before.node.cpu).Microseconds())/float64(events))
	d := after.work.since(before.work)
	t.b.progress("  microseconds in PostgreSQL per event: %s", shares(d.spent, float64(events)))
	t.b.add(name+"statements", "1/event",
		(d.by["SinkFacts"]+d.by["CommitSink"]+d.by["EventsSince"])/float64(events))
	return nil
}

// backlog measures how fast events are delivered that waited.
func (t *stream) backlog(ctx context.Context) error {
	decision := store.SinkDecision{Sink: sinkTopic}
	if err := t.admin.SetSinkStatus(ctx, decision, txn.SinkPaused); err != nil {
		return err
	}
	for range sinkSteps {
		if err := t.step(ctx); err != nil {
			return err
		}
	}
	before, err := t.measure(ctx)
	if err != nil {
		return err
	}
	if err := t.admin.SetSinkStatus(ctx, decision, txn.SinkActive); err != nil {
		return err
	}
	first := int64(0)
	began := time.Now()
	if err := t.wait(ctx, "a first event is delivered", func(c txn.SinkCursor) bool {
		first, began = c.Delivered, time.Now()
		return first > int64(t.seq-sinkSteps)*sinkTxs
	}); err != nil {
		return err
	}
	if err := t.delivered(ctx); err != nil {
		return err
	}
	t.b.add("sink.kafka.rate", "events/s",
		load.Rate(t.seq*sinkTxs-int(first), time.Since(began)))
	return t.used(ctx, "sink.kafka.", sinkSteps*sinkTxs, before)
}

// paced measures the lag of events that come at 10,000 per second: from the commit of a step until
// the cursor has passed its events, which the broker then has.
func (t *stream) paced(ctx context.Context) error {
	before, err := t.measure(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steps, first := max(10, int(3*t.b.size.spell/sinkPace)), t.seq
	commits, ended := make(chan time.Time, steps), make(chan error, 1)
	began := time.Now()
	go func() {
		for i := range steps {
			select {
			case <-time.After(time.Until(began.Add(time.Duration(i) * sinkPace))):
			case <-ctx.Done():
			}
			if err := t.step(ctx); err != nil {
				ended <- err
				return
			}
			commits <- time.Now()
		}
		ended <- nil
	}()
	var lag load.Latencies
	for i := range steps {
		var committed time.Time
		select {
		case committed = <-commits:
		case err := <-ended:
			if err != nil {
				return err
			}
			committed = <-commits
		}
		want := int64((first + i + 1) * sinkTxs)
		if err := t.wait(ctx, "a step is delivered",
			func(c txn.SinkCursor) bool { return c.Delivered >= want }); err != nil {
			return err
		}
		lag = append(lag, time.Since(committed))
	}
	const name = "sink.kafka.paced."
	t.b.add(name+"events", "1/s", load.Rate(steps*sinkTxs, time.Since(began)))
	t.b.add(name+"lag.p50", "ms", millis(lag.At(0.5)))
	t.b.add(name+"lag.p99", "ms", millis(lag.At(0.99)))
	return t.used(ctx, name, steps*sinkTxs, before)
}
