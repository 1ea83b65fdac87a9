package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/store"
)

func (p *program) ledgerCommand() *cobra.Command {
	return p.group("ledger", "Manage the directory of several ledgers",
		p.ledgerJoinCommand(), p.ledgerListCommand())
}

// ledgerUsage describes the flag that chooses one of several ledgers.
const ledgerUsage = "name of the ledger, if the node serves several (default: its first)"

func (p *program) ledgerJoinCommand() *cobra.Command {
	var f configFlags
	c := &cobra.Command{
		Use:   "join NAME --config FILE",
		Short: "Add the ledger of a configuration to its directory",
		Args:  arguments("NAME"),
		Long: `Add a ledger to the directory in directory.url, under a name: the ledger in
database.url, or the one of that name in ledgers. From then on a submitter is registered only if no
ledger of the directory has its name or its account.

The accounts of the ledger are claimed. The first ledger keeps the numbers of its submitters; any
other must have no submitters yet, and gets numbers of its own, so that a tx_id names its ledger.

Nodes may run; set directory.url on them first, because without it they cannot register submitters
any more. The roles in both URLs must own the tables. The command may be repeated: it claims the
accounts that lack a claim, as after a restore of the directory.`,
		Example: "  fencepost ledger join eu1 --config fencepost.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			return p.withLedger(c, f, args[0],
				func(ctx context.Context, ledger *store.Store) error {
					joined, err := ledger.JoinDirectory(ctx, args[0])
					if err != nil {
						return err
					}
					return p.print(ledgerRowOf(joined),
						line("ledger %s is in the directory: %s, numbers %d to %d", args[0],
							count(int(joined.Accounts), "account"), joined.First, joined.Last))
				})
		},
	}
	f.add(c)
	return c
}

func (p *program) ledgerListCommand() *cobra.Command {
	var f configFlags
	c := &cobra.Command{
		Use:     "list --config FILE",
		Short:   "List the ledgers of the directory",
		Args:    arguments(),
		Example: "  fencepost ledger list --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withDirectory(c, f,
				func(ctx context.Context, _ *config.Config, directory *store.Store) error {
					all, err := directory.DirectoryLedgers(ctx)
					if err != nil {
						return err
					}
					rows, cells := []ledgerRow{}, [][]string{}
					for _, l := range all {
						r := ledgerRowOf(l)
						rows = append(rows, r)
						cells = append(cells, []string{r.Name, strconv.FormatInt(r.Accounts, 10),
							fmt.Sprintf("%d-%d", r.First, r.Last), r.Joined, r.ID})
					}
					return p.print(rows,
						table([]string{"NAME", "ACCOUNTS", "NUMBERS", "JOINED", "ID"}, cells))
				})
		},
	}
	f.add(c)
	return c
}

// ledgerRow is a ledger as printed.
type ledgerRow struct {
	Name     string `json:"name"`
	ID       string `json:"id"`
	First    int64  `json:"first"` // number of a submitter
	Last     int64  `json:"last"`
	Accounts int64  `json:"accounts"`
	Joined   string `json:"joined,omitempty"` // time; empty: by this command
}

func ledgerRowOf(l store.DirectoryLedger) ledgerRow {
	r := ledgerRow{Name: l.Name, ID: l.ID.String(), First: int64(l.First), Last: int64(l.Last),
		Accounts: l.Accounts}
	if !l.JoinedAt.IsZero() {
		r.Joined = l.JoinedAt.UTC().Format(time.RFC3339)
	}
	return r
}

// errNoDirectory is returned if the configuration has no directory.
var errNoDirectory = errors.New("directory.url is not set; set it to the database of the " +
	"directory, such as the one of the first ledger")

// withDirectory opens the directory of a configuration.
func (p *program) withDirectory(c *cobra.Command, f configFlags,
	do func(ctx context.Context, cfg *config.Config, directory *store.Store) error) error {
	cfg, err := p.loadConfig(c, f)
	if err != nil {
		return err
	}
	if cfg.Directory.URL.Reveal() == "" {
		return errNoDirectory
	}
	directory, err := openDirectory(c.Context(), cfg, "ledger/"+uuid.NewString())
	if err != nil {
		return err
	}
	defer directory.Close()
	return do(c.Context(), cfg, directory)
}

// withLedger opens a ledger with its directory.
func (p *program) withLedger(c *cobra.Command, f configFlags, name string,
	do func(ctx context.Context, ledger *store.Store) error) error {
	return p.withDirectory(c, f,
		func(ctx context.Context, cfg *config.Config, directory *store.Store) error {
			if len(cfg.Ledgers) == 0 {
				name = ""
			}
			ledger, err := openLedger(ctx, cfg, name, directory)
			if err != nil {
				return err
			}
			defer ledger.Close()
			return do(ctx, ledger)
		})
}

func openDirectory(ctx context.Context, cfg *config.Config, name string) (*store.Store, error) {
	directory, err := node.OpenDirectory(ctx, cfg, name, nil)
	if err != nil {
		return nil, err
	}
	if err := directory.CheckSchema(ctx); err != nil {
		directory.Close()
		return nil, node.Unreachable(err, cfg.Directory.URL.Reveal(), "directory.url")
	}
	return directory, nil
}
