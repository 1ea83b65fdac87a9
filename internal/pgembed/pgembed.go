// Package pgembed runs a private PostgreSQL server as a child of this process, for development and
// tests. It downloads nothing: it uses the server programs of the machine, or of an npm package.
//
// # Folder
//
// One folder has all files of a server, and is kept over restarts:
//
//	data/         the cluster, created by initdb on first use
//	sock/         the Unix socket
//	password      of the superuser over TCP
//	postgres.log  the server's log
//	lock          locked while a process uses the folder; has its pid
//
// The data appear by a rename after initdb, so an interrupted first start leaves no partial
// cluster. If the path is too long for a socket address, the socket is in a short folder under the
// temporary folder.
//
// # Account
//
// PostgreSQL refuses to run as root. For root, the server runs as the owner of the data, or on
// first use as "postgres", else "nobody". That account must be able to enter every folder on the
// path to the data and to the server programs: ReachableDir finds a place where it can.
//
// # Access
//
// Only the server's account and root can enter the socket's folder, so connections over the socket
// are trusted. TCP is off by default. It listens on 127.0.0.1 only and requires a password, because
// every local user can connect.
//
// # Process
//
// The server never outlives its parent. Stop shuts it down. If the parent is killed, the kernel (on
// Linux) signals the server to shut down, and a Start meanwhile waits for that. The lock of the
// folder, and not only PostgreSQL's own pid file, keeps two processes apart: pids mean little
// across containers.
//
// # Why not a library
//
// See "Dependencies" in CONTRIBUTING.md.
package pgembed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	superuser = "postgres"

	startLimit    = 2 * time.Minute // includes recovery after a crash
	fastLimit     = 10 * time.Second
	killLimit     = 10 * time.Second // PostgreSQL itself gives its children 5 s
	stoppingLimit = 10 * time.Second // for a server that is shutting down
	foreignLimit  = 2 * time.Second  // for a server that is not
	pollEvery     = 10 * time.Millisecond
)

// Options choose a server. The zero value is a server in a temporary folder.
type Options struct {
	// Dir is the server's folder, created if missing. If empty, the server gets a temporary folder
	// that Stop removes.
	Dir string
	// BinDir is the folder of the server programs; if empty, Find determines it.
	BinDir string
	// Settings are server settings, such as max_connections. They take precedence over
	// postgresql.conf, but not over the settings that the package needs.
	Settings map[string]string
	// TCP makes the server listen on 127.0.0.1 as well.
	TCP bool
	// Port is the TCP port; 0 chooses a free one.
	Port int
	// Log receives starts and stops; nil disables it.
	Log *slog.Logger

	seed func(*folder) error // makes the data, in place of initdb
}

// Disposable returns settings for data that may be lost when the machine fails. Commits still
// survive the death of the server, so a test may kill it.
func Disposable() map[string]string {
	return map[string]string{"fsync": "off", "full_page_writes": "off"}
}

// Server is a running PostgreSQL. Its methods are safe for concurrent use.
type Server struct {
	opts     Options
	log      *slog.Logger
	dir      *folder
	programs Programs
	port     int // also part of the socket's name; fixed by the first launch
	password string

	mu     sync.Mutex // serializes Kill, Restart, Standby and Stop
	proc   *process   // nil when the server was killed
	closed bool

	end   sync.Once
	ended chan struct{}
	err   error // set before ended is closed
}

// Start starts a server and returns when it accepts connections. The context applies to the start
// only.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("pgembed: start PostgreSQL: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, o Options) (_ *Server, err error) {
	ctx, cancel := withLimit(ctx)
	defer cancel()
	s := &Server{opts: o, log: o.Log, port: o.Port, ended: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.dir, err = openFolder(ctx, o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.dir.close())
		}
	}()
	if o.seed != nil {
		if err := o.seed(s.dir); err != nil {
			return nil, err
		}
	}
	if s.programs, err = choose(ctx, o.BinDir, s.dir); err != nil {
		return nil, err
	}
	if err := s.dir.prepare(ctx, s.programs, o.Settings["fsync"] == "off"); err != nil {
		return nil, err
	}
	if o.TCP {
		if s.password, err = s.dir.password(); err != nil {
			return nil, err
		}
	}
	return s, s.launch(ctx)
}

