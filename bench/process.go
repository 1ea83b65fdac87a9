package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fencepost/fencepost/bench/internal/wire"
)

// node is the process of a node, seen from outside.
type node struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ready wire.Ready
	conns []*grpc.ClientConn
	ended chan error
}

const (
	nodeStart = 30 * time.Second
	nodeStop  = 30 * time.Second
	buildTime = 10 * time.Minute
	// connections are how many the callers of a node share.
	connections = 4
)

// nodeProgram finds the program of the node: the one that is named, or else the one beside this
// program.
func nodeProgram(named string) (string, error) {
	path := named
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		path = filepath.Join(filepath.Dir(self), "bench-node")
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf(
			`the program of the node is not at %s: run "make bench", which builds it, or build `+
				`it with "go build -o bin/bench-node ./bench/node" and name it with -node `+
				`bin/bench-node`,
			path)
	}
	return filepath.Abs(path) // or it would be looked for in PATH
}

// older reports whether a program was built before another by more than the build time of both. It
// may then contain other code.
func older(program, than string) bool {
	one, err := os.Stat(program)
	if err != nil {
		return false
	}
	other, err := os.Stat(than)
	return err == nil && other.ModTime().Sub(one.ModTime()) > buildTime
}

func startNode(ctx context.Context, program string, cfg wire.Config) (*node, error) {
	n := &node{cmd: exec.Command(program), ended: make(chan error, 1)}
	n.cmd.Stderr = os.Stderr
	n.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true,
	} // an interrupt from the terminal still prints the table and stops the node in order
	var err error
	if n.in, err = n.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(n.in).Encode(cfg); err != nil {
		return nil, errors.Join(err, n.kill())
	}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&n.ready); err != nil {
		return nil, errors.Join(fmt.Errorf("the node did not start: %w", err), n.kill())
	}
	go func() { n.ended <- n.cmd.Wait() }()
	if err := n.connect(ctx); err != nil {
		return nil, errors.Join(err, n.kill())
	}
	return n, nil
}

// connect makes connections for callers, and waits until it serves them.
func (n *node) connect(ctx context.Context) error {
	for range connections {
		conn, err := grpc.NewClient(n.ready.GRPC,
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		n.conns = append(n.conns, conn)
	}
	limited, cancel := context.WithTimeout(ctx, nodeStart)
	defer cancel()
	_, err := healthpb.NewHealthClient(n.conns[0]).Check(limited, &healthpb.HealthCheckRequest{},
		grpc.WaitForReady(true))
	return err
}

// stop ends it in order.
func (n *node) stop() error {
	for _, c := range n.conns {
		_ = c.Close()
	}
	_ = n.in.Close()
	select {
	case err := <-n.ended:
		return err
	case <-time.After(nodeStop):
		return errors.Join(errors.New("the node did not stop in time"), n.kill())
	}
}

// kill ends it at once, as a crash would.
func (n *node) kill() error { return n.cmd.Process.Kill() }

// usage is the CPU time of a process so far.
type usage struct {
	cpu time.Duration
	resident
	wire.Memory
}

// resident is the memory of a process, in bytes. The rest is shared memory, which a node does not
// have.
type resident struct {
	rss  float64 // all of it
	anon float64 // its own: heap, stacks, runtime
	file float64 // pages of its program, which the system can take away and read again
}

func (n *node) measure(ctx context.Context) (u usage, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+n.ready.Debug+wire.MemoryPath, nil)
	if err != nil {
		return u, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return u, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&u.Memory); err != nil {
		return u, err
	}
	if u.cpu, err = processTime(n.cmd.Process.Pid); err != nil {
		return u, err
	}
	u.resident, err = residentOf(n.cmd.Process.Pid)
	return u, err
}

// saveProfile writes a profile of the node to a file.
func (n *node) saveProfile(ctx context.Context, query, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+n.ready.Debug+wire.ProfilesPath+query, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, answer.Body)
	return errors.Join(err, f.Close())
}

// profileSelf profiles this program until the returned function is called.
func profileSelf(path string) (end func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return func() error { return nil }, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return f.Close, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// ownCPU is the time that this program has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// clockTick is the unit of times in /proc: 100 a second on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// processTime reads /proc; elsewhere nothing is known.
func processTime(pid int) (cpu time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, nil
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after) // from the third field of proc(5) on
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is not as expected", pid)
	}
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// residentOf reads /proc likewise.
func residentOf(pid int) (r resident, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return r, nil
	}
	fields := map[string]*float64{"VmRSS": &r.rss, "RssAnon": &r.anon, "RssFile": &r.file}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		field := fields[name]
		if field == nil {
			continue
		}
		kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"),
			64)
		if err != nil {
			return r, fmt.Errorf("/proc/%d/status is not as expected: %w", pid, err)
		}
		*field = kilobytes * 1024
		delete(fields, name)
	}
	if len(fields) > 0 {
		return r, fmt.Errorf("/proc/%d/status lacks VmRSS, RssAnon or RssFile", pid)
	}
	return r, nil
}

// postgresCPU is the time that the sessions of a server which are alive have used, and those that
// have ended.
func postgresCPU(dir string) time.Duration {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(string(text), "\n", 2)[0]))
	if err != nil {
		return 0
	}
	total := childTime(pid)
	tasks, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0
	}
	for _, child := range strings.Fields(string(tasks)) {
		if n, err := strconv.Atoi(child); err == nil {
			cpu, _ := processTime(n)
			total += cpu
		}
	}
	return total
}

// childTime is the CPU time of children that have ended.
func childTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	var ticks int64
	for _, f := range fields[13:15] { // cutime, cstime
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}
