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

	"github.com/fencepost/fencepost/queries"
	"github.com/fencepost/fencepost/store/internal/db"
)

// Migration is one step of the schema.
type Migration struct {
	Version   int64
	Name      string    // empty: this program does not know the step
	AppliedAt time.Time // zero: not applied
	ShutsOut  bool      // programs that do not know the step do not work on what it makes
}

// ErrEncoding is returned for a database that cannot store every text as it was sent.
var ErrEncoding = errors.New("the database cannot hold a ledger")

// ErrLedgerInUse says that a step back would throw away what a ledger with submitters keeps.
var ErrLedgerInUse = errors.New(
	"the ledger holds submitters: a step back loses what that step keeps, and step 1 every " +
		"transaction and every request_id, so that what was sent " +
		"could be sent again; repeat with --force if that is what you want",
)

// errRestored says that a step back would lose what nobody can find out again.
var errRestored = errors.New(
	"the ledger was restored, and this step keeps which of its transactions may have run before " +
		"that: without it they would be told as not run, and sent again. " +
		"It is not taken back, by force either; run a program that knows the step",
)

// Migrate brings the schema to the newest version, making it (and a schema of that name, if one is
// given) where there is none, and returns the steps that it took. Programs that migrate at the same
// moment wait for each other.
func Migrate(ctx context.Context, url, schema string) ([]Migration, error) {
	var done []Migration
	err := migrating(ctx, url, schema, false, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			done = append(
				done,
				Migration{
					Version:  r.Source.Version,
					Name:     r.Source.Path,
					ShutsOut: shutsOut(r.Source.Path, r.Source.Version),
				},
			)
		}
		return err
	})
	if err != nil {
		return done, fmt.Errorf("store: migrate up: %w", err)
	}
	return done, nil
}

// MigrateStatus lists all steps, oldest first, and behind them those that the database has taken
// and this program does not know.
func MigrateStatus(ctx context.Context, url, schema string) ([]Migration, error) {
	var list []Migration
	err := migrating(ctx, url, schema, false, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		for _, st := range states {
			list = append(
				list,
				Migration{
					st.Source.Version,
					st.Source.Path,
					st.AppliedAt,
					shutsOut(st.Source.Path, st.Source.Version),
				},
			)
		}
		return err
	})
	if err == nil {
		err = looking(ctx, url, schema, func(conn *pgx.Conn) error {
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

// firstShared is the step that brought min_node_schema: programs of before take their own version
// alone.
const firstShared = 8

// shutsOut tells whether programs that do not know a step work on what it makes: its file says it.
func shutsOut(file string, version int64) bool {
	text, _ := fs.ReadFile(queries.Migrations,
		"migrations/"+path.Base(file)) // a step that is known has its file
	up, _, _ := strings.Cut(string(text), "-- +goose Down")
	return version <= firstShared ||
		strings.Contains(up, fmt.Sprintf("UPDATE ledger SET min_node_schema = %d;", version))
}

// Ahead tells how far a database is ahead of this program.
type Ahead struct {
	Version int64 // newest step that the database has taken; 0: it is not ahead
	Known   int64 // newest step that this program knows
	Oldest  int64 // what a program has to know to work on it
}

func (a Ahead) Error() string {
	return fmt.Sprintf(
		"this database is at step %d, newer than the %d that this program knows: run a newer "+
			"fencepost",
		a.Version, a.Known)
}

// LookAhead finds out whether the database has taken steps that this program does not know.
func LookAhead(ctx context.Context, url, schema string) (a Ahead, err error) {
	a.Known = latest()
	err = looking(ctx, url, schema, func(conn *pgx.Conn) error {
		further, err := unknown(ctx, conn)
		if err != nil || len(further) == 0 {
			return err
		}
		a.Version = further[len(further)-1].Version
		a.Oldest, err = db.New(conn).MinNodeSchema(ctx)
		return err
	})
	if err != nil {
		return a, fmt.Errorf("store: look for newer steps: %w", err)
	}
	return a, nil
}

// unknown are the steps that the database has taken and this program does not know, oldest first.
func unknown(ctx context.Context, conn *pgx.Conn) ([]Migration, error) {
	rows, _ := conn.Query(ctx,
		"SELECT g.version_id, max(g.tstamp) FROM goose_db_version g WHERE g.is_applied AND "+
			"g.version_id > $1 GROUP BY 1 ORDER BY 1",
		latest())
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Migration, err error) {
		return m, row.Scan(&m.Version, &m.AppliedAt)
	})
	if notMadeYet(err) {
		return nil, nil
	}
	return list, err
}

// notMadeYet tells that what was asked for comes with a step that was not taken.
func notMadeYet(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == undefinedTable || pg.Code == undefinedColumn)
}

// looking opens a connection to look at the ledger.
func looking(ctx context.Context, url, schema string, look func(*pgx.Conn) error) error {
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

// errNoStep says that there is nothing to take back.
var errNoStep = errors.New("no step was taken, so there is none to take back")

// MigrateDown takes the step back that was taken last: the newest, unless one that was missing
// before it was taken after it. Where that would throw away what a ledger with submitters keeps it
// does nothing and returns ErrLedgerInUse, unless it is forced: the ledger is what keeps a request
// from being executed twice. The migration itself looks, under a lock, so that goose's own tools
// are held to it as well. Nodes must be stopped (ErrLedgerLive), and a ledger that was restored
// keeps its marks.
func MigrateDown(ctx context.Context, url, schema string, force bool) (Migration, error) {
	var undone Migration
	if err := looking(ctx, url, schema, mayGoBack(ctx)); err != nil {
		return undone, fmt.Errorf("store: migrate down: %w", err)
	}
	err := migrating(ctx, url, schema, force, func(p *goose.Provider) error {
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
		err = errNoStep
	}
	if err != nil {
		return Migration{}, fmt.Errorf("store: migrate down: %w", err)
	}
	return undone, nil
}

// mayGoBack refuses what force does not help against: steps that this program does not know, and
// nodes at work.
func mayGoBack(ctx context.Context) func(*pgx.Conn) error {
	return func(conn *pgx.Conn) error {
		further, err := unknown(ctx, conn)
		if err != nil {
			return err
		}
		if len(further) > 0 {
			return Ahead{Version: further[len(further)-1].Version, Known: latest()}
		}
		live, err := inUse(ctx, db.New(conn))
		if notMadeYet(err) {
			err = nil
		}
		return errors.Join(live, err)
	}
}

// migrating opens a provider on a connection of its own.
func migrating(ctx context.Context, url, schema string, loseLedger bool,
	step func(*goose.Provider) error) error {
	cfg, err := parseURL(url, schema)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["application_name"] = "fencepost/migrate"
	if loseLedger {
		cfg.RuntimeParams["fencepost.lose_ledger"] = "yes"
	}
	conn := stdlib.OpenDB(*cfg)
	defer conn.Close()
	if err := migrateWith(ctx, conn, schema, step); err != nil {
		return describeMigrationError(explained(ctx, conn, schema, err))
	}
	return nil
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
				// somebody else was quicker: IF NOT EXISTS does not wait for that
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
