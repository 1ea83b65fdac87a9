package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
)

// TestMigrate_DirectoryOfItsOwn: the errors of databases without a schema name their keys and the
// command, which works.
func TestMigrate_DirectoryOfItsOwn(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	at := func(part string) string {
		schema := db.Schema + "_" + part
		t.Cleanup(func() {
			_, err := db.Pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
			if err != nil {
				t.Error(err)
			}
		})
		return "url: \"" + db.URL + "\", schema: " + schema
	}
	file := filepath.Join(t.TempDir(), "fencepost.yaml")
	text := "node: {name: a}\n" +
		"chains: [{name: dev, chain_id: 31337, rpc: [http://127.0.0.1:1]}]\n" +
		"directory: {" + at("dir") + "}\n" +
		"ledgers: [{name: eu1, " + at("eu") + "}, {name: us1, " + at("us") + "}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const join = "ledger join eu1"
	for _, step := range []struct {
		line  string
		code  int
		wants []string // in the error
	}{
		{join, exitFailed, []string{"directory.schema", "directory.url",
			`"fencepost migrate up --directory"`}},
		{"migrate up --directory --ledger eu1", exitUsage, []string{"--directory"}},
		{"migrate up --directory", exitDone, nil},
		{join, exitFailed, []string{"ledgers.eu1.schema", "ledgers.eu1.url",
			`"fencepost migrate up --ledger eu1"`}},
		{"audit --ledger eu1", exitUnchecked, []string{`"fencepost migrate up --ledger eu1"`}},
		{"migrate up --ledger eu1", exitDone, nil},
		{join, exitDone, nil},
		{"migrate status --directory", exitDone, nil},
		{"migrate grants --role " + db.Schema + "_none --print --directory", exitDone, nil},
	} {
		var out, errs bytes.Buffer
		p := &program{in: strings.NewReader(""), out: &out, err: &errs, clock: clock.Real{}}
		code := p.run(t.Context(), strings.Fields(step.line+" --config "+file))
		if code != step.code {
			t.Errorf("%s gave %d: %s", step.line, code, &errs)
		}
		for _, want := range step.wants {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s gave %swant %s", step.line, &errs, want)
			}
		}
	}
}
