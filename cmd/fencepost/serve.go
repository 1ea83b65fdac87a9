package main

import (
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
certificates and tokens, which also happens automatically when the files change.`,
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
			n, err := node.New(c.Context(),
				node.Source{File: source.File, Environ: source.Environ, Set: source.Set},
				node.WithLogOutput(p.err), node.WithVersion(thisBuild().Version),
				node.WithReload(hangups))
			if err != nil {
				return err
			}
			return n.Run(c.Context())
		},
	}
	f.add(c)
	return c
}
