package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestSubmitterMove_NoOwner_Waits: what the store does is tested there; here are the ways to ask
// for it. An account that no node has paused waits, and the command can be repeated.
func TestSubmitterMove_NoOwner_Waits(t *testing.T) {
	t.Parallel()
	directory := dbtest.New(t)
	eu, us := dbtest.New(t), dbtest.New(t)
	file := filepath.Join(t.TempDir(), "fencepost.yaml")
	at := func(db *dbtest.DB) string { return "{url: \"" + db.URL + "\", schema: " + db.Schema }
	text := "node: {name: a}\n" +
		"chains: [{name: dev, chain_id: 31337, rpc: [http://127.0.0.1:1]}]\n" +
		"directory: " + at(directory) + "}\n" +
		"ledgers: [" + at(eu) + ", name: eu1}, " + at(us) + ", name: us1}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config := " --config " + file
	move := "submitter move alice --to us1 --set directory.allow_moves=true" + config
	type step struct {
		line, out, errs string
		code            int
	}
	run := func(steps ...step) {
		t.Helper()
		for _, s := range steps {
			var stdout, stderr bytes.Buffer
			p := &program{in: strings.NewReader(""), out: &stdout, err: &stderr,
				clock: clock.Real{}}
			code := p.run(t.Context(), strings.Fields(s.line))
			out, errs := stdout.String(), stderr.String()
			plainWords(t, errs)
			if code != s.code || !regexp.MustCompile(s.out).MatchString(out) ||
				!regexp.MustCompile(s.errs).MatchString(errs) {
				t.Errorf("%s gave %d: %s%s", s.line, code, out, errs)
			}
		}
	}
	run(step{"ledger join eu1" + config, "", "", exitDone},
		step{"ledger join us1" + config, "", "", exitDone},
		step{"submitter move alice --to us1" + config, "", "allow_moves", exitFailed},
		step{"submitter move alice" + config, "", "--to", exitUsage},
		step{"submitter void-top-up alice --reason closed" + config, "", "name one of eu1, us1",
			exitUsage},
		step{move, "", `fencepost submitter list`, exitFailed}) // not registered
	addAlice(t, eu, directory)
	run(step{"submitter move alice --to eu1 --set directory.allow_moves=true" + config,
		"eu1 already", "", exitDone})
	run(step{"ledger list" + config, "eu1 +1 ", "", exitDone},
		step{move + " --wait 1s", "", `not done within 1s \(--wait\): 1 command or nonce request ` +
			"not applied by a node yet; .*; the account stays paused: repeat the command, .*" +
			`"fencepost submitter resume alice"`, exitFailed},
		step{move + " --wait 1ns", "", `not done within 1ns \(--wait\)`, exitFailed},
		step{move + " --ledger us1", "", "us1", exitFailed},
		step{"recover --ledger eu1 --yes" + config, "", "", exitDone},
		// without the directory it does not know which accounts have left
		step{"recover --yes --database-url " + eu.URL + " --schema " + eu.Schema, "", "directory",
			exitFailed})
	// at rest, as after the owner has paused it
	change := func(db *dbtest.DB, sql string) {
		t.Helper()
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	change(eu, "UPDATE submitter SET status = 'PAUSED'")
	change(eu, "UPDATE submitter_command SET result = 'APPLIED', applied_at = now()")
	run(step{move, "^submitter alice moved from ledger eu1 to us1 ", "", exitDone},
		step{move, "us1 already", "", exitDone},
		step{move + " --json", `"to": "us1"`, "", exitDone},
		step{move + " --ledger eu1", "^submitter alice moved .*paused there; .*resume alice", "",
			exitDone},
		step{strings.Replace(move, "us1", "eu1", 1), "", `it was in ledger "eu1" before`,
			exitFailed})
	change(directory, "INSERT INTO directory_account (no, name, chain_id, address) "+
		"SELECT no, 'bob', 31337, decode(repeat('02', 20), 'hex') FROM directory_ledger "+
		"WHERE name = 'us1'")
	run(step{strings.Replace(move, "alice", "bob", 1), "", `"us1" lacks submitter "bob"`,
		exitFailed})
}

// addAlice registers an account in a ledger.
func addAlice(t *testing.T, ledger, directory *dbtest.DB) {
	t.Helper()
	open := func(c store.Config) *store.Store {
		s, err := store.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	d := open(store.Config{URL: directory.URL, Schema: directory.Schema, Node: "d"})
	s := open(store.Config{URL: ledger.URL, Schema: ledger.Schema, Node: "a", Directory: d})
	if _, _, err := s.Register(t.Context(), store.Registration{Name: "alice", Chain: 31337,
		Address: txn.Address{1}, Signer: "local", Mode: txn.Strict, StartFrom: "0"}); err != nil {
		t.Fatal(err)
	}
}
