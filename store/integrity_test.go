package store

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest"
)

func TestSchemaObjects_FreshSchema_Equal(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	present, err := k.open("a").own().SchemaObjects(k.ctx)
	if err != nil {
		t.Fatal(err)
	}
	present = slices.DeleteFunc(present,
		func(name string) bool { return strings.HasPrefix(name, "goose_db_version.") })
	slices.Sort(present)
	if !slices.Equal(present, schemaObjects) {
		t.Errorf("schemaObjects must be:\n%s", strings.Join(present, "\n"))
	}
}

func TestCheckSchema_LawNotInForce_IsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want string }{
		"unique constraint dropped": {
			"ALTER TABLE managed_tx DROP CONSTRAINT managed_tx_request",
			"managed_tx.managed_tx_request",
		},
		"fence dropped": {
			"ALTER TABLE submitter_lease DROP CONSTRAINT submitter_lease_fence",
			"submitter_lease.submitter_lease_fence",
		},
		"check not validated": {
			"ALTER TABLE managed_tx DROP CONSTRAINT managed_tx_state, " +
				"ADD CONSTRAINT managed_tx_state CHECK (state <> '') NOT VALID",
			"managed_tx.managed_tx_state",
		},
		"partial index dropped": {"DROP INDEX managed_tx_in_flight",
			"managed_tx.managed_tx_in_flight"},
		"trigger disabled": {
			"ALTER TABLE managed_tx DISABLE TRIGGER move_is_legal", "managed_tx.move_is_legal",
		},
		"key in the order of a language": {
			`ALTER TABLE managed_tx ALTER COLUMN request_id TYPE TEXT COLLATE "default"`,
			"managed_tx.request_id",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			s := k.open("a")
			if err := s.CheckSchema(k.ctx); err != nil {
				t.Fatalf("the schema of the migrations is refused: %v", err)
			}
			if _, err := k.db.Pool.Exec(k.ctx, c.sql); err != nil {
				t.Fatal(err)
			}
			err := s.CheckSchema(k.ctx)
			if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckSchema = %v, want ErrSchema that names %s", err, c.want)
			}
		})
	}
}

func TestMigrate_OtherEncoding_Refused(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			name := db.Schema + "_" + strings.ToLower(encoding)
			create := "CREATE DATABASE " + name + " ENCODING '" + encoding +
				"' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
			if _, err := db.Pool.Exec(t.Context(), create); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := db.Pool.Exec(context.Background(), "DROP DATABASE "+name); err != nil {
					t.Error(err)
				}
			})
			at := inDatabase(t, db.URL, name)
			if _, err := Migrate(t.Context(), at, ""); !errors.Is(err, ErrEncoding) {
				t.Errorf("Migrate = %v, want ErrEncoding", err)
			}
			conn, err := pgx.Connect(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			var tables int
			err = conn.QueryRow(t.Context(),
				"SELECT count(*) FROM pg_class WHERE relnamespace = "+
					"'public'::REGNAMESPACE").Scan(&tables)
			if err != nil || tables != 0 {
				t.Errorf("%d tables, %v; want none", tables, err)
			}
		})
	}
}

// inDatabase returns a URL with another database.
func inDatabase(t *testing.T, from, name string) string {
	t.Helper()
	u, err := url.Parse(from)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}
