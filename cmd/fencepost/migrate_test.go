package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// migrating runs a migrate command on a database that the environment names.
func migrating(t *testing.T, url, line string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{
		in:      strings.NewReader(""),
		out:     &stdout,
		err:     &stderr,
		clock:   clock.Real{},
		environ: []string{databaseVariable + "=" + url},
	}
	code = p.run(t.Context(), strings.Fields(line))
	return stdout.String(), stderr.String(), code
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	schema := db.Schema + "_m"
	t.Cleanup(func() {
		if _, err := db.Pool.Exec(
			context.Background(), "DROP SCHEMA "+schema+" CASCADE",
		); err != nil {
			t.Error(err)
		}
	})
	for _, step := range []struct{ line, out string }{
		{"migrate status", `^VERSION +NAME +APPLIED +OLDER NODES\n1 +\S+ +- +rejected\n`},
		{"migrate up", `^\d+ migrations? applied, schema is up to date\n$`},
		{"migrate up", `^schema is up to date\n$`},
		{"migrate up --json", `^\[\]\n$`},
		{"migrate status --json", `"applied": "20`},
		{"migrate down", `^migration \d+ \(\S+\) reverted\n$`},
		{"migrate up", `^1 migration applied, schema is up to date\n$`},
	} {
		out, errs, code := migrating(t, db.URL,
			step.line+" --schema "+schema+" --database-url "+db.URL)
		if code != exitDone || errs != "" || !regexp.MustCompile(step.out).MatchString(out) {
			t.Fatalf("%s gave %d: %s%swant %s", step.line, code, out, errs, step.out)
		}
	}
	refuseToLose(t, db, schema)
	newerThanKnown(t, db, schema)
}

// newerThanKnown checks the reaction to unknown migrations.
func newerThanKnown(t *testing.T, db *dbtest.DB, schema string) {
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Pool.Exec(
			t.Context(), strings.ReplaceAll(sql, "SCHEMA", schema),
		); err != nil {
			t.Fatal(err)
		}
	}
	where := " --schema " + schema + " --database-url " + db.URL
	if out, errs, code := migrating(t, "", "migrate up"+where); code != exitDone {
		t.Fatal(out, errs)
	}
	exec("INSERT INTO SCHEMA.goose_db_version (version_id, is_applied) VALUES (99999, TRUE)")
	for _, step := range []struct {
		before, line, out, errs string
		code                    int
	}{
		{
			"", "migrate up",
			`^schema version 99999 is newer than this program \(\d+\)`,
			`^$`, exitDone,
		},
		{
			"", "migrate status", `(?m)^99999 +- +20\S+ +-$`,
			`migration 99999 is unknown`, exitDone,
		},
		{
			"", "migrate down --force", `^$`,
			`99999`,
			exitFailed,
		},
		{
			"UPDATE SCHEMA.ledger SET min_node_schema = 99999", "migrate up", `^$`,
			`99999`,
			exitFailed,
		},
	} {
		if step.before != "" {
			exec(step.before)
		}
		out, errs, code := migrating(t, "", step.line+where)
		if code != step.code || !regexp.MustCompile(step.out).MatchString(out) ||
			!regexp.MustCompile(step.errs).MatchString(errs) {
			t.Errorf("%s gave %d: %s%s", step.line, code, out, errs)
		}
	}
}

// refuseToLose checks that a ledger with submitters is not dropped without --force.
func refuseToLose(t *testing.T, db *dbtest.DB, schema string) {
	s, err := store.Open(t.Context(), store.Config{URL: db.URL, Schema: schema, Node: "a/boot"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := s.Register(
		t.Context(),
		store.Registration{
			Name: "alice", Chain: 1, Address: txn.Address{1}, Signer: "x", Mode: txn.Strict,
			StartFrom: "0",
		},
	); err != nil {
		t.Fatal(err)
	}
	line := "migrate down --schema " + schema + " --database-url " + db.URL
	if _, errs, code := migrating(t, "", line); code != exitFailed ||
		!strings.Contains(errs, "submitters") {
		t.Errorf("gave %d: %s", code, errs)
	}
	if _, errs, code := migrating(t, "", line+" --force"); code != exitDone {
		t.Errorf("with force: %d, %s", code, errs)
	}
}

func TestMigrate_DatabaseFromEnvironment(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if out, errs, code := migrating(t, db.ScopedURL(), "migrate up"); code != exitDone ||
		out != "schema is up to date\n" {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	if _, errs, code := migrating(
		t, "postgres://user:hidden@127.0.0.1:1/none", "migrate up",
	); code != exitFailed ||
		strings.Contains(errs, "hidden") ||
		!strings.HasPrefix(
			errs,
			`fencepost: FENCEPOST_DATABASE_URL, database "none" at 127.0.0.1:1: migrate `+
				`up: database unavailable: the connection is refused; `,
		) ||
		!strings.Contains(errs, "correct FENCEPOST_DATABASE_URL\n") {
		t.Errorf("gave %d: %s", code, errs)
	}
}

func TestDatabaseFlags_RemoteDatabase_IsVerified(t *testing.T) {
	t.Parallel()
	p := &program{environ: []string{databaseVariable + "=postgres://u@db.example/d"}}
	got, err := p.database(&cobra.Command{}, databaseFlags{})
	if err != nil || got.url != "postgres://u@db.example/d?sslmode=verify-full" {
		t.Errorf("got %q, %v", got.url, err)
	}
}
