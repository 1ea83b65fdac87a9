package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

const (
	watchedSubmitters = 1000
	// eventsOfLife are the events of a transaction that nothing befalls.
	eventsOfLife = 5
	// usualEvents is the rate, in events per second, at which delays are measured.
	usualEvents = 500
	// ofAll watch everything; every labelEvery-th of the others one label of all submitters, and
	// the rest one submitter each: an event goes to eleven of ten thousand.
	ofAll, labelEvery = 1, 10
)

// watch is a crowd of watchers of one node, while so many events happen in a second.
type watch struct{ watchers, events int }

func (w watch) name() string {
	if w.events == usualEvents {
		return fmt.Sprintf("watch.%d", w.watchers)
	}
	return fmt.Sprintf("watch.%d.%deps", w.watchers, w.events)
}

// run measures the watchers' delay and their cost in memory and queries. It compares the events
// each received with the ledger: a missing, duplicate or misordered event is an error.
func (w watch) run(ctx context.Context, b *bench) (err error) {
	s, err := newService(ctx, b,
		serviceOptions{submitters: watchedSubmitters, period: 250 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	idle, err := s.nodes[0].measure(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	c := w.gather(ctx, s)
	defer c.end()
	if err := c.wait(ctx, "watchers have begun", w.watchers, c.begun.Load); err != nil {
		return err
	}
	full, err := s.nodes[0].measure(ctx)
	if err != nil {
		return err
	}
	b.progress("  %d watchers began within %s", w.watchers,
		time.Since(began).Round(time.Millisecond))
	name := w.name() + "."
	if w.watchers > 1 {
		b.add(name+"memory", "KB/watcher", (full.rss-idle.rss)/1024/float64(w.watchers))
	}
	if err := w.hold(ctx, b, s, c); err != nil {
		return errors.Join(err, c.failed())
	}
	deliveries, err := c.compare(ctx, s)
	if err != nil {
		return err
	}
	b.add(name+"complete", "watchers", float64(w.watchers))
	b.progress("  each of %d watchers has each of its events once and in order: %d in all",
		w.watchers,
		deliveries)
	return nil
}

// hold keeps events at the pace once every owner has started, and measures that period. If it is
// interrupted, it returns the measurements so far.
func (w watch) hold(ctx context.Context, b *bench, s *service, c *crowd) error {
	warm := pace{prefix: "warm", rate: 2 * w.events / eventsOfLife, count: len(s.submitters)}
	if err := s.pace(ctx, warm); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	before, err := s.measure(ctx)
	if err != nil {
		return err
	}
	c.take()
	var came []arrival
	var paced error
	err = s.b.probed(w.name()+".", func() error {
		rate := w.events / eventsOfLife
		paced = s.pace(ctx,
			pace{prefix: "paced", rate: rate, count: int(b.size.steady.Seconds() * float64(rate))})
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), crowdLimit)
		defer cancel()
		after, err := s.measure(limited)
		if err != nil {
			return err
		}
		came = c.take()
		w.report(b, len(came), before, after)
		return nil
	})
	if err != nil {
		return errors.Join(paced, err)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), crowdLimit)
	defer cancel()
	return errors.Join(paced, w.addDelays(limited, b, s, came))
}

// feedStatements are those with which watchers are served.
var feedStatements = []string{"FeedHead", "Settle", "EventsSince", "EventsOfTx"}

func (w watch) report(b *bench, deliveries int, before, after state) {
	name, took := w.name()+".", after.at.Sub(before.at).Seconds()
	b.add(name+"events", "1/s", (after.events-before.events)/took)
	b.add(name+"deliveries", "1/s", float64(deliveries)/took)
	d, feed := after.work.since(before.work), 0.0
	for _, statement := range feedStatements {
		feed += d.by[statement]
	}
	b.add(name+"queries", "1/s", d.statements/took)
	b.add(name+"queries.feed", "1/s", feed/took)
	b.add(name+"cpu.node", "cores", (after.node.cpu-before.node.cpu).Seconds()/took)
	b.add(name+"rss", "MB", after.node.rss/(1<<20))
	if alone := b.results.by[watch{1, w.events}.name()+".rss"]; alone != nil &&
		w.watchers > 1 { // the same events, but for the watchers
		b.add(name+"memory.busy", "KB/watcher",
			(after.node.rss/1024-alone.Value*1024)/float64(w.watchers))
	}
	b.progress("  queries in a second: %s", shares(d.by, took))
}

