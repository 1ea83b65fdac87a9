package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// place is where a ledger was looked for, and what the role may do there.
type place struct {
	database, role, schema string
	// the schema is there; the role may use it, and make tables in it; it has the table of steps
	there, use, create, steps bool
	makeSchema                bool // the role may make schemas in the database
}

// placeQuery takes the schema's name; an empty one is that which the search path names, or would.
const placeQuery = `SELECT current_database()::TEXT, current_user::TEXT, w.name, n.oid IS NOT NULL,
       coalesce(has_schema_privilege(n.oid, 'USAGE'), FALSE), coalesce(has_schema_privilege(n.oid, 'CREATE'), FALSE),
       EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'goose_db_version'),
       has_database_privilege(current_database(), 'CREATE')
  FROM (SELECT coalesce(nullif($1::TEXT, ''), current_schema()::TEXT, 'public') AS name) w
  LEFT JOIN pg_namespace n ON n.nspname = w.name`

func (p *place) fields() []any {
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

// rights says what the role lacks to work here, and to make a ledger if it is to; nil: nothing.
func (p place) rights(toMake bool) error {
	role, schema := pgx.Identifier{p.role}.Sanitize(), pgx.Identifier{p.schema}.Sanitize()
	switch {
	case !p.there && toMake && !p.makeSchema:
		return fmt.Errorf(
			"there is no schema %q in database %q, and role %q may not make one: run as a "+
				"superuser of the database CREATE SCHEMA %s AUTHORIZATION %s",
			p.schema, p.database, p.role, schema, role)
	case p.there && !p.use && !toMake:
		return fmt.Errorf("role %q may not use schema %q in database %q; %s", p.role, p.schema,
			p.database, grantsRemedy(p.role))
	case p.there && (!p.use || toMake && !p.create):
		return fmt.Errorf(
			"role %q may not use schema %q in database %q, or make tables in it: run as its "+
				"owner GRANT USAGE, CREATE ON SCHEMA %s TO %s, or name the role that owns the "+
				"ledger in database.url",
			p.role,
			p.schema,
			p.database,
			schema,
			role,
		)
	}
	return nil
}

// grantsRemedy says how a role that does not own the ledger gets its rights.
func grantsRemedy(role string) string {
	return fmt.Sprintf("run \"fencepost migrate grants --role %s\" as the owner of the ledger", role)
}

// lacking says why the ledger's tables are not to be seen.
func (p place) lacking() error {
	if err := p.rights(false); err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	what := "has no ledger"
	switch {
	case !p.there:
		what = "is not there"
	case p.steps:
		what = "has not all of a ledger"
	}
	return fmt.Errorf(
		"%w: schema %q in database %q %s; if it should have one, correct database.schema, or the "+
			"database in database.url; for a new one run \"fencepost migrate up\"",
		ErrSchema, p.schema, p.database, what)
}

// absent explains a failure to read the steps. One that is not about what is there is nil.
func (s *Store) absent(ctx context.Context, err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != undefinedTable && pg.Code != notPermitted {
		return nil
	}
	var p place
	if err := s.owner.QueryRow(ctx, placeQuery, s.cfg.Schema).Scan(p.fields()...); err != nil {
		return nil
	}
	if pg.Code == notPermitted {
		return fmt.Errorf(
			"%w: role %q lacks rights on the ledger in schema %q of database %q; %s",
			ErrSchema, p.role, p.schema, p.database, grantsRemedy(p.role))
	}
	return p.lacking()
}

// explained says which rights a failed migration lacked, where it was for want of them.
func explained(ctx context.Context, conn *sql.DB, schema string, err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != undefinedTable && pg.Code != notPermitted && pg.Code != noSchema {
		return err
	}
	var p place
	if conn.QueryRowContext(ctx, placeQuery, schema).Scan(p.fields()...) != nil {
		return err
	}
	if lacks := p.rights(true); lacks != nil {
		return lacks
	}
	if pg.Code == notPermitted {
		return fmt.Errorf(
			"role %q may not do that in schema %q of database %q: migrate as the role that owns "+
				"the ledger: %s (SQLSTATE %s)",
			p.role, p.schema, p.database, pg.Message, pg.Code)
	}
	return err
}
