package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// A read of named transactions returns the same as a read of all of them: page by page, in the same
// order.
func TestTxs_NamedIDs(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	alice, bob := k.submitter(s, "alice"), k.submitter(s, "bob")
	var ids []txn.TxID
	for i, of := range []txn.SubmitterID{alice, bob, alice, bob, alice, alice} {
		ids = append(ids, k.queue(s, of, "r"+string(rune('0'+i))).ID)
	}
	named := []txn.TxID{ids[4], ids[1], ids[0]} // in any order
	gone, err := txn.NewTxID(time.Now(), alice)
	k.must(err)
	cancelled, err := s.CancelQueuedFor(k.ctx, ids[1], Ask{})
	if k.must(err); !cancelled {
		t.Fatal("it was not cancelled")
	}

	epoch, head, err := s.FeedHead(k.ctx)
	k.must(err)
	all, err := s.EventsSince(k.ctx, nil, "1:1:", head, EventKey{}, 0, 100)
	k.must(err)
	want := slices.DeleteFunc(all, func(e EventInfo) bool { return !slices.Contains(named, e.Tx) })
	for _, limit := range []int{1, 2, 100} {
		var got []EventInfo
		for at := (Position{Epoch: epoch}); ; {
			page, err := s.EventsSinceOf(k.ctx, "1:1:", head, at.After,
				append([]txn.TxID{gone}, named...), limit)
			k.must(err)
			if got = append(got, page...); len(page) < limit {
				break
			}
			at.After = page[limit-1].Key()
		}
		if !slices.EqualFunc(got, want, func(a, b EventInfo) bool {
			return a.Key() == b.Key() && a.SubmitterName == b.SubmitterName && a.State == b.State
		}) || len(got) != 4 {
			t.Errorf("pages of %d: events %v, want %v", limit, got, want)
		}
	}
	if news, err := s.EventsSinceOf(k.ctx, head, head, EventKey{}, named, 100); err != nil ||
		len(news) != 0 {
		t.Errorf("after the head: %v: %v", news, err)
	}

	for _, filter := range []TxFilter{{IDs: named, Limit: 2}, {IDs: named, Limit: 100, MaxBytes: 1},
		{IDs: append([]txn.TxID{gone}, named...), Limit: 100}} {
		var got []txn.TxID
		for {
			page, err := s.Txs(k.ctx, filter)
			k.must(err)
			for _, info := range page {
				got = append(got, info.ID)
			}
			if filter.Ends(page) {
				break
			}
			filter.Before = page[len(page)-1].ID
		}
		if want := []txn.TxID{ids[4], ids[1], ids[0]}; !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", filter.Limit, got, want)
		}
	}
	open, err := s.Txs(k.ctx, TxFilter{IDs: named, States: []txn.State{txn.Queued}, Limit: 100})
	if k.must(err); len(open) != 2 || open[0].ID != ids[4] || open[0].SubmitterName != "alice" {
		t.Errorf("of those in the queue: %v", open)
	}

	versions, err := s.TxVersions(k.ctx, append([]txn.TxID{gone}, named...))
	if k.must(err); len(versions) != 3 || versions[ids[1]] != (TxVersion{2, txn.Cancelled}) ||
		versions[ids[0]] != (TxVersion{1, txn.Queued}) {
		t.Errorf("versions: %v", versions)
	}
}

