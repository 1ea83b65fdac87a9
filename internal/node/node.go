// Package node assembles a node from its configuration: ledger, chains, signers, engine, server and
// the operators' listener. It fixes the order: the checks before a node starts (keys, chain ids,
// relations), and the dependencies that a serving node waits for (database, chains).
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/console"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Node is a node that is ready to run.
type Node struct {
	cfg       *config.Config
	log       *slog.Logger
	plain     *slog.Logger // without node_id, which the engine adds
	metrics   *telemetry.Metrics
	traces    *telemetry.Traces // nil: none
	store     *store.Store
	directory *store.Store // of several ledgers; nil: none
	book      *sign.Book
	chains    []*boundChain
	engine    *engine.Engine
	server    *server.Server
	sinks     *sink.Runner
	reloader  *credentialReloader
	policies  policies
	issuers   []*auth.Issuer
	awaiting  metric.Int64Gauge
	funds     balanceMetrics
	reload    <-chan os.Signal // requests a reload of the credential files
	listener  net.Listener
	ops       net.Listener
	extras    Extras
	// settled is closed once the configured submitters are registered, or this is delayed.
	settled chan struct{}
	ready   func() // called once the API serves; nil: nothing
}

// New makes a node. It binds the ports, opens the keys and checks the identity of the chains. An
// unavailable chain or database is not an error; one other than configured is.
func New(ctx context.Context, cfg *config.Config, version string, log *slog.Logger,
	extras Extras) (*Node, error) {
	if len(cfg.Ledgers) > 0 {
		return nil, errors.New("ledgers: a node serves one ledger; set database.url instead")
	}
	name := cfg.Node.Name + "/" + uuid.NewString() // not configurable: a restart is another owner
	n := &Node{cfg: cfg, log: log.With("node_id", name), plain: log, extras: extras,
		settled: make(chan struct{})}
	if err := n.assemble(ctx, name, version); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// assemble makes the parts, cheapest check first. The caller closes the parts made before an error.
func (n *Node) assemble(ctx context.Context, name, version string) (err error) {
	if n.metrics, err = telemetry.NewMetrics(name, version); err != nil {
		return err
	}
	if err = n.openTraces(ctx, name, version); err != nil {
		return err
	}
	if n.reloader, err = newCredentialReloader(n.cfg, n.log); err != nil {
		return err
	}
	if n.extras.Reload != nil {
		n.reloader.follow(n.extras.File, n.extras.Reload)
	}
	if n.reloader.fails, err = n.metrics.Meter("node").Int64Counter("fencepost.reload.failures",
		metric.WithDescription("Reloads of callers and credentials that failed; the previous "+
			"ones stay in force")); err != nil {
		return err
	}
	n.reloader.fails.Add(ctx, 0)
	if err = errors.Join(n.openApprovals(), n.openBalances()); err != nil {
		return err
	}
	if n.issuers, err = newIssuers(n.cfg, n.log); err != nil {
		return err
	}
	n.policies.set(n.reloader.first.callers)
	n.policies.required = n.cfg.Intents.Require
	if n.policies.key, err = readIntentKey(n.cfg.Intents); err != nil {
		return problemsOf(n.cfg, "intents.key_file", err)
	}
	if n.listener, err = listen("grpc.listen", n.cfg.GRPC.Listen); err != nil {
		return err
	}
	if n.ops, err = listen("ops.listen", n.cfg.Ops.Listen); err != nil {
		return err
	}
	n.ops = listenOps(n.ops)
	n.log.Info("opening signers", "signers", len(n.cfg.Signers))
	if n.book, err = openSigners(ctx, n.cfg, n.log, n.extras.Signers...); err != nil {
		return err
	}
	if err = n.book.Measure(n.metrics.Meter("sign")); err != nil {
		return err
	}
	if err = checkKeys(ctx, n.cfg, n.book); err != nil {
		return err
	}
	if err = checkSigners(ctx, n.book, n.log); err != nil {
		return err
	}
	if n.directory, err = OpenDirectory(ctx, n.cfg, name, n.log); err != nil {
		return err
	}
	n.store, err = openStore(ctx, n.cfg, name, n.log, n.policies.key, n.directory)
	if err != nil {
		return err
	}
	if n.chains, err = openChains(ctx, n.cfg, n.store, n.log); err != nil {
		return err
	}
	if err = n.measureChains(); err != nil {
		return err
	}
	if n.engine, err = n.newEngine(); err != nil {
		return err
	}
	if n.server, err = n.newServer(version); err != nil {
		return err
	}
	n.sinks, err = n.newSinks()
	return err
}

// ReloadOn makes the node reload certificates and tokens on each signal. It must be called before
// Run.
func (n *Node) ReloadOn(signals <-chan os.Signal) { n.reload = signals }

// Addr is the address of the API.
func (n *Node) Addr() net.Addr { return n.listener.Addr() }

// OnReady sets a function that is called once the API serves. It must be set before Run.
func (n *Node) OnReady(ready func()) { n.ready = ready }

// Progress returns an error if the node has stalled: see [engine.Engine.Progress].
func (n *Node) Progress() error { return n.engine.Progress() }

// Run serves until ctx ends. It returns when all has stopped in order: the API first, then the
// owners of submitters, then the rest.
func (n *Node) Run(ctx context.Context) error {
	defer n.close()
	group := run.NewGroup(
		n.log,
		run.Service{Name: "operators' listener", Run: n.serveOperators},
		run.Service{
			Name:       "engine",
			Run:        n.work,
			Ready:      n.awaitSettled,
			StartLimit: settleLimit(n.cfg),
			Grace:      n.cfg.Lease.Duration,
		},
		run.Service{
			Name: "credential reloader",
			Run: func(ctx context.Context) error {
				return n.reloader.run(ctx, clock.Real{}, n.reload, n.setCallers)
			},
		},
		run.Service{Name: "server", Run: n.serve, Grace: 2 * n.cfg.GRPC.StopGrace},
		run.Service{Name: "checkpoints of the history", Run: n.checkpoint},
		run.Service{Name: "expiry of approvals", Run: n.expireApprovals},
		run.Service{Name: "sinks", Grace: n.cfg.Lease.Duration,
			Run: func(ctx context.Context) error {
				n.sinks.Run(ctx)
				return nil
			}},
	)
	for _, one := range n.readIssuers() {
		group.Add(one)
	}
	for _, one := range n.balanceWatches() {
		group.Add(one)
	}
	WarnOfRisks(n.cfg, n.log)
	if n.cfg.Console.Enabled && !console.Built() {
		n.log.Warn("console is enabled, but this program was built without it; " +
			"build it with \"make console build\"")
	}
	return group.Run(ctx)
}

// setCallers replaces the callers and their policies.
func (n *Node) setCallers(tokens []string, callers []auth.Caller) {
	n.policies.set(callers)
	n.server.SetCallers(tokens, callers)
}

// serve serves the API, after the ledger was checked or the database turned out to be unavailable.
func (n *Node) serve(ctx context.Context) error {
	n.log.Info("node serving", "grpc", n.listener.Addr().String(), "ops", n.ops.Addr().String())
	if n.ready != nil {
		n.ready()
	}
	return n.server.Serve(ctx, n.listener)
}

// work waits for the database, registers the configured submitters, and runs the engine.
func (n *Node) work(ctx context.Context) error {
	settle := sync.OnceFunc(func() { close(n.settled) })
	if err := n.findLedger(ctx, settle, n.store.CheckSchema); err != nil {
		return err
	}
	if err := n.sealMoved(ctx); err != nil {
		return err
	}
	if err := n.registerAll(ctx, settle); err != nil {
		return err
	}
	n.warnOfCollation(ctx)
	n.engine.Announce(ctx)
	settle()
	return n.engine.Run(ctx)
}

// warnOfCollation warns of a database whose collation has changed.
func (n *Node) warnOfCollation(ctx context.Context) {
	change, err := n.store.CollationChange(ctx)
	if err != nil {
		n.log.Warn("collation check failed", "error", err)
	} else if change != "" {
		n.log.Warn("collation of the database changed; rebuild text indexes (REINDEX), run "+
			"\"fencepost audit\", then ALTER DATABASE ... REFRESH COLLATION VERSION",
			"change", change)
	}
}

// findLedger waits for the database. A login refused on the first try is a configuration error and
// ends the node. One refused after an outage may be a database that is still starting: it is
// retried.
func (n *Node) findLedger(ctx context.Context, delayed func(),
	check func(context.Context) error) error {
	var away error
	first := true
	err := n.patiently(ctx, delayed, func(ctx context.Context) error {
		err := check(ctx)
		if first && errors.Is(err, store.ErrAccessDenied) {
			away = Unreachable(err, n.cfg.Database.URL.Reveal(), "database.url")
			return nil
		}
		first = false
		return err
	})
	return errors.Join(away, err)
}

// registerAll registers the configured submitters. One query finds those that are registered,
// usually all, so that a restart under load does not take minutes.
func (n *Node) registerAll(ctx context.Context, delayed func()) error {
	names := make([]string, len(n.cfg.Submitters))
	for i, s := range n.cfg.Submitters {
		names[i] = s.Name
	}
	var there map[string]txn.Submitter
	err := n.patiently(ctx, delayed, func(ctx context.Context) (err error) {
		there, err = n.store.Registered(ctx, names)
		return err
	})
	for _, s := range n.cfg.Submitters {
		if err != nil {
			return err
		}
		if is, known := there[s.Name]; known && registration(n.cfg, s).As(is) {
			n.warnDiffering(s, is)
			continue
		}
		err = n.patiently(ctx, delayed,
			func(ctx context.Context) error { return n.register(ctx, s) })
	}
	return err
}

// settleLimit is the time to register the submitters; each new one takes time on a busy database.
func settleLimit(cfg *config.Config) time.Duration {
	return run.DefaultStartLimit + time.Duration(len(cfg.Submitters))*time.Second
}

// awaitSettled delays the API until the configured submitters are registered. If the database is
// unavailable, the API starts and returns errors.
func (n *Node) awaitSettled(ctx context.Context) error {
	select {
	case <-n.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patiently retries while the database is unavailable. Any other failure is permanent and returned.
func (n *Node) patiently(ctx context.Context, delayed func(),
	do func(context.Context) error) error {
	logged := ""
	for tries := 0; ; tries++ {
		err := do(ctx)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		if why := err.Error(); why != logged {
			logged = why
			n.log.Warn("database unavailable; retrying", "error",
				Unreachable(err, n.cfg.Database.URL.Reveal(), "database.url"))
			delayed()
		}
		if err := clock.Sleep(ctx, clock.Real{}, txn.Backoff(tries)); err != nil {
			return err
		}
	}
}

func (n *Node) register(ctx context.Context, s config.Submitter) error {
	info, created, err := n.store.Register(ctx, registration(n.cfg, s))
	if errors.Is(err, store.ErrDirectory) {
		// Other submitters must not wait for the directory.
		n.log.Warn("submitter not registered; the next start tries again", "submitter", s.Name,
			"error", err)
		return nil
	}
	if errors.Is(err, store.ErrMoved) {
		n.log.Warn("submitter has moved; remove it from the configuration of this ledger",
			"submitter", s.Name, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf(
			"configured submitter %q: %w; correct the configuration, or use another name",
			s.Name, err)
	}
	if created {
		n.log.Info("submitter registered", "submitter", s.Name)
	}
	n.warnDiffering(s, info.Submitter)
	return nil
}

func (n *Node) warnDiffering(s config.Submitter, is txn.Submitter) {
	if keys := differing(s, is); len(keys) > 0 {
		n.log.Warn(
			"submitter policies differ from the ledger, whose policies apply; "+
				"use \"fencepost submitter update\" or correct the configuration",
			"submitter", s.Name, "keys", strings.Join(keys, ", "))
	}
}

// serveOperators serves metrics and health. The node is ready while its database responds; an
// unavailable chain affects only its own submitters.
func (n *Node) serveOperators(ctx context.Context) error {
	handler := telemetry.Handler(n.metrics.Handler(), n.log,
		telemetry.Check{Name: "database", Probe: n.store.CheckSchema})
	names := hostNames(n.cfg.Ops.Listen, n.cfg.Ops.AllowedHosts)
	return telemetry.Serve(ctx, n.ops, names.Check("ops.allowed_hosts", n.operators(handler)))
}

func (n *Node) close() {
	for _, c := range n.chains {
		c.Close()
	}
	for _, s := range []*store.Store{n.store, n.directory} {
		if s != nil {
			s.Close()
		}
	}
	if n.book != nil {
		n.book.Close()
	}
	if n.metrics != nil {
		_ = n.metrics.Shutdown(
			context.Background()) // nothing is pushed, so nothing is lost
	}
	_ = n.traces.Shutdown(context.Background()) // without a collector the last spans are lost
	for _, l := range []net.Listener{n.listener, n.ops} {
		if l != nil {
			_ = l.Close()
		}
	}
}

func listen(key, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf(
			"%s: cannot listen on %s: %w; free the port, or configure another", key,
			address, err)
	}
	return l, nil
}
