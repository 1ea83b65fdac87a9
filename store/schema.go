package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/fencepost/fencepost/queries"
)

// Migration is one step of the schema.
type Migration struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero: not applied
}

// ErrLedgerInUse says that a step back would throw away a ledger that holds submitters.
var ErrLedgerInUse = errors.New("the ledger holds submitters: a step back would lose every transaction and every request_id, " +
	"and what was sent could be sent again; repeat with force if that is what you want")

// CheckSchema compares the steps that the database has taken with those that this program was built for: ErrSchema says which of the two is older, and what to do.
// A step that is missing in the middle counts like one at the end. A newer schema is good as long as its steps say that programs of this one's version still work on
// it, so that nodes of two releases can work side by side.
func (s *Store) CheckSchema(ctx context.Context) error {
	taken, err := s.own().SchemaVersions(ctx)
	if why := s.absent(ctx, err); why != nil {
		return fmt.Errorf("store: check the schema: %w", why)
	}
	if err != nil {
		return s.failed(ctx, "check the schema", err)
	}
	steps := known()
	wanted, version := slices.Max(steps), int64(0)
	if len(taken) > 0 {
		version = slices.Max(taken)
	}
	for _, step := range steps {
		switch {
		case slices.Contains(taken, step):
		case version < wanted:
			return fmt.Errorf("store: check the schema: %w: it has version %d and this program needs %d; run \"fencepost migrate up\"", ErrSchema, version, wanted)
		default:
			return fmt.Errorf("store: check the schema: %w: it has version %d, but not its step %d; run \"fencepost migrate up\"", ErrSchema, version, step)
		}
	}
	if version == wanted {
		return nil
	}
	oldest, err := s.own().MinNodeSchema(ctx)
	if err != nil {
		return s.failed(ctx, "check the schema", err)
	}
	if oldest > wanted {
		return fmt.Errorf("store: check the schema: %w: this program is older than the database, which has version %d and needs a program that knows %d at least, where "+
			"%d is known here; run a newer fencepost", ErrSchema, version, oldest, wanted)
	}
	return nil
}

// latest is the newest version that this program knows.
func latest() int64 { return slices.Max(known()) }

// known are the versions of the steps that this program knows.
func known() (versions []int64) {
	names, _ := fs.Glob(queries.Migrations, "migrations/*.sql") // the pattern is good
	for _, name := range names {
		if v, err := goose.NumericComponent(name); err == nil {
			versions = append(versions, v)
		}
	}
	return versions
}

// Migrate brings the schema to the newest version, making it (and a schema of that name, if one is given) where there is none, and returns the steps that it
// took. Programs that migrate at the same moment wait for each other.
func Migrate(ctx context.Context, url, schema string) ([]Migration, error) {
	var done []Migration
	err := migrating(ctx, url, schema, false, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			done = append(done, Migration{Version: r.Source.Version, Name: r.Source.Path})
		}
		return err
	})
	if err != nil {
		return done, fmt.Errorf("store: migrate up: %w", err)
	}
	return done, nil
}

// MigrateStatus lists all steps, oldest first.
func MigrateStatus(ctx context.Context, url, schema string) ([]Migration, error) {
	var list []Migration
	err := migrating(ctx, url, schema, false, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		for _, st := range states {
			list = append(list, Migration{Version: st.Source.Version, Name: st.Source.Path, AppliedAt: st.AppliedAt})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store: read the migration status: %w", err)
	}
	return list, nil
}

// errNoStep says that there is nothing to take back.
var errNoStep = errors.New("no step was taken, so there is none to take back")

// MigrateDown takes the step back that was taken last: the newest, unless one that was missing before it was taken after it. Where that would throw away a ledger with submitters it does nothing and returns ErrLedgerInUse, unless it is forced:
// the ledger is what keeps a request from being executed twice. The migration itself looks, under a lock, so that goose's own tools are held to it as well.
func MigrateDown(ctx context.Context, url, schema string, force bool) (Migration, error) {
	var undone Migration
	err := migrating(ctx, url, schema, force, func(p *goose.Provider) error {
		result, err := p.Down(ctx)
		if result != nil {
			undone = Migration{Version: result.Source.Version, Name: result.Source.Path}
		}
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == objectInUse {
		err = ErrLedgerInUse
	}
	if errors.Is(err, goose.ErrNoNextVersion) {
		err = errNoStep
	}
	if err != nil {
		return Migration{}, fmt.Errorf("store: migrate down: %w", err)
	}
	return undone, nil
}

// migrating opens a provider on a connection of its own.
func migrating(ctx context.Context, url, schema string, loseLedger bool, step func(*goose.Provider) error) error {
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
		return sayMigration(explained(ctx, conn, schema, err))
	}
	return nil
}

func migrateWith(ctx context.Context, conn *sql.DB, schema string, step func(*goose.Provider) error) error {
	if schema != "" {
		// Asked first: who may not create schemas may well use the one that is there.
		var there bool
		if err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&there); err != nil {
			return err
		}
		if !there {
			_, err := conn.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize())
			if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == uniqueViolation { // somebody else was quicker: IF NOT EXISTS does not wait for that
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
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID(schema)), lock.WithLockTimeout(everySecond, forTwoMinutes))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, files, goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true),
		goose.WithAllowOutofOrder(true)) // a step that is missing in the middle is taken like any other
	if err != nil {
		return err
	}
	return step(provider)
}

// lockID is the advisory lock of a schema's migrations: ledgers in other schemas of a database need not wait.
func lockID(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("fencepost/migrate/" + schema))
	return int64(h.Sum64())
}

// sayMigration explains a failed migration. Its SQL is ours and holds no data, so the server's words may be repeated here; a failure to connect is named as
// everywhere.
func sayMigration(err error) error {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return sayWhy(err)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code != objectInUse {
		return fmt.Errorf("%s (SQLSTATE %s)", pg.Message, pg.Code)
	}
	return err
}
