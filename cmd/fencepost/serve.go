package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/node"
)

func (p *program) serveCommand() *cobra.Command {
	var f configFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Args:  arguments(),
		Long: `Run a node: serve the API and process the submitters that the node owns.

The node starts once keys and configuration are valid. It does not start if a chain is not the
configured one. It waits for an unavailable database or chain; meanwhile calls return UNAVAILABLE or
transactions stay queued.

SIGINT or SIGTERM stops the node gracefully and releases its submitters. A second signal stops it
immediately, which is also safe: another node takes over when the leases expire. SIGHUP reloads
certificates, tokens and callers, which also happens automatically when the files change.`,
		Example: "  fencepost migrate up --config fencepost.yaml\n  fencepost serve --config " +
			"fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			source, err := p.source(c, f)
			if err != nil {
				return err
			}
			hangups := make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			manager := supervisorOf(p.environ)
			warn := func(err error) {
				if err != nil {
					p.note("%v", err)
				}
			}
			n, err := node.New(c.Context(),
				node.Source{File: source.File, Environ: source.Environ, Set: source.Set},
				node.WithLogOutput(p.err), node.WithVersion(thisBuild().Version),
				node.WithReload(hangups),
				node.WithReady(func() { warn(manager.notify("READY=1")) }))
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancel(c.Context())
			defer stop()
			go manager.watch(ctx, p.clock, n.Progress, warn)
			go func() {
				<-ctx.Done()
				warn(manager.notify("STOPPING=1"))
			}()
			return n.Run(c.Context())
		},
	}
	f.add(c)
	return c
}
