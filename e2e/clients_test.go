package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The clients are tested from here: this starts their nodes. `make clients` builds the client
// programs.

const clientsFolder = "../clients"

// runIn runs a command in a folder, whose output is shown when it fails.
func runIn(t *testing.T, dir string, env []string, name string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// TestClientsAgainstNodes runs the tests that each client has of its own, against a real node, one
// of the same ledger that knows its callers by certificate and token, one of it whose queues are
// full with one transaction, and one that follows a script.
func TestClientsAgainstNodes(t *testing.T) {
	t.Parallel()
	c := embedded(t, 500*time.Millisecond, externalFrom+len(clientLanguages))
	n := newNode(t, c, nodeOptions{
		confirmations: 2, poll: 100 * time.Millisecond, external: externalFrom,
	})
	certs := t.TempDir()
	scripted, encrypted := startScripted(t, certs)
	guarded := prepareNode(t, c, nodeOptions{
		confirmations: 2, poll: 100 * time.Millisecond, name: "b", external: externalFrom,
		keys:   filepath.Join(n.dir, "keys"),
		secure: secure{certs: certs, clientCerts: true, tokens: writeToken(t, certs)},
	}, n.url)
	guarded.start(t)
	narrow := prepareNode(t, c, nodeOptions{
		confirmations: 2, poll: 100 * time.Millisecond, name: "c", external: externalFrom,
		keys: filepath.Join(n.dir, "keys"), queue: "max_per_submitter: 1",
	}, n.url)
	narrow.start(t)
	env := []string{
		"FENCEPOST_TEST_NODE=" + n.addr,
		"FENCEPOST_TEST_GUARDED=" + guarded.addr,
		"FENCEPOST_TEST_TOKEN=" + token,
		"FENCEPOST_TEST_NARROW=" + narrow.addr,
		"FENCEPOST_TEST_SCRIPTED=" + scripted,
		"FENCEPOST_TEST_TLS=" + encrypted,
		"FENCEPOST_TEST_CERTS=" + certs,
		"FENCEPOST_TEST_EXTERNAL=" + writeExternal(t, c, n),
	}
	for language, command := range map[string][]string{
		"go": {"go", "test", "-race", "-count=1", "./..."},
		"ts": {"npm", "test", "--silent"},
		"java": {
			"mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", "--file", "all.xml", "test",
		},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if out := runIn(
				t, filepath.Join(clientsFolder, language), env, command[0], command[1:]...,
			); strings.Contains(
				out, "\x1b") {
				t.Errorf("no terminal is there, and it is written to: %q", out)
			}
		})
	}
}

// cutter passes connections on to one node after the other, and cuts them.
type cutter struct {
	addr  string
	nodes func() string // where the next connection goes

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	heard atomic.Int64 // bytes from nodes since the last cut
}

func newCutter(t *testing.T, nodes func() string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), nodes: nodes, open: map[net.Conn]struct{}{}}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { c.pass(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); c.cut(); passing.Wait() })
	return c
}

func (c *cutter) pass(client net.Conn) {
	node, err := net.Dial("tcp", c.nodes())
	if err != nil {
		_ = client.Close()
		return
	}
	c.mu.Lock()
	c.open[client], c.open[node] = struct{}{}, struct{}{}
	c.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(node, client); _ = node.Close(); _ = client.Close() })
	both.Go(func() {
		_, _ = io.Copy(io.MultiWriter(client, tally{&c.heard}), node)
		_ = node.Close()
		_ = client.Close()
	})
	both.Wait()
	c.mu.Lock()
	delete(c.open, client)
	delete(c.open, node)
	c.mu.Unlock()
}

// tally counts the bytes written.
type tally struct{ n *atomic.Int64 }

func (c tally) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// cut resets every connection.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard.Store(0)
	for conn := range c.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(rand.IntN(2) - 1) // an end in order, or a reset
		}
		_ = conn.Close()
	}
}

// printer is a watcher program and its output.
type printer struct {
	watcher
	language string
	cutter   *cutter
	ready    chan struct{}
}

