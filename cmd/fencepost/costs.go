package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func (p *program) costsCommand() *cobra.Command {
	f := &clientFlags{}
	var by, from, to string
	var asCSV bool
	ask := &pb.ListCostsRequest{}
	c := &cobra.Command{
		Use:   "costs --by account|caller|label|day --from TIME",
		Short: "Add up the gas that final transactions have paid",
		Args:  arguments(),
		Long: `Add up the gas that final transactions have paid, by chain and account, caller, value
of a label (--label-key), or day. Times are days of UTC, as 2026-01-31, or in RFC 3339; they are of
the final state of a transaction, and --to is not included. A replacement or cancel transaction
counts for its transaction. L1_FEE is charged by a rollup beside gas. Amounts are in wei.`,
		Example: "  fencepost costs --by account --from 2026-01-01 --to 2026-02-01\n" +
			"  fencepost costs --by label --label-key customer --from 2026-01-01 --csv",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		group, known := pb.CostGroup_value["COST_GROUP_"+strings.ToUpper(by)]
		if !known || group == 0 {
			return misused(cmd, "--by must be account, caller, label or day")
		}
		ask.By = pb.CostGroup(group)
		if (ask.GetBy() == pb.CostGroup_COST_GROUP_LABEL) != (ask.GetLabelKey() != "") {
			return misused(cmd, "--label-key belongs to --by label; give both or neither")
		}
		if asCSV && p.json {
			return misused(cmd, "--csv and --json exclude each other; give one of them")
		}
		var err error
		if ask.From, err = parseDay(from); err != nil {
			return misused(cmd, "--from %v", err)
		}
		if to != "" {
			if ask.Before, err = parseDay(to); err != nil {
				return misused(cmd, "--to %v", err)
			}
		}
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			answer, err := call(ctx, c, c.status.ListCosts, ask)
			if err != nil {
				return err
			}
			if answer.GetMore() {
				p.note("only the first %d groups are shown; choose a shorter time",
					len(answer.GetCosts()))
			}
			if asCSV {
				return writeCSV(p.out, costHeading, costRows(answer))
			}
			return p.print(wire{answer}, table(costHeading, costRows(answer)))
		})(cmd, args)
	}
	c.Flags().StringVar(&by, "by", "", "account, caller, label or day (required)")
	c.Flags().StringVar(&ask.LabelKey, "label-key", "", "with --by label: the key of the label")
	c.Flags().StringVar(&from, "from", "",
		"first day or time, like 2026-01-31 or 2026-01-31T00:00:00Z (required)")
	c.Flags().StringVar(&to, "to", "", "day or time after the last one (default: now)")
	c.Flags().BoolVar(&asCSV, "csv", false,
		"print CSV; a key that a spreadsheet would take for a formula begins with '")
	f.add(c)
	return c
}

var costHeading = []string{"CHAIN", "KEY", "TRANSACTIONS", "REVERTED", "GAS_USED", "GAS_PAID",
	"L1_FEE", "TOTAL"}

func costRows(answer *pb.ListCostsResponse) [][]string {
	rows := make([][]string, len(answer.GetCosts()))
	for i, c := range answer.GetCosts() {
		rows[i] = []string{strconv.FormatUint(c.GetChainId(), 10), c.GetKey(),
			strconv.FormatInt(c.GetTransactions(), 10), strconv.FormatInt(c.GetReverted(), 10),
			c.GetGasUsed(), c.GetGasPaid(), c.GetL1Fee(), c.GetTotal()}
	}
	return rows
}

// parseDay reads a day of UTC or a time.
func parseDay(text string) (*timestamppb.Timestamp, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return timestamppb.New(at), nil
		}
	}
	return nil, fmt.Errorf("%q is neither a day nor a time; give one like 2026-01-31 or "+
		"2026-01-31T00:00:00Z", text)
}

