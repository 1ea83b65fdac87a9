package pgembed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childArg makes the test program a process that runs a server in a folder.
const childArg = "pgembed-child"

// child prints the server's pid and the account it runs as, and then waits for
// its input to end, which a stop follows.
func child() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Start(ctx, Options{Dir: os.Args[2], Settings: Disposable()})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.PID())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Stop(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// startChild runs a copy of the test program, which other accounts may read.
func startChild(t *testing.T, dir string,
	cred *syscall.Credential) (cmd *exec.Cmd, stdin io.Closer, pid int) {
	t.Helper()
	program := filepath.Join(publicDir(t), "child")
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, program, self)
	cmd = exec.Command(program, childArg, dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatalf("the child printed: %s", line)
	}
	return cmd, in, pid
}

// writeProgram writes a file that is about to be run. A child that another test forks meanwhile
// would inherit the open file, and nothing runs while it is open for writing.
func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func uidOf(t *testing.T, pid int) uint32 {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

func TestServer_ParentKilled_ShutsDown(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	cmd, _, pid := startChild(t, dir, nil)
	if !alive(pid) {
		t.Fatal("the server is not there")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The next start waits for the end by itself, and fails when there is none.
	s := mustStart(t, Options{Dir: dir})
	if query[int](t, s.URL("postgres"), "select 1") != 1 {
		t.Error("no answer")
	}
}

func TestStart_FolderInUse_Refused(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	cmd, _, _ := startChild(t, dir, nil)
	_, err := Start(t.Context(), Options{Dir: dir})
	want := fmt.Sprintf(
		"the process with pid %d already runs a PostgreSQL in %s: stop it, or choose another "+
			"folder",
		cmd.Process.Pid, dir)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Start: %v, want %s", err, want)
	}
}

// A server started on our data by another program does not hold our lock.
func TestStart_ForeignServer_Refused(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t)})
	pid := s.PID()
	_, err := awaitPredecessor(t.Context(), s.dir.data())
	if err == nil ||
		!strings.Contains(err.Error(),
			fmt.Sprintf("a PostgreSQL with pid %d already runs on", pid)) {
		t.Errorf("awaitPredecessor: %v", err)
	}
}

// After a reboot the pid in the file may belong to any process. Here it is one of the server's own
// account, which PostgreSQL alone would take for its predecessor.
func TestStart_StalePIDFile(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t)})
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	other := s.dir.account.command(t.Context(), "/", "/bin/sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	file := filepath.Join(s.dir.data(), "postmaster.pid")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("the killed server left no file: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	stale := []byte(strconv.Itoa(other.Process.Pid) + "\n" + rest)
	if err := os.WriteFile(file, stale, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStart_OtherUser(t *testing.T) {
	t.Parallel()
	if !osRoot() {
		t.Log("this user is not root: every other test shows what this one would")
		return
	}
	dir := publicDir(t)
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "pg")
	cmd, stdin, pid := startChild(t, dir, &syscall.Credential{Uid: nobody, Gid: nobody})
	if got := uidOf(t, pid); got != nobody {
		t.Errorf("the server runs as %d", got)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	// Root then serves the data as their owner.
	s := mustStart(t, Options{Dir: dir})
	if got := uidOf(t, s.PID()); got != nobody {
		t.Errorf("root's server runs as %d", got)
	}
	if query[int](t, s.URL("postgres"), "select 1") != 1 {
		t.Error("no answer")
	}
}

func TestStart_Root_DropsPrivileges(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t)})
	if got := uidOf(t, s.PID()); got == 0 || got != s.dir.account.uid {
		t.Errorf("the server runs as %d, want %v", got, s.dir.account)
	}
}
