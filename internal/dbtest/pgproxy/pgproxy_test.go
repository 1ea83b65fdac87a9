package pgproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/pgembed"
)

// server is one for all tests; each has a table of its own.
var server *pgembed.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = pgembed.Start(context.Background(),
		pgembed.Options{TCP: true, Settings: pgembed.Disposable()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience is for waits that end by an event: it is there to fail, not to measure.
const patience = 20 * time.Second

var benches atomic.Int32

// bench is a proxy, a connection through it, one beside it, and a table.
type bench struct {
	*Proxy
	t      *testing.T
	conn   *pgx.Conn
	direct *pgx.Conn
	table  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	p, err := Start(server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{Proxy: p, t: t, table: fmt.Sprintf("bench_%d", benches.Add(1))}
	b.conn, b.direct = b.connect(p.URL()), b.connect(server.URL("postgres"))
	b.exec(b.direct, "create table "+b.table+" (id int primary key)")
	b.exec(b.direct, "insert into "+b.table+" values (0)")
	return b
}

func (b *bench) connect(url string) *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), url)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (b *bench) exec(conn *pgx.Conn, sql string, args ...any) {
	b.t.Helper()
	if _, err := conn.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// insert has an argument, so it goes by the extended protocol.
func (b *bench) insert(ctx context.Context, conn interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, id int) error {
	_, err := conn.Exec(ctx, "insert into "+b.table+" values ($1)", id)
	return err
}

func (b *bench) rows() (n int) {
	b.t.Helper()
	if err := b.direct.QueryRow(b.t.Context(), "select count(*) from "+b.table+
		" where id > 0").Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// free reports whether another session could change row 0.
func (b *bench) free() bool {
	b.t.Helper()
	rows, err := b.direct.Query(b.t.Context(),
		"select id from "+b.table+" where id = 0 for update skip locked")
	if err != nil {
		b.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.t.Fatal(err)
	}
	return len(ids) == 1
}

func (b *bench) await(what string, ok func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			b.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func (b *bench) fired(r *Rule) {
	b.t.Helper()
	select {
	case <-r.Fired():
	case <-time.After(patience):
		b.t.Fatalf("the rule did not fire within %v", patience)
	}
}

// unknown wants an error that does not claim to know the outcome.
func (b *bench) unknown(err error) {
	b.t.Helper()
	var pg *pgconn.PgError
	if err == nil || errors.As(err, &pg) || pgconn.SafeToRetry(err) {
		b.t.Errorf("the client received %v (safe to retry: %v)", err, pgconn.SafeToRetry(err))
	}
}

func TestProxy_NoRule_PassesThrough(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 2 { // first prepares, then uses the prepared statement
		var got string
		err := b.conn.QueryRow(t.Context(), "select repeat('x', $1::int)", 200_000).Scan(&got)
		if err != nil || len(got) != 200_000 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	var pg *pgconn.PgError
	if err := b.insert(t.Context(), b.conn, 0); !errors.As(err, &pg) || pg.Code != "23505" {
		t.Errorf("a duplicate: %v", err)
	}
	if n, err := b.conn.CopyFrom(t.Context(), pgx.Identifier{b.table}, []string{"id"},
		pgx.CopyFromSlice(1000, func(i int) ([]any, error) {
			return []any{i + 1}, nil
		})); n != 1000 ||
		err != nil {
		t.Errorf("copied %d, %v", n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.conn.Exec(ctx, "select pg_sleep(60)"); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("a query that was given up: %v", err)
	}
	if got := b.rows(); got != 1000 {
		t.Errorf("%d rows", got)
	}
}

func TestProxy_TCP_ManyClients(t *testing.T) {
	t.Parallel()
	p, err := Start(server.TCPURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			conn, err := pgx.Connect(t.Context(), p.URL())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(context.Background())
			for n := range 50 {
				var got int
				err := conn.QueryRow(t.Context(), "select $1::int + $2::int", i, n).Scan(&got)
				if err != nil || got != i+n {
					t.Errorf("%d + %d = %d, %v", i, n, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// Each way to run a statement ends with the work done and the client in the dark.
func TestLoseReply(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		match Match
		run   func(context.Context, *bench) error
	}{
		"commit": {Commit, func(ctx context.Context, b *bench) error {
			return pgx.BeginFunc(ctx, b.conn, func(tx pgx.Tx) error { return b.insert(ctx, tx, 1) })
		}},
		"statement": {Running("insert"), func(ctx context.Context, b *bench) error {
			return b.insert(ctx, b.conn, 1)
		}},
		"prepared statement": {Running("insert"), func(ctx context.Context, b *bench) error {
			_, err := b.conn.Prepare(ctx, "by_name", "insert into "+b.table+" values ($1)")
			if err != nil {
				return err
			}
			_, err = b.conn.Exec(ctx, "by_name", 1)
			return err
		}},
		"simple statement": {Running("insert"), func(ctx context.Context, b *bench) error {
			_, err := b.conn.Exec(ctx, "insert into "+b.table+" values (1)")
			return err
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lost := b.On(tt.match, LoseReply)
			b.unknown(tt.run(t.Context(), b))
			b.fired(lost)
			if got := b.rows(); got != 1 {
				t.Errorf("%d rows", got)
			}
			other := b.connect(b.URL())
			if err := b.insert(t.Context(), other, 2); err != nil {
				t.Errorf("a rule works once: %v", err)
			}
		})
	}
}

// The answers before the lost one arrive, on the same connection and in one go.
func TestLoseReply_Pipeline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lost := b.On(Running("values (2)"), LoseReply)
	pipe := b.conn.PgConn().StartPipeline(t.Context())
	for id := 1; id <= 3; id++ {
		pipe.SendQueryParams(fmt.Sprintf("insert into %s values (%d)", b.table, id), nil, nil, nil,
			nil)
		if err := pipe.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	results, err := pipe.GetResults()
	if err != nil {
		t.Fatalf("the first answer: %v", err)
	}
	if tag, err := results.(*pgconn.ResultReader).Close(); err != nil || tag.RowsAffected() != 1 {
		t.Errorf("the first answer: %v, %v", tag, err)
	}
	for err == nil {
		var next any
		if next, err = pipe.GetResults(); err == nil && next == nil {
			break
		}
		if r, ok := next.(*pgconn.ResultReader); ok {
			_, err = r.Close()
		}
	}
	b.unknown(err)
	b.fired(lost)
	b.await("two rows", func() bool { return b.rows() >= 2 })
	_ = pipe.Close()
}

func TestLoseReply_ErrorReply(t *testing.T) {
	t.Parallel()
	t.Run("of the statement", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.On(Running("insert"), LoseReply)
		b.unknown(b.insert(t.Context(), b.conn, 0))
	})
	t.Run("of a step before", func(t *testing.T) { // Bind fails, and Execute is skipped
		t.Parallel()
		b := newBench(t)
		// Bind plans the statement and evaluates its constants: it fails once the lock is free,
		// after Execute has met its rule.
		b.exec(b.direct,
			"create function "+b.table+"(int) returns int immutable language plpgsql as 'begin "+
				"perform pg_advisory_xact_lock($1); raise; end'")
		b.exec(b.direct, "select pg_advisory_lock(7)")
		b.On(Running("insert"), LoseReply)
		result := make(chan error, 1)
		go func() {
			_, err := b.conn.PgConn().ExecParams(t.Context(),
				"insert into "+b.table+" select "+b.table+"($1)", [][]byte{[]byte("7")}, nil, nil,
				nil).Close()
			result <- err
		}()
		b.await("Execute is met", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.rules) == 0
		})
		b.exec(b.direct, "select pg_advisory_unlock(7)")
		b.unknown(<-result)
	})
}

func TestCutMidway(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]Match{
		"execute": Running("insert"),
		"sync":    func(m Message) bool { return m.Type == 'S' },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if _, err := b.conn.Prepare(t.Context(), "ready", "insert into "+b.table+
				" values ($1)"); err != nil {
				t.Fatal(err)
			}
			cut := b.On(match, CutMidway)
			_, err := b.conn.Exec(t.Context(), "ready", 1)
			b.unknown(err)
			b.fired(cut)
			b.await("the end of the server's session",
				func() bool { return b.sessions("true") == 0 })
			if got := b.rows(); got != 0 {
				t.Errorf("%d rows of a statement that the server had in part", got)
			}
		})
	}
}

// sessions counts the server's sessions of which a condition holds and that last
// ran something on our table, our own look aside.
func (b *bench) sessions(condition string) (n int) {
	b.t.Helper()
	sql := "select count(*) from pg_stat_activity where query like '%' || $1 || ' %' and pid <> " +
		"pg_backend_pid() and " + condition
	if err := b.direct.QueryRow(b.t.Context(), sql, b.table).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func TestClose_OpenConnections(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hold := b.On(Running("insert"), HoldAfter)
	result := make(chan error, 1)
	go func() { result <- b.insert(t.Context(), b.conn, 1) }()
	b.fired(hold)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	b.unknown(<-result)
}

func TestThrough(t *testing.T) {
	t.Parallel()
	p, err := Start(server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	got, err := pgx.ParseConfig(
		p.Through("postgres://me:secret@db.example:1234/ledger?search_path=x&sslmode=require"))
	if err != nil {
		t.Fatal(err)
	}
	if got.User != "me" || got.Password != "secret" || got.Database != "ledger" ||
		got.RuntimeParams["search_path"] != "x" ||
		got.Host != p.dir {
		t.Errorf("%+v", got.Config)
	}
	if _, err := Start("postgres://me:secret@db:x/"); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("Start: %v", err)
	}
}

// An encrypted connection cannot be read. Clients that request encryption receive a no and continue
// without.
func TestProxy_TLSRequest_Declined(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn, err := net.Dial("unix", b.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, code := range []uint32{tlsRequest, gssRequest} {
		request := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, code)
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 1)
		if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != 'N' {
			t.Errorf("answered %q, %v", answer, err)
		}
	}
}
