// Command fencepost-dev runs Fencepost on a laptop in one process: a private PostgreSQL, a
// development chain, a node and ten funded accounts. It keeps its data in one folder and resumes
// from there.
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
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/node"
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
	signer  string
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", ".run", "data `folder`")
	flag.StringVar(&o.grpc, "grpc", "127.0.0.1:9090", "`address` of the node's gRPC port")
	flag.StringVar(&o.ops, "ops", "127.0.0.1:9091", "`address` of /metrics, /healthz and /readyz")
	flag.IntVar(&o.rpcPort, "rpc-port", 8545, "loopback `port` of the chain's JSON-RPC")
	flag.DurationVar(&o.period, "period", time.Second, "block time")
	flag.BoolVar(
		&o.reset, "reset", false, "delete the data folder's content and start from scratch",
	)
	flag.BoolVar(&o.verbose, "verbose", false, "log at debug level")
	flag.StringVar(&o.signer, "signer", "keystore",
		"`holder` of the keys: keystore, clef, softhsm or local-kms")
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "dir" })
	o.dir = signerDir(o.dir, o.signer, given)
	ctx, stop := run.Signals(context.Background(), nil)
	defer stop()
	if err := start(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fencepost-dev:", err)
		os.Exit(1)
	}
}

// start starts the services in order, runs until ctx ends, and stops them in reverse.
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
	fmt.Println("Starting PostgreSQL, a development chain and a node...")
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
	defer closeWith(log, "chain", func() error { return chain.Close() })
	signer, err := startSigner(ctx, o.signer, dir)
	if err != nil {
		return err
	}
	defer signer.stop()
	if err := fund(ctx, chain, signer.holders); err != nil {
		return err
	}
	cfg, err := writeConfig(o, dir, postgres, chain.URL(), signer)
	if err != nil {
		return err
	}
	return serve(ctx, o, dir, cfg, postgres, chain, log)
}

func serve(ctx context.Context, o options, dir string, cfg *config.Config, postgres *pgembed.Server,
	chain *devchain.Chain, log *slog.Logger) error {
	n, err := node.New(ctx, cfg, "dev", log, node.Extras{})
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
				"\nStopping the node, the chain and PostgreSQL. The next start resumes accepted " +
					"transactions.")
			return nil
		}},
	)
	return group.Run(ctx)
}

// watchPostgres stops everything if PostgreSQL exits. start stops it last.
func watchPostgres(s *pgembed.Server) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Done():
			return errors.Join(errors.New("PostgreSQL exited unexpectedly"), s.Err())
		}
	}
}

func closeWith(log *slog.Logger, what string, fn func() error) {
	if err := fn(); err != nil {
		log.Error("stop failed", "service", what, "error", err)
	}
}

func newLogger(verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
