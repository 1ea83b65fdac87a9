package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/store"
)

// database is a PostgreSQL server of the benchmark's own. Its commits wait for the disk as they
// would in production.
type database struct {
	server *pgembed.Server
	dir    string
	made   int
}

// startDatabase starts it with data in a folder; empty: in the user's cache. After a checkpoint,
// PostgreSQL writes whole pages into the WAL, which would measure the checkpoints instead of the
// transactions: so there are none.
func startDatabase(ctx context.Context, folder string) (*database, error) {
	dir := filepath.Join(folder, "fencepost-bench")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = pgembed.ReachableDir(filepath.Join(cache, "fencepost", "bench"))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	server, err := pgembed.Start(ctx, pgembed.Options{Dir: dir, Settings: map[string]string{
		"track_commit_timestamp": "on", // see delays.go
		"max_connections":        "200", "shared_buffers": "256MB", "max_wal_size": "8GB",
		"checkpoint_timeout": "1h", "full_page_writes": "off",
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.max": "1000",
		"pg_stat_statements.track_utility": "off",
	}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf(
			"PostgreSQL for the benchmark (with the extension pg_stat_statements, from its "+
				"contrib package): %w",
			err)
	}
	return &database{server: server, dir: dir}, nil
}

func (d *database) stop(ctx context.Context) error { return d.server.Stop(ctx) }

// ledger is an empty ledger in a database of its own.
type ledger struct {
	url  string
	conn *pgx.Conn // for queries of the benchmark
}

func (d *database) newLedger(ctx context.Context) (*ledger, error) {
	d.made++
	name := fmt.Sprintf("bench_%d", d.made)
	admin, err := pgx.Connect(ctx, d.server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer admin.Close(ctx)
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name,
	} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("make a database: %w", err)
		}
	}
	l := &ledger{url: d.server.URL(name)}
	if _, err := store.Migrate(ctx, l.url, ""); err != nil {
		return nil, err
	}
	if l.conn, err = pgx.Connect(ctx, l.url); err != nil {
		return nil, err
	}
	if _, err = l.conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements"); err == nil {
		err = l.setAutovacuum(ctx, "ALTER SYSTEM RESET autovacuum")
	}
	if err != nil {
		return nil, errors.Join(err, l.conn.Close(ctx))
	}
	return l, nil
}

func (l *ledger) close() { _ = l.conn.Close(context.Background()) }

// pauseAutovacuum keeps autovacuum from beginning in any database, until the next ledger is made.
// Each table that it analyzes is a transaction, which would count as one of Fencepost. After such a
// transaction the feed may also need one more (see FeedHead).
func (l *ledger) pauseAutovacuum(ctx context.Context) error {
	return l.setAutovacuum(ctx, "ALTER SYSTEM SET autovacuum = off")
}

func (l *ledger) setAutovacuum(ctx context.Context, statement string) error {
	for _, sql := range []string{statement, "SELECT pg_reload_conf() -- pg_stat_statements"} {
		if _, err := l.conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("set autovacuum: %w", err)
		}
	}
	return nil
}

// work is the work of a server so far.
type work struct {
	statements, commits, walBytes float64
	by                            map[string]float64 // statements by their name in queries/
	spent                         map[string]float64 // microseconds in them
	// rows by table, and again those whose next version stayed on the page ("hot")
	updates map[string]float64
	at      time.Time
}

// measure reads the counters: statements in this database, transactions of the server that wrote
// (each took an xid and waited for the disk), and bytes of WAL.
func (l *ledger) measure(ctx context.Context) (work, error) {
	w := work{
		by:      map[string]float64{},
		spent:   map[string]float64{},
		updates: map[string]float64{},
		at:      time.Now(),
	}
	err := l.conn.QueryRow(ctx,
		`SELECT pg_snapshot_xmax(pg_current_snapshot())::TEXT::NUMERIC::FLOAT8, `+
			`(pg_current_wal_insert_lsn() - '0/0')::FLOAT8`).
		Scan(&w.commits, &w.walBytes)
	if err != nil {
		return w, err
	}
	// sqlc puts "-- name: X :many" before each statement.
	rows, err := l.conn.Query(
		ctx,
		`SELECT coalesce(substring(query FROM '-- name: (\w+)'), 'other') AS name,
		  sum(calls)::FLOAT8, sum(total_exec_time)::FLOAT8 * 1000
		FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database
		  WHERE datname = current_database()) AND query NOT LIKE '%pg_stat_statements%'
		 AND query NOT LIKE '%pg_current_wal_insert_lsn%' GROUP BY 1`,
	)
	if err != nil {
		return w, err
	}
	var name string
	var calls, spent float64
	_, err = pgx.ForEachRow(rows, []any{&name, &calls, &spent}, func() error {
		w.by[name], w.spent[name] = calls, spent
		w.statements += calls
		return nil
	})
	if err != nil {
		return w, err
	}
	return w, l.measureUpdates(ctx, w.updates)
}

// events is how many have happened.
func (l *ledger) events(ctx context.Context) (n float64, err error) {
	err = l.conn.QueryRow(ctx,
		"SELECT count(*)::FLOAT8 FROM tx_event -- pg_stat_statements: not counted").Scan(
		&n,
	)
	return n, err
}

// measureUpdates reads the statistics, which sessions update once a second.
func (l *ledger) measureUpdates(ctx context.Context, updates map[string]float64) error {
	rows, err := l.conn.Query(ctx,
		"SELECT relname, n_tup_upd::FLOAT8, n_tup_hot_upd::FLOAT8 FROM pg_stat_user_tables WHERE "+
			"n_tup_upd > 0 -- pg_stat_statements: not counted")
	if err != nil {
		return err
	}
	var table string
	var all, hot float64
	_, err = pgx.ForEachRow(rows, []any{&table, &all, &hot}, func() error {
		updates[table], updates[table+" hot"] = all, hot
		return nil
	})
	return err
}

// since is the work after an earlier moment.
func (w work) since(before work) work {
	return work{
		statements: w.statements - before.statements, commits: w.commits - before.commits,
		walBytes: w.walBytes - before.walBytes,
		by: less(w.by,
			before.by), spent: less(w.spent, before.spent),
		updates: less(w.updates, before.updates), at: w.at,
	}
}

// less is the difference to an earlier count, without unchanged entries.
func less(after, before map[string]float64) map[string]float64 {
	d := map[string]float64{}
	for name, n := range after {
		if n -= before[name]; n > 0 {
			d[name] = n
		}
	}
	return d
}
