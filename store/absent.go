package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// location is the database and schema of a ledger, and the privileges of the role there.
type location struct {
	database, role, schema string
	// the schema is there; the role may use it, and make tables in it; it has the table of steps
	there, use, create, steps bool
	makeSchema                bool // the role may make schemas in the database
}

// locateQuery takes the schema name; if it is empty, the first schema of the search path applies,
// or public if none of them exists.
const locateQuery = `SELECT current_database()::TEXT, current_user::TEXT, w.name, n.oid IS NOT NULL,
       coalesce(has_schema_privilege(n.oid, 'USAGE'), FALSE),
       coalesce(has_schema_privilege(n.oid, 'CREATE'), FALSE),
       EXISTS (SELECT FROM pg_class c
                WHERE c.relnamespace = n.oid AND c.relname = 'goose_db_version'),
       has_database_privilege(current_database(), 'CREATE')
  FROM (SELECT coalesce(nullif($1::TEXT, ''), current_schema()::TEXT, 'public') AS name) w
  LEFT JOIN pg_namespace n ON n.nspname = w.name`

func (p *location) fields() []any {
	return []any{
		&p.database,
		&p.role,
		&p.schema,
		&p.there,
		&p.use,
		&p.create,
		&p.steps,
		&p.makeSchema,
	}
}

// rights returns an error with the privileges that the role lacks, to create a ledger if toMake is
// set, or nil.
func (p location) rights(toMake bool, keys Keys) error {
	role, schema := pgx.Identifier{p.role}.Sanitize(), pgx.Identifier{p.schema}.Sanitize()
	switch {
	case !p.there && toMake && !p.makeSchema:
		return fmt.Errorf(
			"no schema %q in database %q, and role %q cannot create one; as a superuser of the "+
				"database, run CREATE SCHEMA %s AUTHORIZATION %s",
			p.schema, p.database, p.role, schema, role)
	case p.there && !p.use && !toMake:
		return fmt.Errorf("role %q may not use schema %q in database %q; %s", p.role, p.schema,
			p.database, keys.grants(p.role))
	case p.there && (!p.use || toMake && !p.create):
		return fmt.Errorf(
			"role %q cannot use schema %q in database %q, or create tables in it; as its owner, "+
				"run GRANT USAGE, CREATE ON SCHEMA %s TO %s, or connect as the role that owns "+
				"the ledger",
			p.role,
			p.schema,
			p.database,
			schema,
			role,
		)
	}
	return nil
}

// lacking returns the reason why the ledger's tables are not visible.
func (p location) lacking(keys Keys) error {
	if err := p.rights(false, keys); err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	what := "has no ledger"
	switch {
	case !p.there:
		what = "does not exist"
	case p.steps:
		what = "has an incomplete ledger"
	}
	return fmt.Errorf(
		"%w: schema %q in database %q %s; if it should have one, correct %s, or the database in "+
			"%s; for a new one %s",
		ErrSchema, p.schema, p.database, what, keys.key("schema"), keys.key("url"),
		keys.migrate("up"))
}

// absent explains a failure to read the migrations: a missing ledger or privilege. It returns nil
// for other errors.
func (s *Store) absent(ctx context.Context, err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != undefinedTable && pg.Code != notPermitted {
		return nil
	}
	var p location
	if err := s.owner.QueryRow(ctx, locateQuery, s.cfg.Schema).Scan(p.fields()...); err != nil {
		return nil
	}
	if pg.Code == notPermitted {
		return fmt.Errorf(
			"%w: role %q lacks rights on the ledger in schema %q of database %q; %s",
			ErrSchema, p.role, p.schema, p.database, s.cfg.Keys.grants(p.role))
	}
	return p.lacking(s.cfg.Keys)
}

// explained replaces the error of a migration that failed for lack of a privilege with one that
// names the privilege.
func explained(ctx context.Context, conn *sql.DB, schema string, err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != undefinedTable && pg.Code != notPermitted && pg.Code != noSchema {
		return err
	}
	var p location
	if conn.QueryRowContext(ctx, locateQuery, schema).Scan(p.fields()...) != nil {
		return err
	}
	if lacks := p.rights(true, Keys{}); lacks != nil {
		return lacks
	}
	if pg.Code == notPermitted {
		return fmt.Errorf(
			"role %q lacks a privilege in schema %q of database %q; migrate as the role that owns "+
				"the ledger: %s (SQLSTATE %s)",
			p.role, p.schema, p.database, pg.Message, pg.Code)
	}
	return err
}
