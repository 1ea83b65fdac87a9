package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// movedTable is a table with rows of an account.
type movedTable struct {
	name  string
	order string            // in which rows are read
	set   map[string]string // columns that get another value in the new ledger
	omit  []string          // columns that the new ledger computes
	// the sequence that gives a column its values, in the order of the old ones
	number, sequence string
}

// movedTables lists the tables in the order in which rows refer to each other. Gaps come before
// transactions, because a requeued one may have its nonce again. An event is older than any that
// the new ledger numbers: its feed does not report it again.
func movedTables(no int32, status txn.SubmitterStatus, token int64, timeline int32) []movedTable {
	return []movedTable{
		{name: "submitter", set: map[string]string{"directory_no": fmt.Sprint(no),
			// the account is compared with the chain before its next nonce: see
			// commits_may_be_lost
			"timeline": fmt.Sprintf("CASE WHEN commits_may_be_lost(submitter_id) THEN 0 "+
				"ELSE -%d END", timeline), "status": "'" + string(status) + "'",
			"moved_to": "NULL", "move_id": "NULL", "move_epoch": "NULL"}},
		{name: "submitter_lease", set: map[string]string{"owner_node": "''",
			"fencing_token": fmt.Sprint(token), "released": "TRUE", "expires_at": "'epoch'",
			"lasts": "NULL", "moved_to": "NULL"}},
		{name: "submitter_nonce_cursor"},
		{name: "nonce_gap", order: "first_nonce"},
		{name: "managed_tx", order: "queue_seq", number: "queue_seq", sequence: "queue_seq"},
		{name: "tx_attempt", order: "tx_id, attempt_no"},
		{name: "tx_event", order: "tx_id, seq", set: map[string]string{"xid": "'" + agedXid + "'"},
			omit: []string{"chain"}},
		{name: "tx_label", order: "key, value, tx_id"},
		{name: "submitter_command", order: "command_id", number: "command_id",
			sequence: "command_id", omit: []string{"chain", "applied_xid"}},
		{name: "nonce_request", order: "request_no", number: "request_no",
			sequence: "nonce_request_no"},
		{name: "external_nonce", order: "nonce"},
		{name: "nonce_hash", order: "nonce"},
		{name: "signed_tx", order: "tx_id"},
		{name: "submitter_settled"},
	}
}

// errTried undoes a copy that was only a trial.
var errTried = errors.New("tried")

// tryOnce shows that the new ledger can take the account: each command does so before it records a
// move or sets a tombstone.
func (m *AccountMove) tryOnce(ctx context.Context) error {
	if m.tried || moveStep(m.move.Step) == moveSealed || moveStep(m.move.Step) == moveDone {
		return nil
	}
	if err := m.checkFirst(ctx); err != nil {
		return err
	}
	err := m.copyRows(ctx, true, func(pgx.Tx) error { return errTried })
	if errors.Is(err, errTried) || hasArrived(err) {
		m.tried, err = true, nil
	}
	return err
}

// checkFirst checks that the new ledger has not had the account before: its rows there stay for
// ever, with a tombstone.
func (m *AccountMove) checkFirst(ctx context.Context) error {
	is, err := m.state(ctx, m.from.read())
	if err != nil || is.MovedTo != nil { // with a tombstone, the move is beyond this
		return err
	}
	arrival, err := m.to.read().Arrival(ctx, int32(m.id))
	if err == nil && arrival.MoveID == m.move.MoveID { // by another command of this move
		return nil
	}
	if err != nil && !isNoRows(err) {
		return err
	}
	_, err = m.state(ctx, m.to.read())
	if isNoRows(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: it was in ledger %q before, and an account never returns; name a "+
			"ledger that it has not been in", ErrCannotMove, m.toName)
	}
	return err
}

// hasArrived reports whether a copy failed because another command was first.
func hasArrived(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == uniqueViolation && pg.TableName == "account_arrival"
}