// crowd are watchers at work.
type crowd struct {
	watchers []*watcher
	begun    atomic.Int64
	received atomic.Int64

	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	came  []arrival
	fault error // the first stream that broke
}

// gather starts the watchers.
func (w watch) gather(ctx context.Context, s *service) *crowd {
	ctx, cancel := context.WithCancel(ctx)
	c := &crowd{cancel: cancel}
	for i := range w.watchers {
		one := newWatcher(w.targetOf(i, s.submitters))
		c.watchers = append(c.watchers, one)
		c.done.Go(func() {
			ready := sync.OnceFunc(func() { c.begun.Add(1) })
			if err := load.Watch(
				ctx, s.nodes[0].conns[i%connections], one.target.request(), ready,
				func(e load.Seen) { c.saw(one, e) },
			); err != nil {
				c.broke(fmt.Errorf("watcher %d of %s: %w", i, one.target, err))
			}
		})
	}
	return c
}

func (w watch) targetOf(i int, submitters []string) target {
	switch {
	case i < ofAll:
		return target{}
	case i%labelEvery == 0:
		return target{label: partOf(i / labelEvery)}
	}
	return target{submitter: submitters[i%len(submitters)]}
}

// end ends the watchers that still run.
func (c *crowd) end() {
	c.cancel()
	c.done.Wait()
}

func (c *crowd) saw(one *watcher, e load.Seen) {
	one.saw(e.TxEvent)
	c.mu.Lock()
	c.came = append(c.came, arrivalOf(e))
	c.mu.Unlock()
	c.received.Add(1)
}

func (c *crowd) broke(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil {
		c.fault = err
	}
}

func (c *crowd) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// take returns the events since the last call.
func (c *crowd) take() []arrival {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.came
	c.came = nil
	return was
}

const (
	crowdLimit = time.Minute
	crowdPoll  = 10 * time.Millisecond
)

// wait waits until a count is reached, for as long as no stream breaks.
func (c *crowd) wait(ctx context.Context, what string, want int, have func() int64) error {
	limited, cancel := context.WithTimeout(ctx, crowdLimit)
	defer cancel()
	for have() < int64(want) {
		if err := c.failed(); err != nil {
			return err
		}
		select {
		case <-time.After(crowdPoll):
		case <-limited.Done():
			return fmt.Errorf("only %d of %d %s: %w", have(), want, what, limited.Err())
		}
	}
	return nil
}

// pace is the rate and number of transactions.
type pace struct {
	prefix      string
	rate, count int
}

// parts is how many labels the transactions have among them.
const parts = 1000

func partOf(n int) string { return fmt.Sprintf("part-%d", n%parts) }

// pace creates transactions at a rate, regardless of their outcome, spread over all submitters. It
// catches up after a delay.
func (s *service) pace(ctx context.Context, p pace) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	began := time.Now()
	for n := range p.count {
		select {
		case <-time.After(
			time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(p.rate))),
		):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			who := n % len(s.submitters)
			_, err := pb.NewTxServiceClient(s.nodes[0].conns[n%connections]).CreateTx(
				ctx,
				&pb.CreateTxRequest{
					Submitter: s.submitters[who], RequestId: fmt.Sprintf("%s-%d", p.prefix, n),
					Payload: transferOf(who),
					Labels:  map[string]string{"part": partOf(n)},
				},
			)
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("create transactions: %w", context.Cause(ctx))
	}
	return nil
}

// settle waits until every transaction is final.
func (s *service) settle(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, finalLimit)
	defer cancel()
	for {
		var left int
		if err := s.ledger.conn.QueryRow(
			limited,
			"SELECT count(*) FROM managed_tx WHERE terminal_at IS NULL -- pg_stat_statements: "+
				"not counted",
		).Scan(&left); err != nil {
			return fmt.Errorf("wait for transactions to be final: %w", err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-time.After(finalPoll):
		case <-limited.Done():
			return fmt.Errorf("after %s %d transactions are not final", finalLimit, left)
		}
	}
}
