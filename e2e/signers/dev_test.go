package signers

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDemo runs the development node with each signer, and sends the calls of the demo, which
// compares ledger and chain.
func TestDemo(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "aws,pkcs11", "-o", bin,
		"../../cmd/fencepost-dev", "../../examples/demo")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, signer := range []string{"clef", "softhsm", "local-kms"} {
		t.Run(signer, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "fencepost-dev-") // PostgreSQL's account must reach it
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			grpc, ops := port(t), port(t)
			rpc := port(t)
			startDev(t, filepath.Join(bin, "fencepost-dev"), "--signer", signer, "--dir", dir,
				"--grpc", "127.0.0.1:"+grpc, "--ops", "127.0.0.1:"+ops, "--rpc-port", rpc,
				"--period", "200ms")
			demo := exec.CommandContext(t.Context(), filepath.Join(bin, "demo"), "--server",
				"127.0.0.1:"+grpc, "--rpc", "http://127.0.0.1:"+rpc, "--timeout", "3m")
			if text, err := demo.CombinedOutput(); err != nil {
				t.Errorf("the demo failed: %v: %s", err, text)
			}
		})
	}
}

// port returns a port that was free a moment ago.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// startDev starts the development node until the test ends.
func startDev(t *testing.T, program string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var output bytes.Buffer
	running := make(chan struct{})
	command := exec.Command(program, arguments...)
	command.Stdout = &watched{to: &output, text: "Fencepost is running", seen: running}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := <-ended; err != nil {
			t.Errorf("the development node ended: %v", err)
		}
	})
	select {
	case <-running:
	case err := <-ended:
		ended <- err
		t.Fatalf("the development node did not start: %s", &output)
	case <-ctx.Done():
		t.Fatal("the development node did not start in time")
	}
}

// watched closes seen once the text was written.
type watched struct {
	to   *bytes.Buffer
	text string
	seen chan struct{}
	done bool
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if !w.done && strings.Contains(w.to.String(), w.text) {
		w.done = true
		close(w.seen)
	}
	return n, err
}
