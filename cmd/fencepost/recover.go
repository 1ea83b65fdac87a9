package main

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/internal/node"
	"github.com/fencepost/fencepost/store"
)

func (p *program) recoverCommand() *cobra.Command {
	var f databaseFlags
	var sure bool
	c := &cobra.Command{
		Use:   "recover --config FILE --yes",
		Short: "Make a ledger safe after a restore or lost commits",
		Args:  arguments(),
		Long: `Make a ledger safe after a restore from a backup, or after a fail-over to a standby that
lagged. Transactions signed after the backup may be on chain, unknown to the ledger. In one database
transaction, this command

  - puts every account that has sent under PROTECT (DATABASE_RESTORED); it sends nothing until an
    operator has compared it with the chain and decided;
  - pauses every account that has not sent as far as the ledger shows, because it may have sent
    since: compare its queue with the chain, cancel what ran ("fencepost tx cancel"), and resume it;
  - ends all pending commands, and raises the numbers of protections, so that no earlier decision
    takes effect;
  - raises the fencing token of every lease, so that no earlier owner can write;
  - raises the epoch of the feed, so that earlier resume tokens of watchers are rejected.

Queued transactions may have run after the backup; only the chain shows which.

Stop all nodes first: the command is refused while a node is alive or a lease is held. It may be
repeated.`,
		Example: "  fencepost recover --config fencepost.yaml --yes",
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !sure {
			return misused(c,
				"this stops every account until an operator decides on each; confirm with --yes")
		}
		at, err := p.database(c, f)
		if err != nil {
			return err
		}
		return node.Unreachable(p.recoverLedger(c, at.url, at.schema), at.url, at.key)
	}
	f.add(c)
	c.Flags().BoolVar(&sure, "yes", false, "confirm")
	return c
}

func (p *program) recoverLedger(c *cobra.Command, url, schema string) error {
	s, err := store.Open(c.Context(),
		store.Config{URL: url, Schema: schema, Node: "recover/" + uuid.NewString()})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.CheckSchema(c.Context()); err != nil {
		return err
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
