package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/holiman/uint256"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	_ "github.com/fencepost/fencepost/archive" // linked as in the product
	"github.com/fencepost/fencepost/bench/internal/wire"
	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/clock"
	nodeparts "github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/sign"
	_ "github.com/fencepost/fencepost/sign/ethrpc"
	_ "github.com/fencepost/fencepost/sign/service"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// node is its parts.
type node struct {
	cfg        wire.Config
	log        *slog.Logger
	metrics    *telemetry.Metrics
	book       *sign.Book
	stores     []*store.Store // of the ledgers
	chain      *chain.Client
	calls, ops net.Listener
}

// openKeys opens the key files, as many as there may be: theirs are weak, so that this takes
// seconds.
func (n *node) openKeys(ctx context.Context) error {
	keys, err := sign.OpenKeyStore(
		ctx,
		sign.KeyStoreOptions{
			Dir:          n.cfg.Keys,
			PasswordFile: n.cfg.PasswordFile,
			Clock:        clock.Real{},
			Log:          n.log,
		},
	)
	if err != nil {
		return err
	}
	entry := sign.Entry{Name: n.cfg.Signer, Holder: keys}
	if n.cfg.SignDelay > 0 {
		entry.Holder, entry.MaxInFlight = distant{keys, n.cfg.SignDelay}, n.cfg.SignAtOnce
	}
	n.book, err = sign.NewBook(entry)
	return err
}

// distant is a holder whose signatures take a while, like the signatures of a remote one.
type distant struct {
	sign.Holder
	delay time.Duration
}

func (d distant) Sign(ctx context.Context, u txn.Unsigned) ([]byte, error) {
	if err := clock.Sleep(ctx, clock.Real{}, d.delay); err != nil {
		return nil, err
	}
	return d.Holder.Sign(ctx, u)
}

