package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/store"
)

// The exit codes of an audit beside exitDone: a script must distinguish a wrong ledger from one
// that could not be checked.
const (
	exitViolations = 1
	exitUnchecked  = 2
)

func (p *program) auditCommand() *cobra.Command {
	var f configFlags
	var submitters []string
	var chained bool
	c := &cobra.Command{
		Use:   "audit --config FILE",
		Short: "Check the ledger against its invariants and the chains",
		Args:  arguments(),
		Long: `Check the ledger against its invariants and the chains: every nonce is used once or
recorded as a gap, every state change has its event, every final transaction is on chain as
recorded, no requeued transaction was executed at its old nonce, and the nonce of the account
matches.

The audit only reads; nodes may run. COMPARED counts the transactions compared with the chain:
final and requeued ones, not queued or pending ones. HASHES counts the signed transactions looked
up on chain.

With --chain, the hash chains of intents, events and commands are verified as well: a row that was
changed, removed or added by hand is a violation of A1. With intents.key_file, the authentication
codes of intents and approvals are verified too.

Exit codes: 0 no violation, 1 violations found, 2 not everything could be checked.`,
		Example: "  fencepost audit --config fencepost.yaml\n  fencepost audit --config " +
			"fencepost.yaml --submitter alice --json",
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		found, err := p.auditAll(c, f, submitters, chained)
		if err != nil {
			return codedError{err, exitUnchecked}
		}
		return found.verdict()
	}
	f.addLedger(c)
	c.Flags().StringArrayVar(&submitters, "submitter", nil,
		"only this submitter, by name or account id; repeatable")
	c.Flags().BoolVar(&chained, "chain", false, "also verify the hash chains of the history")
	c.AddCommand(p.auditExportCommand(), p.auditVerifyCommand())
	return c
}

// openBooks opens the ledger and the chains of a configuration for a command that reads them.
func (p *program) openBooks(c *cobra.Command, f configFlags) (*node.Books, error) {
	if err := legible(c, nil); err != nil {
		return nil, err
	}
	cfg, err := p.loadLedger(c, f)
	if err != nil {
		return nil, err
	}
	format := cfg.Log.Format
	if p.json {
		format = "json"
	}
	log, err := telemetry.NewLogger(p.err, cfg.Log.Level, format)
	if err != nil {
		return nil, err
	}
	return node.OpenBooks(c.Context(), cfg, log)
}

func (p *program) auditAll(c *cobra.Command, f configFlags, names []string,
	chained bool) (audits, error) {
	books, err := p.openBooks(c, f)
	if err != nil {
		return nil, err
	}
	defer books.Close()
	list, err := books.Submitters(c.Context(), names)
	if err != nil {
		return nil, err
	}
	all := audits{}
	for _, s := range list {
		row := p.auditOne(c.Context(), books, s)
		if chained {
			row.addHistory(books.History(c.Context(), s, nil))
		}
		all = append(all, row)
		if err := c.Context().Err(); err != nil {
			return nil, errors.New("interrupted; the audit is incomplete")
		}
	}
	if chained {
		row := auditRow{Submitter: wholeLedger, Violations: []violationRow{}}
		report, _, err := books.Checkpoints(c.Context())
		row.addHistory(report, err)
		all = append(all, row)
	}
	return all, p.print(all, all.write)
}

func (p *program) auditOne(ctx context.Context, books *node.Books, s store.SubmitterInfo) auditRow {
	report, compared, err := books.Audit(ctx, s, p.progress(s.Name))
	row := auditRow{
		Submitter:    s.Name,
		Transactions: report.Transactions,
		Hashes:       report.Hashes,
		Violations:   []violationRow{},
	}
	row.add(report.Violations)
	switch {
	case err != nil:
		row.Unchecked = err.Error()
	case !compared:
		row.Unchecked = fmt.Sprintf("chain %d is not configured; add it", s.Chain)
	case report.Unanswered > 0:
		row.Unchecked = fmt.Sprintf("no response from the chain for %s; retry",
			count(report.Unanswered, "signed transaction"))
	}
	return row
}

// progressEvery is the interval of progress reports.
const progressEvery = 2 * time.Second

// progress reports the progress of an audit on standard error.
func (p *program) progress(name string) func(audit.Progress) {
	last := p.clock.Now()
	return func(at audit.Progress) {
		if p.clock.Now().Sub(last) < progressEvery {
			return
		}
		last = p.clock.Now()
		p.note("audit of %s: %s compared, at nonce %d of %d", name,
			count(at.Transactions, "transaction"), at.Nonce, at.Next)
	}
}

// auditRow is the result for one submitter, as printed.
type auditRow struct {
	Submitter    string `json:"submitter"`
	Transactions int    `json:"transactions"` // compared with the chain
	Hashes       int    `json:"hashes"`       // looked up on chain
	// why the check is incomplete; empty: it is complete
	Unchecked  string         `json:"unchecked"`
	Violations []violationRow `json:"violations"`
}

type violationRow struct {
	Law  string `json:"law"`
	TxID string `json:"txId"`
	What string `json:"what"`
}

type audits []auditRow

// write prints a line per submitter, then a line per violation.
func (a audits) write(w io.Writer) error {
	var rows, broken [][]string
	for _, r := range a {
		verdict := "ok"
		switch {
		case len(r.Violations) > 0:
			verdict = count(len(r.Violations), "violation")
		case r.Unchecked != "":
			verdict = "not checked"
		}
		rows = append(
			rows,
			[]string{
				r.Submitter,
				verdict,
				fmt.Sprint(r.Transactions),
				fmt.Sprint(r.Hashes),
				shown(plain(r.Unchecked)),
			},
		)
		for _, v := range r.Violations {
			broken = append(broken, []string{r.Submitter, v.Law, shown(v.TxID), plain(v.What)})
		}
	}
	if err := table(
		[]string{"SUBMITTER", "RESULT", "COMPARED", "HASHES", "UNCHECKED"}, rows,
	)(w); err != nil ||
		len(broken) == 0 {
		return err
	}
	if err := line("")(w); err != nil {
		return err
	}
	return table([]string{"SUBMITTER", "LAW", "TX_ID", "VIOLATION"}, broken)(w)
}

// verdict is nil if everything was checked without a violation. Violations take precedence.
func (a audits) verdict() error {
	violations, unchecked := 0, 0
	for _, r := range a {
		violations += len(r.Violations)
		if r.Unchecked != "" {
			unchecked++
		}
	}
	switch {
	case violations > 0:
		return codedError{
			fmt.Errorf("%s found; see docs/invariants.md",
				count(violations, "violation")),
			exitViolations,
		}
	case unchecked > 0:
		return codedError{
			fmt.Errorf("audit incomplete for %s; see UNCHECKED",
				count(unchecked, "submitter")),
			exitUnchecked,
		}
	}
	return nil
}