// writeCSV writes a table that spreadsheets can open: a cell is text where they would evaluate it
// as a formula, because callers choose the values of labels.
func writeCSV(to io.Writer, heading []string, rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				row[i] = "'" + cell
			}
		}
	}
	w := csv.NewWriter(to)
	if err := w.WriteAll(append([][]string{heading}, rows...)); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

func (p *program) balancesCommand() *cobra.Command {
	f := &clientFlags{}
	c := &cobra.Command{
		Use:   "balances [NAME...]",
		Short: "Show balances, committed funds and how long they last",
		Args:  cobra.ArbitraryArgs,
		Long: `Show the balances of these accounts, or of all. COMMITTED is the most that accepted
transactions may still take. RUNWAY is how long the rest lasts at the spending of the last day,
above two days in whole days, as 12d. It needs an hour of transactions, or 100 final ones. TOP_UP is
the newest amount from a treasury, or why there is none although the account needs it. Amounts are
in wei.`,
		Example: "  fencepost balances\n  fencepost balances alice bob",
	}
	c.RunE = p.calling(f, func(ctx context.Context, c *client, args []string) error {
		names, err := p.balanceNames(ctx, c, args)
		if err != nil {
			return err
		}
		all := &pb.ListBalancesResponse{}
		const most = 100 // names of a call
		for len(names) > 0 {
			n := min(most, len(names))
			page, err := call(ctx, c, c.status.ListBalances,
				&pb.ListBalancesRequest{Submitters: names[:n]})
			if err != nil {
				return err
			}
			all.Balances = append(all.GetBalances(), page.GetBalances()...)
			names = names[n:]
		}
		rows := make([][]string, len(all.GetBalances()))
		for i, b := range all.GetBalances() {
			balance := b.GetBalance()
			if balance == "" {
				balance = b.GetReason()
			}
			rows[i] = []string{b.GetSubmitter(), balance, b.GetCommitted(),
				shown(b.GetSpentPerDay()), shownRunway(b.GetRunway()),
				shown(topUpOf(b, p.clock.Now()))}
		}
		return p.print(wire{all},
			table([]string{"NAME", "BALANCE", "COMMITTED", "SPENT_PER_DAY", "RUNWAY", "TOP_UP"},
				rows))
	})
	f.add(c)
	return c
}

// shownRunway returns a runway, in whole days above two of them.
func shownRunway(d *durationpb.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == nil:
		return "-"
	case d.AsDuration() > 2*day:
		return fmt.Sprintf("%dd", d.AsDuration()/day)
	}
	return d.AsDuration().Round(time.Minute).String()
}

// explainedAfter is how long a top-up is only decided before its cell says what to check: nodes
// create it when they read the balance next.
const explainedAfter = 10 * time.Minute

// topUpOf returns why an account gets no top-up, or the amount of the newest one, and since when
// that is only decided.
func topUpOf(b *pb.Balance, now time.Time) string {
	u := b.GetTopUp()
	switch {
	case b.GetTopUpHeld() != "":
		return b.GetTopUpHeld()
	case u != nil && u.GetTxId() == "":
		age := max(now.Sub(u.GetTime().AsTime()), 0)
		cell := fmt.Sprintf("%s (decided %s ago", u.GetAmount(), age.Round(time.Second))
		if age > explainedAfter {
			cell += ", no cause recorded: is a node with a rule for it running?"
		}
		return cell + ")"
	}
	return u.GetAmount()
}

// balanceNames returns the given names, or the names of all submitters.
func (p *program) balanceNames(ctx context.Context, c *client,
	args []string) (names []string, err error) {
	if len(args) > 0 {
		return args, nil
	}
	ask := &pb.ListSubmittersRequest{PageSize: maxPage}
	for {
		page, err := call(ctx, c, c.subs.ListSubmitters, ask)
		if err != nil {
			return nil, err
		}
		for _, s := range page.GetSubmitters() {
			names = append(names, s.GetName())
		}
		if ask.PageToken = page.GetNextPageToken(); ask.GetPageToken() == "" {
			return names, nil
		}
	}
}
