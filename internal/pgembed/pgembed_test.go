package pgembed

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/run/runtest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir := template.dir; dir != "" {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// template is a folder made once, since initdb takes most of a start's time.
var template struct {
	sync.Once
	dir string
	err error
}

// usedDir is a folder that has data: a copy of the template.
func usedDir(t *testing.T) string {
	t.Helper()
	template.Do(func() {
		if template.dir, template.err = os.MkdirTemp("", "pgembed-template-"); template.err != nil {
			return
		}
		if template.err = os.Chmod(template.dir, 0o711); template.err != nil {
			return
		}
		var s *Server
		if s, template.err = Start(context.Background(),
			Options{Dir: template.dir, Settings: Disposable()}); template.err == nil {
			template.err = s.Stop(context.Background())
		}
	})
	if template.err != nil {
		t.Fatal(template.err)
	}
	dir := filepath.Join(publicDir(t), "pg")
	if out, err := exec.Command("cp", "-a", template.dir, dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the template: %v: %s", err, out)
	}
	return dir
}

// publicDir is a folder that any account can enter, unlike t.TempDir.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgembed-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustStart(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Settings == nil {
		o.Settings = Disposable()
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var v T
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestServer_Restart_KeepsData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(publicDir(t), "pg")
	s := mustStart(t, Options{Dir: dir})
	execute(t, s.URL("postgres"), "create table kept as select 7 as n")
	url := s.URL("postgres")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = mustStart(t, Options{Dir: dir})
	if got := query[int](t, s.URL("postgres"), "select n from kept"); got != 7 {
		t.Errorf("read %d", got)
	}
	if s.URL("postgres") != url {
		t.Errorf("the address was %s and is %s", url, s.URL("postgres"))
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t), Settings: map[string]string{
		"max_connections": "17", "fsync": "off", "listen_addresses": "0.0.0.0",
		"timezone": "Europe/Paris",
	}})
	for name, want := range map[string]string{
		"max_connections": "17", "fsync": "off", "listen_addresses": "", "timezone": "Europe/Paris",
		"server_encoding": "UTF8", "log_timezone": "UTC", "synchronous_commit": "on",
	} {
		got := query[string](t, s.URL("postgres"), "select current_setting('"+name+"')")
		if got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestStart_BadSetting_Named(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(),
		Options{Dir: usedDir(t), Settings: map[string]string{"fsync": "off", "no_such_thing": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_thing") {
		t.Errorf("Start: %v", err)
	}
}

func TestStop_TemporaryFolder_Removed(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{})
	if got := query[int](t, s.URL("postgres"), "select 1"); got != 1 {
		t.Error(got)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", s.Dir(), err)
	}
}

func TestTCP_RequiresPassword(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t), TCP: true})
	url := s.TCPURL("postgres")
	if got := query[string](t, url, "select host(inet_server_addr())"); got != "127.0.0.1" {
		t.Errorf("the server listens on %s", got)
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"", "wrong"} {
		cfg.Password = password
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if err == nil {
			conn.Close(t.Context())
		}
		var pgErr *pgconn.PgError
		if err == nil || errors.As(err, &pgErr) && pgErr.Code != "28P01" {
			t.Errorf("with the password %q: %v", password, err)
		}
	}
}

func TestTCP_OffByDefault(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t)})
	if s.TCPURL("x") != "" || s.TCPAddr() != "" {
		t.Errorf("it has an address: %s", s.TCPAddr())
	}
	info, err := os.Stat(filepath.Dir(s.Socket()))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder: %v, %v", info.Mode(), err)
	}
}

