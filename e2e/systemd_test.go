package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// exposure is the most that "systemd-analyze security" may report, in tenths.
const exposure = "20"

// TestSystemd_Unit_Valid checks the unit file: its keys, its program, and its hardening.
func TestSystemd_Unit_Valid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/systemd/fencepost.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "fencepost.service")
	const installed = "/usr/local/bin/fencepost"
	if !strings.Contains(string(text), "ExecStart="+installed+" ") {
		t.Errorf("the unit does not start %s", installed)
	}
	writeFile(t, unit, strings.ReplaceAll(string(text), installed, program))
	for _, args := range [][]string{
		{"verify", unit},
		{"security", "--offline=yes", "--threshold=" + exposure, unit},
	} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
		}
	}
}

// TestSystemd_Notifies starts a node as systemd does, and expects its notifications: ready, signs
// of life, and the stop.
func TestSystemd_Notifies(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	c := embedded(t, time.Second, 1)
	n := prepareNode(t, c, nodeOptions{confirmations: 1, poll: time.Second}, freshDatabase(t))
	n.migrate(t)
	command := exec.Command(program, "serve", "--config", n.config)
	command.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=100000")
	n.proc = startProcess(t, command, filepath.Join(n.dir, "node.log"))
	states := make(chan string, 100)
	go func() {
		defer close(states)
		for buffer := make([]byte, 100); ; {
			size, err := manager.Read(buffer)
			if err != nil {
				return
			}
			states <- string(buffer[:size])
		}
	}()
	expect := func(want string) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			select {
			case got := <-states:
				if got == want {
					return
				}
				if got != "READY=1" && got != "WATCHDOG=1" {
					t.Fatalf("got %q, want %q", got, want)
				}
			case <-limit:
				t.Fatalf("no %q", want)
			}
		}
	}
	expect("READY=1")
	expect("WATCHDOG=1")
	expect("WATCHDOG=1")
	n.proc.stop(t)
	expect("STOPPING=1")
}
