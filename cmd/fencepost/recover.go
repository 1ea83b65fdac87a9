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
		Use: "recover --config FILE --yes", Short: "Make a ledger safe that was restored, or that lost commits in a fail-over", Args: arguments(),
		Long: `Make a ledger safe that was restored from a backup, or that lost commits in a fail-over to a standby that was behind. What the lost part signed may be on
chain, and the ledger does not know it. So, in one transaction:

  - every account that has sent is put under PROTECT, reason DATABASE_RESTORED: it sends nothing until somebody has compared it with the chain and decided;
  - every account that has not sent, by what is left of the ledger, is paused, for it may have sent after that: compare its queue with the chain, cancel what ran
    ("fencepost tx cancel"), and resume it by hand;
  - commands that no node has carried out are ended, and protections are numbered anew from far above, so that no decision of before takes effect;
  - the fencing token of every lease is raised far above all that were ever given, so that whoever still works under an old one writes nothing;
  - the epoch of the feed is raised, so that the resume tokens of watchers, which may point at what is lost, are refused.

What the ledger has in its queues is the danger: it may have run after the backup, and nothing but a look at the chain can tell.

Stop all nodes first: it refuses while a node lives or a lease is held. It may be repeated.`,
		Example: "  fencepost recover --config fencepost.yaml --yes",
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !sure {
			return misused(c,
				"it stops every account until somebody decides on each; give --yes if that is what you want")
		}
		at, err := p.database(c, f)
		if err != nil {
			return err
		}
		return node.Unreachable(p.recoverLedger(c, at.url, at.schema), at.url, at.key)
	}
	f.add(c)
	c.Flags().BoolVar(&sure, "yes", false, "you know what it does")
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
		"the ledger is recovered: %s under PROTECT (DATABASE_RESTORED), %s that had not sent paused, feed epoch %d\n"+
			"start the nodes, then compare each account and its queue with the chain and decide: fencepost submitter list, fencepost submitter show NAME",
		count(report.Submitters, "submitter"),
		count(report.Paused, "submitter"),
		report.FeedEpoch,
	)
	return p.print(recovered{report.Submitters, report.Paused, fmt.Sprint(report.FeedEpoch)}, human)
}

// recovered is what was done, as it is printed. An epoch is a string, as all 64-bit numbers of the API are.
type recovered struct {
	Submitters int    `json:"submitters"` // under PROTECT
	Paused     int    `json:"paused"`
	FeedEpoch  string `json:"feedEpoch"`
}
