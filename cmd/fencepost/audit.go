package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/cmd/internal/node"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/store"
)

// The exit codes of an audit beside exitDone. A script must be able to tell a ledger that is wrong from one that could not be looked at.
const (
	exitViolations = 1
	exitUnchecked  = 2
)

func (p *program) auditCommand() *cobra.Command {
	var f configFlags
	var submitters []string
	c := &cobra.Command{
		Use: "audit --config FILE", Short: "Check the whole ledger against its laws and the chains", Args: arguments(),
		Long: `Check the whole ledger against its laws and the chains: every nonce is used once or recorded as a gap, every step was told, every transaction that is final
is on chain where the ledger says, none that was given back to the queue ran under its old nonce, and the account's nonce fits. It only reads; nodes may work meanwhile.

COMPARED counts the transactions that were compared with the chain, which are the final ones and those that gave up their nonce: none that is queued or in flight. HASHES
counts the signed transactions that the chain was asked for.

It exits with 0 when all is well, with 1 when a law is broken, and with 2 when something could not be checked, so that nothing is proved.`,
		Example: "  fencepost audit --config fencepost.yaml\n  fencepost audit --config fencepost.yaml --submitter alice --json",
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		found, err := p.auditAll(c, f, submitters)
		if err != nil {
			return codedError{err, exitUnchecked}
		}
		return found.verdict()
	}
	f.add(c)
	c.Flags().StringArrayVar(&submitters, "submitter", nil,
		"only this one, a name or an account id; as often as needed")
	return c
}

func (p *program) auditAll(c *cobra.Command, f configFlags, names []string) (audits, error) {
	if err := legible(c, nil); err != nil {
		return nil, err
	}
	cfg, err := p.loadConfig(c, f)
	if err != nil {
		return nil, err
	}
	log, err := telemetry.NewLogger(p.err, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return nil, err
	}
	books, err := node.OpenBooks(c.Context(), cfg, log)
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
		all = append(all, p.auditOne(c.Context(), books, s))
		if err := c.Context().Err(); err != nil {
			return nil, errors.New("interrupted; nothing is proved")
		}
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
	for _, v := range report.Violations {
		r := violationRow{Law: v.Law, What: v.What}
		if v.Tx != nil {
			r.TxID = v.Tx.String()
		}
		row.Violations = append(row.Violations, r)
	}
	switch {
	case err != nil:
		row.Unchecked = err.Error()
	case !compared:
		row.Unchecked = fmt.Sprintf("the configuration has no chain %d to compare it with; add it",
			s.Chain)
	case report.Unanswered > 0:
		row.Unchecked = fmt.Sprintf("the chain gave no answer for %s; ask again",
			count(report.Unanswered, "signed transaction"))
	}
	return row
}

// progressEvery is how often a long audit says how far it has come.
const progressEvery = 2 * time.Second

// progress tells on standard error how far the audit of a submitter has come.
func (p *program) progress(name string) func(audit.Progress) {
	told := p.clock.Now()
	return func(at audit.Progress) {
		if p.clock.Now().Sub(told) < progressEvery {
			return
		}
		told = p.clock.Now()
		p.note("audit of %s: %s compared, at nonce %d of %d", name,
			count(at.Transactions, "transaction"), at.Nonce, at.Next)
	}
}

// auditRow is what an audit found of one submitter, as it is printed.
type auditRow struct {
	Submitter    string         `json:"submitter"`
	Transactions int            `json:"transactions"` // that were compared with the chain: final ones, and those that gave up their nonce
	Hashes       int            `json:"hashes"`       // signed transactions that the chain was asked for
	Unchecked    string         `json:"unchecked"`    // why it is not wholly checked; empty: it is
	Violations   []violationRow `json:"violations"`
}

type violationRow struct {
	Law  string `json:"law"`
	TxID string `json:"txId"`
	What string `json:"what"`
}

type audits []auditRow

// write prints a line for each submitter, and one for each violation after them.
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
	if err := table([]string{"SUBMITTER", "RESULT", "COMPARED", "HASHES", "UNCHECKED"}, rows)(w); err != nil ||
		len(broken) == 0 {
		return err
	}
	if err := line("")(w); err != nil {
		return err
	}
	return table([]string{"SUBMITTER", "LAW", "TX_ID", "WHAT"}, broken)(w)
}

// verdict is nil when all is well. What was found counts for more than what could not be looked at.
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
			fmt.Errorf("%s of the ledger's laws found; docs/invariants.md says what they mean",
				count(violations, "violation")),
			exitViolations,
		}
	case unchecked > 0:
		return codedError{
			fmt.Errorf("%s not wholly checked, so nothing is proved; UNCHECKED says why",
				count(unchecked, "submitter")),
			exitUnchecked,
		}
	}
	return nil
}