// assemble makes the parts in the order of internal/node.
func (n *node) assemble(ctx context.Context) (*run.Group, error) {
	n.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	name := n.cfg.Name + "/" + uuid.NewString()
	var err error
	if n.metrics, err = telemetry.NewMetrics(name, "bench"); err != nil {
		return nil, err
	}
	for _, listener := range []*net.Listener{&n.calls, &n.ops} {
		if *listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	if err = n.openKeys(ctx); err != nil {
		return nil, err
	}
	ledgers := n.cfg.Ledgers
	if len(ledgers) == 0 {
		ledgers = []wire.Ledger{{URL: n.cfg.Database}}
	}
	for _, l := range ledgers {
		s, err := store.Open(ctx, store.Config{URL: l.URL, Node: name,
			LeaseDuration: n.cfg.Lease, MaxQueuedTotal: n.cfg.MaxQueued, Logger: n.log})
		if err != nil {
			return nil, err
		}
		n.stores = append(n.stores, s)
	}
	n.chain, err = chain.Dial(
		ctx,
		chain.Options{
			Name:           "bench",
			ChainID:        txn.ChainID(n.cfg.ChainID),
			Endpoints:      []string{n.cfg.Chain},
			TrustGasLimits: !n.cfg.Simulate,
			Logger:         n.log,
		},
	)
	if err != nil {
		return nil, err
	}
	s, err := n.newServer()
	if err != nil {
		return nil, err
	}
	group := run.NewGroup(n.log,
		run.Service{Name: "operators' listener", Run: n.serveOperators})
	for i, one := range n.stores {
		e, err := n.newEngine(one, n.meterProvider(i))
		if err != nil {
			return nil, err
		}
		group.Add(run.Service{Name: "engine", Run: e.Run, Grace: n.cfg.Lease})
	}
	if len(n.cfg.Ledgers) == 0 {
		sinks, err := n.newSinks(s.Feed())
		if err != nil {
			return nil, err
		}
		group.Add(run.Service{Name: "sinks", Grace: n.cfg.Lease,
			Run: func(ctx context.Context) error {
				sinks.Run(ctx)
				return nil
			}})
	}
	group.Add(run.Service{
		Name:  "server",
		Run:   func(ctx context.Context) error { return s.Serve(ctx, n.calls) },
		Grace: 10 * time.Second,
	})
	return group, nil
}

func (n *node) newServer() (*server.Server, error) {
	o := server.Options{Logger: n.log, MeterProvider: n.metrics.Provider(),
		Callers: n.callers(), Nonces: server.NonceOptions{Enabled: true}}
	if len(n.cfg.Ledgers) == 0 {
		o.Store, o.Tail = n.stores[0], n.stores[0].TailFeed()
	}
	for i, l := range n.cfg.Ledgers {
		o.Ledgers = append(o.Ledgers, server.Ledger{Name: l.Name, Store: n.stores[i],
			Tail: n.stores[i].TailFeed(), MeterProvider: n.meterProvider(i)})
	}
	return server.New(o)
}

// meterProvider has the metrics of a ledger. Those of several are not exposed here.
func (n *node) meterProvider(i int) metric.MeterProvider {
	if i == 0 {
		return n.metrics.Provider()
	}
	return noop.NewMeterProvider()
}

// callers returns two callers with equal rights, of which one has a policy with every rule.
func (n *node) callers() []auth.Caller {
	if !n.cfg.Policies {
		return nil
	}
	free := auth.Caller{Name: "free", Tokens: []string{wire.FreeToken},
		Submitters: []string{auth.AllSubmitters}}
	limited := free
	limited.Name, limited.Tokens = "limited", []string{wire.LimitedToken}
	most := new(uint256.Int).SetAllOne()
	limited.Policy = &txn.CallerPolicy{
		Selectors: []txn.Selector{{1}, {2}, {3}, {4}}, MaxValue: most, ApproveAbove: most,
		ApprovalTime: time.Hour,
		Quota:        txn.Quota{DayValue: most, DayGas: 1e18, Rate: 1e6},
	}
	return []auth.Caller{free, limited}
}

// newSinks returns the runner of the Kafka sink, if there is one, with the settings of a node.
func (n *node) newSinks(f *feed.Feed) (*sink.Runner, error) {
	o := sink.Options{
		Ledger: nodeparts.SinkLedger{Store: n.stores[0]}, Feed: nodeparts.SinkFeed{Feed: f},
		Clock: clock.Real{}, Logger: n.log, MeterProvider: n.metrics.Provider(),
		LeaseDuration: n.cfg.Lease, RenewInterval: 200 * time.Millisecond,
	}
	if len(n.cfg.Brokers) > 0 {
		kafka := sink.KafkaOptions{Brokers: n.cfg.Brokers, Topic: wire.SinkTopic,
			Encoder: sink.Encoder{Format: sink.Structured, Source: "urn:fencepost"},
			Timeout: 30 * time.Second}
		o.Sinks = []sink.Settings{{Name: wire.SinkTopic, Kind: "kafka", RetryMin: time.Second,
			RetryMax: time.Hour, RetryFor: 72 * time.Hour,
			Open: func(ctx context.Context) (sink.Sink, error) {
				return sink.OpenKafka(ctx, kafka)
			}}}
	}
	return sink.NewRunner(o)
}

func (n *node) newEngine(of *store.Store,
	provider metric.MeterProvider) (*engine.Engine, error) {
	policy := txn.Policy{
		Confirmations:    n.cfg.Confirmations,
		ReleaseDepth:     1,
		ResubmitInterval: time.Minute,
		ResubmitMax:      20,
	}
	return engine.New(engine.Options{
		Store: of, Signer: n.book, Clock: clock.Real{}, Logger: n.log,
		Meter: provider.Meter("engine"), LeaseDuration: n.cfg.Lease,
		RenewInterval: n.cfg.Lease * 3 / 10, Mode: engine.Mode(n.cfg.Mode),
		IdleAfter: n.cfg.IdleAfter,
		Chains: []engine.ChainOptions{
			{Chain: n.chain, Policy: policy, PollInterval: n.cfg.Poll},
		},
	})
}

// serveOperators serves the endpoints of a node, profiles and runtime statistics.
func (n *node) serveOperators(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle(
		"/",
		telemetry.Handler(n.metrics.Handler(), n.log,
			telemetry.Check{Name: "database", Probe: n.stores[0].CheckSchema}),
	)
	mux.HandleFunc(wire.ProfilesPath, pprof.Index)
	mux.HandleFunc(wire.ProfilesPath+"profile", func(w http.ResponseWriter, r *http.Request) {
		runtime.SetBlockProfileRate(
			// from now on: a node without profiles does not pay for them
			int(100 * time.Microsecond))
		runtime.SetMutexProfileFraction(100)
		pprof.Profile(w, r)
	})
	mux.HandleFunc(wire.MemoryPath, func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(w).Encode(wire.Memory{
			Mallocs: float64(m.Mallocs), Bytes: float64(m.TotalAlloc), Heap: float64(m.HeapInuse),
			Stacks: float64(m.StackInuse),
		})
	})
	s := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
	} // no write timeout: a profile takes a while
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(n.ops); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (n *node) close() {
	if n.chain != nil {
		n.chain.Close()
	}
	for _, s := range n.stores {
		s.Close()
	}
	if n.metrics != nil {
		_ = n.metrics.Shutdown(
			context.Background()) // nothing is exported by pushing: there is nothing to lose
	}
	for _, l := range []net.Listener{n.calls, n.ops} {
		if l != nil {
			_ = l.Close()
		}
	}
}
