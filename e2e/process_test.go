package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var errNotYet = errors.New("not yet")

// eventually waits for a condition.
func eventually(t *testing.T, limit time.Duration, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		err := condition()
		if err == nil {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
	}
}

// process is a program that runs until it is killed or the test ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startGroup is startProcess for a program that starts others: they are one group, which can be
// interrupted as a terminal would, and is killed in the end.
func startGroup(t *testing.T, cmd *exec.Cmd, log string) *process {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := startProcess(t, cmd, log)
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return p
}

// startProcess starts a program whose output goes to a file, which is shown when the test fails.
func startProcess(t *testing.T, cmd *exec.Cmd, log string) *process {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		_ = out.Close()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			tail(t, log)
		}
	})
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop asks the process to stop and waits; it must exit with success.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the process did not stop within 20 s of SIGTERM")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the process ended with exit code %d after SIGTERM", code)
	}
}

// tail shows the end of a log once, however many processes have written it.
func tail(t *testing.T, log string) {
	const most = 6000
	text, err := os.ReadFile(log)
	if err != nil {
		return
	}
	if len(text) > most {
		text = text[len(text)-most:]
	}
	t.Logf("end of %s:\n%s", log, text)
	_ = os.Remove(log)
}

// ports are allocated in turn, from below the kernel's ephemeral range. A free port from that range
// could become a client connection, or be allocated again, before its process listens.
var ports atomic.Int64

const firstPort, portCount = 15000, 15000

func freePort(t *testing.T) string {
	t.Helper()
	for range portCount {
		port := strconv.Itoa(firstPort + int((int64(os.Getpid())*100+ports.Add(1))%portCount))
		if l, err := net.Listen("tcp4", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

func address(port string) string { return fmt.Sprintf("127.0.0.1:%s", port) }

func portOf(t *testing.T, rawURL string) int {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