// URL returns the URL of a database over the socket.
func (s *Server) URL(database string) string {
	q := url.Values{"host": {s.dir.socket}, "port": {strconv.Itoa(s.port)}, "sslmode": {"disable"}}
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Path:     "/" + database,
		RawQuery: q.Encode(),
	}
	return u.String()
}

// TCPURL returns the URL of a database over TCP, with password. It is empty without Options.TCP.
func (s *Server) TCPURL(database string) string {
	if !s.opts.TCP {
		return ""
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.password), Host: s.TCPAddr(),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// TCPAddr returns host and port for TCP. It is empty without Options.TCP.
func (s *Server) TCPAddr() string {
	if !s.opts.TCP {
		return ""
	}
	return "127.0.0.1:" + strconv.Itoa(s.port)
}

// Socket returns the path of the Unix socket.
func (s *Server) Socket() string { return socketPath(s.dir.socket, s.port) }

// Dir returns the server's folder.
func (s *Server) Dir() string { return s.dir.path }

// Programs returns the server programs in use.
func (s *Server) Programs() Programs { return s.programs }

// PID returns the server's process id; 0 after Kill.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.pid
}

// Done is closed when the server has ended for good: by Stop, or unexpectedly.
func (s *Server) Done() <-chan struct{} { return s.ended }

// Err returns the cause of an unexpected exit; nil before Done and after Stop.
func (s *Server) Err() error {
	select {
	case <-s.ended:
		return s.err
	default:
		return nil
	}
}

// Run blocks until ctx ends and then stops the server. It returns an error if the server exits
// unexpectedly. It implements a service of the run package.
func (s *Server) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return s.Stop(context.WithoutCancel(ctx))
	case <-s.ended:
		return s.err
	}
}

// Stop shuts the server down, rolling back open transactions, and releases the folder. A server
// that is still up after some seconds, or when ctx ends, is stopped immediately: its next start
// recovers. Stop is idempotent.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.proc != nil {
		err = s.proc.stop(ctx)
		s.proc = nil
	}
	s.finish(nil)
	if err != nil { // the folder is still in use: keep its lock
		return fmt.Errorf("pgembed: stop PostgreSQL: %w", err)
	}
	s.log.Debug("PostgreSQL stopped", "dir", s.dir.path)
	return s.dir.close()
}

// Kill ends the server at once, as a crash would, without a checkpoint. It stays down until
// Restart; its folder stays locked.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

// Restart starts the server again in the same folder, under the same addresses. A running server is
// killed first.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("pgembed: restart PostgreSQL: the server was stopped")
	}
	if err := s.kill(); err != nil {
		return err
	}
	ctx, cancel := withLimit(ctx)
	defer cancel()
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("pgembed: restart PostgreSQL: %w", err)
	}
	return nil
}

func (s *Server) kill() error {
	if s.proc == nil {
		return nil
	}
	if err := s.proc.signal(syscall.SIGQUIT, killLimit); err != nil {
		return fmt.Errorf("pgembed: kill PostgreSQL: %w", err)
	}
	s.proc = nil
	return nil
}

// finish marks the server as ended for good; only the first call counts.
func (s *Server) finish(err error) {
	s.end.Do(func() {
		s.err = err
		close(s.ended)
	})
}

// died handles the unexpected exit of a process.
func (s *Server) died(p *process) {
	s.log.Error("PostgreSQL exited unexpectedly", "pid", p.pid, "log", s.dir.logFile())
	s.finish(
		fmt.Errorf("pgembed: PostgreSQL (pid %d) exited unexpectedly (%v): %s", p.pid, p.err,
			p.logText))
}

func withLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %v", startLimit))
}

func osRoot() bool { return os.Geteuid() == 0 }
