package main

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/store"
)

func (p *program) recoverCommand() *cobra.Command {
	var f databaseFlags
	var sure, moved bool
	c := &cobra.Command{
		Use:   "recover --config FILE [--moved] --yes",
		Short: "Make a ledger safe after a restore, lost commits or a move",
		Args:  arguments(),
		Long: `Make a ledger safe after a restore from a backup, or after a fail-over to a standby
that lagged. Transactions signed after the backup may be on chain, unknown to the ledger. In one
database transaction, this command

  - puts every account that has sent under PROTECT (DATABASE_RESTORED); it sends nothing until an
    operator has compared it with the chain and decided;
  - pauses every account that has not sent as far as the ledger shows, because it may have sent
    since: compare its queue with the chain, cancel executed ones ("fencepost tx cancel"), and
    resume it;
  - ends all pending commands, and raises the numbers of protections, so that no earlier decision
    takes effect;
  - raises the fencing token of every lease, so that no earlier owner can write;
  - raises the epoch of the feed, so that earlier resume tokens of watchers are rejected;
  - marks the accounts that moved to another ledger after the backup, from the directory: they never
    send from this one again.

Queued transactions may have run after the backup; only the chain shows which.

With --moved the database is a complete copy: nothing was written to the old one after it was
copied, as with pg_dump, pg_restore or logical replication while all nodes are stopped. No account
is stopped. Each is compared with the chain before it takes its next nonce, and protected if the
chain is ahead. Earlier resume tokens are rejected. Make sure that no node can reach the old
database.

Stop all nodes first: the command is refused while a node is alive or a lease is held. It may be
repeated.`,
		Example: "  fencepost recover --config fencepost.yaml --yes\n" +
			"  fencepost recover --config fencepost.yaml --moved --yes",
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !sure {
			what := "this stops every account until an operator decides on each"
			if moved {
				what = "an incomplete copy can send transactions twice"
			}
			return misused(c, "%s; confirm with --yes", what)
		}
		at, err := p.database(c, f)
		if err != nil {
			return err
		}
		return node.Unreachable(p.recoverLedger(c, at, moved), at.url, at.key)
	}
	f.add(c)
	c.Flags().BoolVar(&moved, "moved", false, "the database is a complete copy on another server")
	c.Flags().BoolVar(&sure, "yes", false, "confirm")
	return c
}

func (p *program) recoverLedger(c *cobra.Command, at database, moved bool) error {
	cfg := store.Config{URL: at.url, Schema: at.schema, Node: "recover/" + uuid.NewString(),
		Adopts: true}
	if at.cfg != nil {
		cfg.Keys = node.KeysOf(at.cfg)
		directory, err := node.OpenDirectory(c.Context(), at.cfg, cfg.Node, nil)
		if err != nil {
			return err
		}
		if directory != nil {
			defer directory.Close()
			cfg.Directory = directory
		}
	}
	s, err := store.Open(c.Context(), cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.CheckSchema(c.Context()); err != nil {
		return err
	}
	if moved {
		return p.moveLedger(c, s)
	}
	report, err := s.Recover(c.Context())
	if err != nil {
		return err
	}
	human := line(
		"ledger recovered: %s under PROTECT (DATABASE_RESTORED), %s paused, feed epoch %d\n"+
			"next: start the nodes, compare each account and its queue with the chain, and "+
			"decide; "+
			"see \"fencepost submitter list\" and \"fencepost submitter show NAME\"",
		count(report.Submitters, "submitter"),
		count(report.Paused, "submitter"),
		report.FeedEpoch,
	)
	return p.print(recovered{report.Submitters, report.Paused, fmt.Sprint(report.FeedEpoch)}, human)
}

// recovered is the result, as printed. The epoch is a string, like all 64-bit numbers of the API.
type recovered struct {
	Submitters int    `json:"submitters"` // under PROTECT
	Paused     int    `json:"paused"`
	FeedEpoch  string `json:"feedEpoch"`
}

func (p *program) moveLedger(c *cobra.Command, s *store.Store) error {
	report, err := s.Move(c.Context())
	if err != nil {
		return err
	}
	human := line(
		"ledger adopted: feed epoch %d, %s from the old server\n"+
			"next: start the nodes; accounts whose nonce on chain is ahead are protected: "+
			"see \"fencepost submitter list\"",
		report.FeedEpoch, count(int(report.Events), "event"))
	return p.print(adopted{report.Events, fmt.Sprint(report.FeedEpoch)}, human)
}

// adopted is the result of --moved, as printed.
type adopted struct {
	Events    int64  `json:"events"` // of the old server
	FeedEpoch string `json:"feedEpoch"`
}
