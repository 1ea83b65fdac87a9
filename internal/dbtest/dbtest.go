// Package dbtest gives each test a ledger of its own on a real PostgreSQL, in milliseconds.
//
// One server runs per test process: an embedded one whose cluster is kept between runs, or the one
// that FENCEPOST_TEST_DATABASE_URL names. A test gets a schema, made by the real migrations and
// dropped at the end.
//
// Every schema carries the guard (guard.sql): triggers that check, when a transaction commits,
// whether each ledger row that it wrote was written under the live fencing token of its submitter
// or as one of the intents that need none, and whether every move has its event. The guard is
// independent of the store's own checks. A write past the fence fails every test.
package dbtest

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost/queries"
)

//go:embed guard.sql
var guard string

const setupLimit = time.Minute

// DB is a ledger of one test.
type DB struct {
	URL     string // of the database, as its owner
	NodeURL string // of the database, as the role of nodes; give it to a store with Schema
	Schema  string
	Pool    *pgxpool.Pool // for the test's own statements, within the schema

	server *server
}

// Option changes the schema that New creates.
type Option func(*options)

type options struct{ guarded bool }

// WithoutGuard leaves the guard out, for tests of a ledger without any protection.
func WithoutGuard() Option { return func(o *options) { o.guarded = false } }

// New makes a ledger for a test, and drops it when the test has ended.
func New(t testing.TB, opts ...Option) *DB {
	t.Helper()
	o := options{guarded: true}
	for _, apply := range opts {
		apply(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	s, err := started(ctx)
	if err != nil {
		t.Fatalf("dbtest: no PostgreSQL for the tests (%v); install one, or set %s", err,
			URLVariable)
	}
	schema := "t_" + strings.ToLower(rand.Text()[:12])
	db := &DB{URL: s.url, NodeURL: s.nodeURL(), Schema: schema, server: s}
	if err := db.migrate(ctx, o.guarded); err != nil {
		t.Fatalf("dbtest: make a schema: %v", err)
	}
	t.Cleanup(func() { db.drop(t) })
	cfg, err := pgxpool.ParseConfig(db.ScopedURL())
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	cfg.MaxConns = 16
	if db.Pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(db.Pool.Close)
	return db
}

// ScopedURL is a URL that leads into the schema by itself.
func (db *DB) ScopedURL() string { return scoped(db.URL, db.Schema) }

// ScopedNodeURL is ScopedURL for the role of nodes.
func (db *DB) ScopedNodeURL() string { return scoped(db.NodeURL, db.Schema) }

// TCPAddr is where a proxy reaches the server.
func (db *DB) TCPAddr() string {
	u := db.server.tcp
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "5432")
	}
	return u.Host
}

// Through is URL by way of a proxy that listens on the address and leads to TCPAddr.
func (db *DB) Through(address string) string {
	u := *db.server.tcp
	u.Host = address
	return u.String()
}

func scoped(text, schema string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text // the connection reports the error
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

func (db *DB) migrate(ctx context.Context, guarded bool) error {
	err := onConn(ctx, db.URL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE SCHEMA "+db.Schema)
		return err
	})
	if err != nil {
		return err
	}
	cfg, err := pgx.ParseConfig(db.ScopedURL())
	if err != nil {
		return err
	}
	conn := stdlib.OpenDB(*cfg)
	defer conn.Close()
	files, err := fs.Sub(queries.Migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, files,
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, queries.NodeGrants(db.Schema, nodeRole)); err != nil {
		return err
	}
	if !guarded {
		return nil
	}
	_, err = conn.ExecContext(ctx, guard)
	return err
}

func (db *DB) drop(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	err := onConn(ctx, db.URL, func(conn *pgx.Conn) error {
		// Sessions of clients that were stopped or cut off may still hold locks.
		const end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid <> " +
			"pg_backend_pid() AND relation IN " +
			"(SELECT oid FROM pg_class WHERE relnamespace = $1::text::regnamespace)"
		if _, err := conn.Exec(ctx, end, db.Schema); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "DROP SCHEMA "+db.Schema+" CASCADE")
		return err
	})
	if err != nil {
		t.Errorf("dbtest: drop the schema: %v", err)
	}
}

// Main wraps the tests of a package and stops the server after them, before a check for leaked
// goroutines:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Main(m)) }
//
// Without it the server stops by itself when the process ends.
func Main(m interface{ Run() int }) interface{ Run() int } { return main{m} }

type main struct{ tests interface{ Run() int } }

func (m main) Run() int {
	code := m.tests.Run()
	startOnce.Do(func() {}) // a server that never was is none to stop
	if running == nil {
		return code
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	if err := running.stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest: stop the server:", err)
		return max(code, 1)
	}
	return code
}
