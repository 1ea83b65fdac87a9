package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ledger is the part of a node that works on one ledger. Each of several has connections, leases,
// actors, trackers and sinks of its own; they share the listeners, signers and clients of chains.
type ledger struct {
	name     string         // empty: the only one
	cfg      *config.Config // of this ledger alone
	log      *slog.Logger
	plain    *slog.Logger // without node_id, which the engine adds
	metrics  meters
	store    *store.Store
	chains   []*boundChain
	engine   *engine.Engine
	sinks    *sink.Runner
	awaiting metric.Int64Gauge
	funds    balanceMetrics
	// settled is closed once the configured submitters are registered, or this is delayed.
	settled chan struct{}
	asking  sync.Once // of the directory, see sealMoved
}

// meters are the metrics of a ledger.
type meters interface {
	Provider() metric.MeterProvider
	Meter(part string) metric.Meter
}

// openLedgers opens the ledgers of the configuration, with their chains.
func (n *Node) openLedgers(ctx context.Context, name string) error {
	names := n.cfg.LedgerNames()
	if len(names) == 0 {
		names = []string{""}
	}
	for _, of := range names {
		cfg, err := n.cfg.OfLedger(of)
		if err != nil {
			return err
		}
		l := &ledger{name: of, cfg: cfg, log: n.log, plain: n.plain, metrics: n.metrics,
			settled: make(chan struct{})}
		if of != "" {
			l.log, l.plain = n.log.With("ledger", of), n.plain.With("ledger", of)
			if l.metrics, err = n.metrics.OfLedger(of); err != nil {
				return err
			}
		}
		n.ledgers = append(n.ledgers, l)
		if err = errors.Join(l.openApprovals(), l.openBalances()); err != nil {
			return err
		}
		l.store, err = openStore(ctx, cfg, name, l.log, n.policies.key, n.directory)
		if err != nil {
			return err
		}
	}
	return n.openChains(ctx)
}

// openChains binds the chains to each ledger. The ledgers share the clients.
func (n *Node) openChains(ctx context.Context) (err error) {
	first := n.ledgers[0]
	if first.chains, err = openChains(ctx, first.cfg, first.store, first.log); err != nil {
		return err
	}
	for _, l := range n.ledgers[1:] {
		for _, c := range first.chains {
			bound := &boundChain{Client: c.Client, store: l.store, name: c.name, tag: c.tag,
				log: l.log}
			l.chains = append(l.chains, bound)
			if err := bound.bindAtStart(ctx); err != nil {
				return fmt.Errorf("ledger %q: %w", l.name, err)
			}
		}
	}
	return nil
}

// measureLedgers exposes which of several ledgers respond.
func (n *Node) measureLedgers() error {
	for _, l := range n.ledgers {
		if l.name == "" {
			return nil
		}
		_, err := l.metrics.Meter("node").Int64ObservableGauge("fencepost_ledger_up",
			metric.WithDescription("whether one of several ledgers responds: 1, or 0 while its "+
				"accounts are not served"),
			metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
				up := int64(0)
				for _, health := range n.server.Ledgers() {
					if health.Name == l.name && health.Down == nil {
						up = 1
					}
				}
				to.Observe(up)
				return nil
			}))
		if err != nil {
			return fmt.Errorf("make the metric of ledgers: %w", err)
		}
	}
	return nil
}

// services are the services of the ledger, in the order of their start.
func (l *ledger) services() []run.Service {
	of := ""
	if l.name != "" {
		of = " of ledger " + l.name
	}
	return []run.Service{
		{Name: "checkpoints of the history" + of, Run: l.checkpoint},
		{Name: "expiry of approvals" + of, Run: l.expireApprovals},
		{Name: "sinks" + of, Grace: l.cfg.Lease.Duration,
			Run: func(ctx context.Context) error {
				l.sinks.Run(ctx)
				return nil
			}},
	}
}

// workService registers the submitters and runs the engine. The API waits for it.
func (l *ledger) workService() run.Service {
	s := run.Service{
		Name:       "engine",
		Run:        l.work,
		Ready:      l.awaitSettled,
		StartLimit: settleLimit(l.cfg),
		Grace:      l.cfg.Lease.Duration,
	}
	if l.name != "" {
		s.Name += " of ledger " + l.name
		s.Run = l.workAmongOthers
	}
	return s
}

// workAmongOthers retries a ledger that cannot be used, which must not end the node: the other
// ledgers do not depend on it.
func (l *ledger) workAmongOthers(ctx context.Context) error {
	settle := sync.OnceFunc(func() { close(l.settled) })
	for tries := 0; ; tries++ {
		err := l.prepare(ctx, settle)
		if err == nil {
			return l.engine.Run(ctx)
		}
		settle()
		if ctx.Err() != nil {
			return nil
		}
		l.log.Error("ledger cannot be used; retrying", "error", err)
		if clock.Sleep(ctx, clock.Real{}, txn.Backoff(tries)) != nil {
			return nil
		}
	}
}

