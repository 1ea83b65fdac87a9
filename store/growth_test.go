package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// pagesRead counts the pages that PostgreSQL reads for the queries that go through it.
type pagesRead struct {
	db.DBTX
	t     testing.TB
	pages int
	plan  string
}

func (p *pagesRead) explain(ctx context.Context, sql string, args []any) {
	p.t.Helper()
	var answer []byte
	if err := p.DBTX.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql,
		args...).Scan(&answer); err != nil {
		p.t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(answer, &plans); err != nil || len(plans) != 1 {
		p.t.Fatalf("%v: %s", err, answer)
	}
	p.pages += plans[0].Plan.Hit + plans[0].Plan.Read
	p.plan += string(answer)
}

func (p *pagesRead) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	p.explain(ctx, sql, args)
	return p.DBTX.Query(ctx, sql, args...)
}

func (p *pagesRead) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	p.explain(ctx, sql, args)
	return p.DBTX.QueryRow(ctx, sql, args...)
}

// past gives a submitter confirmed transactions and then some that wait, in the order of time.
func (k *kit) past(id txn.SubmitterID, confirmed, queued int) {
	k.t.Helper()
	k.exec(
		`INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, value, data,
		                        gas_limit, state, version, nonce, executed, released_at,
		                        terminal_at)
		SELECT $1::INT,
		       (lpad(to_hex(1700000000000 + n), 12, '0') || '8000'
		        || to_hex((-9223372036854775808) + ($1::INT::BIGINT << 42) + n))::UUID,
		       'past-' || n, decode(repeat('01', 32), 'hex'), 0, '', 0,
		       CASE WHEN n < $2::INT THEN 'CONFIRMED' ELSE 'QUEUED' END, 5,
		       CASE WHEN n < $2::INT THEN n END,
		       CASE WHEN n < $2::INT THEN 'SUCCESS' ELSE 'UNKNOWN' END,
		       CASE WHEN n < $2::INT THEN clock_timestamp() END,
		       CASE WHEN n < $2::INT THEN clock_timestamp() END
		  FROM generate_series(0, $2::INT + $3::INT - 1) n ORDER BY n`,
		id,
		confirmed,
		queued,
	)
	k.exec(
		`INSERT INTO submitter_nonce_cursor (submitter_id, next_nonce, init_nonce, init_block,
		                                    init_block_hash, fencing_token)
		VALUES ($1::INT, $2::INT, 0, 0, decode(repeat('01', 32), 'hex'), 0)`,
		id,
		confirmed,
	)
}

// TestReads_GrowingLedger_SamePlans: the frequent reads of owners and callers read only the few
// pages that they need, in a ledger with a long history and a long queue.
func TestReads_GrowingLedger_SamePlans(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	const long, waiting = 100_000, 20_000
	old, busy := k.submitter(s, "old"), k.submitter(s, "busy")
	k.past(old, long, 3)
	k.past(busy, 10, waiting)
	k.vacuum("managed_tx")
	open := []string{
		string(txn.Queued),
		string(txn.Allocated),
		string(txn.Tracking),
		string(txn.Stuck),
	}
	for _, id := range []txn.SubmitterID{old, busy} {
		ids := []int32{int32(id)}
		list := func(q *db.Queries) error {
			p := listParams(TxFilter{Submitter: id, Limit: 20})
			_, err := q.ListTxs(k.ctx, p)
			return err
		}
		listOpen := func(q *db.Queries) error {
			p := listParams(TxFilter{Submitter: id, Limit: 20})
			_, err := q.ListOpenTxs(k.ctx, db.ListOpenTxsParams{
				SubmitterID: int32(id), AnyName: true, Before: 1 << 62, CreatedFrom: p.CreatedFrom,
				CreatedBefore: p.CreatedBefore, States: open, MaxRows: 20,
				MaxBytes: p.MaxBytes,
			})
			return err
		}
		for what, c := range map[string]struct {
			most int
			run  func(q *db.Queries) error
		}{
			"the head of the queue": {30, func(q *db.Queries) error {
				_, err := q.InboxTxs(k.ctx, db.InboxTxsParams{SubmitterIds: ids,
					Heads: slices.Repeat([]int32{8}, len(ids))})
				return err
			}},
			"what is open": {30, func(q *db.Queries) error {
				_, err := q.OpenTxs(k.ctx, int32(id))
				return err
			}},
			"the cursor": {30, func(q *db.Queries) error {
				_, err := q.Cursor(k.ctx, int32(id))
				return err
			}},
			"the first": {30, func(q *db.Queries) error {
				_,
					err := q.QueueHead(k.ctx, int32(id))
				return err
			}},
			"one": {20, func(q *db.Queries) error {
				_, err := q.TxsByRequest(k.ctx,
					db.TxsByRequestParams{SubmitterIds: ids, RequestIds: []string{"past-5"}})
				return err
			}},
			"a page":         {45, list},
			"a page of open": {45, listOpen},
			"those without an owner": {60, func(q *db.Queries) error {
				_, err := q.Orphans(k.ctx, db.OrphansParams{MaxRows: 10, ChainIds: []int64{31337},
					Crowd: 1})
				return err
			}},
		} {
			session := k.session()
			_, err := session.Exec(k.ctx, "SET max_parallel_workers_per_gather = 0") // as nodes do
			k.must(err)
			meter := &pagesRead{DBTX: session, t: t}
			k.must(c.run(db.New(meter)))
			if t.Logf("%s of submitter %d: %d pages", what, id, meter.pages); meter.pages > c.most {
				t.Errorf("%s of submitter %d: %d pages are read, %d at most are needed: %s",
					what, id, meter.pages, c.most, meter.plan)
			}
		}
	}
}

