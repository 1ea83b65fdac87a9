package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/queries"
)

// Grants are the rights of a PostgreSQL role with a ledger.
type Grants string

// The roles that work with a ledger beside its owner.
const (
	NodeGrants   Grants = "node"   // everything that a node does
	ReaderGrants Grants = "reader" // read all tables but the signed bytes (tx_attempt)
	// remove archived events, labels and call data
	ArchiveGrants Grants = "archive"
)

// Statements returns the SQL of the grants; an empty schema is public.
func (g Grants) Statements(schema, role string) string {
	if schema == "" {
		schema = "public"
	}
	switch g {
	case ReaderGrants:
		return queries.ReaderGrants(schema, role)
	case ArchiveGrants:
		return queries.ArchiveGrants(schema, role)
	}
	return queries.NodeGrants(schema, role)
}

// Grant gives a role exactly these rights in the schema of a ledger, and takes away any others. It
// runs as the owner of the ledger, and again after each migration that adds a table. The role must
// exist; it may not be the one that runs this.
func Grant(ctx context.Context, url, schema, role string, g Grants) error {
	err := withConn(ctx, url, schema, func(conn *pgx.Conn) error {
		var owner, at string
		var exists, member bool
		err := conn.QueryRow(ctx, `SELECT current_user, coalesce(nullif($1, ''), current_schema()),
			EXISTS (SELECT FROM pg_roles WHERE rolname = $2), current_user = $2`,
			schema, role).Scan(&owner, &at, &exists, &member)
		switch {
		case err != nil:
			return describeError(err)
		case !exists:
			return fmt.Errorf("role %q does not exist; create it with CREATE ROLE %s LOGIN "+
				"PASSWORD '...'", role, pgx.Identifier{role}.Sanitize())
		case member:
			return fmt.Errorf("role %q owns the ledger; give a role of its own to the nodes", role)
		}
		_, err = conn.Exec(ctx, g.Statements(at, role))
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == notPermitted {
			return fmt.Errorf("role %q may not grant rights on schema %q; run this as the owner "+
				"of the ledger", owner, at)
		}
		if err != nil {
			return describeError(err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: grant rights: %w", err)
	}
	return nil
}