// describeArrived completes the result of a command that found the account in the new ledger.
func (m *AccountMove) describeArrived(ctx context.Context) error {
	if m.done.Copied {
		return nil
	}
	is, err := m.state(ctx, m.to.read())
	if err != nil {
		return err
	}
	m.done.Paused = txn.SubmitterStatus(is.Status) == txn.Paused
	m.done.Protected = is.ProtectReason != ""
	if is.MovedTo != nil {
		m.done.Left = *is.MovedTo
	}
	return nil
}

// copy creates the account in the new ledger, in one transaction: its nodes may work on it once
// that has committed. The directory has the tombstone of the old ledger by then, so its rows stay
// as they are. If one of the two ledgers was restored since, transactions may be missing: then the
// account is stopped as after a restore.
func (m *AccountMove) copy(ctx context.Context) error {
	err := m.copyRows(ctx, false, func(pgx.Tx) error { return m.at("in copy") })
	if hasArrived(err) {
		return nil
	}
	if err == nil {
		m.done.Copied = true
		m.to.Notify(m.id)
	}
	return err
}

// copyRows copies all rows of the account, and calls last before it commits.
func (m *AccountMove) copyRows(ctx context.Context, trial bool, last func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, m.from.taker,
		pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(from pgx.Tx) error {
			return pgx.BeginFunc(ctx, m.to.taker, func(to pgx.Tx) error {
				for _, tx := range []pgx.Tx{from, to} {
					if err := takesLong(ctx, tx); err != nil {
						return err
					}
				}
				if err := m.copyInto(ctx, from, to, trial); err != nil {
					return err
				}
				return last(to)
			})
		})
}

// takesLong raises the limits of a transaction that copies an account.
func takesLong(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT set_config(name, $1, TRUE) FROM unnest($2::TEXT[]) AS name",
		millis(adoptLimit),
		[]string{"statement_timeout", "idle_in_transaction_session_timeout"})
	return err
}

func (m *AccountMove) copyInto(ctx context.Context, from, to pgx.Tx, trial bool) error {
	is, err := m.state(ctx, db.New(from))
	if err != nil {
		return err
	}
	if !trial && !m.isSealed(is) {
		return nil // restored meanwhile; the move looks again
	}
	q := db.New(to)
	epoch, err := q.LedgerOfMove(ctx)
	if err != nil {
		return err
	}
	doubt := !trial && (moveStep(m.move.Step) == moveDone || *m.move.Token != is.FencingToken ||
		*m.move.ToEpoch != epoch.FeedEpoch)
	status := txn.Paused
	if m.move.Resume && !doubt {
		status = txn.Active
	}
	if err := q.AddArrival(ctx, db.AddArrivalParams{SubmitterID: int32(m.id),
		MoveID: m.move.MoveID, FromNo: m.fromNo}); err != nil {
		return err
	}
	if err := m.copyChain(ctx, db.New(from), q, is.ChainID); err != nil {
		return err
	}
	for _, t := range movedTables(m.toNo, status, is.FencingToken, epoch.Timeline) {
		rows, err := m.copyTable(ctx, from, to, t)
		if err != nil {
			return fmt.Errorf("copy table %s: %w", t.name, err)
		}
		switch t.name {
		case "managed_tx":
			m.done.Transactions = rows
		case "tx_event":
			m.done.Events = rows
		}
	}
	m.done.Paused, m.done.Protected = !m.move.Resume, doubt
	if !doubt {
		return nil
	}
	return m.stop(ctx, q)
}

