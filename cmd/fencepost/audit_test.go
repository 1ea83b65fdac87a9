package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// configured writes a configuration of the ledger and a chain, and returns the file.
func (l *ledger) configured(rpc string) string {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "fencepost.yaml")
	text := fmt.Sprintf(
		"node: {name: a}\ndatabase: {url: %q, schema: %s}\nchains:\n  - {name: dev, chain_id: "+
			"31337, rpc: [%q], rpc_timeout: 2s}\n",
		l.db.URL, l.db.Schema, rpc)
	l.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestAudit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	dev, err := devchain.Start(devchain.Options{ChainID: 31337, Accounts: 1})
	l.must(err)
	t.Cleanup(func() { l.must(dev.Close()) })
	_, err = dev.Mine(20)
	l.must(err)
	file := l.configured(dev.URL())
	audit := func(code int, want string, more ...string) string {
		t.Helper()
		out, errs, got := l.start(append([]string{"audit", "--config", file}, more...)...).end()
		if got != code || !strings.Contains(errs, want) || (code == exitDone) != (errs == "") {
			t.Errorf("%q gave %d: %s%swant %d and %q", more, got, out, errs, code, want)
		}
		return out
	}
	l.own()
	l.rows(audit(exitDone, ""), `SUBMITTER +RESULT +COMPARED +HASHES +UNCHECKED`,
		`alice +ok +0 +0 +-`)

	_, _, err = l.store.Register(
		l.ctx,
		store.Registration{
			Name:      "bob",
			Chain:     5,
			Address:   txn.Address{2},
			Signer:    "local",
			Mode:      txn.Strict,
			StartFrom: "0",
		},
	)
	l.must(err)
	l.rows(audit(exitUnchecked, "1 submitter; see UNCHECKED"),
		`alice +ok .*`,
		`bob +not checked +0 +0 +chain 5 is not configured.*`)
	audit(exitDone, "", "--submitter", "alice")
	audit(exitUnchecked, `"carl"`, "--submitter", "carl")

	// It never was on the chain.
	id := l.create("r1")
	parsed, err := txn.ParseTxID(id)
	l.must(err)
	l.live(parsed, true)
	out := audit(exitViolations, "docs/invariants.md")
	l.rows(out, `alice +\d violations? +1 +1 +-`, `SUBMITTER +LAW +TX_ID +VIOLATION`,
		`alice +L5 +`+id+` +.*CONFIRMED in block 17 .* 0x.*`)
	var rows []struct {
		Submitter, Unchecked string
		Transactions, Hashes int
		Violations           []struct{ Law, TxID, What string }
	}
	l.unmarshal(
		audit(exitViolations, "", "--json", "--submitter", "bob", "--submitter",
			"eip155:31337:"+txn.Address{1}.Hex()),
		&rows,
	)
	if len(rows) != 2 || rows[0].Submitter != "bob" || rows[0].Unchecked == "" ||
		rows[1].Transactions != 1 ||
		rows[1].Violations[0].TxID != id {
		t.Errorf("printed %+v", rows)
	}
}

func TestAudit_ChainOrLedgerUnavailable(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	out, errs, code := l.start("audit", "--config", l.configured("http://127.0.0.1:1")).end()
	if code != exitUnchecked || !strings.Contains(errs, "see UNCHECKED") {
		t.Errorf("without a chain it gave %d: %s%s", code, out, errs)
	}
	l.rows(out, `alice +not checked +0 +0 +audit: submitter \d+: .*`)
	nobody := filepath.Join(t.TempDir(), "url")
	l.must(os.WriteFile(nobody, []byte("postgres://user:hidden@127.0.0.1:1/gone"), 0o600))
	for says, more := range map[string][]string{
		"nothing.at":                 {"--set", "nothing.at=all"},
		`run "fencepost migrate up"`: {"--set", "database.schema=nowhere"},
		"FENCEPOST_CONFIG":           nil,
		`database.url, database "gone" at 127.0.0.1:1: `: {"--set", "database.url_file=" + nobody},
	} {
		line := append([]string{"audit", "--config", l.configured("http://127.0.0.1:1")}, more...)
		if more == nil {
			line = line[:1]
		}
		if out, errs, code := l.start(line...).end(); code != exitUnchecked ||
			!strings.Contains(errs, says) {
			t.Errorf("%q gave %d: %s%swant %q", line, code, out, errs, says)
		}
	}
}

func TestAudit_ReportsProgress(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	p := &program{err: &printed, clock: now}
	progress := p.progress("alice")
	for i := range 5 {
		now.Advance(time.Second)
		progress(
			audit.Progress{
				Transactions: 200 * (i + 1),
				Nonce:        txn.Nonce(200*(i+1) - 1),
				Next:         1500,
			},
		)
	}
	want := "fencepost: audit of alice: 400 transactions compared, at nonce 399 of 1500\n" +
		"fencepost: audit of alice: 800 transactions compared, at nonce 799 of 1500\n"
	if printed.String() != want {
		t.Errorf("printed\n%swant\n%s", printed.String(), want)
	}
}
