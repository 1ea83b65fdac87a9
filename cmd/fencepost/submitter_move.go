package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// movePoll is how often a move looks whether the account is at rest.
const movePoll = time.Second

func (p *program) submitterMoveCommand() *cobra.Command {
	var f configFlags
	var to string
	var wait time.Duration
	c := &cobra.Command{
		Use:   "move NAME --to LEDGER --config FILE",
		Short: "Move an account to another ledger",
		Args:  arguments("NAME"),
		Long: `Move an account from one ledger of the configuration to another, with its queue, its
transactions and their keys. directory.allow_moves must be set.

The account is paused, and its transactions in flight go to their end. Then the old ledger refuses
it for ever, and the new one continues: a repeated request_id still names its transaction, and a
tx_id stays valid. Between the two the account accepts no transactions. An account that was paused
before stays paused.

The command may be repeated: it resumes where it stopped, and does nothing once the account is in
the new ledger. A command that ends early, as after --wait, leaves the account paused. Repeat it, or
give the move up with "fencepost submitter resume" while the old ledger still has the account. Nodes
may run; both ledgers need live nodes with the account's chain and signer. The roles in all URLs
must own the tables.`,
		Example: "  fencepost submitter move alice --to us1 --config fencepost.yaml",
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if to == "" {
			return misused(c, "no ledger given; give --to LEDGER")
		}
		if wait < 0 {
			return misused(c, "--wait must not be negative; give a duration like 1h")
		}
		return p.withDirectory(c, f,
			func(ctx context.Context, cfg *config.Config, directory *store.Store) error {
				if !cfg.Directory.AllowMoves {
					return errors.New("moves are off; set directory.allow_moves, see " +
						"docs/ledgers.md")
				}
				err := p.moveSubmitter(ctx, cfg, directory, movement{args[0], f.ledger, to, wait})
				if errors.Is(err, store.ErrSubmitterNotFound) {
					return fmt.Errorf("%w; see \"fencepost submitter list\"", err)
				}
				return err
			})
	}
	f.add(c)
	c.Flags().StringVar(&to, "to", "", "name of the ledger to move to")
	c.Flags().StringVar(&f.ledger, "ledger", "",
		"name of the ledger that has the account (default: as in the directory)")
	c.Flags().DurationVar(&wait, "wait", time.Hour,
		"how long to wait for transactions in flight; the account stays paused afterwards")
	return c
}

// movement is what a move was asked for.
type movement struct {
	name, from, to string
	wait           time.Duration
}

func (p *program) moveSubmitter(ctx context.Context, cfg *config.Config, directory *store.Store,
	m movement) error {
	if m.from == "" {
		has, err := directory.LedgerOf(ctx, m.name)
		if err != nil {
			return err
		}
		if has == m.to {
			return p.movedBefore(ctx, cfg, directory, m)
		}
		m.from = has
	}
	from, err := openLedger(ctx, cfg, m.from, directory)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openLedger(ctx, cfg, m.to, directory)
	if err != nil {
		return err
	}
	defer to.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, m.wait,
		fmt.Errorf("not done within %s (--wait)", m.wait))
	defer cancel()
	move, err := store.PrepareMove(ctx, from, to, m.name, m.to)
	if err != nil {
		return err
	}
	last := store.MoveProgress{}
	moved, err := move.Run(ctx, movePoll, func(now store.MoveProgress) {
		if now.Waits != "" && now != last {
			p.note("submitter %s: %s", m.name, now.Waits)
		}
		last = now
	})
	if err != nil {
		return err
	}
	next := "it accepts transactions there"
	switch {
	case moved.Left != "":
		next = fmt.Sprintf("it has moved on to ledger %q since", moved.Left)
	case moved.Protected && moved.Copied:
		next = "a ledger was restored meanwhile, so it is stopped (DATABASE_RESTORED); compare " +
			"it with the chain and decide"
	case moved.Protected:
		next = "it is protected there; see \"fencepost submitter get\""
	case moved.Paused:
		next = fmt.Sprintf("it is paused there; resume it with \"fencepost submitter resume %s\"",
			m.name)
	}
	return p.print(movedRow{moved.Submitter, moved.From, moved.To, moved.Transactions,
		moved.Paused, moved.Protected},
		line("submitter %s moved from ledger %s to %s with %s; %s", m.name, moved.From, moved.To,
			count(int(moved.Transactions), "transaction"), next))
}

// movedBefore reports an account that the directory has in the ledger to move to.
func (p *program) movedBefore(ctx context.Context, cfg *config.Config, directory *store.Store,
	m movement) error {
	to, err := openLedger(ctx, cfg, m.to, directory)
	if err != nil {
		return err
	}
	defer to.Close()
	id, err := to.Lookup(ctx, m.name)
	if errors.Is(err, store.ErrSubmitterNotFound) {
		return fmt.Errorf("ledger %q lacks submitter %q, which the directory has there; after a "+
			"restore name its former ledger with --ledger, else register it there", m.to, m.name)
	}
	if err != nil {
		return err
	}
	is, err := to.Submitter(ctx, id)
	if err != nil {
		return err
	}
	protected := is.Cursor != nil && is.Cursor.Protected != nil
	return p.print(movedRow{Submitter: m.name, To: m.to, Paused: is.Status == txn.Paused,
		Protected: protected},
		line("submitter %s is in ledger %s already; nothing to do", m.name, m.to))
}

// movedRow is a moved account as printed.
type movedRow struct {
	Submitter    string `json:"submitter"`
	From         string `json:"from"` // empty: it was in the new ledger already
	To           string `json:"to"`
	Transactions int64  `json:"transactions"` // copied by this call
	Paused       bool   `json:"paused"`
	Protected    bool   `json:"protected"`
}

// openLedger opens one of several ledgers, with their directory.
func openLedger(ctx context.Context, cfg *config.Config, name string,
	directory *store.Store) (*store.Store, error) {
	one, err := cfg.OfLedger(name)
	if err != nil {
		return nil, err
	}
	url := one.Database.URL.Reveal()
	ledger, err := store.Open(ctx, store.Config{URL: url, Schema: one.Database.Schema,
		Keys: node.KeysOf(one),
		Node: "ledger/" + uuid.NewString(), Directory: directory})
	if err != nil {
		return nil, err
	}
	if err := ledger.CheckSchema(ctx); err != nil {
		ledger.Close()
		return nil, node.Unreachable(err, url, one.DatabaseKey())
	}
	return ledger, nil
}
