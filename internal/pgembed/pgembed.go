// Package pgembed runs a private PostgreSQL server as a child of this process,
// for development and tests. It downloads nothing: it uses the server programs
// that the machine has, or those of an npm package.
//
// # Folder
//
// All that a server keeps is in one folder, which stays over restarts:
//
//	data/         the cluster, made by initdb on first use
//	sock/         the Unix socket
//	password      of the superuser over TCP
//	postgres.log  what the server says
//	lock          held while a process uses the folder; holds its pid
//
// The data appear by a rename when initdb is through, so an interrupted first
// start leaves no half-made cluster. A path that is too long for a socket's
// address gets its socket in a short folder under the temporary one.
//
// # Account
//
// PostgreSQL refuses to run as root. When we are root the server runs as the
// owner of the data, or on first use as "postgres", else "nobody". That account
// must be able to enter every folder on the way to the data and to the server
// programs: ReachableDir finds a place where it can.
//
// # Access
//
// The socket's folder is closed to all but the server's account and root, and
// who can open the socket is trusted. TCP is off unless asked for, bound to
// 127.0.0.1, and always wants a password, since any local user reaches it.
//
// # Life
//
// The server must not outlive us. Stop shuts it down; when this process dies
// without a word the kernel (on Linux) tells the server to shut down, and a
// Start that comes meanwhile waits for that. The folder's lock, and not only
// PostgreSQL's own pid file, keeps two processes apart: pids mean little across
// containers.
//
// # Why not a library
//
// github.com/fergusstrange/embedded-postgres is maintained, but by default it downloads binaries
// when it starts, initdb refuses to run under it as root, and the port is fixed. Its API is Start
// and Stop: the fence tests also need a crash, a restart in place and a standby. It adds lib/pq
// beside pgx.
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

	startLimit    = 2 * time.Minute // recovery after a crash included
	fastLimit     = 10 * time.Second
	killLimit     = 10 * time.Second // PostgreSQL itself gives its children 5 s
	stoppingLimit = 10 * time.Second // for a server that is on its way out
	handoverLimit = 2 * time.Second  // for one that shows no sign of it
	pollEvery     = 10 * time.Millisecond
)

// Options choose a server. The zero value is a server in a temporary folder.
type Options struct {
	// Dir holds the server's folder, made when it is missing. Empty means a
	// temporary folder that Stop removes.
	Dir string
	// BinDir holds the server programs; empty means to search: see Find.
	BinDir string
	// Settings are server settings, such as max_connections. They win over
	// postgresql.conf, and lose to what the package needs for its own.
	Settings map[string]string
	// TCP makes the server listen on 127.0.0.1 as well.
	TCP bool
	// Port is the TCP port; 0 means a free one.
	Port int
	// Log is told of starts and stops; nil means nobody.
	Log *slog.Logger

	seed func(*folder) error // makes the data, in place of initdb
}

// Disposable are settings for data that nobody will miss when the machine
// fails. Commits still survive the death of the server, so a test may kill it.
func Disposable() map[string]string {
	return map[string]string{"fsync": "off", "full_page_writes": "off"}
}

// Server is a running PostgreSQL. Its methods are safe for concurrent use.
type Server struct {
	opts     Options
	log      *slog.Logger
	dir      *folder
	programs Programs
	port     int // of the socket's name too; fixed by the first launch
	password string

	mu     sync.Mutex // one change of life at a time
	proc   *process   // nil when the server was killed
	closed bool

	end   sync.Once
	ended chan struct{}
	err   error // set before ended is closed
}

// Start starts a server and returns when it accepts connections. The context
// bounds the start alone.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("pgembed: start: %w", err)
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

// URL is the address of a database over the socket.
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

// TCPURL is the address of a database over TCP, password included. It is empty
// unless TCP was asked for.
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

// TCPAddr is the host and port of TCP; it is empty unless TCP was asked for.
func (s *Server) TCPAddr() string {
	if !s.opts.TCP {
		return ""
	}
	return "127.0.0.1:" + strconv.Itoa(s.port)
}

// Socket is the path of the Unix socket.
func (s *Server) Socket() string { return socketPath(s.dir.socket, s.port) }

// Dir is the server's folder.
func (s *Server) Dir() string { return s.dir.path }

// Programs are those that the server was started from.
func (s *Server) Programs() Programs { return s.programs }

// PID is the process id of the server; it is 0 when the server was killed.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.pid
}

// Done is closed when the server has ended for good: by Stop, or by itself.
func (s *Server) Done() <-chan struct{} { return s.ended }

// Err is why the server ended by itself; it is nil before Done and after Stop.
func (s *Server) Err() error {
	select {
	case <-s.ended:
		return s.err
	default:
		return nil
	}
}

// Run blocks until ctx ends and then stops the server, or until the server ends
// by itself, which is an error. It makes a service of the run package.
func (s *Server) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return s.Stop(context.WithoutCancel(ctx))
	case <-s.ended:
		return s.err
	}
}

// Stop shuts the server down, rolling back what is open, and gives the folder
// free. A server that is not down after some seconds, or when ctx ends, is
// stopped the hard way: its next start recovers. Stop may be called again.
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
		return fmt.Errorf("pgembed: stop: %w", err)
	}
	s.log.Debug("PostgreSQL stopped", "dir", s.dir.path)
	return s.dir.close()
}

// Kill ends the server at once, as a crash would: no checkpoint, no goodbye.
// It stays down until Restart, with its folder still held.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

// Restart starts the server anew in the same place, under the same addresses;
// one that runs is killed first.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("pgembed: restart: the server was stopped")
	}
	if err := s.kill(); err != nil {
		return err
	}
	ctx, cancel := withLimit(ctx)
	defer cancel()
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("pgembed: restart: %w", err)
	}
	return nil
}

func (s *Server) kill() error {
	if s.proc == nil {
		return nil
	}
	if err := s.proc.signal(syscall.SIGQUIT, killLimit); err != nil {
		return fmt.Errorf("pgembed: kill: %w", err)
	}
	s.proc = nil
	return nil
}

// finish tells everybody once that there will be no server any more.
func (s *Server) finish(err error) {
	s.end.Do(func() {
		s.err = err
		close(s.ended)
	})
}

// died is told by a process that ended although nobody wished it to.
func (s *Server) died(p *process) {
	s.log.Error("PostgreSQL ended by itself", "pid", p.pid, "log", s.dir.logFile())
	s.finish(
		fmt.Errorf("pgembed: PostgreSQL (pid %d) ended by itself (%v): %s", p.pid, p.err, p.words))
}

func withLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %v", startLimit))
}

func osRoot() bool { return os.Geteuid() == 0 }
