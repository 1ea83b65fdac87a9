package sim

import (
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/txn"
)

// row is a transaction as the oracles read it.
type row struct {
	id, request             string
	submitter               int32
	nonce                   *int64
	seq                     int64
	state, executed, reason string
	version, token          int64
	hash, receipt           []byte
	requeued                int16
	events                  []eventRow
	attempts                []attemptRow
}

type eventRow struct {
	id          string
	seq         int64
	kind, state string
	token       int64
	xid         int64
	executed    string
	submitter   int32
}

type attemptRow struct {
	id    string
	nonce int64
	hash  []byte
	kind  string
}

// ledger holds all the data that the oracles read.
type ledger struct {
	rows     map[string]*row
	bySub    map[int32][]*row
	cursors  map[int32][2]int64 // init, next
	guarded  map[int32]int64    // number of protections so far
	gaps     map[int32][][2]int64
	attempts map[txn.Hash]*row
}

// readLedger reads all ledgers. An account that has moved is in the one that it moved to.
func (w *World) readLedger() (*ledger, error) {
	l := &ledger{
		rows:     map[string]*row{},
		bySub:    map[int32][]*row{},
		cursors:  map[int32][2]int64{},
		guarded:  map[int32]int64{},
		gaps:     map[int32][][2]int64{},
		attempts: map[txn.Hash]*row{},
	}
	q := &w.dbs
	err := q.each(
		`SELECT tx_id::TEXT, request_id, submitter_id, nonce, queue_seq, state, executed, reason,
		        version, fencing_token, tx_hash, receipt_tx_hash, requeued
		   FROM managed_tx WHERE NOT sim_left(submitter_id)`,
		func(rows pgx.Rows) error {
			r := &row{}
			err := rows.Scan(&r.id, &r.request, &r.submitter, &r.nonce, &r.seq, &r.state,
				&r.executed, &r.reason, &r.version, &r.token, &r.hash, &r.receipt, &r.requeued)
			l.rows[r.id] = r
			l.bySub[r.submitter] = append(l.bySub[r.submitter], r)
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	past, err := w.readPast()
	if err != nil {
		return nil, err
	}
	err = q.each(
		`SELECT e.tx_id::TEXT, e.seq, e.kind, e.state, e.executed, e.fencing_token,
		        coalesce(x.xid, e.xid::TEXT::BIGINT
		                        + CASE WHEN EXISTS (SELECT FROM sim_xid) THEN 1::BIGINT << 40
		                               ELSE 0 END),
		        e.submitter_id
		   FROM tx_event e LEFT JOIN sim_xid x ON x.tx_id = e.tx_id AND x.seq = e.seq
		  WHERE NOT sim_left(e.submitter_id)
		  ORDER BY e.submitter_id, e.tx_id, e.seq`,
		func(rows pgx.Rows) error {
			var e eventRow
			err := rows.Scan(&e.id, &e.seq, &e.kind, &e.state, &e.executed, &e.token, &e.xid,
				&e.submitter)
			if was, ok := past[eventKey{e.id, e.seq}]; ok {
				e.xid = was.xid
			}
			if r := l.rows[e.id]; r != nil {
				r.events = append(r.events, e)
			} else {
				w.violated("L8", "an event of an unknown transaction")
			}
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	err = q.each(
		`SELECT tx_id::TEXT, nonce, tx_hash, kind FROM tx_attempt
		  WHERE NOT sim_left(submitter_id)`,
		func(rows pgx.Rows) error {
			var a attemptRow
			err := rows.Scan(&a.id, &a.nonce, &a.hash, &a.kind)
			if r := l.rows[a.id]; r != nil {
				r.attempts = append(r.attempts, a)
				l.attempts[txn.Hash(a.hash)] = r
			}
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	err = q.each(
		`SELECT submitter_id, init_nonce, next_nonce, protections FROM submitter_nonce_cursor
		  WHERE NOT sim_left(submitter_id)`,
		func(rows pgx.Rows) error {
			var id int32
			var c [2]int64
			var protections int64
			err := rows.Scan(&id, &c[0], &c[1], &protections)
			l.cursors[id], l.guarded[id] = c, protections
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	err = q.each(
		`SELECT submitter_id, first_nonce, last_nonce FROM nonce_gap
		  WHERE NOT sim_left(submitter_id)`,
		func(rows pgx.Rows) error {
			var id int32
			var g [2]int64
			err := rows.Scan(&id, &g[0], &g[1])
			l.gaps[id] = append(l.gaps[id], g)
			return err
		},
	)
	return l, err
}

// eventKey names an event in all ledgers that have it.
type eventKey struct {
	tx  string
	seq int64
}

// readPast reads the events of accounts in the ledgers that they have left. All ledgers are on one
// server, so the numbers of its transactions are in order.
func (w *World) readPast() (map[eventKey]eventRow, error) {
	past := map[eventKey]eventRow{}
	err := w.dbs.each(
		`SELECT tx_id::TEXT, seq, kind, state, executed, xid::TEXT::BIGINT, submitter_id
		   FROM tx_event WHERE sim_left(submitter_id)`,
		func(rows pgx.Rows) error {
			var e eventRow
			err := rows.Scan(&e.id, &e.seq, &e.kind, &e.state, &e.executed, &e.xid, &e.submitter)
			past[eventKey{e.id, e.seq}] = e
			return err
		},
	)
	return past, err
}

func (d *database) each(query string, row func(pgx.Rows) error) error {
	rows, err := d.conn.Query(d.ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
