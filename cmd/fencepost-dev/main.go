// fencepost-dev runs everything that Fencepost needs on a laptop in one process: a private PostgreSQL, a development chain, a node, and ten funded accounts.
// What it keeps is in one folder, and the next start goes on from there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/cmd/internal/node"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/internal/run"
)

// options are the command line.
type options struct {
	dir     string
	grpc    string
	ops     string
	rpcPort int
	period  time.Duration
	reset   bool
	verbose bool
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", ".run", "`folder` of everything that is kept")
	flag.StringVar(&o.grpc, "grpc", "127.0.0.1:9090", "`address` of the node's gRPC port")
	flag.StringVar(&o.ops, "ops", "127.0.0.1:9091", "`address` of /metrics, /healthz and /readyz")
	flag.IntVar(&o.rpcPort, "rpc-port", 8545, "loopback `port` of the chain's JSON-RPC")
	flag.DurationVar(&o.period, "period", time.Second, "time between two blocks")
	flag.BoolVar(&o.reset, "reset", false, "throw away what was kept and start anew")
	flag.BoolVar(&o.verbose, "verbose", false, "log every step of every transaction")
	flag.Parse()
	ctx, stop := run.Signals(context.Background(), nil)
	defer stop()
	if err := start(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fencepost-dev:", err)
		os.Exit(1)
	}
}

// start brings everything up, from the bottom to the top, runs until ctx ends, and takes it down in reverse.
func start(ctx context.Context, o options) error {
	if err := checkFlags(o); err != nil {
		return err
	}
	if err := portsAreFree(o); err != nil {
		return err
	}
	log := newLogger(o.verbose)
	dir, err := prepareDir(o)
	if err != nil {
		return err
	}
	fmt.Println("Starting PostgreSQL, a development chain and a node ...")
	postgres, err := pgembed.Start(ctx,
		pgembed.Options{Dir: filepath.Join(dir, "postgres"), Log: log})
	if err != nil {
		return err
	}
	defer closeWith(log, "PostgreSQL",
		func() error { return postgres.Stop(context.WithoutCancel(ctx)) })
	chain, err := openAgreeing(ctx, o, dir, postgres, log)
	if err != nil {
		return err
	}
	defer closeWith(log, "the chain", func() error { return chain.Close() })
	cfg, err := writeConfig(o, dir, postgres, chain.URL())
	if err != nil {
		return err
	}
	return serve(ctx, o, dir, cfg, postgres, chain, log)
}

func serve(ctx context.Context, o options, dir string, cfg *config.Config, postgres *pgembed.Server,
	chain *devchain.Chain, log *slog.Logger) error {
	n, err := node.New(ctx, cfg, "dev", log)
	if err != nil {
		return err
	}
	group := run.NewGroup(log,
		run.Service{Name: "PostgreSQL", Run: watchPostgres(postgres)},
		run.Service{Name: "node", Run: n.Run, Grace: 30 * time.Second},
		run.Service{Name: "guide", Run: func(ctx context.Context) error {
			guide(os.Stdout, o, dir, postgres, chain)
			<-ctx.Done()
			fmt.Println(
				"\nStopping: the node first, then the chain and PostgreSQL. What was accepted goes on at the next start.")
			return nil
		}},
	)
	return group.Run(ctx)
}

// watchPostgres ends everything when the database ends by itself. Stopping it is start's business, after all else.
func watchPostgres(s *pgembed.Server) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Done():
			return errors.Join(errors.New("PostgreSQL ended by itself"), s.Err())
		}
	}
}

func closeWith(log *slog.Logger, what string, fn func() error) {
	if err := fn(); err != nil {
		log.Error("did not stop cleanly: "+what, "error", err)
	}
}

func newLogger(verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
