package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/archive"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/store"
)

// archiveLease outlasts the longest time without a statement: a complete file is read back.
const archiveLease = time.Minute

func (p *program) archiveCommand() *cobra.Command {
	var f configFlags
	var before, out string
	c := &cobra.Command{
		Use:   "archive --config FILE --out DIR [--before TIME]",
		Short: "Move data of old final transactions from the ledger to files",
		Args:  arguments(),
		Long: `Move data of old final transactions from the ledger to files: a JSON object per line,
compressed with gzip. A file is flushed to disk and read back before its data is removed from the
ledger.

The configuration sets the ages: retention.events for events, retention.transactions for call data
and labels too. The row of a transaction always stays, with
its id, request_id, nonce, outcome, receipt and hashes, and the request_id still names it. Kept are
transactions that owners still compare with the chain, and events that a sink has not delivered.
The shorter of retention.events and retention.transactions (of those that are not 0) also applies to
answered requests about reserved nonces that the chain has used (mode external). Requests to
allocate one, and decisions of operators, always stay.

Nodes may run. The command works in small steps with pauses. It may be stopped at any time: run it
again with the same folder to continue. Each ledger needs a folder of its own. Resume tokens of
watchers from before the removed events are rejected (RESUME_TOKEN_EXPIRED).`,
		Example: "  fencepost archive --config fencepost.yaml --out /var/lib/fencepost/archive\n" +
			"  fencepost archive --config fencepost.yaml --out . --before 2026-01-01T00:00:00Z",
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if out == "" {
			return misused(c, "--out is missing; name the folder for the files")
		}
		o := archive.Options{Dir: out, Clock: p.clock}
		if before != "" {
			at, err := time.Parse(time.RFC3339, before)
			if err != nil {
				return misused(c, "--before %q is not a time; write it as 2026-01-31T00:00:00Z",
					before)
			}
			o.Before = at
		}
		return p.archive(c, f, o)
	}
	f.addLedger(c)
	c.Flags().StringVar(&before, "before", "",
		"only transactions that were final by then (default: as the configuration allows)")
	c.Flags().StringVar(&out, "out", "", "folder for the files; it must exist")
	return c
}

func (p *program) archive(c *cobra.Command, f configFlags, o archive.Options) error {
	cfg, err := p.loadLedger(c, f)
	if err != nil {
		return err
	}
	o.Events, o.Transactions = cfg.Retention.Events, cfg.Retention.Transactions
	if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("--out %s is not a folder; create it", o.Dir)
	}
	if o.Logger, err = telemetry.NewLogger(p.err, cfg.Log.Level, cfg.Log.Format); err != nil {
		return err
	}
	url := cfg.Database.URL.Reveal()
	s, err := store.Open(c.Context(), store.Config{
		URL: url, Schema: cfg.Database.Schema, Keys: node.KeysOf(cfg),
		Node:          "archive/" + uuid.NewString(),
		LeaseDuration: archiveLease,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.CheckSchema(c.Context()); err != nil {
		return node.Unreachable(err, url, cfg.DatabaseKey())
	}
	last := p.clock.Now()
	o.Ledger, o.Progress = s, func(r archive.Report) {
		if p.clock.Now().Sub(last) >= progressEvery {
			last = p.clock.Now()
			p.note("%s in files; %s and %s removed from the ledger", count(int(r.Written), "row"),
				count(int(r.Transactions), "transaction"), count(int(r.Requests), "request"))
		}
	}
	report, err := archive.Run(c.Context(), o)
	if err != nil {
		return errors.Join(archiveFailure(err), p.printArchived(report))
	}
	return p.printArchived(report)
}

// archiveFailure adds what to do.
func archiveFailure(err error) error {
	switch {
	case errors.Is(err, store.ErrArchiveRuns):
		return fmt.Errorf("%w; wait until it ends, or a minute after it was killed", err)
	case errors.Is(err, store.ErrOlderNodes):
		return fmt.Errorf("%w; upgrade all nodes first", err)
	case errors.Is(err, store.ErrSinkBehind):
		return fmt.Errorf("%w; run it again when the sink has delivered them", err)
	case errors.Is(err, store.ErrArchiveLost):
		return fmt.Errorf("%w; run it again to continue", err)
	}
	return err
}

// archived is the result, as printed.
type archived struct {
	Files        int    `json:"files"`
	Resumed      int    `json:"resumed"` // files of earlier runs
	Transactions int64  `json:"transactions"`
	Events       int64  `json:"events"`
	Requests     int64  `json:"requests"` // about reserved nonces
	HeldBy       string `json:"heldBy"`   // a sink; empty: none
}

func (p *program) printArchived(r archive.Report) error {
	human := func(w io.Writer) error {
		err := line("%s written, %s resumed; %s, %s and %s removed from the ledger",
			count(r.Files, "file"), count(r.Resumed, "file"),
			count(int(r.Transactions), "transaction"), count(int(r.Events), "event"),
			count(int(r.Requests), "request"))(w)
		if err == nil && r.HeldBy != "" {
			err = line("sink %s has not delivered younger events; they were kept", r.HeldBy)(w)
		}
		return err
	}
	return p.print(archived{r.Files, r.Resumed, r.Transactions, r.Events, r.Requests, r.HeldBy},
		human)
}
