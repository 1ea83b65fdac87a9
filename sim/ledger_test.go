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

func (w *World) readLedger() (*ledger, error) {
	l := &ledger{
		rows:     map[string]*row{},
		bySub:    map[int32][]*row{},
		cursors:  map[int32][2]int64{},
		guarded:  map[int32]int64{},
		gaps:     map[int32][][2]int64{},
		attempts: map[txn.Hash]*row{},
	}
	q := w.db
	err := q.each(
		`SELECT tx_id::TEXT, request_id, submitter_id, nonce, queue_seq, state, executed, reason,
		        version, fencing_token, tx_hash, receipt_tx_hash, requeued
		   FROM managed_tx`,
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
	err = q.each(
		`SELECT e.tx_id::TEXT, e.seq, e.kind, e.state, e.executed, e.fencing_token,
		        coalesce(x.xid, e.xid::TEXT::BIGINT
		                        + CASE WHEN EXISTS (SELECT FROM sim_xid) THEN 1::BIGINT << 40
		                               ELSE 0 END),
		        e.submitter_id
		   FROM tx_event e LEFT JOIN sim_xid x ON x.tx_id = e.tx_id AND x.seq = e.seq
		  ORDER BY e.submitter_id, e.tx_id, e.seq`,
		func(rows pgx.Rows) error {
			var e eventRow
			err := rows.Scan(&e.id, &e.seq, &e.kind, &e.state, &e.executed, &e.token, &e.xid,
				&e.submitter)
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
		`SELECT tx_id::TEXT, nonce, tx_hash, kind FROM tx_attempt`,
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
		`SELECT submitter_id, init_nonce, next_nonce, protections FROM submitter_nonce_cursor`,
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
		`SELECT submitter_id, first_nonce, last_nonce FROM nonce_gap`,
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
