package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// DuplicateRequests finds request ids that name more than one transaction, without the index that
// forbids them, by submitter. It reads all transactions of the ledger.
func (s *Store) DuplicateRequests(ctx context.Context) (map[txn.SubmitterID][]Violation, error) {
	var rows []db.DuplicateRequestsRow
	err := s.snapshot(ctx, func(q *db.Queries) (err error) {
		if err := q.SetStatementTimeout(ctx, millis(auditLimit)); err != nil {
			return err
		}
		if err := q.WithoutIndexes(ctx); err != nil {
			return err
		}
		rows, err = q.DuplicateRequests(ctx, maxViolations)
		return err
	})
	if err != nil {
		return nil, s.failed(ctx, "find duplicate request ids", err)
	}
	found := map[txn.SubmitterID][]Violation{}
	for _, r := range rows {
		a := &audit{}
		a.report("L7", "request_id", &r.SecondTx,
			"request_id %q has %d transactions, %s first", r.RequestID, r.Transactions,
			r.FirstTx)
		id := txn.SubmitterID(r.SubmitterID)
		found[id] = append(found[id], a.found...)
	}
	return found, nil
}

// collationQuery compares the order of text that the database was made with and the present one.
const collationQuery = `SELECT coalesce(d.datcollversion, ''),
       coalesce(pg_database_collation_actual_version(d.oid), '')
  FROM pg_database d WHERE d.datname = current_database()`

// firstCollationVersion is the PostgreSQL version that records the collation of a database.
const firstCollationVersion = 15

// CollationChange describes a change of the collation since the database was made, such as by
// another C library: indexes of text in the order of a language may be wrong since. Empty: none, or
// the server is too old to know.
func (s *Store) CollationChange(ctx context.Context) (string, error) {
	const verb = "compare the collation"
	conn, err := s.owner.Acquire(ctx)
	if err != nil {
		return "", s.failed(ctx, verb, err)
	}
	defer conn.Release()
	version, _, _ := strings.Cut(conn.Conn().PgConn().ParameterStatus("server_version"), ".")
	if major, err := strconv.Atoi(version); err != nil || major < firstCollationVersion {
		return "", nil
	}
	var made, is string
	if err := conn.QueryRow(ctx, collationQuery).Scan(&made, &is); err != nil {
		return "", s.failed(ctx, verb, err)
	}
	if made == "" || made == is {
		return "", nil
	}
	return fmt.Sprintf("version %q when the database was made, %q now", made, is), nil
}
