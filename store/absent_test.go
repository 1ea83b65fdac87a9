package store

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// roleURL makes a role without rights and gives the URL that logs in as it.
func (k *kit) roleURL(name string) string {
	k.t.Helper()
	k.exec("CREATE ROLE " + name + " LOGIN PASSWORD 'secret-word'")
	k.exec("GRANT " + name + " TO CURRENT_USER") // who may not be a superuser
	k.t.Cleanup(func() {
		if _, err := k.db.Pool.Exec(context.Background(), "DROP OWNED BY "+name+" CASCADE; DROP "+
			"ROLE "+name); err != nil {
			k.t.Error(err)
		}
	})
	u, err := url.Parse(k.db.URL)
	k.must(err)
	q := u.Query()
	if q.Has("user") {
		q.Set("user", name)
		q.Set("password", "secret-word")
		u.RawQuery = q.Encode()
	}
	u.User = url.UserPassword(name, "secret-word")
	return u.String()
}

// TestCheckSchema_NoLedger_NamesPlace names where it was looked for, so that a mistyped name does
// not become a second, empty ledger.
func TestCheckSchema_NoLedger_NamesPlace(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	cfg, err := pgx.ParseConfig(k.db.URL)
	k.must(err)
	missing, empty := k.db.Schema+"_typo", k.db.Schema+"_m"
	k.blank()
	k.exec("CREATE SCHEMA " + empty)
	for schema, want := range map[string]string{missing: "does not exist", empty: "has no ledger"} {
		s := k.open("a", func(c *Config) { c.URL, c.Schema = k.db.URL, schema })
		want = `schema "` + schema + `" in database "` + cfg.Database + `" ` + want + "; "
		if err := s.CheckSchema(k.ctx); !errors.Is(err, ErrSchema) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", schema, err, want)
		}
	}
}

// TestMigrate_RoleWithoutRights_NamesGrant checks that the error names the grant, and does not
// alternate between serve and migrate.
func TestMigrate_RoleWithoutRights_NamesGrant(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	role := k.db.Schema + "_r"
	as := k.roleURL(role)
	s := k.open("a", func(c *Config) { c.URL = as })
	grant := `GRANT USAGE, CREATE ON SCHEMA "` + k.db.Schema + `" TO "` + role + `"`
	said := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "migrate up\"") {
			t.Errorf("said %v\nwant %s", err, want)
		}
		noSecrets(t, err, "secret-word")
	}
	remedy := "fencepost migrate grants --role " + role
	said(s.CheckSchema(k.ctx), remedy)
	_, err := Migrate(k.ctx, as, k.db.Schema)
	said(err, grant)
	_, err = Migrate(k.ctx, as, k.db.Schema+"_none")
	said(err, `CREATE SCHEMA "`+k.db.Schema+`_none" AUTHORIZATION "`+role+`"`)
	k.exec("GRANT USAGE, CREATE ON SCHEMA " + k.db.Schema + " TO " + role)
	said(s.CheckSchema(k.ctx), remedy)
	_, err = Migrate(k.ctx, as, k.db.Schema)
	said(err, "migrate as the role that owns the ledger")
}

// TestOpen_LoginRefused_TurnsAway distinguishes a database that rejects the login from one that is
// down.
func TestOpen_LoginRefused_TurnsAway(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	other, err := url.Parse(k.db.URL)
	k.must(err)
	other.Path = "/no_such_database"
	for where, away := range map[string]bool{other.String(): true,
		"postgres://fence@127.0.0.1:1/x?sslmode=disable": false} {
		s := k.open("a", func(c *Config) { c.URL = where })
		if err := s.CheckSchema(k.ctx); !errors.Is(err, ErrUnavailable) ||
			errors.Is(err, ErrAccessDenied) != away {
			t.Errorf("turned away %v: %v", away, err)
		}
	}
}