// work waits for the database, registers the configured submitters, and runs the engine.
func (l *ledger) work(ctx context.Context) error {
	if err := l.prepare(ctx, sync.OnceFunc(func() { close(l.settled) })); err != nil {
		return err
	}
	return l.engine.Run(ctx)
}

// prepare waits for the database and registers the configured submitters.
func (l *ledger) prepare(ctx context.Context, settle func()) error {
	if err := l.findLedger(ctx, settle, l.store.CheckSchema); err != nil {
		return err
	}
	if err := l.sealMoved(ctx); err != nil {
		return err
	}
	if err := l.registerAll(ctx, settle); err != nil {
		return err
	}
	l.warnOfCollation(ctx)
	l.engine.Announce(ctx)
	settle()
	return nil
}

// warnOfCollation warns of a database whose collation has changed.
func (l *ledger) warnOfCollation(ctx context.Context) {
	change, err := l.store.CollationChange(ctx)
	if err != nil {
		l.log.Warn("collation check failed", "error", err)
	} else if change != "" {
		l.log.Warn("collation of the database changed; rebuild text indexes (REINDEX), run "+
			"\"fencepost audit\", then ALTER DATABASE ... REFRESH COLLATION VERSION",
			"change", change)
	}
}

// findLedger waits for the database. A login refused on the first try is a configuration error and
// ends the node. One refused after an outage may be a database that is still starting: it is
// retried.
func (l *ledger) findLedger(ctx context.Context, delayed func(),
	check func(context.Context) error) error {
	var away error
	first := true
	err := l.patiently(ctx, delayed, func(ctx context.Context) error {
		err := check(ctx)
		if first && errors.Is(err, store.ErrAccessDenied) {
			away = Unreachable(err, l.cfg.Database.URL.Reveal(), l.cfg.DatabaseKey())
			return nil
		}
		first = false
		return err
	})
	return errors.Join(away, err)
}

// registerAll registers the configured submitters. One query finds those that are registered,
// usually all, so that a restart under load does not take minutes.
func (l *ledger) registerAll(ctx context.Context, delayed func()) error {
	names := make([]string, len(l.cfg.Submitters))
	for i, s := range l.cfg.Submitters {
		names[i] = s.Name
	}
	var there map[string]txn.Submitter
	err := l.patiently(ctx, delayed, func(ctx context.Context) (err error) {
		there, err = l.store.Registered(ctx, names)
		return err
	})
	for _, s := range l.cfg.Submitters {
		if err != nil {
			return err
		}
		if is, known := there[s.Name]; known && registration(l.cfg, s).As(is) {
			l.warnDiffering(s, is)
			continue
		}
		err = l.patiently(ctx, delayed,
			func(ctx context.Context) error { return l.register(ctx, s) })
	}
	return err
}

// awaitSettled delays the API until the configured submitters are registered. If the database is
// unavailable, the API starts and returns errors.
func (l *ledger) awaitSettled(ctx context.Context) error {
	select {
	case <-l.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patiently retries while the database is unavailable. Any other failure is permanent and returned.
func (l *ledger) patiently(ctx context.Context, delayed func(),
	do func(context.Context) error) error {
	logged := ""
	for tries := 0; ; tries++ {
		err := do(ctx)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		if why := err.Error(); why != logged {
			logged = why
			l.log.Warn("database unavailable; retrying", "error",
				Unreachable(err, l.cfg.Database.URL.Reveal(), l.cfg.DatabaseKey()))
			delayed()
		}
		if err := clock.Sleep(ctx, clock.Real{}, txn.Backoff(tries)); err != nil {
			return err
		}
	}
}

func (l *ledger) register(ctx context.Context, s config.Submitter) error {
	info, created, err := l.store.Register(ctx, registration(l.cfg, s))
	if errors.Is(err, store.ErrDirectory) {
		// Other submitters must not wait for the directory.
		l.log.Warn("submitter not registered; the next start tries again", "submitter", s.Name,
			"error", err)
		return nil
	}
	if errors.Is(err, store.ErrMoved) {
		l.log.Warn("submitter has moved; remove it from the configuration of this ledger",
			"submitter", s.Name, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf(
			"configured submitter %q: %w; correct the configuration, or use another name",
			s.Name, err)
	}
	if created {
		l.log.Info("submitter registered", "submitter", s.Name)
	}
	l.warnDiffering(s, info.Submitter)
	return nil
}

func (l *ledger) warnDiffering(s config.Submitter, is txn.Submitter) {
	if keys := differing(s, is); len(keys) > 0 {
		l.log.Warn(
			"submitter policies differ from the ledger, whose policies apply; "+
				"use \"fencepost submitter update\" or correct the configuration",
			"submitter", s.Name, "keys", strings.Join(keys, ", "))
	}
}