// TestOrphans_IdleSubmitters_NoCost: the frequent search for submitters without an owner reads few
// pages, independent of the number of idle submitters, and finds those with work. The same is true
// if few of them have no owner.
func TestOrphans_IdleSubmitters_NoCost(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	k.exec(`WITH many AS (
		INSERT INTO submitter (name, chain_id, address, signer, mode, max_in_flight, start_from)
		SELECT 'idle' || n, 31337, substr(sha256(int4send(n)), 1, 20), 'keys', 'STRICT', 1, 'chain'
		  FROM generate_series(1, 5000) n
		RETURNING submitter_id
	)
	INSERT INTO submitter_lease (submitter_id, fencing_token) SELECT submitter_id, 1 FROM many`)
	busy, waits := k.submitter(s, "busy"), k.submitter(s, "waits")
	k.past(busy, 10, 20_000)
	k.queue(s, waits, "r1")
	k.vacuum("managed_tx", "submitter", "submitter_lease")
	looks := func(when string, owned, most int, want ...txn.SubmitterID) {
		t.Helper()
		meter := &pagesRead{DBTX: k.session(), t: t}
		found, err := db.New(meter).Orphans(k.ctx,
			db.OrphansParams{MaxRows: 10, ChainIds: []int64{31337}, Crowd: mostFree(owned)})
		k.must(err)
		if got := submitters(found); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		if t.Logf("%s: %d pages", when, meter.pages); meter.pages > most {
			t.Errorf("%s: %d pages are read, %d at most are needed: %s", when, meter.pages,
				most, meter.plan)
		}
	}
	looks("nearly all idle", 2, 60, busy, waits)
	meter := &pagesRead{DBTX: k.session(), t: t}
	_, err := db.New(meter).Unowned(k.ctx,
		db.UnownedParams{ChainID: 31337, After: 1000, MaxRows: 256})
	k.must(err)
	if t.Logf("256 without an owner: %d pages", meter.pages); meter.pages > 60 {
		t.Errorf("%d pages are read for 256 submitters: %s", meter.pages, meter.plan)
	}
	k.exec(
		`UPDATE submitter_lease SET owner_node = 'a', fencing_token = 2, expires_at = 'infinity'
		  WHERE submitter_id <> ALL ($1)`,
		[]int32{int32(waits), 1, 2})
	k.vacuum("submitter_lease")
	looks("nearly all owned", 1000, 200, waits)
	// Most have an owner and work, and some hundreds lie idle.
	k.exec(
		"UPDATE submitter_lease SET expires_at = '-infinity' WHERE submitter_id BETWEEN 3 AND 400")
	k.exec(
		"UPDATE managed_tx SET submitter_id = 1000 + n FROM (SELECT tx_id, row_number() OVER () "+
			"AS n FROM managed_tx WHERE submitter_id = $1 AND nonce IS NULL LIMIT 3000) q WHERE "+
			"managed_tx.tx_id = q.tx_id",
		int32(busy))
	k.vacuum("managed_tx", "submitter_lease")
	looks("many at work, hundreds idle", 1500, 4500, waits)
}