func startPrinter(t *testing.T, language string, cut *cutter, dir string,
	command ...string) *printer {
	t.Helper()
	p := &printer{
		watcher:  watcher{seqs: map[string][]uint64{}},
		language: language,
		cutter:   cut,
		ready:    make(chan struct{}),
	}
	cmd := exec.Command(command[0], append(command[1:], cut.addr, "s00")...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); p.read(out) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the watcher in %s said: %s", language, said.String())
		}
	})
	return p
}

func (p *printer) read(out io.Reader) {
	var once sync.Once
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var id string
		var seq uint64
		if n, _ := fmt.Sscanf(lines.Text(), "event %s %d", &id, &seq); n == 2 {
			p.mu.Lock()
			p.seqs[id] = append(p.seqs[id], seq)
			p.mu.Unlock()
		}
		once.Do(func() { close(p.ready) })
	}
}

// TestClients_WatchSurvivesCuts watches in each language while connections are cut, nodes are
// killed and restarted, and the other node takes over. Every event must arrive once and in order.
func TestClients_WatchSurvivesCuts(t *testing.T) {
	t.Parallel()
	c := embedded(t, 200*time.Millisecond, 1)
	cl := newCluster(t, c, 2, nodeOptions{confirmations: 2, poll: 100 * time.Millisecond},
		freshDatabase(t))
	var next atomic.Int64
	nodes := func() string { return cl.members[next.Add(1)%2].addr }
	classes, err := os.ReadFile(filepath.Join(clientsFolder, "java/target/classpath"))
	if err != nil {
		t.Fatalf("%v: run make clients first", err)
	}
	watcher := filepath.Join(t.TempDir(), "watcher")
	runIn(t, filepath.Join(clientsFolder, "go"), nil, "go", "build", "-o", watcher,
		"./internal/watcher")
	printers := []*printer{
		startPrinter(t, "go", newCutter(t, nodes), ".", watcher),
		startPrinter(t, "ts", newCutter(t, nodes), filepath.Join(clientsFolder, "ts"), "node",
			"test/watcher.js"),
		startPrinter(t, "ts for browsers", newCutter(t, nodes), filepath.Join(clientsFolder, "ts"),
			"node", "test/watcher.js", "--web"),
		startPrinter(
			t,
			"java",
			newCutter(t, nodes),
			".",
			"java",
			"-cp",
			filepath.Join(clientsFolder, "java/target/classes")+":"+filepath.Join(clientsFolder,
				"java/target/test-classes")+":"+strings.TrimSpace(string(classes)),
			"dev.fencepost.client.Watcher",
		),
	}
	for _, p := range printers {
		within(t, p.ready, "the watcher in "+p.language+" stands")
	}
	ids := []string{}
	for round := range 20 {
		for i := range 3 {
			ids = append(ids,
				cl.create(t, "s00", fmt.Sprintf("%d/%d", round, i), transfer).GetTxId())
		}
		for _, p := range printers {
			eventually(
				t,
				time.Minute,
				"the watcher in "+p.language+" gets an event",
				func() error {
					if p.cutter.heard.Load() < rand.Int64N(2000) {
						return errNotYet
					}
					return nil
				},
			)
			p.cutter.cut()
		}
		disruptNode(t, cl, round)
	}
	eventually(t, time.Minute, "all are final", func() error { return cl.unfinished(t) })
	for _, p := range printers {
		t.Run(p.language, func(t *testing.T) { p.verify(t, cl.members[0].node, ids) })
	}
}

// disruptNode kills a node in some rounds, stops it gracefully in others, and starts it again.
func disruptNode(t *testing.T, cl *cluster, round int) {
	t.Helper()
	m := cl.members[round/4%2]
	switch round % 8 {
	case 2:
		m.proc.kill()
		m.start(t)
	case 6:
		m.proc.stop(t)
		m.start(t)
	}
}

func (cl *cluster) unfinished(t *testing.T) error {
	t.Helper()
	var open int
	err := cl.pool.QueryRow(t.Context(),
		"SELECT count(*) FROM managed_tx WHERE terminal_at IS NULL").Scan(
		&open,
	)
	if err == nil && open > 0 {
		err = fmt.Errorf("%d are not final", open)
	}
	return err
}

func within(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
}
