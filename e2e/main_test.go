// Package e2e runs real processes: the fencepost program against a real PostgreSQL and real chains
// (go-ethereum in this process, and geth as its own), with faults of processes. `make e2e` builds
// the programs first.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fencepost/fencepost/internal/pgembed"
)

// program is the built fencepost; database is the one server that all tests share, each in a schema
// of its own.
var (
	program  string
	database *pgembed.Server
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if spec := os.Getenv(externalClientEnv); spec != "" {
		return externalClient(spec)
	}
	dir, err := os.MkdirTemp("", "fencepost-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "fencepost")
	if out, err := exec.Command(
		"go", "build", "-o", program, "../cmd/fencepost",
	).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: build fencepost: %v\n%s", err, out)
		return 1
	}
	ctx := context.Background()
	settings := pgembed.Disposable()
	// for eight tests at a time with three nodes of some thirty connections each, and the remaining
	// connections of killed ones
	settings["max_connections"] = "1000"
	if database, err = pgembed.Start(ctx, pgembed.Options{Settings: settings}); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: start PostgreSQL:", err)
		return 1
	}
	defer func() { _ = database.Stop(ctx) }()
	return m.Run()
}
