package store

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// meteredReads counts the rows that PostgreSQL reads from tables for the queries that go through
// it, those that it throws away after a look included.
type meteredReads struct {
	db.DBTX
	t    testing.TB
	rows float64
}

// plan is a node of the plan of EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON).
type plan struct {
	NodeType string  `json:"Node Type"`
	Rows     float64 `json:"Actual Rows"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Loops    float64 `json:"Actual Loops"`
	Plans    []plan
}

func (p plan) read() (rows float64) {
	if strings.Contains(p.NodeType, "Scan") && p.NodeType != "Subquery Scan" &&
		p.NodeType != "CTE Scan" {
		rows = (p.Rows + p.Filtered) * p.Loops
	}
	for _, below := range p.Plans {
		rows += below.read()
	}
	return rows
}

func (m *meteredReads) measure(ctx context.Context, sql string, args []any) {
	m.t.Helper()
	var answer []byte
	if err := m.DBTX.QueryRow(ctx, "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+sql,
		args...).Scan(&answer); err != nil {
		m.t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(answer, &plans); err != nil || len(plans) != 1 {
		m.t.Fatalf("%v: %s", err, answer)
	}
	m.rows += plans[0].Plan.read()
}

func (m *meteredReads) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	m.measure(ctx, sql, args)
	return m.DBTX.Query(ctx, sql, args...)
}

func (m *meteredReads) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	m.measure(ctx, sql, args)
	return m.DBTX.QueryRow(ctx, sql, args...)
}

// history gives a submitter a lawful past of one kind: confirmed transactions, or transactions
// without a nonce.
func (k *kit) history(id txn.SubmitterID, n int, state, executed string, final bool) {
	k.t.Helper()
	k.exec(
		`INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, value, data,
		                        gas_limit, state, version, nonce, executed, released_at,
		                        terminal_at)
		SELECT $1, gen_random_uuid(), $2 || n, decode(repeat('01', 32), 'hex'), 0, '',
		       0, $2, 4, CASE WHEN $2 = 'CONFIRMED' THEN n END, $3,
		       CASE WHEN $2 = 'CONFIRMED' THEN clock_timestamp() END,
		       CASE WHEN $4::BOOLEAN THEN clock_timestamp() END
		  FROM generate_series(0, $5 - 1) n`,
		id,
		state,
		executed,
		final,
		n,
	)
}

// TestAudit_LongHistory_BoundedCost: an audit of the end of a long history reads that end, and not
// the rest.
func TestAudit_LongHistory_BoundedCost(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	const (
		long      = 20_000
		cancelled = 5_000
		overlap   = 64
	)
	busy, fickle := k.submitter(s, "busy"), k.submitter(s, "fickle")
	k.history(busy, long, "CONFIRMED", "SUCCESS", true)
	k.history(busy, 2*auditedQueue, "QUEUED", "UNKNOWN", false)
	k.history(fickle, overlap, "CONFIRMED", "SUCCESS", true)
	k.history(fickle, cancelled, "CANCELLED", "NO",
		// none of them had a nonce: its cursor stands low, and an audit of its end begins at 0
		true)
	k.exec(
		`INSERT INTO submitter_nonce_cursor (submitter_id, next_nonce, init_nonce, init_block,
		                                    init_block_hash, fencing_token)
		SELECT submitter_id, count(nonce), 0, 0, decode(repeat('01', 32), 'hex'), 0
		  FROM managed_tx GROUP BY submitter_id`,
	)
	k.exec(
		`INSERT INTO tx_attempt (submitter_id, tx_id, attempt_no, kind, nonce, tx_hash, raw_tx,
		                        gas_limit, fee_cap, tip, legacy, fencing_token)
		SELECT submitter_id, tx_id, 1, 'ORIGINAL', nonce, sha256(uuid_send(tx_id)), 'x',
		       1, 1, 1, FALSE, 0
		  FROM managed_tx WHERE nonce IS NOT NULL`,
	)
	k.exec(
		`INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
		                      message)
		SELECT submitter_id, tx_id, n, 'X', state, '', executed, '', ''
		  FROM managed_tx, generate_series(1, 4) n`,
	)
	k.exec("ANALYZE managed_tx, tx_event, tx_attempt, nonce_gap, submitter_nonce_cursor")
	audited := func(id txn.SubmitterID, from int64, whole bool) (reads float64, found []Violation) {
		t.Helper()
		meter := &meteredReads{DBTX: k.session(), t: t}
		a := &audit{id: int32(id), from: from, whole: whole}
		k.must(a.run(k.ctx, db.New(meter)))
		return meter.rows, a.found
	}
	for _, c := range []struct {
		what string
		id   txn.SubmitterID
		from int64
		txs  float64 // that it has to read
	}{{"a long history", busy, long - overlap, overlap + auditedQueue},
		{"a long history without nonces", fickle, 0, overlap}} {
		// its row, for three statements, its events, its attempt and its place in the queue
		reads, found := audited(c.id, c.from, false)
		if most := 12*c.txs + 100; reads > most || len(found) > 0 {
			t.Errorf("%s: %.0f rows were read, at most %.0f are needed; found %+v", c.what, reads,
				most, found)
		}
	}
	// The audit does check: the newest, the head of the queue, and rows that only a whole audit
	// reads.
	k.exec(
		"DELETE FROM tx_event WHERE seq = 4 AND tx_id IN (SELECT tx_id FROM managed_tx WHERE " +
			"request_id IN ('CONFIRMED19990', 'QUEUED0', 'QUEUED399', 'CONFIRMED5', 'CANCELLED7'))")
	for _, c := range []struct {
		id    txn.SubmitterID
		from  int64
		whole bool
		what  string
		want  int
	}{{busy, long - overlap, false, "the end", 2}, {busy, 0, true, "the whole", 4},
		{fickle, 0, false, "nonces from 0", 1}, {fickle, 0, true, "the whole", 2}} {
		if _, found := audited(c.id, c.from, c.whole); len(found) != c.want {
			t.Errorf("submitter %d, %s: found %+v, want %d", c.id, c.what, found, c.want)
		}
	}
}
