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
	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/internal/run"
)

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(err)
		return
	case err != nil:
		fail(2, err)
	}
	ctx, stop := run.Signals(context.Background(), nil)
	defer stop()
	if err := start(ctx, o); err != nil {
		fail(1, err)
	}
}

func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, "fencepost-dev:", remedy.WithoutPackages(err.Error()))
	os.Exit(code)
}

// start starts the services in order, runs until ctx ends, and stops them in reverse.
func start(ctx context.Context, o options) error {
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
	cfg, err := writeConfig(o, dir, postgres.URL(database), chain.URL(), signer)
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
