package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/cmd/load"
)

// growth lists the sizes to compare. Each list begins with the smallest, the reference of the
// others.
type growth struct {
	stored     []int // final transactions of 500 submitters, all busy
	submitters []int // of which 10 are busy
	queued     []int // that wait on one submitter
	idle       []int // submitters without work
	memory     grown
	bloat      time.Duration // of a run in which autovacuum is watched
	burst      time.Duration // of creates, far above the chain's throughput
}

var allGrowth = growth{
	stored: []int{
		1000,
		100_000,
		1_000_000,
	}, submitters: []int{10, 1000, 10_000}, queued: []int{10, 100_000}, idle: []int{10, 10_000},
	memory: grown{
		submitters: 10_000,
		busy:       1000,
		period:     time.Second,
		lockstep:   true,
	}, bloat: 2 * time.Minute, burst: 15 * time.Second,
}

const (
	grownPeriod = 250 * time.Millisecond
	storedBusy  = 500
	fewBusy     = 10
	fewLives    = 100 // of each of few
	fewPast     = 8   // final transactions per submitter, where their number grows
)

// scenarios are the scenarios of growth.
func (g *growth) scenarios() (all []scenario) {
	for _, n := range g.stored {
		o := grown{
			submitters: storedBusy,
			busy:       storedBusy,
			stored:     n,
			period:     grownPeriod,
			lockstep:   true,
		}
		all = append(all, grownScenario("stored", n, o, 0))
	}
	for _, n := range g.submitters {
		o := grown{
			submitters: n,
			busy:       fewBusy,
			stored:     n * fewPast,
			period:     grownPeriod,
			lockstep:   true,
		}
		all = append(all, grownScenario("submitters", n, o, fewLives))
	}
	for _, n := range g.queued {
		all = append(
			all,
			scenario{
				fmt.Sprintf("growth-queued.%d", n),
				func(ctx context.Context, b *bench) error { return longQueue(ctx, b, n) },
			},
		)
	}
	for _, n := range g.idle {
		all = append(
			all,
			scenario{
				fmt.Sprintf("growth-idle.%d", n),
				func(ctx context.Context, b *bench) error { return idle(ctx, b, n) },
			},
		)
	}
	all = append(
		all,
		scenario{
			"growth-memory",
			func(ctx context.Context, b *bench) error { return busyMemory(ctx, b, g.memory) },
		},
	)
	if g.bloat > 0 {
		all = append(
			all,
			scenario{
				"growth-bloat",
				func(ctx context.Context, b *bench) error { return bloat(ctx, b, g.bloat) },
			},
		)
	}
	if g.burst > 0 {
		all = append(
			all,
			scenario{
				"growth-burst",
				func(ctx context.Context, b *bench) error { return burst(ctx, b, g.burst) },
			},
		)
	}
	for i, s := range all {
		all[i].run = func(ctx context.Context, b *bench) error {
			return errors.Join(s.run(ctx, b), b.db.dropLast(context.WithoutCancel(ctx)))
		}
	}
	return all
}

// against lists the numbers that are compared with the smallest size.
func (g *growth) against() map[string]string {
	pairs := map[string]string{}
	if g == nil {
		return pairs
	}
	compare := func(what string, sizes []int, numbers []string) {
		for _, n := range sizes[min(1, len(sizes)):] {
			for _, number := range numbers {
				pairs[fmt.Sprintf("growth.%s.%d.%s", what, n, number)] = fmt.Sprintf(
					"growth.%s.%d.%s", what, sizes[0], number)
			}
		}
	}
	compare("stored", g.stored, lifeNumbers)
	compare("submitters", g.submitters, lifeNumbers)
	compare("queued", g.queued, append(callNumbers(), lifeNumbers[:6]...))
	compare("idle", g.idle, idleNumbers)
	return pairs
}

// lifeNumbers are the costs of a transaction; the last is of its acceptance alone.
var lifeNumbers = []string{
	"statements",
	"commits",
	"wal",
	"buffers",
	"execution",
	"cpu.node",
	"cpu.postgres",
	"accept.p50",
}

func grownScenario(what string, n int, o grown, lives int) scenario {
	return scenario{
		fmt.Sprintf("growth-%s.%d", what, n),
		func(ctx context.Context, b *bench) (err error) {
			s, err := newGrown(ctx, b, o)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			if err := rest(ctx, firstLooks(o.submitters-o.busy)); err != nil {
				return err
			}
			if lives == 0 {
				lives = b.size.lives
			}
			name := fmt.Sprintf("growth.%s.%d.", what, n)
			if err := livesOf(ctx, b, s, name, lives); err != nil {
				return err
			}
			return acceptGrown(ctx, b, s, name)
		},
	}
}

