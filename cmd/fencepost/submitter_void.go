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
usual cases are the reasons NO_RULE and TREASURY_MOVED in "fencepost balances". No node can create
its transaction afterwards, and the account gets a new top-up when it needs one. If the transaction
exists, the command is refused. Cancel the transaction if it is not final.

Nodes may run. Upgrade all of them first: an older one tries to create the transaction until it is
upgraded, without success. Check "fencepost balances" before you repeat the command: a new top-up
may have been decided. The command is recorded in "fencepost submitter log". The role in the URL
must own the tables.`,
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
	sent, ok := errors.AsType[*store.TopUpSentError](err)
	switch {
	case !ok:
		return no, err
	case sent.Final:
		return 0, fmt.Errorf("the newest top-up of submitter %q is final (transaction %s); "+
			"see \"fencepost balances\"", name, sent.Tx)
	}
	return 0, fmt.Errorf("the newest top-up of submitter %q has a transaction; cancel it with "+
		"\"fencepost tx cancel %s\"", name, sent.Tx)
}
