package main

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// nodeConfig is what the benchmark tells the process in which a node runs.
type nodeConfig struct {
	Name          string
	Database      string
	Chain         string // URL
	Keys          int    // accounts that it signs for
	DevKeys       bool   // they are the embedded chain's
	Confirmations uint64
	Poll          time.Duration
	Lease         time.Duration
	MaxQueued     int // in all; 0: no limit
}

// nodeReady is what that process answers once it serves.
type nodeReady struct {
	GRPC, Debug string
}

// nodeArgument makes this program a node: in a process of its own, so that its memory and its time are its own. It has the parts of "fencepost serve" but for
// the encrypted key files, of which thousands would take minutes to open. Its chain has "prepare.simulate: without-gas-limit".
const nodeArgument = "a-node-of-the-benchmark"

// runNode reads its configuration, works until its input ends, and stops in order.
func runNode(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	input := json.NewDecoder(in)
	var cfg nodeConfig
	if err := input.Decode(&cfg); err != nil {
		return fmt.Errorf("read the configuration of the node: %w", err)
	}
	group, ready, closing, err := assemble(ctx, cfg)
	if err != nil {
		return err
	}
	defer closing()
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // until the parent closes it, or dies
		cancel()
	}()
	return group.Run(ctx)
}

func assemble(ctx context.Context, cfg nodeConfig) (group *run.Group, ready nodeReady, closing func(), err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	s, err := store.Open(ctx, store.Config{URL: cfg.Database, Node: cfg.Name + "/" + uuid.NewString(), LeaseDuration: cfg.Lease, MaxQueuedTotal: cfg.MaxQueued, Logger: log})
	if err != nil {
		return nil, ready, nil, err
	}
	client, err := chain.Dial(ctx, chain.Options{Name: "bench", ChainID: benchChain, Endpoints: []string{cfg.Chain}, TrustGasLimits: true, Logger: log})
	if err != nil {
		return nil, ready, nil, err
	}
	e, err := newEngine(cfg, s, client, log)
	if err != nil {
		return nil, ready, nil, err
	}
	srv, err := server.New(server.Options{Store: s, Logger: log})
	if err != nil {
		return nil, ready, nil, err
	}
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, ready, nil, err
	}
	debug, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, ready, nil, err
	}
	group = run.NewGroup(log,
		run.Service{Name: "debug", Run: func(ctx context.Context) error { return serveDebug(ctx, debug) }},
		run.Service{Name: "engine", Run: e.Run, Grace: cfg.Lease},
		run.Service{Name: "server", Run: func(ctx context.Context) error { return srv.Serve(ctx, calls) }, Grace: 10 * time.Second},
	)
	return group, nodeReady{calls.Addr().String(), debug.Addr().String()}, func() { client.Close(); s.Close() }, nil
}

func newEngine(cfg nodeConfig, s *store.Store, client *chain.Client, log *slog.Logger) (*engine.Engine, error) {
	keys := make([]*ecdsa.PrivateKey, cfg.Keys)
	for i := range keys {
		keys[i] = chaintest.Key(i)
		if cfg.DevKeys {
			keys[i] = devchain.Key(i)
		}
	}
	book, err := sign.NewBook(sign.Entry{Name: "keys", Holder: sign.NewMemory(keys...)})
	if err != nil {
		return nil, err
	}
	policy := txn.Policy{Confirmations: cfg.Confirmations, ReleaseDepth: 1, ResubmitInterval: time.Minute, ResubmitMax: 20}
	return engine.New(engine.Options{
		Store: s, Signer: book, Clock: clock.Real{}, Logger: log, LeaseDuration: cfg.Lease, RenewInterval: cfg.Lease * 3 / 10,
		Chains: []engine.ChainOptions{{Chain: client, Policy: policy, PollInterval: cfg.Poll}},
	})
}

// serveDebug serves profiles, and what the runtime counts.
func serveDebug(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		runtime.SetBlockProfileRate(int(100 * time.Microsecond)) // from now on: a node of which nobody wants profiles does not pay for them
		runtime.SetMutexProfileFraction(100)
		pprof.Profile(w, r)
	})
	mux.HandleFunc("/debug/memory", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(w).Encode(memory{Mallocs: float64(m.Mallocs), Bytes: float64(m.TotalAlloc), Heap: float64(m.HeapInuse)})
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// memory is what a process has allocated since it began.
type memory struct{ Mallocs, Bytes, Heap float64 }
