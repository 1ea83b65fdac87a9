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
	socketPort   = 5432 // names the socket without TCP
	portTries    = 5
	logLimit     = 16 << 20 // a larger log is rotated at start
	logTailLimit = 16 << 10 // of the log, for an error
	errorLines   = 5
)

// Failures to start that another try may resolve.
var (
	errPortTaken = errors.New("the port is taken")
	errOrphans   = errors.New("processes of a dead server still use the data")
)

// process is one process of the server, from its start to its exit.
type process struct {
	pid     int
	cmd     *exec.Cmd
	log     string // path
	from    int64  // offset in the log at its start
	stage   atomic.Int32
	done    chan struct{}
	err     error  // set before done is closed,
	logText string // as are these
}

// The stages of a process. Only an exit after stageReady is unexpected.
const (
	stageStarting int32 = iota
	stageReady
	stageEnding // stopped by us
	stageEnded
)

// launch starts the server and waits until it is ready. The caller holds s.mu, unless s is not
// shared yet.
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
		case errors.Is(err, errOrphans): // they exit soon after their server
			if end := clock.Sleep(ctx, clock.Real{}, 10*pollEvery); end != nil {
				return err
			}
		case errors.Is(err, errPortTaken) && fixed == 0 && try < portTries:
			s.port = 0 // another program was faster
		default:
			return err
		}
	}
}

// choosePort checks the port before the server does, for a clearer error.
func (s *Server) choosePort() error {
	if !s.opts.TCP {
		s.port = socketPort
		return nil
	}
	port, err := listen(s.port)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(
			"port %d on 127.0.0.1 is in use by another program: stop it, or choose another port",
			s.port)
	}
	if err != nil {
		return err
	}
	s.port = port
	return nil
}

// listen opens and closes a port, and returns its number. Port 0 chooses a free one.
func listen(port int) (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
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
	// A pid from an earlier run may belong to another process by now, which PostgreSQL would take
	// for its predecessor. It ignores the pid in this variable, and still checks whether the shared
	// memory of the data is in use.
	cmd.Env = append(cmd.Env, "PG_GRANDPARENT_PID="+strconv.Itoa(stale))
	p := &process{cmd: cmd, log: log.Name(), from: from, done: make(chan struct{})}
	if err := p.begin(s.died); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	if err := p.awaitReady(ctx, s.dir.data()); err != nil {
		if _, taken := listen(s.port); s.opts.TCP && errors.Is(taken, syscall.EADDRINUSE) {
			err = errors.Join(errPortTaken, err)
		}
		return nil, err
	}
	return p, nil
}

// arguments puts the settings that the package needs last: the last one counts.
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

// begin starts the process and waits for it in the background. The kernel sends the death signal
// when the starting thread ends, not the process, so the thread is locked.
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
		p.logText = lastLines(readFrom(p.log, p.from))
		if p.stage.Swap(stageEnded) == stageReady {
			died(p)
		}
		close(p.done)
	}()
	return <-started
}

// awaitReady polls postmaster.pid, whose status line becomes "ready".
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
			return p.startError()
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), p.signal(syscall.SIGQUIT, killLimit))
		case <-timer.C:
		}
	}
}

// startError returns the cause of an exit before the server was ready. Only PostgreSQL's own
// message names orphans: TestSpawn_Orphans pins it.
func (p *process) startError() error {
	err := fmt.Errorf("PostgreSQL did not start (%v): %s", p.err, p.logText)
	if strings.Contains(p.logText, "pre-existing shared memory block") {
		return errors.Join(errOrphans, err)
	}
	return err
}

// stop requests a fast shutdown, and an immediate one after fastLimit.
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

// signal sends a signal that ends the process, then SIGKILL, and waits for the exit.
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

// openLog opens the log for appending. A large one is renamed to .old first.
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

// readFrom reads the end of a file, from the offset on.
func readFrom(path string, from int64) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		from = max(from, info.Size()-logTailLimit)
	}
	text, _ := io.ReadAll(io.NewSectionReader(file, from, logTailLimit)) // a partial read is enough
	return string(text)
}

// lastLines joins the last lines to one; if there are errors, only those.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	bad := slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return !strings.Contains(l, "FATAL:") && !strings.Contains(l, "HINT:") &&
			!strings.Contains(l, "error:")
	})
	if len(bad) > 0 {
		lines = bad
	}
	lines = lines[max(0, len(lines)-errorLines):]
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}
