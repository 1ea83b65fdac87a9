package pgembed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

const (
	socketPort  = 5432 // names the socket when there is no TCP
	portTries   = 5
	logLimit    = 16 << 20 // a larger log makes way at start
	wordsLimit  = 16 << 10 // of the log, for an error
	linesOfWord = 5
)

// The two ways to fail that another try may cure. The texts are PostgreSQL's own.
var (
	errPortTaken = errors.New("the port is taken")
	errOrphans   = errors.New("processes of a dead server still use the data")
)

// process is one life of the server.
type process struct {
	pid   int
	cmd   *exec.Cmd
	log   string // path
	from  int64  // where this life's words begin in the log
	stage atomic.Int32
	done  chan struct{}
	err   error  // set before done is closed,
	words string // as are these
}

// The stages of a process. An end is news only after stageReady.
const (
	stageStarting int32 = iota
	stageReady
	stageEnding // as we wished
	stageEnded
)

// launch starts the server and waits until it is ready. The caller holds s.mu,
// or nobody else knows s yet.
func (s *Server) launch(ctx context.Context) error {
	for try := 1; ; try++ {
		fixed := s.port
		if err := s.choosePort(); err != nil {
			return err
		}
		p, err := s.spawn(ctx)
		switch {
		case err == nil:
			s.proc = p
			s.log.Debug("PostgreSQL started", "dir", s.dir.path, "pid", p.pid, "version",
				s.programs.Major)
			return nil
		case errors.Is(err, errOrphans): // they notice soon that their server is gone
			if end := clock.Sleep(ctx, clock.Real{}, 10*pollEvery); end != nil {
				return err
			}
		case errors.Is(err, errPortTaken) && fixed == 0 && try < portTries:
			s.port = 0 // somebody was quicker
		default:
			return err
		}
	}
}

// choosePort asks for the port before the server does, for a better sentence.
func (s *Server) choosePort() error {
	if !s.opts.TCP {
		s.port = socketPort
		return nil
	}
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(s.port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(
			"port %d on 127.0.0.1 is in use by another program: stop it, or choose another port",
			s.port)
	}
	if err != nil {
		return err
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	return l.Close()
}

func (s *Server) spawn(ctx context.Context) (*process, error) {
	stale, err := awaitPredecessor(ctx, s.dir.data())
	if err != nil {
		return nil, err
	}
	log, from, err := openLog(s.dir.logFile())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := s.dir.account.command(
		context.WithoutCancel(ctx),
		s.dir.path,
		filepath.Join(s.programs.Dir, "postgres"),
		s.arguments()...)
	cmd.SysProcAttr = s.dir.account.attributes(syscall.SIGINT)
	cmd.Stdout, cmd.Stderr = log, log
	// A pid from the last life may be some other process's by now, and PostgreSQL
	// would take that for its predecessor. It spares the pid that this names, and
	// still checks whether the data's shared memory is in use.
	cmd.Env = append(cmd.Env, "PG_GRANDPARENT_PID="+strconv.Itoa(stale))
	p := &process{cmd: cmd, log: log.Name(), from: from, done: make(chan struct{})}
	if err := p.begin(s.died); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	if err := p.awaitReady(ctx, s.dir.data()); err != nil {
		return nil, err
	}
	return p, nil
}

// arguments puts our own settings last: the last one wins.
func (s *Server) arguments() []string {
	listen := ""
	if s.opts.TCP {
		listen = "127.0.0.1"
	}
	settings := []string{"timezone=UTC", "log_timezone=UTC"}
	for _, name := range slices.Sorted(maps.Keys(s.opts.Settings)) {
		settings = append(settings, name+"="+s.opts.Settings[name])
	}
	settings = append(settings, "listen_addresses="+listen, "port="+strconv.Itoa(s.port),
		"unix_socket_directories="+s.dir.socket, "unix_socket_permissions=0700")
	args := []string{"-D", s.dir.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// begin starts the process and follows it to its end. The death signal comes
// when the starting thread ends, not the process: so the thread stays.
func (p *process) begin(died func(*process)) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if err == nil {
			p.pid = p.cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		p.words = lastLines(readFrom(p.log, p.from))
		if p.stage.Swap(stageEnded) == stageReady {
			died(p)
		}
		close(p.done)
	}()
	return <-started
}

// awaitReady reads the server's own file, which says so in one word.
func (p *process) awaitReady(ctx context.Context, data string) error {
	for {
		if f := readPIDFile(data); f.pid == p.pid && f.status == "ready" &&
			p.stage.CompareAndSwap(stageStarting, stageReady) {
			return nil
		}
		timer := clock.Real{}.NewTimer(pollEvery)
		select {
		case <-p.done:
			timer.Stop()
			return p.whyNot()
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), p.signal(syscall.SIGQUIT, killLimit))
		case <-timer.C:
		}
	}
}

// whyNot is why the process ended before it was ready.
func (p *process) whyNot() error {
	err := fmt.Errorf("PostgreSQL did not start (%v): %s", p.err, p.words)
	switch {
	case strings.Contains(p.words, "pre-existing shared memory block"):
		return errors.Join(errOrphans, err)
	case strings.Contains(p.words, "Address already in use"):
		return errors.Join(errPortTaken, err)
	default:
		return err
	}
}

// stop asks for a fast shutdown, and insists when that takes too long.
func (p *process) stop(ctx context.Context) error {
	p.stage.CompareAndSwap(stageReady, stageEnding)
	_ = p.cmd.Process.Signal(syscall.SIGINT) // fails only when it has ended
	limit := clock.Real{}.NewTimer(fastLimit)
	defer limit.Stop()
	select {
	case <-p.done:
		return nil
	case <-limit.C:
	case <-ctx.Done():
	}
	return p.signal(syscall.SIGQUIT, killLimit)
}

// signal sends a signal that ends the process, and waits for the end.
func (p *process) signal(sig syscall.Signal, limit time.Duration) error {
	p.stage.CompareAndSwap(stageReady, stageEnding)
	for _, sig := range []syscall.Signal{sig, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(sig) // fails only when it has ended
		timer := clock.Real{}.NewTimer(limit)
		select {
		case <-p.done:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
	return fmt.Errorf("PostgreSQL with pid %d does not end", p.pid)
}

// openLog opens the log for appending. One that has grown large is put aside.
func openLog(path string) (log *os.File, size int64, err error) {
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, 0, err
		}
	}
	log, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := log.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, log.Close())
	}
	return log, info.Size(), nil
}

// readFrom reads the end of a file, and nothing from before the offset.
func readFrom(path string, from int64) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		from = max(from, info.Size()-wordsLimit)
	}
	text, _ := io.ReadAll(io.NewSectionReader(file, from, wordsLimit)) // what can be read will do
	return string(text)
}

// lastLines makes one line of the last few, complaints alone when there are any.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	bad := slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return !strings.Contains(l, "FATAL:") && !strings.Contains(l, "HINT:") &&
			!strings.Contains(l, "error:")
	})
	if len(bad) > 0 {
		lines = bad
	}
	lines = lines[max(0, len(lines)-linesOfWord):]
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}
