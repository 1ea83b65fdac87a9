// Package node puts a node together from its configuration: ledger, chains, signers, engine, server, and the listener for operators. It holds no logic but
// the order of things: what must be right before a node starts (keys, chain ids, relations), and what it waits for while it serves (database, chains).
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

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Node is a node that is ready to run.
type Node struct {
	cfg      *config.Config
	log      *slog.Logger
	plain    *slog.Logger // without node_id, which the engine puts on its lines itself
	metrics  *telemetry.Metrics
	store    *store.Store
	book     *sign.Book
	chains   []*boundChain
	engine   *engine.Engine
	server   *server.Server
	door     *doorkeeper
	reread   <-chan os.Signal // asks for a look at the files of the door
	listener net.Listener
	ops      net.Listener
	settled  chan struct{} // closed once the configured submitters are known, or it is clear that this takes a while
}

// New makes a node. It takes the ports, opens the keys and asks the chains for their identity; a chain or a database that is down is no error, one that is
// another than configured is.
func New(ctx context.Context, cfg *config.Config, version string, log *slog.Logger) (*Node, error) {
	name := cfg.Node.Name + "/" + uuid.NewString() // never configured: a restart is another owner
	n := &Node{cfg: cfg, log: log.With("node_id", name), plain: log, settled: make(chan struct{})}
	if err := n.assemble(ctx, name, version); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// assemble makes the parts, from the cheapest check to the dearest. What it made before an error is closed by the caller.
func (n *Node) assemble(ctx context.Context, name, version string) (err error) {
	if n.metrics, err = telemetry.NewMetrics(name, version); err != nil {
		return err
	}
	if n.door, err = newDoorkeeper(n.cfg, n.log); err != nil {
		return err
	}
	if n.listener, err = listen("grpc.listen", n.cfg.GRPC.Listen); err != nil {
		return err
	}
	if n.ops, err = listen("ops.listen", n.cfg.Ops.Listen); err != nil {
		return err
	}
	n.log.Info("opening the keys; strong ones take a second each", "signers", len(n.cfg.Signers))
	if n.book, err = openSigners(ctx, n.cfg, n.log); err != nil {
		return err
	}
	if err = checkKeys(ctx, n.cfg, n.book); err != nil {
		return err
	}
	if n.store, err = openStore(ctx, n.cfg, name, n.log); err != nil {
		return err
	}
	if n.chains, err = openChains(ctx, n.cfg, n.store, n.log); err != nil {
		return err
	}
	if n.engine, err = n.newEngine(); err != nil {
		return err
	}
	n.server, err = n.newServer()
	return err
}

// RereadOn has the node read the certificates and tokens of its callers anew on each of these signals. It is called before Run, if at all.
func (n *Node) RereadOn(signals <-chan os.Signal) { n.reread = signals }

// Run serves and works until ctx ends, and returns when everything has stopped in order: callers first, then the owners of submitters, then the rest.
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
			Name: "doorkeeper",
			Run:  func(ctx context.Context) error { return n.door.run(ctx, clock.Real{}, n.reread, n.server.SetCallers) },
		},
		run.Service{Name: "server", Run: n.serve, Grace: 2 * n.cfg.GRPC.StopGrace},
	)
	WarnOfRisks(n.cfg, n.log)
	return group.Run(ctx)
}

// serve answers callers. By then the ledger is looked at, or it is clear that the database is waited for.
func (n *Node) serve(ctx context.Context) error {
	n.log.Info("node serves", "grpc", n.listener.Addr().String(), "ops", n.ops.Addr().String())
	return n.server.Serve(ctx, n.listener)
}

// work waits for the database, makes the configured submitters known, and then does the node's work.
func (n *Node) work(ctx context.Context) error {
	settle := sync.OnceFunc(func() { close(n.settled) })
	if err := n.findLedger(ctx, settle, n.store.CheckSchema); err != nil {
		return err
	}
	if err := n.registerAll(ctx, settle); err != nil {
		return err
	}
	settle()
	return n.engine.Run(ctx)
}

// findLedger waits for the database. One that answers at once and lets nobody in is a mistake in the configuration, which whoever starts the node wants to see; one
// that does so after an outage, or while the node works, may still be on its way up, and is waited for.
func (n *Node) findLedger(ctx context.Context, delayed func(),
	check func(context.Context) error) error {
	var away error
	first := true
	err := n.patiently(ctx, delayed, func(ctx context.Context) error {
		err := check(ctx)
		if first && errors.Is(err, store.ErrTurnedAway) {
			away = Unreachable(err, n.cfg.Database.URL.Reveal(), "database.url")
			return nil
		}
		first = false
		return err
	})
	return errors.Join(away, err)
}

// registerAll makes the configured submitters known. Those that are there already, which are all of them as a rule, cost one question together: a node that comes
// back under load must not need minutes for that.
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
			n.tellDiffering(s, is)
			continue
		}
		err = n.patiently(ctx, delayed,
			func(ctx context.Context) error { return n.register(ctx, s) })
	}
	return err
}

// settleLimit is how long it may take until the configured submitters are known: on a database that is busy each one that is new takes its time.
func settleLimit(cfg *config.Config) time.Duration {
	return run.DefaultStartLimit + time.Duration(len(cfg.Submitters))*time.Second
}

// awaitSettled holds callers back until the submitters of the configuration can be found. When the database is down they are let in all the same, and told so.
func (n *Node) awaitSettled(ctx context.Context) error {
	select {
	case <-n.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patiently repeats what needs the database until the database answers. Any other failure will not mend itself and is an error.
func (n *Node) patiently(ctx context.Context, delayed func(),
	do func(context.Context) error) error {
	told := ""
	for tries := 0; ; tries++ {
		err := do(ctx)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		if why := err.Error(); why != told {
			told = why
			n.log.Warn("the database cannot be used; serving without it until it can", "error",
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
	if err != nil {
		return fmt.Errorf(
			"submitter %q of the configuration: %w; the ledger keeps what was registered first: correct the configuration, or use another name",
			s.Name, err)
	}
	if created {
		n.log.Info("submitter registered", "submitter", s.Name)
	}
	n.tellDiffering(s, info.Submitter)
	return nil
}

func (n *Node) tellDiffering(s config.Submitter, is txn.Submitter) {
	if keys := differing(s, is); len(keys) > 0 {
		n.log.Warn(
			"the configuration sets policies of a submitter that the ledger has otherwise; the ledger's are in force: change them with \"fencepost submitter update\", or correct the configuration",
			"submitter", s.Name, "keys", strings.Join(keys, ", "))
	}
}

// serveOperators tells metrics and health. The node is ready while its database answers; a chain that is down concerns its own submitters alone.
func (n *Node) serveOperators(ctx context.Context) error {
	return telemetry.Serve(
		ctx,
		n.ops,
		telemetry.Handler(n.metrics.Handler(), n.log,
			telemetry.Check{Name: "database", Probe: n.store.CheckSchema}),
	)
}

func (n *Node) close() {
	for _, c := range n.chains {
		c.Close()
	}
	if n.store != nil {
		n.store.Close()
	}
	if n.metrics != nil {
		_ = n.metrics.Shutdown(
			context.Background()) // nothing is exported by pushing: there is nothing to lose
	}
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
			"%s: cannot listen on %s: %w; stop whatever uses that port, or configure another", key,
			address, err)
	}
	return l, nil
}
