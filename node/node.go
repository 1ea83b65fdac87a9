// Package node runs a Fencepost node inside your program, with your own policies, mempool inspector
// and signers. It takes the configuration of "fencepost serve", which is this package without
// options:
//
//	n, err := node.New(ctx, node.Source{File: "fencepost.yaml", Environ: os.Environ()},
//		node.WithStuckPolicy(policy))
//	if err != nil {
//		return err
//	}
//	return n.Run(ctx)
//
// "fencepost migrate up" creates the database schema. The other commands of fencepost work with
// such a node as with any other.
//
// # What an option may do
//
// Options decide when and how a recorded transaction is bumped or cancelled, and who signs. They
// cannot break a guarantee: the ledger's rules allow only certain moves, every signature is
// verified against the request, and nothing is broadcast before it is recorded. A policy that is
// wrong costs fees or time, and an inspector that is wrong can protect an account.
//
// # Use from another module
//
// The repository holds several modules, which its go.mod joins by replace directives. Until a
// release, copy its replace directives for gen/go and clients/go into the go.mod of your program,
// with the paths of a checkout, and replace the main module as well.
//
// All nodes of one ledger should have the same options, because any node may own any account. A
// policy is called by many owners concurrently, and again by the next owner after a crash.
package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// Source is where the configuration comes from; later fields override earlier ones. The keys are in
// docs/configuration.md.
type Source struct {
	File    string   // YAML
	Environ []string // as of os.Environ: FENCEPOST_LEASE_DURATION=20s
	Set     []string // as of --set: lease.duration=20s
}

// load reads and checks the configuration. The error lists all problems.
func (s Source) load() (*config.Config, error) {
	return config.Load(config.Source{File: s.File, Environ: s.Environ, Set: s.Set,
		Ignore: config.ForeignVariables})
}

// Option is a part of a node that the configuration cannot express.
type Option func(*settings)

type settings struct {
	node.Extras
	version string
	logger  *slog.Logger
	output  io.Writer
	reload  <-chan os.Signal
	ready   func()
}

// WithStuckPolicy sets the policy that decides on STUCK transactions, which otherwise wait for an
// operator.
func WithStuckPolicy(p engine.StuckPolicy) Option {
	return func(s *settings) { s.Stuck = p }
}

// WithBumpPolicy sets the policy that decides when an attempt is replaced with higher fees, on
// every chain and in place of gas_bump.enabled, min_interval and max_attempts. The other keys of
// gas_bump, which limit the fees, still apply.
func WithBumpPolicy(p txn.BumpPolicy) Option {
	return func(s *settings) { s.Bump = p }
}

// WithMempoolInspector sets the inspector that diagnoses transactions before they are rebroadcast,
// in place of a node's own pool, and enables mempool.diagnose on every chain. Its result is shown
// as a hint and reaches the policies. It may report IN_POOL only if a pool holds one of the hashes:
// before the first broadcast that can protect the account (engine.MempoolInspector).
func WithMempoolInspector(i engine.MempoolInspector) Option {
	return func(s *settings) { s.Mempool = i }
}

// WithSigner adds a signer beside those of the configuration, under a name that is not among them.
// It is for accounts registered with "fencepost submitter add --signer NAME".
func WithSigner(e sign.Entry) Option {
	return func(s *settings) { s.Signers = append(s.Signers, e) }
}

// WithLogger sets the logger, in place of one on standard error, configured by log.level and
// log.format.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) { s.logger = l }
}

// WithLogOutput sets where the log is written, configured by log.level and log.format.
func WithLogOutput(w io.Writer) Option {
	return func(s *settings) { s.output = w }
}

// WithVersion sets the version in the node's metrics.
func WithVersion(v string) Option {
	return func(s *settings) { s.version = v }
}

// WithReload makes the node read certificates, tokens and callers again on each signal. It also
// does so when their files change.
func WithReload(signals <-chan os.Signal) Option {
	return func(s *settings) { s.reload = signals }
}

// WithReady sets a function that is called once the node serves its API.
func WithReady(ready func()) Option {
	return func(s *settings) { s.ready = ready }
}

// Node is a node that is ready to run.
type Node struct{ node *node.Node }

// New makes a node: it checks the configuration, binds the ports, opens the keys and checks the
// identity of the chains. An unavailable chain or database is not an error. A Node must be run, or
// its ports stay bound.
func New(ctx context.Context, source Source, options ...Option) (*Node, error) {
	s := settings{output: os.Stderr}
	for _, option := range options {
		option(&s)
	}
	cfg, err := source.load()
	if err != nil {
		return nil, err
	}
	if s.logger == nil {
		s.logger, err = telemetry.NewLogger(s.output, cfg.Log.Level, cfg.Log.Format)
		if err != nil {
			return nil, err
		}
	}
	s.Reload, s.File = source.load, source.File
	n, err := node.New(ctx, cfg, s.version, s.logger, s.Extras)
	if err != nil {
		return nil, err
	}
	n.ReloadOn(s.reload)
	n.OnReady(s.ready)
	return &Node{n}, nil
}

// Addr is the address of the API.
func (n *Node) Addr() net.Addr { return n.node.Addr() }

// Progress returns an error if the node has stalled and should be restarted, for a watchdog. An
// unavailable database or chain is no stall.
func (n *Node) Progress() error { return n.node.Progress() }

// Run serves until ctx ends, once. It returns when all has stopped in order and the node's accounts
// are released.
func (n *Node) Run(ctx context.Context) error { return n.node.Run(ctx) }
