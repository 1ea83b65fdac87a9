package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const severalLedgers = `ledgers:
  - {name: eu1, url: "postgres://f@127.0.0.1/eu1"}
  - {name: eu2, url: "postgres://f@127.0.0.1/eu2", schema: fence}
directory: {url: "postgres://f@127.0.0.1/eu1"}
`

// withoutDatabase is the example without its database.
func withoutDatabase(t *testing.T) string {
	t.Helper()
	head, rest, found := strings.Cut(example, "database:\n")
	_, tail, ends := strings.Cut(rest, "\nchains:")
	if !found || !ends {
		t.Fatal("the example has no database before its chains")
	}
	return head + "chains:" + tail
}

func TestLedgers_Relations(t *testing.T) {
	t.Parallel()
	bare := withoutDatabase(t)
	for name, c := range map[string]struct {
		text string
		set  []string
		want string // parts of the problem, separated by "|"; empty: no problem
	}{
		"several": {bare + severalLedgers, nil, ""},
		"neither": {bare, nil, "database.url"},
		"both":    {example + severalLedgers, nil, "database.url:|ledgers"},
		"no directory": {bare + strings.Split(severalLedgers, "directory")[0], nil,
			"directory.url:"},
		"one without directory": {bare + "ledgers: [{name: eu1, url: " +
			"\"postgres://f@127.0.0.1/x\"}]\n", nil, ""},
		"no URL": {bare + "ledgers: [{name: eu1}]\n", nil, "ledgers.eu1.url:"},
		"submitter in a ledger": {bare + severalLedgers, []string{"submitters.alice.ledger=eu2"},
			""},
		"submitter in no ledger": {bare + severalLedgers,
			[]string{"submitters.alice.ledger=us1"}, "submitters.alice.ledger:|us1|eu1, eu2"},
		"submitter without ledgers": {example, []string{"submitters.alice.ledger=eu1"},
			"submitters.alice.ledger:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(Source{File: file, Set: c.set})
			if (err == nil) != (c.want == "") {
				t.Fatalf("%v, want %q", err, c.want)
			}
			for part := range strings.SplitSeq(c.want, "|") {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%v, want %q", err, part)
				}
			}
		})
	}
}

func TestLedgers_Select(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(withoutDatabase(t)+severalLedgers), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(Source{File: file, Environ: []string{
		"FENCEPOST_LEDGERS_EU2_URL=postgres://f@127.0.0.1/other"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []string{"", "us1"} {
		if _, err := cfg.OfLedger(unknown); err == nil {
			t.Errorf("ledger %q exists", unknown)
		}
	}
	one, err := cfg.OfLedger("eu2")
	if err != nil || !strings.HasSuffix(one.Database.URL.Reveal(), "/other") ||
		one.Database.Schema != "fence" || one.DatabaseKey() != "ledgers.eu2.url" ||
		len(one.Submitters) != 0 || len(one.Ledgers) != 0 {
		t.Errorf("%+v %v", one, err)
	}
	first, err := cfg.OfLedger("eu1")
	if err != nil || len(first.Submitters) != len(cfg.Submitters) {
		t.Errorf("%+v %v", first, err)
	}
	if again, err := first.OfLedger(""); err != nil || again != first {
		t.Errorf("%+v %v", again, err)
	}
}

// TestLedgers_DatabaseSetElsewhere_NamesLedgersKey: a URL for the one ledger of other
// configurations, in the environment, is not used for one of several.
func TestLedgers_DatabaseSetElsewhere_NamesLedgersKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(withoutDatabase(t)+severalLedgers), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Source{
		"environment FENCEPOST_DATABASE_URL: database.url: ledgers is set too; unset it; " +
			"ledger eu1 has FENCEPOST_LEDGERS_EU1_URL": {Environ: []string{
			"FENCEPOST_DATABASE_URL=postgres://f@127.0.0.1/x"}},
		"environment FENCEPOST_DATABASE_URL_FILE: database.url_file: ledgers is set too; unset " +
			"it; ledger eu1 has FENCEPOST_LEDGERS_EU1_URL_FILE": {Environ: []string{
			"FENCEPOST_DATABASE_URL_FILE=/run/url"}},
		"--set: database.schema: ledgers is set too; omit it; ledger eu1 has " +
			"ledgers.eu1.schema": {Set: []string{"database.schema=fence"}},
	} {
		s.File = file
		if _, err := Load(s); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
