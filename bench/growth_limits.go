package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// idleNumbers are the resources of an idle node.
var idleNumbers = []string{"statements", "buffers", "execution", "cpu.node", "cpu.postgres"}

const (
	idleSettle = 5 * time.Second
	idleSpell  = 30 * time.Second
)

// idle watches a node with submitters that have a past and no work, while the chain makes blocks.
func idle(ctx context.Context, b *bench, submitters int) (err error) {
	s, err := newGrown(ctx, b,
		grown{submitters: submitters, busy: 1, stored: submitters * fewPast, period: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := rest(ctx, idleSettle+firstLooks(submitters)); err != nil {
		return err
	}
	before, err := s.cost(ctx)
	if err != nil {
		return err
	}
	if err := rest(ctx, idleSpell); err != nil {
		return err
	}
	after, err := s.cost(ctx)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("growth.idle.%d.", submitters)
	took := after.at.Sub(
		before.at).Seconds()
	w := after.work.since(before.work)
	b.add(name+"statements", "1/s", w.statements/took)
	b.add(name+"buffers", "pages/s", (after.buffers-before.buffers)/took)
	b.add(name+"execution", "ms/s", (after.execution-before.execution)/1000/took)
	b.add(name+"cpu.node", "cores", (after.node.cpu-before.node.cpu).Seconds()/took)
	b.add(name+"cpu.postgres", "cores", (after.postgres-before.postgres).Seconds()/took)
	b.add(name+"rss", "MB", after.node.rss/(1<<20))
	b.progress("  in a second: statements %s; of these %s", shares(w.by, took),
		shares(less(after.by, before.by), took))
	return nil
}

// firstLooks is the time a new node needs to check each submitter without an owner once, for final
// transactions that must be watched. It is not part of steady operation.
func firstLooks(idle int) time.Duration {
	const inASecond = 200
	return time.Duration(idle/inASecond) * time.Second
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// busyMemory measures the memory of a busy node, most of whose submitters are idle.
func busyMemory(ctx context.Context, b *bench, o grown) (err error) {
	o.stored = o.submitters * fewPast
	s, err := newGrown(ctx, b, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f := newFlow(s)
	f.left = memoryLives * o.busy
	stop, err := f.start(ctx)
	if err != nil {
		return err
	}
	err = f.waitForFinal(ctx, (window+memoryLives)*o.busy)
	after, measured := s.cost(ctx)
	if err = errors.Join(err, measured, stop()); err != nil {
		return err
	}
	b.add("growth.memory.rss", "MB", after.node.rss/(1<<20))
	b.add("growth.memory.rss.anon", "MB", after.node.anon/(1<<20))
	b.add("growth.memory.rss.file", "MB", after.node.file/(1<<20))
	b.add("growth.memory.heap", "MB", after.node.Heap/(1<<20))
	b.add("growth.memory.stacks", "MB", after.node.Stacks/(1<<20))
	return nil
}

const memoryLives = 6

// bloat keeps a service busy for a while, with PostgreSQL's own autovacuum settings, and reports
// the size of the tables.
func bloat(ctx context.Context, b *bench, spell time.Duration) (err error) {
	s, err := newService(ctx, b, serviceOptions{submitters: storedBusy, period: grownPeriod})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f := newFlow(s)
	stop, err := f.start(ctx)
	if err != nil {
		return err
	}
	var t tableSizes
	mostDead := 0.0
	for until := time.Now().Add(spell); err == nil && time.Now().Before(until); {
		if err = rest(ctx, bloatLook); err == nil {
			t, err = s.ledger.sizes(ctx)
			mostDead = max(mostDead, t.dead)
		}
	}
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	b.add("growth.bloat.txs", "txs", t.txs)
	b.add("growth.bloat.tables", "bytes/tx", t.tables/t.txs)
	b.add("growth.bloat.indexes", "bytes/tx", t.indexes/t.txs)
	b.add("growth.bloat.dead.most", "rows", mostDead)
	b.add("growth.bloat.dead.share", "of rows", t.dead/(t.live+t.dead))
	b.add("growth.bloat.vacuums", "autovacuums", t.vacuums)
	return nil
}

const bloatLook = 5 * time.Second

// tableSizes is the size of all tables of the ledger.
type tableSizes struct{ txs, tables, indexes, live, dead, vacuums float64 }

func (l *ledger) sizes(ctx context.Context) (t tableSizes, err error) {
	err = l.conn.QueryRow(
		ctx,
		`SELECT (SELECT count(*) FROM managed_tx), sum(pg_table_size(relid)),
		  sum(pg_indexes_size(relid)), sum(n_live_tup), sum(n_dead_tup), sum(autovacuum_count)
		FROM pg_stat_user_tables -- pg_stat_statements: not counted`,
	).Scan(&t.txs, &t.tables, &t.indexes, &t.live, &t.dead, &t.vacuums)
	return t, err
}

const (
	burstQueue   = 20_000 // transactions that may wait in all
	burstCallers = 64
	memoryLook   = 250 * time.Millisecond
)

// burst has callers create far more than slow blocks take, and retry at once when they are refused.
// Memory must stay level, every refusal must carry a retry time, and every accepted transaction
// must be in the ledger.
func burst(ctx context.Context, b *bench, spell time.Duration) (err error) {
	s, err := newGrown(
		ctx,
		b,
		grown{
			submitters: burstCallers,
			busy:       burstCallers,
			period:     time.Second,
			maxQueued:  burstQueue,
		},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	before, err := s.nodes[0].measure(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, spell)
	defer cancel()
	var (
		c    burstCount
		wg   sync.WaitGroup
		peak float64
	)
	for i := range burstCallers {
		client := pb.NewTxServiceClient(s.nodes[0].conns[i%connections])
		wg.Go(func() { c.create(limited, ctx, client, s.submitters[i], i) })
	}
	for limited.Err() == nil {
		if u, err := s.nodes[0].measure(ctx); err == nil {
			peak = max(peak, u.rss)
		}
		_ = rest(limited, memoryLook)
	}
	wg.Wait()
	after, err := s.nodes[0].measure(ctx)
	if err != nil {
		return err
	}
	var kept float64
	if err := s.ledger.conn.QueryRow(
		ctx, "SELECT count(*)::FLOAT8 FROM managed_tx WHERE request_id LIKE 'burst-%'",
	).Scan(&kept); err != nil {
		return err
	}
	accepted := float64(c.accepted.Load())
	b.add("growth.burst.accepted", "txs", accepted)
	b.add("growth.burst.refused", "calls", float64(c.refused.Load()))
	b.add("growth.burst.unadvised", "calls", float64(c.unadvised.Load()))
	b.add("growth.burst.failed", "calls", float64(c.failed.Load()))
	b.add("growth.burst.lost", "txs", accepted-kept)
	b.add("growth.burst.rss.before", "MB", before.rss/(1<<20))
	b.add("growth.burst.rss.peak", "MB", max(peak, after.rss)/(1<<20))
	b.add("growth.burst.rss.after", "MB", after.rss/(1<<20))
	return nil
}

// burstCount counts the results of the calls.
type burstCount struct {
	accepted, refused atomic.Int64
	unadvised         atomic.Int64 // rejected without a retry delay
	failed            atomic.Int64 // in any other way
}

// create creates transactions until the first context ends. Each call may last as long as the
// second context, so that no outcome is unknown.
func (c *burstCount) create(limited, ctx context.Context, client pb.TxServiceClient,
	submitter string, caller int) {
	for n := 0; limited.Err() == nil; n++ {
		_, err := client.CreateTx(
			ctx,
			&pb.CreateTxRequest{
				Submitter: submitter,
				RequestId: fmt.Sprintf("burst-%d-%d", caller, n),
				Payload:   transfer(),
			},
		)
		switch st := status.Convert(err); {
		case err == nil:
			c.accepted.Add(1)
		case st.Code() != codes.ResourceExhausted:
			c.failed.Add(1)
		default:
			c.refused.Add(1)
			if !advises(st) {
				c.unadvised.Add(1)
			}
		}
	}
}

func advises(st *status.Status) bool {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().AsDuration() > 0 {
			return true
		}
	}
	return false
}
