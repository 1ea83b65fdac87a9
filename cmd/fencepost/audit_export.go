package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/store"
)

// wholeLedger stands for all submitters in the results of an audit.
const wholeLedger = "(ledger)"

// add adds violations to a row.
func (r *auditRow) add(found []store.Violation) {
	for _, v := range found {
		one := violationRow{Law: v.Law, What: v.What}
		if v.Tx != nil {
			one.TxID = v.Tx.String()
		}
		r.Violations = append(r.Violations, one)
	}
}

// addHistory adds the result of verifying hash chains.
func (r *auditRow) addHistory(report store.ChainReport, err error) {
	r.add(report.Violations)
	if err != nil && r.Unchecked == "" {
		r.Unchecked = err.Error()
	}
}

func (p *program) auditExportCommand() *cobra.Command {
	var f configFlags
	var key, file string
	c := &cobra.Command{
		Use:   "export --config FILE --key FILE --out FILE",
		Short: "Write the history as NDJSON with a signed head",
		Args:  arguments(),
		Long: `Write all intents, events and commands with their hashes, one JSON object per line,
and a last line that signs them. The hash chains are verified meanwhile. Keep the file, or its last
line, where no administrator of the database can change it.

The key is an Ed25519 key: openssl genpkey -algorithm ed25519 -out audit.key

Exit codes: as of fencepost audit.`,
		Example: "  fencepost audit export --config fencepost.yaml --key audit.key " +
			"--out history.ndjson",
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		violations, err := p.export(c, f, key, file)
		switch {
		case err != nil:
			return codedError{err, exitUnchecked}
		case violations > 0:
			return codedError{fmt.Errorf("%s found; run \"fencepost audit --chain\"",
				count(violations, "violation")), exitViolations}
		}
		return nil
	}
	f.addLedger(c)
	c.Flags().StringVar(&key, "key", "", "file with the Ed25519 private key, PEM")
	c.Flags().StringVar(&file, "out", "", "file to write; it must not exist")
	_ = c.MarkFlagRequired("key")
	_ = c.MarkFlagRequired("out")
	return c
}

func (p *program) export(c *cobra.Command, f configFlags, keyFile, file string) (n int, err error) {
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return 0, fmt.Errorf("read the key: %w; name an Ed25519 private key in PEM", err)
	}
	key, err := audit.ParseSigningKey(text)
	if err != nil {
		return 0, fmt.Errorf("key %s: %w; create one with \"openssl genpkey -algorithm ed25519\"",
			keyFile, err)
	}
	books, err := p.openBooks(c, f)
	if err != nil {
		return 0, err
	}
	defer books.Close()
	if _, err := os.Lstat(file); err == nil {
		return 0, fmt.Errorf("create the export: %s exists; name a new file", file)
	}
	head, n, err := p.exportFile(c.Context(), books, key, file)
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	return n, p.print(head, line(fmt.Sprintf("%s written to %s, signed with checkpoint %d.%d",
		count(head.Lines, "line"), file, head.Checkpoint.Series, head.Checkpoint.No)))
}

// exportFile writes the export beside its file, and renames it once it is signed and on disk. A
// failed export leaves no file.
func (p *program) exportFile(ctx context.Context, books *node.Books, key ed25519.PrivateKey,
	file string) (head audit.Head, violations int, err error) {
	out, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return head, 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	head, violations, err = p.exportTo(ctx, books, audit.NewExport(out, key))
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return head, violations, err
	}
	return head, violations, os.Rename(out.Name(), file)
}

func (p *program) exportTo(ctx context.Context, books *node.Books,
	to *audit.Export) (head audit.Head, violations int, err error) {
	list, err := books.Submitters(ctx, nil)
	if err != nil {
		return head, 0, err
	}
	for _, s := range list {
		report, err := books.History(ctx, s, to.Line)
		if err != nil {
			return head, 0, err
		}
		violations += len(report.Violations)
	}
	report, last, err := books.Checkpoints(ctx)
	if err != nil {
		return head, 0, err
	}
	head, err = to.Close(last, p.clock.Now())
	return head, violations + len(report.Violations), err
}

func (p *program) auditVerifyCommand() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use:   "verify FILE --public-key FILE",
		Short: "Check that an export of the history is complete and unchanged",
		Args:  arguments("FILE"),
		Long: `Check the signature and the hash of a file that "fencepost audit export" wrote. It
needs no ledger and no node.

The public key: openssl pkey -in audit.key -pubout -out audit.pub`,
		Example: "  fencepost audit verify history.ndjson --public-key audit.pub",
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		public, err := readPublicKey(key)
		if err != nil {
			return codedError{err, exitUnchecked}
		}
		in, err := os.Open(args[0])
		if err != nil {
			return codedError{fmt.Errorf("open the export: %w", err), exitUnchecked}
		}
		defer in.Close()
		head, err := audit.VerifyExport(in, public)
		if err != nil {
			return codedError{fmt.Errorf("export %s: %w", args[0], err), exitViolations}
		}
		return p.print(head, line(fmt.Sprintf("ok: %s, checkpoint %d.%d, signed at %s",
			count(head.Lines, "line"), head.Checkpoint.Series, head.Checkpoint.No,
			head.CreatedAt.Format("2006-01-02 15:04:05Z"))))
	}
	c.Flags().StringVar(&key, "public-key", "", "file with the Ed25519 public key, PEM")
	_ = c.MarkFlagRequired("public-key")
	return c
}

func readPublicKey(file string) (ed25519.PublicKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w; name an Ed25519 public key in PEM", err)
	}
	key, err := audit.ParseVerifyingKey(text)
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w; write it with \"openssl pkey -pubout\"", file,
			err)
	}
	return key, nil
}