// TestSubmitters_LongQueue_CountBounded: who asks how submitters stand hears of a few exactly how
// many wait, and of many that they are many. Of a queue of any length that takes the same.
func TestSubmitters_LongQueue_CountBounded(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	type count struct {
		queued int64
		more   bool
	}
	want := map[string]count{
		"none":     {},
		"few":      {3, false},
		"all":      {CountedQueue, false},
		"one-more": {CountedQueue, true},
		"long":     {CountedQueue, true},
	}
	for name, n := range map[string]int{"none": 0, "few": 3, "all": CountedQueue,
		"one-more": CountedQueue + 1, "long": 30_000} {
		k.past(k.submitter(s, name), 2, n)
	}
	k.vacuum("managed_tx")
	list, err := s.Submitters(k.ctx, nil, "", 10)
	k.must(err)
	if len(list) != len(want) {
		t.Fatalf("%d submitters", len(list))
	}
	for _, listed := range list {
		one, err := s.Submitter(k.ctx, listed.ID)
		k.must(err)
		for _, got := range []SubmitterInfo{listed, one} {
			if (count{got.Queued, got.More}) != want[got.Name] {
				t.Errorf("%s: %d, more %v; want %v", got.Name, got.Queued, got.More, want[got.Name])
			}
		}
		meter := &pagesRead{DBTX: k.session(), t: t}
		_, err = db.New(meter).Submitters(
			k.ctx,
			db.SubmittersParams{
				AnyName:     true,
				SubmitterID: int32(one.ID),
				MaxRows:     1,
				MostQueued:  CountedQueue + 1,
			},
		)
		k.must(err)
		if t.Logf("%s: %d pages", one.Name, meter.pages); meter.pages > 40 {
			t.Errorf("%s: %d pages are read: %s", one.Name, meter.pages, meter.plan)
		}
	}
}

// TestTxs_OpenStates_Listed: a list of open transactions has each of them once, newest first, over
// pages of any size, and no others; with a state it has only that state.
func TestTxs_OpenStates_Listed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, lease := k.owned(s, "busy")
	other := k.submitter(s, "other")
	var want []txn.TxID
	for i := range 5 {
		tx := k.queue(s, id, fmt.Sprintf("r%d", i))
		if i == 0 {
			k.done(s, lease, take(tx, 0))
		}
		if i == 1 { // final: no part of it
			k.done(s, lease, txn.Change{Writes: []txn.Write{failed(tx, "TEST")}})
			continue
		}
		want = append([]txn.TxID{tx.ID}, want...)
		if i%2 == 0 {
			want = append([]txn.TxID{k.queue(s, other, fmt.Sprintf("r%d", i)).ID}, want...)
		}
	}
	collect := func(f TxFilter) (ids []txn.TxID) {
		t.Helper()
		for {
			page, err := s.Txs(k.ctx, f)
			k.must(err)
			for _, info := range page {
				ids = append(ids, info.ID)
			}
			if f.Ends(page) {
				return ids
			}
			f.Before = page[len(page)-1].ID
		}
	}
	open := []txn.State{txn.Queued, txn.Allocated, txn.Tracking, txn.Stuck}
	for size := 1; size <= len(want)+1; size++ {
		if got := collect(TxFilter{States: open, Limit: size}); fmt.Sprint(got) != fmt.Sprint(
			want) {
			t.Errorf("pages of %d: %v, want %v", size, got, want)
		}
	}
	for _, c := range []struct {
		filter TxFilter
		want   int
	}{
		{TxFilter{States: open, Submitter: id}, 4}, {TxFilter{States: open, Submitter: other}, 3},
		{TxFilter{States: []txn.State{txn.Queued}}, 6},
		{TxFilter{States: []txn.State{txn.Allocated}}, 1},
		{TxFilter{States: []txn.State{txn.Stuck}}, 0},
		{TxFilter{States: open, Names: []string{"other"}}, 3},
		{TxFilter{States: open, Names: []string{}}, 0},
		{TxFilter{States: open, CreatedFrom: endOfTime}, 0},
		{TxFilter{States: []txn.State{txn.Failed, txn.Queued}}, 7},
	} {
		c.filter.Limit = 2
		if got := collect(c.filter); len(got) != c.want {
			t.Errorf("%+v: %v, want %d", c.filter, got, c.want)
		}
	}
	for _, f := range []TxFilter{{}, {States: []txn.State{txn.Confirmed, txn.Queued}},
		{States: open, Labels: map[string]string{"a": "b"}}} {
		if f.open() || !(TxFilter{States: open}).open() {
			t.Errorf("%+v is listed by another index than it can be", f)
		}
	}
	foreign, err := txn.NewTxID(endOfTime, id)
	k.must(err)
	if page, err := s.Txs(k.ctx, TxFilter{States: open, Limit: 9, Before: foreign}); err != nil ||
		len(page) > 0 {
		t.Errorf("behind what is not there: %v, %v", page, err)
	}
}

// TestSessions_NoParallelWorkers: a plan that is made once for all values takes a large table for
// one of which much is read, and would start processes for each of the few rows of a page of
// events.
func TestSessions_NoParallelWorkers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	for name, pool := range map[string]*pgxpool.Pool{"callers": s.api, "owners": s.owner} {
		var helpers string
		k.must(
			pool.QueryRow(k.ctx, "SELECT current_setting('max_parallel_workers_per_gather')").Scan(
				&helpers),
		)
		if helpers != "0" {
			t.Errorf("a statement of %s may have %s helpers", name, helpers)
		}
	}
}
