package sink

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// Settings define a sink.
type Settings struct {
	Name string
	Kind string
	Filter
	// Open prepares the sink. It is called when this node begins to deliver for it, and repeated
	// while it fails: the receiver may be down, or lack something.
	Open func(ctx context.Context) (Sink, error)

	RetryMin, RetryMax time.Duration // bounds of the delay between attempts
	RetryFor           time.Duration // of one event, before its transaction is dead
}

// Options configure a runner. All but Random are required.
type Options struct {
	Ledger        Ledger
	Feed          Feed
	Sinks         []Settings
	Clock         clock.Clock
	Logger        *slog.Logger
	MeterProvider metric.MeterProvider
	LeaseDuration time.Duration
	RenewInterval time.Duration
	Random        func() float64 // for jitter, 0 to 1; nil: the system's
}

// Runner delivers for those sinks whose leases its node holds.
type Runner struct {
	o       Options
	log     *slog.Logger
	metrics *metrics
	names   []string

	mu      sync.Mutex
	workers map[string]*worker
}

// NewRunner returns a runner that does nothing before Run.
func NewRunner(o Options) (*Runner, error) {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	r := &Runner{o: o, log: o.Logger, workers: map[string]*worker{}}
	for _, s := range o.Sinks {
		r.names = append(r.names, s.Name)
	}
	var err error
	if r.metrics, err = newMetrics(o.MeterProvider, r); err != nil {
		return nil, fmt.Errorf("sink: create the metrics: %w", err)
	}
	return r, nil
}

// leaseMargin is the part of a lease after which a worker stops unless it was renewed.
const leaseMargin = 0.9

// countInterval is the time between two counts of parked transactions.
const countInterval = 10 * time.Second

// Run delivers until ctx ends. Then it releases its leases.
func (r *Runner) Run(ctx context.Context) {
	if len(r.names) == 0 {
		<-ctx.Done()
		return
	}
	defer r.stop()
	ensured, failing := false, false
	counted := r.o.Clock.Now().Add(-countInterval)
	for ctx.Err() == nil {
		err := r.step(ctx, &ensured)
		if err != nil && ctx.Err() == nil && !failing {
			r.log.Warn("leases of sinks could not be renewed; retrying", "error", err)
		}
		failing = err != nil
		if now := r.o.Clock.Now(); now.Sub(counted) >= countInterval {
			counted = now
			r.count(ctx)
		}
		if clock.Sleep(ctx, r.o.Clock, r.o.RenewInterval) != nil {
			return
		}
	}
}

// step renews the leases of this node, and takes free ones.
func (r *Runner) step(ctx context.Context, ensured *bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.LeaseDuration/3)
	defer cancel()
	if !*ensured {
		if err := r.o.Ledger.EnsureSinks(ctx, r.names); err != nil {
			return err
		}
		*ensured = true
	}
	err := r.renew(ctx)
	r.reap()
	if err != nil {
		return err
	}
	var free []Settings
	var names []string
	for _, s := range r.o.Sinks {
		if r.worker(s.Name) == nil {
			free, names = append(free, s), append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	asked := r.o.Clock.Now()
	leases, err := r.o.Ledger.AcquireSinks(ctx, names)
	if err != nil {
		return err
	}
	for _, l := range leases {
		for _, s := range free {
			if s.Name == l.Sink {
				r.start(s, l, asked)
			}
		}
	}
	return nil
}

func (r *Runner) renew(ctx context.Context) error {
	workers := slices.DeleteFunc(r.all(), func(w *worker) bool { return w.lost.Load() })
	if len(workers) == 0 {
		return nil
	}
	leases := make([]txn.SinkLease, len(workers))
	for i, w := range workers {
		leases[i] = w.lease
	}
	asked := r.o.Clock.Now()
	renewed, err := r.o.Ledger.RenewSinks(ctx, leases)
	for _, w := range workers {
		switch l := find(renewed, w.lease); {
		case l != nil:
			w.renewed = asked
			w.noteRevision(l.Revision)
		case err == nil, asked.Sub(w.renewed).Seconds() >
			leaseMargin*r.o.LeaseDuration.Seconds():
			r.log.Warn("lease of sink lost", "sink", w.set.Name)
			w.lost.Store(true)
			w.cancel()
		}
	}
	return err
}

func find(leases []txn.SinkLease, l txn.SinkLease) *txn.SinkLease {
	for i := range leases {
		if leases[i].Sink == l.Sink && leases[i].Token == l.Token {
			return &leases[i]
		}
	}
	return nil
}

func (r *Runner) worker(name string) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers[name]
}

func (r *Runner) all() (workers []*worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.names {
		if w := r.workers[name]; w != nil {
			workers = append(workers, w)
		}
	}
	return workers
}

// start begins to deliver for a sink. The worker outlives the call that acquired the lease.
func (r *Runner) start(s Settings, l txn.SinkLease, acquired time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{
		set: s, lease: l, o: &r.o, metrics: r.metrics,
		log:     r.log.With("sink", s.Name, "kind", s.Kind),
		renewed: acquired, cancel: cancel, ended: make(chan struct{}),
		changed: make(chan struct{}, 1), commits: make(chan struct{}, 1),
	}
	r.mu.Lock()
	r.workers[s.Name] = w
	r.mu.Unlock()
	w.log.Info("sink acquired", "token", int64(l.Token))
	go func() {
		defer close(w.ended)
		w.run(ctx)
	}()
}

// reap removes workers that have ended after they lost their leases. It does not wait for one that
// its receiver holds up: other sinks have leases to renew.
func (r *Runner) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, w := range r.workers {
		select {
		case <-w.ended:
			delete(r.workers, name)
		default:
		}
	}
}

// stop ends all workers and releases their leases. What a worker still writes is behind the fence.
func (r *Runner) stop() {
	var leases []txn.SinkLease
	workers := r.all()
	for _, w := range workers {
		w.cancel()
		leases = append(leases, w.lease)
	}
	if len(leases) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.o.LeaseDuration/3)
	defer cancel()
	for _, w := range workers {
		select {
		case <-w.ended:
		case <-ctx.Done():
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), r.o.LeaseDuration/3)
	defer cancel()
	if err := r.o.Ledger.ReleaseSinks(ctx, leases); err != nil {
		r.log.Warn("leases of sinks could not be released; they expire", "error", err)
	}
}

// count reads how much is parked, for the metrics.
func (r *Runner) count(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.o.LeaseDuration/3)
	defer cancel()
	for _, w := range r.all() {
		parked, dead, err := r.o.Ledger.CountParked(ctx, w.set.Name)
		if err != nil {
			return
		}
		w.parked.Store(parked)
		w.dead.Store(dead)
	}
}
