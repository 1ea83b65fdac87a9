package store

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// crowd is a ledger with many finished transactions and 500 submitters at work.
func crowd(k *kit, s *Store, history int) *fleet {
	k.t.Helper()
	const submitters = 500
	k.exec(`INSERT INTO submitter (name, chain_id, address, signer, mode, max_in_flight, start_from)
		SELECT 's' || n, 31337, decode(lpad(to_hex(n), 40, '0'), 'hex'), 'local', 'STRICT', 1, '0'
		  FROM generate_series(1, $1) n`, submitters)
	k.exec("INSERT INTO submitter_lease (submitter_id) SELECT submitter_id FROM submitter")
	k.exec(
		`INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, value, data,
		                        gas_limit, state, version, nonce, executed, released_at,
		                        terminal_at)
		SELECT 1 + n % $1, gen_random_uuid(), 'old' || n, decode(repeat('01', 32), 'hex'), 0, '',
		       0, 'CONFIRMED', 5, n / $1, 'SUCCESS', clock_timestamp(), clock_timestamp()
		  FROM generate_series(0, $2 - 1) n`,
		submitters,
		history,
	)
	k.exec(
		`INSERT INTO submitter_nonce_cursor (submitter_id, next_nonce, init_nonce, init_block,
		                                    init_block_hash, fencing_token)
		SELECT submitter_id, $1, 0, 0, decode(repeat('01', 32), 'hex'), 1 FROM submitter`,
		history/submitters,
	)
	f := &fleet{kit: k, s: s}
	for n := range submitters {
		f.ids = append(f.ids, txn.SubmitterID(n+1))
	}
	leases, err := s.Acquire(k.ctx, f.ids)
	k.must(err)
	f.leases = make([]*Lease, submitters)
	for _, l := range leases {
		f.leases[l.Submitter()-1] = l
	}
	k.exec("UPDATE submitter_lease SET expires_at = clock_timestamp() + INTERVAL '1 day'")
	return f
}

// BenchmarkCommit measures a fenced statement that takes a nonce for each of 1, 100 and 500
// submitters, on a ledger of 100,000 transactions.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 100, 500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			k := newKit(b, dbtest.WithoutGuard())
			s := k.open("a")
			f := crowd(k, s, 100_000)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				var jobs []*commitJob
				k.exec(
					"UPDATE managed_tx SET released_at = clock_timestamp() WHERE nonce IS NOT " +
						"NULL AND released_at IS NULL")
				for i := range size {
					tx := k.queue(
						s,
						f.ids[i],
						fmt.Sprint("b", b.N, "-", i, "-",
							value[int64](k, "SELECT nextval('queue_seq')")),
					)
					nonce := txn.Nonce(
						value[int64](k,
							"SELECT next_nonce FROM submitter_nonce_cursor WHERE submitter_id = $1",
							f.ids[i]),
					)
					change := take(tx, nonce)
					jobs = append(
						jobs,
						&commitJob{
							lease:  f.leases[i],
							change: change,
							bytes:  changeSize(change),
							ended:  make(chan struct{}),
						},
					)
				}
				b.StartTimer()
				if why := s.sendCommits(s.lanes[0].conn, jobs); why != nil {
					b.Fatal(why.err)
				}
				for _, job := range jobs {
					if job.outcome != Done {
						b.Fatal(job.outcome, job.err)
					}
				}
			}
		})
	}
}

// TestCommit_Plan_UsesKeys: the plan that a connection keeps meets every table along its key, and
// compares no list with another. It may have been made when the ledger was empty, or had one
// transaction of each submitter.
func TestCommit_Plan_UsesKeys(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(*kit, *Store){
		"an empty ledger": func(*kit, *Store) {},
		"one of each":     func(k *kit, s *Store) { crowd(k, s, 500) },
		"many":            func(k *kit, s *Store) { crowd(k, s, 5000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, dbtest.WithoutGuard())
			s := k.open("a")
			if fill(k, s); name != "an empty ledger" {
				k.exec("ANALYZE managed_tx, submitter, submitter_lease, submitter_nonce_cursor")
			}
			checkFencedPlan(t, fencedPlan(k, s))
		})
	}
}

// fencedPlan is the plan that the connection of fenced statements would make now.
func fencedPlan(k *kit, s *Store) []string {
	k.t.Helper()
	s.lanes[0].conn.mu.Lock()
	defer s.lanes[0].conn.mu.Unlock()
	conn, err := s.lanes[0].conn.connected(k.ctx)
	k.must(err)
	tap := &textTap{DBTX: conn}
	_, err = db.New(tap).Commit(k.ctx, commitParams("", nil))
	k.must(err)
	_, err = conn.Prepare(k.ctx, "fenced", tap.sql)
	k.must(err)
	rows, err := conn.Query(k.ctx,
		"EXPLAIN (COSTS OFF) EXECUTE fenced ("+strings.Repeat("NULL, ", tap.args-1)+"NULL)")
	k.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	k.must(err)
	return lines
}

