package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/queries"
	"github.com/fencepost/fencepost/store/internal/db"
)

// Migration is one migration of the schema.
type Migration struct {
	Version   int64
	Name      string    // empty: this program does not know it
	AppliedAt time.Time // zero: not applied
	ShutsOut  bool      // programs that do not know the migration cannot work on its schema
}

// ErrEncoding is returned for a database that cannot store every text as it was sent.
var ErrEncoding = errors.New("the database cannot hold a ledger")

// ErrLedgerInUse is returned for a migration back that would lose data of a ledger with submitters.
var ErrLedgerInUse = errors.New(
	"the ledger has submitters: undoing a migration loses its data, and undoing the first one " +
		"every transaction and request_id, so that transactions could be sent twice; repeat with " +
		"--force to lose them",
)

// errRestored is returned for a migration back that would lose data that cannot be recovered.
var errRestored = errors.New(
	"the ledger was restored: without this migration, transactions that may have been executed " +
		"would be reported as not executed, and sent again; it cannot be undone, even with " +
		"--force; " +
		"run a program that knows it",
)

// Migrate brings the schema to the newest version and returns the applied migrations. It creates
// the schema, with the given name if there is one. Programs that migrate at the same time wait for
// each other.
func Migrate(ctx context.Context, url, schema string) ([]Migration, error) {
	var done []Migration
	err := withProvider(ctx, url, schema, false, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		if partly, ok := errors.AsType[*goose.PartialError](err); ok {
			results = partly.Applied
		}
		for _, r := range results {
			done = append(done, Migration{
				Version:  r.Source.Version,
				Name:     r.Source.Path,
				ShutsOut: shutsOut(r.Source.Path, r.Source.Version),
			})
		}
		return err
	})
	if err != nil {
		return done, fmt.Errorf("store: migrate up: %w", err)
	}
	return done, nil
}

// MigrateStatus lists all migrations, oldest first, followed by the applied ones that this program
// does not know.
func MigrateStatus(ctx context.Context, url, schema string) ([]Migration, error) {
	var list []Migration
	err := withProvider(ctx, url, schema, false, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		for _, st := range states {
			list = append(list, Migration{
				Version:   st.Source.Version,
				Name:      st.Source.Path,
				AppliedAt: st.AppliedAt,
				ShutsOut:  shutsOut(st.Source.Path, st.Source.Version),
			})
		}
		return err
	})
	if err == nil {
		err = withConn(ctx, url, schema, func(conn *pgx.Conn) error {
			further, err := unknown(ctx, conn)
			list = append(list, further...)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("store: read the migration status: %w", err)
	}
	return list, nil
}

// firstShared is the migration that added min_node_schema: older programs accept only their own
// version.
const firstShared = 8

// shutsOut reports whether programs that do not know a migration are locked out; its file declares
// that.
func shutsOut(file string, version int64) bool {
	// a known migration has its file
	text, _ := fs.ReadFile(queries.Migrations, "migrations/"+path.Base(file))
	up, _, _ := strings.Cut(string(text), "-- +goose Down")
	return version <= firstShared ||
		strings.Contains(up, fmt.Sprintf("UPDATE ledger SET min_node_schema = %d;", version))
}

// Ahead reports how far a database is ahead of this program.
type Ahead struct {
	Version int64 // newest migration of the database; 0: it is not ahead
	Known   int64 // newest migration that this program knows
	Oldest  int64 // schema that a program must know to work on it
}

func (a Ahead) Error() string {
	return fmt.Sprintf(
		"the database has migration %d, this program knows up to %d; run a newer fencepost",
		a.Version, a.Known)
}

// LookAhead returns whether the database has migrations that this program does not know.
func LookAhead(ctx context.Context, url, schema string) (a Ahead, err error) {
	a.Known = latest()
	err = withConn(ctx, url, schema, func(conn *pgx.Conn) error {
		further, err := unknown(ctx, conn)
		if err != nil || len(further) == 0 {
			return err
		}
		a.Version = further[len(further)-1].Version
		a.Oldest, err = db.New(conn).MinNodeSchema(ctx)
		return err
	})
	if err != nil {
		return a, fmt.Errorf("store: read newer migrations: %w", err)
	}
	return a, nil
}

// unknown returns the applied migrations that this program does not know, oldest first.
func unknown(ctx context.Context, conn *pgx.Conn) ([]Migration, error) {
	rows, _ := conn.Query(ctx,
		"SELECT g.version_id, max(g.tstamp) FROM goose_db_version g WHERE g.is_applied AND "+
			"g.version_id > $1 GROUP BY 1 ORDER BY 1",
		latest())
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Migration, err error) {
		return m, row.Scan(&m.Version, &m.AppliedAt)
	})
	if isMissing(err) {
		return nil, nil
	}
	return list, err
}

// isMissing reports whether an object is missing because a migration was not applied.
func isMissing(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == undefinedTable || pg.Code == undefinedColumn)
}

