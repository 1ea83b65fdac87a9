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
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// node is the process of a node, seen from outside.
type node struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ready nodeReady
	conns []*grpc.ClientConn
	ended chan error
}

const (
	nodeStart = 30 * time.Second
	nodeStop  = 30 * time.Second
	// connections are how many the callers of a node share.
	connections = 4
)

func startNode(ctx context.Context, cfg nodeConfig) (*node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &node{cmd: exec.Command(self, nodeArgument), ended: make(chan error, 1)}
	n.cmd.Stderr = os.Stderr
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // whoever interrupts the benchmark from a terminal wants its table, and the node is stopped in order
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
	for range connections {
		conn, err := grpc.NewClient(n.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(err, n.kill())
		}
		n.conns = append(n.conns, conn)
	}
	limited, cancel := context.WithTimeout(ctx, nodeStart)
	defer cancel()
	_, err = healthpb.NewHealthClient(n.conns[0]).Check(limited, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, errors.Join(err, n.kill())
	}
	return n, nil
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

// usage is what a process has used up to a moment.
type usage struct {
	cpu time.Duration
	rss float64
	memory
}

func (n *node) measure(ctx context.Context) (u usage, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.ready.Debug+"/debug/memory", nil)
	if err != nil {
		return u, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return u, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&u.memory); err != nil {
		return u, err
	}
	u.cpu, u.rss, err = processUsage(n.cmd.Process.Pid)
	return u, err
}

// saveProfile writes a profile of the node to a file.
func (n *node) saveProfile(ctx context.Context, query, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.ready.Debug+"/debug/pprof/"+query, nil)
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

// clockTick is the unit of times in /proc: 100 a second on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// processUsage reads /proc; elsewhere nothing is known.
func processUsage(pid int) (cpu time.Duration, rss float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, nil
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after) // from the third field of proc(5) on
	if len(fields) < 22 {
		return 0, 0, fmt.Errorf("/proc/%d/stat is not as expected", pid)
	}
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		ticks += n
	}
	pages, err := strconv.ParseFloat(fields[21], 64)
	return time.Duration(ticks) * clockTick, pages * float64(os.Getpagesize()), err
}

// postgresCPU is the time that the sessions of a server which are alive have used, and those that have ended.
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
			cpu, _, _ := processUsage(n)
			total += cpu
		}
	}
	return total
}

// childTime is what children that have ended used.
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
