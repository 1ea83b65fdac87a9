package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/internal/node"
	"github.com/fencepost/fencepost/internal/telemetry"
)

func (p *program) serveCommand() *cobra.Command {
	var f configFlags
	c := &cobra.Command{
		Use: "serve", Short: "Run a node until it is told to stop", Args: arguments(),
		Long: `Run a node: it answers callers, and works for the submitters that it owns.

It starts when keys and configuration are in order, and refuses a chain that is another than configured. A database or a chain that is down is waited for:
meanwhile callers get UNAVAILABLE, or their transactions wait in the queue. SIGINT or SIGTERM stops it in order and gives its submitters back at once; a
second signal stops it on the spot, which is safe too: another node takes over when the leases lapse. SIGHUP makes it read the certificates and tokens of callers
anew, which it does by itself too when they change.`,
		Example: "  fencepost migrate up --config fencepost.yaml\n  fencepost serve --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := p.loadConfig(c, f)
			if err != nil {
				return err
			}
			log, err := telemetry.NewLogger(p.err, cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			hangups := make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			n, err := node.New(c.Context(), cfg, thisBuild().Version, log)
			if err != nil {
				return err
			}
			n.RereadOn(hangups)
			return n.Run(c.Context())
		},
	}
	f.add(c)
	return c
}
