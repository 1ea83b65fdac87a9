package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// follower reads the feed like a watcher, and keeps its position in a resume token between any two
// reads.
type follower struct {
	*kit
	s     *Store
	token string
	limit int
	seen  []EventInfo
}

func (k *kit) follow(s *Store, limit int) *follower {
	k.t.Helper()
	head, err := s.Head(k.ctx)
	k.must(err)
	at := Position{Epoch: head.Epoch, Timeline: head.Timeline, Seen: head.Snapshot}
	return &follower{kit: k, s: s, limit: limit, token: at.String()}
}

// read continues to the current head.
func (f *follower) read() {
	f.t.Helper()
	_, head, err := f.s.FeedHead(f.ctx)
	f.must(err)
	for more := true; more; {
		p, err := ParsePosition(f.token)
		f.must(err)
		if p.Until == "" {
			p.Until = head
		}
		events, err := f.s.EventsSince(f.ctx, nil, p.Seen, p.Until, p.After, 0, f.limit)
		f.must(err)
		f.seen = append(f.seen, events...)
		if len(events) > 0 {
			p.After = events[len(events)-1].Key()
		}
		if more = len(events) == f.limit; !more {
			p.Seen, p.Until = p.Until, ""
			p.After = EventKey{}
		}
		f.token = p.String()
	}
}

// once checks that every event was seen once, and the events of a transaction in order.
func (f *follower) once() {
	f.t.Helper()
	next := map[txn.TxID]int64{}
	for _, e := range f.seen {
		next[e.Tx]++
		if e.Seq != next[e.Tx] {
			f.t.Fatalf("event %d of transaction %s came when %d was due", e.Seq, e.Tx, next[e.Tx])
		}
	}
	if n := value[int](f.kit, "SELECT count(*) FROM tx_event"); n != len(f.seen) {
		f.t.Fatalf("%d events were seen, %d are there", len(f.seen), n)
	}
}

// begin queues a transaction in a session that has not committed.
func (k *kit) begin(id txn.SubmitterID, request string) pgx.Tx {
	k.t.Helper()
	tx, err := k.session().Begin(k.ctx)
	k.must(err)
	job := &createJob{intent: Intent{Submitter: id, RequestID: request, Payload: payload(request)},
		chain: 31337}
	job.id, err = txn.NewTxID(time.Now(), id)
	k.must(err)
	_, err = db.New(tx).InsertTxs(k.ctx, insertParams([]*createJob{job}))
	k.must(err)
	return tx
}

// TestFeed_CommitsOutOfOrder_NoEventLost: the one that began first commits last (E9).
func TestFeed_CommitsOutOfOrder_NoEventLost(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	f := k.follow(s, 1)
	slow := k.begin(id, "slow")
	quick := k.queue(s, id, "quick")
	f.read()
	if len(f.seen) != 1 || f.seen[0].Tx != quick.ID {
		t.Fatalf("seen %+v", f.seen)
	}
	k.must(slow.Commit(k.ctx))
	f.read()
	f.read()
	if len(f.seen) != 2 || f.seen[1].Kind != txn.EventQueued ||
		f.seen[1].SubmitterName != "alice" ||
		f.seen[1].Xid >= f.seen[0].Xid {
		t.Fatalf("seen %+v", f.seen)
	}
	f.once()
	// Events that commit after a head was taken belong to the next read, however late it comes.
	p, err := ParsePosition(f.token)
	k.must(err)
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	k.queue(s, id, "late")
	if events, err := s.EventsSince(k.ctx, nil, p.Seen, head, EventKey{}, 0, 10); err != nil ||
		len(events) != 0 {
		t.Fatalf("events beyond the head: %+v %v", events, err)
	}
	f.read()
	f.once()
}