func TestStart_PortInUse_Refused(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t), TCP: true})
	_, err := Start(t.Context(),
		Options{Dir: usedDir(t), TCP: true, Port: s.port, Settings: Disposable()})
	if err == nil ||
		!strings.Contains(err.Error(),
			"is in use by another program: stop it, or choose another port") {
		t.Errorf("Start: %v", err)
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t), TCP: true})
	url, pid := s.TCPURL("postgres"), s.PID()
	execute(t, url, "create table kept as select 7 as n")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Errorf("Kill again: %v", err)
	}
	if s.PID() != 0 || alive(pid) {
		t.Errorf("pid %d lives, PID returns %d", pid, s.PID())
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Error("connected to a dead server")
	}
	for range 2 { // from dead, and from alive
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.TCPURL("postgres") != url {
			t.Error("the address moved")
		}
		if got := query[int](t, url, "select n from kept"); got != 7 {
			t.Errorf("read %d", got)
		}
	}
	select {
	case <-s.Done():
		t.Error("Done after a kill that we wished for")
	default:
	}
}

func TestServer_Killed_ReportsError(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t)})
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "signal: killed") ||
		!errors.Is(s.Err(), err) {
		t.Errorf("Run: %v, Err: %v", err, s.Err())
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t)})
	idle, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close(context.Background())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.Stop(t.Context()); err != nil {
				t.Errorf("Stop: %v", err)
			}
			if pid := s.PID(); pid != 0 {
				t.Errorf("Stop returned while pid %d lives", pid)
			}
		})
	}
	wg.Wait()
	if err := s.Restart(t.Context()); err == nil {
		t.Error("a stopped server was restarted: its folder is not held any more")
	}
	if <-s.Done(); s.Err() != nil {
		t.Errorf("Err: %v", s.Err())
	}
	log, err := os.ReadFile(s.dir.logFile())
	if err != nil || !strings.Contains(string(log), "received fast shutdown request") ||
		strings.Contains(string(log), "received immediate") {
		t.Errorf("not a fast shutdown: %v\n%s", err, log)
	}
}

// A context that has ended makes a shutdown the hard one.
func TestStop_ContextEnds_Immediate(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(s.dir.logFile())
	if err != nil || !strings.Contains(string(log), "received immediate shutdown request") {
		t.Errorf("not an immediate shutdown: %v\n%s", err, log)
	}
	if s = mustStart(t, Options{Dir: s.Dir()}); query[int](t, s.URL("postgres"), "select 1") != 1 {
		t.Error("no answer")
	}
}

func TestStress(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	var turn sync.Mutex
	runtest.Stress(t, func() func(context.Context) error {
		return func(ctx context.Context) error {
			turn.Lock()
			defer turn.Unlock()
			s, err := Start(ctx, Options{Dir: dir, Settings: Disposable()})
			if err != nil {
				if ctx.Err() != nil {
					return context.Canceled
				}
				return err
			}
			return s.Run(ctx)
		}
	})
}

func TestStart_ContextEnds_GivesUp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(publicDir(t), "pg")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // within initdb
	defer cancel()
	if _, err := Start(ctx, Options{Dir: dir}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start: %v", err)
	}
	if s := mustStart(t, Options{Dir: dir}); query[int](t, s.URL("postgres"), "select 1") != 1 {
		t.Error("an interrupted start spoiled the folder")
	}
}

// Another program may take a chosen port before the server binds it.
func TestSpawn_PortTaken(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t), TCP: true})
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.port = taken.Addr().(*net.TCPAddr).Port
	if _, err := s.spawn(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("spawn on a taken port: %v", err)
	}
}

// A backend that did not notice the death of its server still uses the shared memory of the data.
func TestSpawn_Orphans(t *testing.T) {
	t.Parallel()
	s := mustStart(t, Options{Dir: usedDir(t)})
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	backend := int(conn.PgConn().PID())
	if err := syscall.Kill(backend, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(backend, syscall.SIGCONT) //nolint:errcheck // gone if the test succeeds
	server := s.proc
	if err := server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-server.done
	if _, err := s.spawn(t.Context()); !errors.Is(err, errOrphans) {
		t.Errorf("spawn beside an orphan: %v", err)
	}
	if err := syscall.Kill(backend, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Errorf("restart after the orphan: %v", err)
	}
}