// livesOf measures the cost of a transaction from creation to finality, like endToEnd.wholeLives,
// and the pages that PostgreSQL reads for it.
func livesOf(ctx context.Context, b *bench, s *service, name string, lives int) error {
	f := newFlow(s)
	f.left = 0
	stop, err := f.start(ctx)
	if err != nil {
		return err
	}
	count := len(s.submitters)
	if err := f.waitForFinal(ctx, window*count); err != nil {
		return errors.Join(err, stop())
	}
	before, err := s.cost(ctx)
	if err != nil {
		return errors.Join(err, stop())
	}
	f.more((lives - window) * count)
	err = f.waitForFinal(ctx, (window+lives)*count)
	after, measured := s.cost(ctx)
	if err = errors.Join(err, measured, stop()); err != nil {
		return err
	}
	after.report(b, name, before, float64(lives*count))
	return nil
}

// grownCallers create a few transactions each, to measure the latency.
const (
	grownCallers = 16
	grownCreates = 4000
)

func acceptGrown(ctx context.Context, b *bench, s *service, name string) error {
	done, err := load.Create(
		ctx,
		s.nodes[0].conns,
		load.Plan{
			Submitters: s.submitters,
			Callers:    grownCallers,
			Count:      grownCreates,
			Payload:    transfer(),
			Prefix:     "accept",
		},
	)
	if err != nil {
		return err
	}
	b.add(name+"accept.p50", "ms", millis(done.Latency.At(0.5)))
	return nil
}

// cost is the cost of the work so far.
type cost struct {
	at                 time.Time
	work               work
	buffers, execution float64 // pages read, microseconds in statements
	reads              float64 // of the pages, those that PostgreSQL had not in its own memory
	by                 map[string]float64
	node               usage
	postgres           time.Duration
}

func (s *service) cost(ctx context.Context) (c cost, err error) {
	c.at, c.by = time.Now(), map[string]float64{}
	if c.node, err = s.nodes[0].measure(ctx); err != nil {
		return c, err
	}
	c.postgres = postgresCPU(s.b.db.dir)
	if c.work, err = s.ledger.measure(ctx); err != nil {
		return c, err
	}
	rows, err := s.ledger.conn.Query(
		ctx,
		`SELECT coalesce(substring(query FROM '-- name: (\w+)'), 'other') AS name,
		  sum(shared_blks_hit + shared_blks_read)::FLOAT8, sum(total_exec_time * 1000)::FLOAT8,
		  sum(shared_blks_read)::FLOAT8
		FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database
		  WHERE datname = current_database()) AND query LIKE '-- name: %' GROUP BY 1`,
	)
	if err != nil {
		return c, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var buffers, execution, reads float64
		if err := rows.Scan(&name, &buffers, &execution, &reads); err != nil {
			return c, err
		}
		c.buffers += buffers
		c.execution += execution
		c.reads += reads
		c.by[name+" pages"], c.by[name+" us"] = buffers, execution
	}
	return c, rows.Err()
}

func (c cost) report(b *bench, name string, before cost, txs float64) {
	w := c.work.since(before.work)
	b.add(name+"statements", "1/tx", w.statements/txs)
	b.add(name+"commits", "1/tx", w.commits/txs)
	b.add(name+"wal", "bytes/tx", w.walBytes/txs)
	b.add(name+"buffers", "pages/tx", (c.buffers-before.buffers)/txs)
	b.add(name+"reads", "pages/tx", (c.reads-before.reads)/txs)
	b.add(name+"execution", "us/tx", (c.execution-before.execution)/txs)
	b.add(name+"cpu.node", "us/tx", micros(c.node.cpu-before.node.cpu)/txs)
	b.add(name+"cpu.postgres", "us/tx", micros(c.postgres-before.postgres)/txs)
	b.add(name+"rate", "txs/s", txs/c.at.Sub(before.at).Seconds())
	b.add(name+"rss", "MB", c.node.rss/(1<<20))
	b.progress("  a transaction takes: statements %s; of these %s", shares(w.by, txs),
		shares(less(c.by, before.by), txs))
}