func checkFencedPlan(t *testing.T, lines []string) {
	t.Helper()
	plan := strings.Join(lines, "\n")
	for _, bad := range []string{"Seq Scan", "Bitmap", "Hash Join", "Merge Join", "Materialize",
		"managed_tx_request"} {
		if strings.Contains(plan, bad) {
			t.Errorf("the plan has a %s", bad)
		}
	}
	byKey := regexp.MustCompile(
		`Index Scan using managed_tx_pkey on managed_tx t(_\d+)?\n *Index Cond: .*` +
			`\(submitter_id = w(_\d+)?\.submitter_id\) AND \(tx_id = w(_\d+)?\.tx_id\)\)`)
	if n := len(byKey.FindAllString(plan, -1)); n != 3 {
		t.Errorf("%d look-ups of transactions by their key, want 3: to lock, to move, to allocate",
			n)
	}
	for i, line := range lines { // between two of our lists nothing but a hash table
		if strings.Contains(line, "Nested Loop") &&
			!strings.Contains(strings.Join(lines[i:min(len(lines), i+8)], "\n"), "Index Scan") {
			t.Errorf("a loop without a key: %s", strings.Join(lines[i:min(len(lines), i+8)], "\n"))
		}
	}
	if t.Failed() {
		t.Log(plan)
	}
}

// TestCommit_Rows_LookedUpByKey: the frequent reads of owners and of the feed are planned when the
// ledger may be empty, and must not walk along all transactions of a submitter, or of the ledger,
// when it is full. A row may also be read by its place (ctid).
func TestCommit_Rows_LookedUpByKey(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	for what, run := range map[string]func(q *db.Queries) error{
		"the head of the queue": func(q *db.Queries) error {
			_, err := q.InboxTxs(k.ctx, db.InboxTxsParams{SubmitterIds: []int32{1, 2, 3},
				Heads: []int32{8, 8, 8}})
			return err
		},
		"the labels of events": func(q *db.Queries) error {
			_, err := q.EventsSince(k.ctx, db.EventsSinceParams{Since: "1:1:", Until: "9:9:",
				AfterXid: "0", MaxRows: 10})
			return err
		},
	} {
		conn, err := s.owner.Acquire(k.ctx)
		k.must(err)
		e := &explain{DBTX: conn, t: t}
		k.must(run(db.New(e)))
		conn.Release()
		met := strings.Contains(e.plan, "using managed_tx_pkey on managed_tx t") ||
			strings.Contains(e.plan, "Tid Scan on managed_tx t")
		if !met || strings.Contains(e.plan, "Seq Scan on managed_tx") ||
			strings.Contains(e.plan, "Hash Join") {
			t.Errorf("%s: %s", what, e.plan)
		}
	}
}

// TestAPIStatements_Rows_LookedUpByKey: the reads of callers are also planned when the ledger may
// be empty, and must not walk along all transactions of a submitter.
func TestAPIStatements_Rows_LookedUpByKey(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	for what, run := range map[string]func(q *db.Queries) error{
		"one": func(q *db.Queries) error {
			_, err := q.TxByID(k.ctx, db.TxByIDParams{SubmitterID: 1, TxID: uuid.Max})
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		},
		"a page": func(q *db.Queries) error {
			_, err := q.ListTxs(k.ctx, db.ListTxsParams{SubmitterID: 1, AnyName: true,
				Before: uuid.Max, MaxRows: 10, MaxBytes: 1 << 20})
			return err
		},
	} {
		conn, err := s.api.Acquire(k.ctx)
		k.must(err)
		e := &explain{DBTX: conn, t: t}
		k.must(run(db.New(e)))
		conn.Release()
		if strings.Contains(e.plan, "using managed_tx_request on") ||
			strings.Contains(e.plan, "using tx_attempt_pkey on") {
			t.Errorf("%s: %s", what, e.plan)
		}
	}
}

// BenchmarkNode measures reading a hundred events of the feed, reading a hundred queues of one
// transaction, and queueing a hundred.
func BenchmarkNode(b *testing.B) {
	k := newKit(b, dbtest.WithoutGuard())
	s := k.open("a")
	f := crowd(k, s, 1000)
	f.queueEach(0, f.ids[:lifeGroup])
	k.exec("VACUUM ANALYZE")
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	b.Run("events", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			events, err := s.EventsSince(k.ctx, nil, "1:1:", head, EventKey{}, 0, 1000)
			if err != nil || len(events) != lifeGroup {
				b.Fatal(len(events), err)
			}
		}
	})
	b.Run("creates", func(b *testing.B) {
		b.ReportAllocs()
		for n := 1; b.Loop(); n++ {
			f.queueEach(n+b.N*1000, f.ids[lifeGroup:2*lifeGroup])
		}
	})
	b.Run("inboxes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if boxes, err := s.Inboxes(k.ctx, f.ids[:lifeGroup], 1); err != nil ||
				len(boxes[f.ids[0]].Queue) != 1 {
				b.Fatal(len(boxes), err)
			}
		}
	})
}