// TestFeed_ManyWriters_NoEventLost commits in a random order while readers with pages of different
// sizes look.
func TestFeed_ManyWriters_NoEventLost(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", func(c *Config) { c.LeaseDuration = time.Minute })
	id, l := k.owned(s, "alice")
	other := k.submitter(s, "bob")
	followers := []*follower{k.follow(s, 1), k.follow(s, 3), k.follow(s, 1000)}
	order := rand.New(rand.NewPCG(1, 2))
	var open []pgx.Tx
	for n := range 40 {
		open = append(open, k.begin(other, fmt.Sprint("o", n)))
		tx := k.queue(s, id, fmt.Sprint("r", n))
		if n%3 == 0 {
			k.done(s, l, txn.Change{Writes: []txn.Write{failed(tx, txn.ReasonInvalid)}})
		} else if n%3 == 1 {
			_, err := s.CancelQueued(k.ctx, tx.ID)
			k.must(err)
		}
		for len(open) > 6 {
			i := order.IntN(len(open))
			k.must(open[i].Commit(k.ctx))
			k.must(open[i].Conn().Close(k.ctx))
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
		followers[order.IntN(len(followers))].read()
	}
	for _, tx := range open {
		k.must(tx.Commit(k.ctx))
	}
	for _, f := range followers {
		f.read()
		f.once()
	}
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	events, err := s.EventsSince(k.ctx, nil, "1:1:", head, EventKey{}, id, 1000)
	k.must(err)
	if len(events) != value[int](k, "SELECT count(*) FROM tx_event WHERE submitter_id = $1", id) {
		t.Fatalf("%d events of one submitter", len(events))
	}
}

// TestFeed_Plan_UsesIndex: reading the end of a long feed must not read all of it.
func TestFeed_Plan_UsesIndex(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "alice")
	k.exec(
		`INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
		                      message)
		SELECT $1, gen_random_uuid(), 1, 'QUEUED', 'QUEUED', '', 'UNKNOWN', '', ''
		  FROM generate_series(1, 20000)`,
		id,
	)
	k.exec("ANALYZE tx_event")
	k.eventually(
		"all that other tests began before is over, or the events would not be old",
		func() bool {
			return value[bool](k,
				"SELECT bool_and(pg_snapshot_xmin(pg_current_snapshot()) > xid) FROM tx_event")
		},
	)
	f := k.follow(s, 100)
	k.queue(s, id, "r1")
	p, err := ParsePosition(f.token)
	k.must(err)
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	e := &explain{DBTX: k.db.Pool, t: t}
	rows, err := db.New(e).EventsSince(k.ctx,
		db.EventsSinceParams{Since: p.Seen, Until: head, AfterXid: "0", MaxRows: 10})
	k.must(err)
	if len(rows) != 1 || !strings.Contains(e.plan, "Index Scan using tx_event_feed") ||
		!strings.Contains(e.plan, "Index Cond: ((xid >= ") {
		t.Fatalf("%d rows, plan:\n%s", len(rows), e.plan)
	}
	tap := &textTap{DBTX: k.db.Pool}
	_, err = db.New(tap).FeedHead(k.ctx, p.Seen)
	k.must(err)
	if plan := tap.kept(k); strings.Contains(plan, "Seq Scan on tx_event") ||
		!strings.Contains(plan, "Index Cond: (xid >= ") {
		t.Fatalf("the head is found by the plan:\n%s", plan)
	}
}

// TestFeed_OpenTransaction_CostStays reads the feed next to a transaction that stays open, which
// keeps everything since then above the horizon of each snapshot.
func TestFeed_OpenTransaction_CostStays(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "alice")
	write := func(n int) {
		t.Helper()
		k.exec(
			`INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed,
			                       reason, message)
			SELECT $1, gen_random_uuid(), 1, 'QUEUED', 'QUEUED', '', 'UNKNOWN', '', ''
			  FROM generate_series(1, $2)`, id, n)
	}
	write(100)
	open := k.begin(id, "open")
	cost := func() float64 {
		t.Helper()
		before, err := ParsePosition(k.follow(s, 100).token)
		k.must(err)
		write(3)
		conn, err := s.tail.Acquire(k.ctx)
		k.must(err)
		defer conn.Release()
		m := &meteredReads{DBTX: conn, t: t}
		head, err := db.New(m).FeedHead(k.ctx, before.Seen)
		k.must(err)
		rows, err := db.New(m).EventsSince(k.ctx, db.EventsSinceParams{
			Since: before.Seen, Until: head.Snapshot, AfterXid: "0", MaxRows: 1000})
		k.must(err)
		if !head.News || len(rows) != 3 {
			t.Fatalf("%d events, news %v", len(rows), head.News)
		}
		return m.rows
	}
	few := cost()
	for range 20 {
		write(1000)
	}
	many := cost()
	k.must(open.Commit(k.ctx))
	if many > few+100 { // other tests' open transactions cost a few
		t.Errorf("a read met %v rows after 100 events and %v after 20,000", few, many)
	}
}

// TestFeed_SubmitterNames_Cached: of a submitter the name is asked for once. The feed and the
// answers to creates have it all the same, however few fit; and nothing is remembered of those that
// are not there.
func TestFeed_SubmitterNames_Cached(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	for _, name := range []string{"alice", "bob", "carol"} {
		id := k.submitter(s, name)
		for _, request := range []string{"r1", "r1"} { // the second time it is found
			info, _, err := s.CreateTx(k.ctx,
				Intent{Submitter: id, RequestID: request, Payload: payload(request)})
			if k.must(err); info.SubmitterName != name {
				t.Errorf("a transaction of %s is answered as one of %q", name, info.SubmitterName)
			}
		}
	}
	s.lookups.accounts = nil
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	check := func(when string) {
		t.Helper()
		events, err := s.EventsSince(k.ctx, nil, "1:1:", head, EventKey{}, 0, 100)
		k.must(err)
		got := ""
		for _, e := range events {
			got += fmt.Sprintf("%d %s, ", e.Event.Submitter, e.SubmitterName)
		}
		if want := "1 alice, 2 bob, 3 carol, "; got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	check("at first")
	k.exec("UPDATE submitter SET name = 'x' || name") // which nothing of ours does
	check("when all are known")
	k.exec("UPDATE submitter SET name = substr(name, 2)")
	s.lookups.accounts = map[txn.SubmitterID]account{1: {name: "alice"}}
	for id := txn.SubmitterID(10); len(s.lookups.accounts) < maxLookups; id++ {
		s.lookups.accounts[id] = account{name: "others"}
	}
	check("when one is known and no other fits")
	if len(s.lookups.accounts) != 2 {
		t.Errorf("%d are remembered", len(s.lookups.accounts))
	}
	unknown := []EventInfo{{Event: txn.Event{Submitter: 77}}}
	if err := s.Feed().name(k.ctx, unknown); err != nil || unknown[0].SubmitterName != "" ||
		len(s.lookups.accounts) != 2 {
		t.Errorf("of one that is not there: %q, %v", unknown[0].SubmitterName, err)
	}
}
