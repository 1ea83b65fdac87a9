// Package queries is the SQL of Fencepost: every statement that the program can run.
//
//   - migrations/ makes the schema, step by step and forward only;
//   - open/ holds reads, the intents of callers, leases and the registry;
//   - fenced/ holds the writes to the ledger, each of which starts from the fence;
//   - sink/ holds the cursors of sinks, with a fence of their own;
//   - archive/ holds the archive of final transactions, with a fence of its own;
//   - grants/ holds the privileges of the roles that work with the ledger;
//   - foreign/ declares tables for sqlc that Fencepost does not own.
//
// sqlc turns open/, fenced/, sink/ and archive/ into code that only package store can reach. The
// migrations and grants are embedded here.
package queries

import (
	"embed"
	"os"

	"github.com/jackc/pgx/v5"
)

// Migrations holds the files of migrations/.
//
//go:embed migrations/*.sql
var Migrations embed.FS

var (
	//go:embed grants/node.sql
	nodeGrants string
	//go:embed grants/reader.sql
	readerGrants string
	//go:embed grants/archive.sql
	archiveGrants string
)

// NodeGrants returns the statements that give a role what a node needs in a schema, and take away
// everything else there.
func NodeGrants(schema, role string) string { return grants(nodeGrants, schema, role) }

// ReaderGrants returns the statements that let a role read the ledger in a schema but for the
// signed bytes, and take away everything else there.
func ReaderGrants(schema, role string) string { return grants(readerGrants, schema, role) }

// ArchiveGrants returns the statements that give a role the rights of "fencepost archive" in a
// schema, and take away everything else there.
func ArchiveGrants(schema, role string) string { return grants(archiveGrants, schema, role) }

func grants(text, schema, role string) string {
	names := map[string]string{
		"schema": pgx.Identifier{schema}.Sanitize(),
		"role":   pgx.Identifier{role}.Sanitize(),
	}
	return os.Expand(text, func(name string) string { return names[name] })
}
