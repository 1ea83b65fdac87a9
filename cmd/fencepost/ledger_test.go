package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/fencepost/fencepost/internal/dbtest"
)

func TestLedger_JoinAndList(t *testing.T) {
	t.Parallel()
	first, second := dbtest.New(t), dbtest.New(t)
	config := func(db *dbtest.DB) string {
		file := filepath.Join(t.TempDir(), "fencepost.yaml")
		text := "node: {name: a}\n" +
			"chains: [{name: dev, chain_id: 31337, rpc: [http://127.0.0.1:1]}]\n" +
			"database: {url: \"" + db.URL + "\", schema: " + db.Schema + "}\n" +
			"directory: {url: \"" + first.URL + "\", schema: " + first.Schema + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return " --config " + file
	}
	eu, us := config(first), config(second)
	for _, step := range []struct {
		line, out string
		code      int
	}{
		{"ledger list" + eu, `^NAME +ACCOUNTS +NUMBERS +JOINED +ID\n$`, exitDone},
		{"ledger join eu1" + eu, `^ledger eu1 is in the directory: 0 accounts, numbers 1 to `,
			exitDone},
		{"ledger join us1 --json" + us, `"first": 16777216,`, exitDone},
		{"ledger join eu1" + us, `^$`, exitFailed},
		{"ledger list" + us, `\neu1 +0 +1-16777215 .*\nus1 +0 +16777216-`, exitDone},
	} {
		out, errs, code := migrating(t, first.URL, step.line)
		if code != step.code || !regexp.MustCompile(step.out).MatchString(out) {
			t.Errorf("%s gave %d: %s%swant %s", step.line, code, out, errs, step.out)
		}
	}
	if out, errs, code := migrating(t, first.URL,
		"ledger list --set directory.url="+eu); code == exitDone {
		t.Errorf("without a directory: %s%s", out, errs)
	}
}
