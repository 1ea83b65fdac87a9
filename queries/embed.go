// Package queries is the SQL of Fencepost: every statement that the program can run.
//
//   - migrations/ makes the schema, step by step and forward only;
//   - open/ holds reads, the intents of callers, leases and the registry;
//   - fenced/ holds the writes to the ledger, each of which starts from the fence;
//   - foreign/ tells sqlc of tables that are not ours.
//
// sqlc turns open/ and fenced/ into code that only package store can reach. The
// migrations are embedded here.
package queries

import "embed"

// Migrations holds the files of migrations/.
//
//go:embed migrations/*.sql
var Migrations embed.FS
