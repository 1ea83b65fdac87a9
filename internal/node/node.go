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
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/console"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
)

// Node is a node that is ready to run.
type Node struct {
	cfg       *config.Config
	log       *slog.Logger
	plain     *slog.Logger // without node_id, which the engine adds
	metrics   *telemetry.Metrics
	traces    *telemetry.Traces // nil: none
	ledgers   []*ledger         // one, or those in the configuration
	directory *store.Store      // of several ledgers; nil: none
	book      *sign.Book
	server    *server.Server
	reloader  *credentialReloader
	policies  policies
	issuers   []*auth.Issuer
	reload    <-chan os.Signal // requests a reload of the credential files
	listener  net.Listener
	ops       net.Listener
	extras    Extras
	ready     func() // called once the API serves; nil: nothing
}

// New makes a node. It binds the ports, opens the keys and checks the identity of the chains. An
// unavailable chain or database is not an error; one other than configured is.
func New(ctx context.Context, cfg *config.Config, version string, log *slog.Logger,
	extras Extras) (*Node, error) {
	name := cfg.Node.Name + "/" + uuid.NewString() // not configurable: a restart is another owner
	n := &Node{cfg: cfg, log: log.With("node_id", name), plain: log, extras: extras}
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
	if err = n.openLedgers(ctx, name); err != nil {
		return err
	}
	if err = n.measureChains(); err != nil {
		return err
	}
	for _, l := range n.ledgers {
		if l.engine, err = n.newEngine(l); err != nil {
			return err
		}
	}
	if n.server, err = n.newServer(name, version); err != nil {
		return err
	}
	for _, l := range n.ledgers {
		if l.sinks, err = n.newSinks(l); err != nil {
			return err
		}
	}
	return n.measureLedgers()
}

// ReloadOn makes the node reload certificates and tokens on each signal. It must be called before
// Run.
func (n *Node) ReloadOn(signals <-chan os.Signal) { n.reload = signals }

// Addr is the address of the API.
func (n *Node) Addr() net.Addr { return n.listener.Addr() }

// OnReady sets a function that is called once the API serves. It must be set before Run.
func (n *Node) OnReady(ready func()) { n.ready = ready }

// Progress returns an error if the node has stalled: see engine.Engine.Progress.
func (n *Node) Progress() error {
	var stalled []error
	for _, l := range n.ledgers {
		stalled = append(stalled, l.engine.Progress())
	}
	return errors.Join(stalled...)
}

// Run serves until ctx ends. It returns when all has stopped in order: the API first, then the
// owners of submitters, then the rest.
func (n *Node) Run(ctx context.Context) error {
	defer n.close()
	group := run.NewGroup(
		n.log,
		run.Service{Name: "operators' listener", Run: n.serveOperators},
	)
	for _, l := range n.ledgers {
		group.Add(l.workService())
	}
	group.Add(run.Service{
		Name: "credential reloader",
		Run: func(ctx context.Context) error {
			return n.reloader.run(ctx, clock.Real{}, n.reload, n.setCallers)
		},
	})
	group.Add(run.Service{Name: "server", Run: n.serve, Grace: 2 * n.cfg.GRPC.StopGrace})
	for _, l := range n.ledgers {
		for _, one := range l.services() {
			group.Add(one)
		}
	}
	for _, one := range n.readIssuers() {
		group.Add(one)
	}
	for _, l := range n.ledgers {
		for _, one := range n.balanceWatches(l) {
			group.Add(one)
		}
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

// settleLimit is the time to register the submitters; each new one takes time on a busy database.
func settleLimit(cfg *config.Config) time.Duration {
	return run.DefaultStartLimit + time.Duration(len(cfg.Submitters))*time.Second
}

// serveOperators serves metrics and health. The node is ready while its database responds, or one
// of several; an unavailable chain affects only its own submitters.
func (n *Node) serveOperators(ctx context.Context) error {
	var checks []telemetry.Check
	for _, l := range n.ledgers {
		check := telemetry.Check{Name: "database", Probe: l.store.CheckSchema}
		if l.name != "" {
			check.Name, check.OneOf = "ledger "+l.name, "ledgers"
		}
		checks = append(checks, check)
	}
	handler := telemetry.Handler(n.metrics.Handler(), n.log, checks...)
	names := hostNames(n.cfg.Ops.Listen, n.cfg.Ops.AllowedHosts)
	return telemetry.Serve(ctx, n.ops, names.Check("ops.allowed_hosts", n.operators(handler)))
}

func (n *Node) close() {
	for _, c := range n.chains() {
		c.Close()
	}
	for _, l := range n.ledgers {
		if l.store != nil {
			l.store.Close()
		}
	}
	if n.directory != nil {
		n.directory.Close()
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
	if err == nil {
		return l, nil
	}
	// without the parts of its text that name the address again
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return nil, fmt.Errorf("%s: cannot listen on %s: %w; free the port, or configure another", key,
		address, err)
}
