package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/store"
)

func (p *program) submitterVoidTopUpCommand() *cobra.Command {
	var f databaseFlags
	var d decisionFlags
	c := &cobra.Command{
		Use:   "void-top-up NAME --reason TEXT --config FILE",
		Short: "End a decided top-up that has no transaction",
		Args:  arguments("NAME"),
		Long: `End the newest top-up of an account, if the treasury has no transaction for it. The
usual cases are the reasons NO_RULE and TREASURY_MOVED in "fencepost balances". No node creates its
transaction later, and the account is topped up again when it needs it. A top-up with a transaction
is refused: cancel the transaction instead.

Nodes may run. Upgrade all of them first: an older one tries to create the transaction until it is
upgraded, without success. Check "fencepost balances" before you repeat the command: a new top-up
may have been decided. It is recorded with the commands of the account. The role in the URL must own
the tables.`,
		Example: "  fencepost submitter void-top-up alice --reason \"bank is closed\" " +
			"--config fencepost.yaml",
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := d.check(c); err != nil {
			return err
		}
		at, err := p.database(c, f)
		if err != nil {
			return err
		}
		no, err := voidTopUp(c.Context(), at, args[0],
			store.Ask{Reason: d.reason, Operator: d.by(p)})
		if err != nil {
			return node.Unreachable(err, at.url, at.key)
		}
		return p.print(voided{args[0], fmt.Sprint(no)},
			line("top-up %d of submitter %s is void", no, args[0]))
	}
	f.add(c)
	d.add(c, "why the top-up ends")
	return c
}

// voided is the result, as printed. The number is a string, like all 64-bit numbers of the API.
type voided struct {
	Submitter string `json:"submitter"`
	No        string `json:"no"`
}

func voidTopUp(ctx context.Context, at database, name string, ask store.Ask) (int64, error) {
	cfg := store.Config{URL: at.url, Schema: at.schema, Node: "void/" + uuid.NewString()}
	if at.cfg != nil {
		cfg.Keys = node.KeysOf(at.cfg)
	}
	s, err := store.Open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if err := s.CheckSchema(ctx); err != nil {
		return 0, err
	}
	id, err := s.Lookup(ctx, name)
	if errors.Is(err, store.ErrSubmitterNotFound) {
		return 0, fmt.Errorf("%w; see \"fencepost submitter list\"", err)
	}
	if err != nil {
		return 0, err
	}
	no, err := s.VoidTopUp(ctx, id, ask)
	if sent, ok := errors.AsType[*store.TopUpSentError](err); ok {
		return 0, fmt.Errorf("%w; cancel it with \"fencepost tx cancel\"", sent)
	}
	return no, err
}