// withConn opens a connection to read the ledger.
func withConn(ctx context.Context, url, schema string, look func(*pgx.Conn) error) error {
	cfg, err := parseURL(url, schema)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["application_name"] = "fencepost/migrate"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return describeMigrationError(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return describeMigrationError(look(conn))
}

// errNoMigration is returned when there is no migration to undo.
var errNoMigration = errors.New("no migration is applied")

// MigrateDown undoes the migration that was applied last: the newest, unless an older one was
// applied after it. If that would lose data of a ledger with submitters it does nothing and returns
// ErrLedgerInUse, unless it is forced: the ledger is what prevents a request from being executed
// twice. The migration itself checks this under a lock, so that goose's own tools obey it too.
// Nodes must be stopped (ErrLedgerLive), and a restored ledger keeps its marks.
func MigrateDown(ctx context.Context, url, schema string, force bool) (Migration, error) {
	var undone Migration
	if err := withConn(ctx, url, schema, checkMigrateDown(ctx)); err != nil {
		return undone, fmt.Errorf("store: migrate down: %w", err)
	}
	err := withProvider(ctx, url, schema, force, func(p *goose.Provider) error {
		result, err := p.Down(ctx)
		if result != nil {
			undone = Migration{
				Version:  result.Source.Version,
				Name:     result.Source.Path,
				ShutsOut: shutsOut(result.Source.Path, result.Source.Version),
			}
		}
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case objectInUse:
			err = ErrLedgerInUse
		case notInThisState:
			err = errRestored
		}
	}
	if errors.Is(err, goose.ErrNoNextVersion) {
		err = errNoMigration
	}
	if err != nil {
		return Migration{}, fmt.Errorf("store: migrate down: %w", err)
	}
	return undone, nil
}

// checkMigrateDown rejects the cases that force does not allow: unknown migrations, and running
// nodes.
func checkMigrateDown(ctx context.Context) func(*pgx.Conn) error {
	return func(conn *pgx.Conn) error {
		further, err := unknown(ctx, conn)
		if err != nil {
			return err
		}
		if len(further) > 0 {
			return Ahead{Version: further[len(further)-1].Version, Known: latest()}
		}
		live, err := inUse(ctx, db.New(conn))
		if isMissing(err) {
			err = nil
		}
		return errors.Join(live, err)
	}
}

// withProvider opens a provider on a separate connection.
func withProvider(ctx context.Context, url, schema string, loseLedger bool,
	step func(*goose.Provider) error) error {
	cfg, err := parseURL(url, schema)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["application_name"] = "fencepost/migrate"
	if loseLedger {
		cfg.RuntimeParams["fencepost.lose_ledger"] = "yes"
	}
	cfg.RuntimeParams["lock_timeout"] = millis(migrationLock)
	conn := stdlib.OpenDB(*cfg)
	defer conn.Close()
	err = migrateWith(ctx, conn, schema, step)
	for try := 1; lacksLock(err) && try < migrationTries; try++ {
		if err := clock.Sleep(ctx, clock.Real{}, migrationPause); err != nil {
			return err
		}
		err = migrateWith(ctx, conn, schema, step)
	}
	if lacksLock(err) {
		return errNoLock
	}
	if err != nil {
		return describeMigrationError(explained(ctx, conn, schema, err))
	}
	return nil
}

// A migration locks tables that running nodes use. While it waits for a lock, statements that want
// the same table wait behind it, and they may hold a lock that it needs. So it waits for a short
// time, gives up all its locks, and is repeated: it is undone, or its statements may be repeated.
const (
	migrationLock  = 2 * time.Second // below the default duration of a lease
	migrationPause = time.Second
	migrationTries = 40 // two minutes
)

// errNoLock is returned for a migration that did not get its locks.
var errNoLock = errors.New("other sessions hold locks on the tables; end long transactions, then " +
	"run the command again")

// lacksLock reports whether a migration failed because it did not get a lock.
func lacksLock(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == deadlockDetected || pg.Code == lockNotAvailable)
}

func migrateWith(ctx context.Context, conn *sql.DB, schema string,
	step func(*goose.Provider) error) error {
	var encoding string
	if err := conn.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: its encoding is %s; create one with ENCODING 'UTF8'", ErrEncoding,
			encoding)
	}
	if schema != "" {
		// Asked first: who may not create schemas may well use the one that is there.
		var there bool
		if err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE "+
			"nspname = $1)", schema).Scan(&there); err != nil {
			return err
		}
		if !there {
			_, err := conn.ExecContext(ctx,
				"CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize())
			if pg, ok := errors.AsType[*pgconn.PgError](err); ok &&
				// another process was faster: IF NOT EXISTS does not wait for it
				pg.Code == uniqueViolation {
				err = nil
			}
			if err != nil {
				return err
			}
		}
	}
	files, err := fs.Sub(queries.Migrations, "migrations")
	if err != nil {
		return err
	}
	const everySecond, forTwoMinutes = 1, 120
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID(schema)),
		lock.WithLockTimeout(everySecond, forTwoMinutes))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, files,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true),
		// a step that is missing in the middle is taken like any other
		goose.WithAllowOutofOrder(true))
	if err != nil {
		return err
	}
	return step(provider)
}

// lockID is the advisory lock of a schema's migrations: ledgers in other schemas of a database need
// not wait.
func lockID(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("fencepost/migrate/" + schema))
	return int64(h.Sum64())
}

// describeMigrationError explains a failed migration. Its SQL is ours and holds no data, so the
// server's words may be repeated here; a failure to connect is named as everywhere.
func describeMigrationError(err error) error {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return describeError(err)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code != objectInUse &&
		pg.Code != notInThisState {
		return fmt.Errorf("%s (SQLSTATE %s)", pg.Message, pg.Code)
	}
	return err
}