// Named transactions are found by their keys in a ledger with many others, also by a generic plan.
func TestTxs_NamedIDs_PlanUsesKeys(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "alice")
	tx := k.queue(s, id, "r1").ID
	k.exec(
		`INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
		                      message)
		SELECT $1, gen_random_uuid(), 1, 'QUEUED', 'QUEUED', '', 'UNKNOWN', '', ''
		  FROM generate_series(1, 20000)`,
		id,
	)
	k.exec(
		`INSERT INTO managed_tx
		SELECT (jsonb_populate_record(t, jsonb_build_object(
		           'tx_id', gen_random_uuid(), 'request_id', 'other-' || n,
		           'queue_seq', t.queue_seq + n))).*
		  FROM managed_tx t, generate_series(1, 5000) n WHERE t.tx_id = $1`,
		tx,
	)
	k.exec("ANALYZE tx_event")
	k.exec("ANALYZE managed_tx")
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	of, named := keys([]txn.TxID{tx})
	tap := &textTap{DBTX: k.db.Pool}
	for name, read := range map[string]func(*db.Queries) (int, error){
		"the feed": func(q *db.Queries) (int, error) {
			rows, err := q.EventsSinceOf(k.ctx,
				db.EventsSinceOfParams{SubmitterIds: of, TxIds: named, Since: "1:1:", Until: head,
					AfterXid: "0", MaxRows: 10})
			return len(rows), err
		},
		"the list": func(q *db.Queries) (int, error) {
			p := listParams(TxFilter{Limit: 10})
			rows, err := q.ListTxsByID(k.ctx, db.ListTxsByIDParams{SubmitterIds: of, TxIds: named,
				Before: p.Before, States: p.States, MaxRows: p.MaxRows, MaxBytes: p.MaxBytes})
			return len(rows), err
		},
		"the versions": func(q *db.Queries) (int, error) {
			rows, err := q.TxVersions(k.ctx, db.TxVersionsParams{SubmitterIds: of, TxIds: named})
			return len(rows), err
		},
	} {
		e := &explain{DBTX: k.db.Pool, t: t}
		rows, err := read(db.New(e))
		k.must(err)
		_, err = read(db.New(tap))
		k.must(err)
		for _, plan := range []string{e.plan, tap.kept(k)} {
			if rows != 1 || strings.Contains(plan, "Seq Scan on tx_event") ||
				strings.Contains(plan, "Seq Scan on managed_tx") ||
				strings.Contains(plan, "tx_event_feed") {
				t.Errorf("%s: %d rows, plan:\n%s", name, rows, plan)
			}
		}
	}
}

// Nor is a plan that is made when the ledger is empty, and kept, a walk along all that a submitter
// has, or of the whole table.
func TestTxs_NamedIDs_FirstPlanUsesKeys(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	tap := &textTap{DBTX: k.db.Pool}
	for name, read := range map[string]func(*db.Queries) error{
		"the list": func(q *db.Queries) error {
			_, err := q.ListTxsByID(k.ctx, db.ListTxsByIDParams{MaxRows: 1})
			return err
		},
		"the versions": func(q *db.Queries) error {
			_,
				err := q.TxVersions(k.ctx, db.TxVersionsParams{})
			return err
		},
	} {
		k.must(read(db.New(tap)))
		plan := tap.kept(k)
		for _, bad := range []string{"Seq Scan on managed_tx", "Bitmap", "Hash Join",
			"managed_tx_request"} {
			if strings.Contains(plan, bad) {
				t.Errorf("%s has a %s:\n%s", name, bad, plan)
			}
		}
	}
}

// A page of the feed of some reads of each no more than fits into it, however much there is.
func TestEventsSinceOf_Page_ReadsNoMore(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "alice")
	var ids []txn.TxID
	for _, request := range []string{"r1", "r2", "r3"} {
		ids = append(ids, k.queue(s, id, request).ID)
	}
	k.exec(
		`INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
		                      message)
		SELECT submitter_id, tx_id, n, 'DELAYED', 'QUEUED', '', 'UNKNOWN', '', ''
		  FROM managed_tx, generate_series(2, 500) n`,
	)
	k.exec("ANALYZE tx_event")
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	of, named := keys(ids)
	meter := &meteredReads{DBTX: k.session(), t: t}
	rows, err := db.New(meter).EventsSinceOf(
		k.ctx,
		db.EventsSinceOfParams{
			SubmitterIds: of,
			TxIds:        named,
			Since:        "1:1:",
			Until:        head,
			AfterXid:     "0",
			MaxRows:      10,
		},
	)
	k.must(err)
	if most := 2 * 3 * 10.0; len(rows) != 10 || meter.rows > most { // each, and its submitter
		t.Errorf("%.0f rows are read for a page of %d, %.0f at most are needed", meter.rows,
			len(rows), most)
	}
}