// copyChain copies the identity of the chain, if no node of the new ledger has recorded it.
func (m *AccountMove) copyChain(ctx context.Context, from, to *db.Queries, chain int64) error {
	genesis, err := from.ChainGenesis(ctx, chain)
	if isNoRows(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = to.RegisterChain(ctx, db.RegisterChainParams{ChainID: chain, GenesisHash: genesis})
	return err
}

// stop does for one account what Recover does for all.
func (m *AccountMove) stop(ctx context.Context, q *db.Queries) error {
	if _, err := q.MarkRestored(ctx, int32(m.id)); err != nil {
		return err
	}
	_, err := q.ProtectRestored(ctx, db.ProtectRestoredParams{Evidence: restoredEvidence,
		Reason: txn.ProtectRestored, Raise: protectionRaise, OneSubmitter: int32(m.id)})
	return err
}

// column is a column of a table, with its type in SQL.
type column struct{ name, kind string }

// columnsOf lists the columns of a table in their order.
func columnsOf(ctx context.Context, tx pgx.Tx, table string) ([]column, error) {
	rows, err := tx.Query(ctx, `SELECT a.attname, format_type(a.atttypid, a.atttypmod)
  FROM pg_attribute a
 WHERE a.attrelid = $1::TEXT::REGCLASS AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attname`, table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (c column, err error) {
		return c, r.Scan(&c.name, &c.kind)
	})
}

// copyTable copies the rows of the account in one table, and returns their number.
func (m *AccountMove) copyTable(ctx context.Context, from, to pgx.Tx,
	t movedTable) (int64, error) {
	columns, err := columnsOf(ctx, from, t.name)
	if err != nil {
		return 0, err
	}
	there, err := columnsOf(ctx, to, t.name)
	if err != nil {
		return 0, err
	}
	if fmt.Sprint(columns) != fmt.Sprint(there) {
		return 0, fmt.Errorf("%w: the tables %s of the two ledgers differ; run \"fencepost "+
			"migrate up\" for both", ErrCannotMove, t.name)
	}
	names, values := t.lists(columns)
	query := fmt.Sprintf("SELECT %s FROM %s WHERE submitter_id = %d", values, t.name, m.id)
	if t.order != "" {
		query += " ORDER BY " + t.order
	}
	into := t.name
	if t.sequence != "" {
		into = "moving_" + t.name
		_, err := to.Exec(ctx, fmt.Sprintf("CREATE TEMP TABLE %s ON COMMIT DROP AS "+
			"SELECT %s FROM %s LIMIT 0", into, names, t.name))
		if err != nil {
			return 0, err
		}
	}
	rows, err := stream(ctx, from, to, query, into, names)
	if err != nil || t.sequence == "" {
		return rows, err
	}
	renumbered := strings.Replace(names, quoted(t.number),
		fmt.Sprintf("nextval('%s')", t.sequence), 1)
	_, err = to.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM "+
		"(SELECT * FROM %s ORDER BY %s) m", t.name, names, renumbered, into, t.number))
	return rows, err
}

// lists returns the columns to copy, and their values in the old ledger.
func (t movedTable) lists(columns []column) (names, values string) {
	var left, right []string
next:
	for _, c := range columns {
		for _, o := range t.omit {
			if o == c.name {
				continue next
			}
		}
		value := quoted(c.name)
		if other, ok := t.set[c.name]; ok {
			value = fmt.Sprintf("CAST(%s AS %s)", other, c.kind)
		}
		left, right = append(left, quoted(c.name)), append(right, value)
	}
	return strings.Join(left, ", "), strings.Join(right, ", ")
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// stream copies the rows of a query into a table of another database.
func stream(ctx context.Context, from, to pgx.Tx, query, into, names string) (int64, error) {
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		_, err := from.Conn().PgConn().CopyTo(ctx, w,
			"COPY ("+query+") TO STDOUT (FORMAT binary)")
		w.CloseWithError(err)
		read <- err
	}()
	done, err := to.Conn().PgConn().CopyFrom(ctx, r,
		"COPY "+into+" ("+names+") FROM STDIN (FORMAT binary)")
	r.CloseWithError(errors.New("the new ledger refused a row"))
	if readErr := <-read; err == nil || errors.Is(err, readErr) {
		err = readErr
	}
	return done.RowsAffected(), err
}
