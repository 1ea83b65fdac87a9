package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/config"
)

// TestEvents_TryIt follows "Try it" of docs/events.md. It does not run beside tests that use the
// ports of `make run`.
func TestEvents_TryIt(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	text := section(t, documentOf(t, root, "docs/events.md"), "## Try it")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("the section has %d blocks of commands", len(blocks))
	}
	terminal := func(name, block string) (p *process, output func() string) {
		cmd, log := exec.Command("bash", "-euc", block), filepath.Join(t.TempDir(), name)
		cmd.Dir = root
		return startGroup(t, cmd, log), func() string {
			said, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			return string(said)
		}
	}
	says := func(output func() string, word string) {
		eventually(t, 2*time.Minute, word, func() error {
			if !strings.Contains(output(), word) {
				return errNotYet
			}
			return nil
		})
	}
	dev := startDev(t, root, "make run")
	defer dev.interrupt(t)
	defer forgetSink(t, root, "local")
	_, received := terminal("receiver.log", blocks[0][1])
	eventually(t, 2*time.Minute, "the receiver listens", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:8099")
		if err != nil {
			return err
		}
		return c.Close()
	})
	second, log := terminal("node.log", blocks[1][1])
	says(log, "node serving")
	for _, line := range dev.pasted(t) {
		if strings.Contains(line, "--watch") {
			id := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindString(
				bash(t, root, line))
			says(received, id+"/5 dev.fencepost.tx.confirmed")
		}
	}
	if list := bash(t, root, "bin/fencepost sink list"); !strings.Contains(list, "local") {
		t.Errorf("sink list:\n%s", list)
	}
	if err := syscall.Kill(-second.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-second.done
}

// forgetSink removes a sink from the ledger of `make run`, which is the developer's, and its files.
func forgetSink(t *testing.T, root, name string) {
	t.Helper()
	for _, file := range []string{"sink.secret", "sink.yaml"} {
		if err := os.Remove(filepath.Join(root, ".run", file)); err != nil {
			t.Error(err)
		}
	}
	cfg, err := config.Load(config.Source{File: filepath.Join(root, ".run", "fencepost.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), cfg.Database.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	for _, table := range []string{"sink_parked", "sink_cursor", "sink_lease"} {
		if _, err := db.Exec(t.Context(), "DELETE FROM "+
			pgx.Identifier{cfg.Database.Schema, table}.Sanitize()+" WHERE sink = $1",
			name); err != nil {
			t.Error(err)
		}
	}
	if list := bash(t, root, "bin/fencepost sink list"); strings.Contains(list, name) {
		t.Errorf("sink list still has it:\n%s", list)
	}
}
