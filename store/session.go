package store

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/txn"
)

// errURL reports a wrong URL without repeating any of it: it may hold a password.
var errURL = errors.New(
	"database.url is not a PostgreSQL URL; write it as postgres://user:password@host:5432/database")

// session is the configuration of a connection whose limits the server itself enforces, even if the
// client stops.
func (s *Store) session(role string, statement, lock time.Duration) (*pgx.ConnConfig, error) {
	cfg, err := parseURL(s.cfg.URL, s.cfg.Schema)
	if err != nil {
		return nil, err
	}
	name := "fencepost/" + role + "/" + s.nodes
	cfg.RuntimeParams["application_name"] = name[:min(len(name), 63)]
	ours := map[string]string{
		"statement_timeout":                   millis(statement),
		"lock_timeout":                        millis(lock),
		"idle_in_transaction_session_timeout": millis(statement),
		// A peer that is gone without a word must not keep locks: see the fence.
		"tcp_keepalives_idle":     "5",
		"tcp_keepalives_interval": "2",
		"tcp_keepalives_count":    "3",
		"tcp_user_timeout":        millis(10 * time.Second),
		// Settings that the statements depend on, in place of the server's defaults.
		"default_transaction_isolation": "read committed",
		"jit":                           "off",
		// Of a large table a few rows are asked for, too: to start processes that help would take
		// longer than to answer.
		"max_parallel_workers_per_gather": "0",
	}
	maps.Copy(cfg.RuntimeParams, ours)
	if path, set := cfg.RuntimeParams["search_path"]; set {
		ours["search_path"] = path
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := prepareSession(ctx, conn); err != nil {
			return err
		}
		if err := verifySession(ctx, conn, ours); err != nil {
			return err
		}
		return s.verifyServer(ctx, conn)
	}
	if s.cfg.Dial != nil {
		cfg.DialFunc = s.cfg.Dial
	}
	return cfg, nil
}

// knownModes lists the modes whose submitters this program may own.
func knownModes() string {
	names := make([]string, len(txn.Modes))
	for i, m := range txn.Modes {
		names[i] = string(m)
	}
	return strings.Join(names, ",")
}

// parseURL reads a database URL; the schema becomes the search_path.
func parseURL(url, schema string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errURL
	}
	cfg.ConnectTimeout = min(cfg.ConnectTimeout, connectLimit)
	if schema != "" {
		cfg.RuntimeParams["search_path"] = pgx.Identifier{schema}.Sanitize()
	}
	return cfg, nil
}

// prepareSession declares the modes that this program knows, for the trigger lease_needs_mode, and
// turns on waiting for the disk where it is off: bytes are sent once a commit is known, and a
// server that loses the commit would sign for that nonce again. Stronger settings are left alone.
func prepareSession(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx,
		"SELECT set_config('fencepost.modes', $1, FALSE), "+
			"CASE WHEN current_setting('synchronous_commit') = 'off' "+
			"THEN set_config('synchronous_commit', 'on', FALSE) END",
		[][]byte{[]byte(knownModes())}, nil, nil, nil)
	_, err := result.Close()
	return err
}

// newPool makes a pool whose sessions plan without some paths, for as long as there is another.
func (s *Store) newPool(role string, statement, lock time.Duration, size int,
	without ...string) (*pgxpool.Pool, error) {
	session, err := s.session(role, statement, lock)
	if err != nil {
		return nil, err
	}
	for _, path := range without {
		session.RuntimeParams[path] = "off"
	}
	cfg, err := pgxpool.ParseConfig(s.cfg.URL)
	if err != nil {
		return nil, errURL
	}
	cfg.ConnConfig, cfg.MaxConns = session, int32(size)
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		registerCodecs(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, errURL
	}
	return pool, nil
}

// millis is a time limit as the server wants it; 0 would mean none.
func millis(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }
