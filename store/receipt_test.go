package store

import (
	"maps"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ended takes a nonce for a transaction, which ends in a block by a form of this kind.
func (k *kit) ended(s *Store, l *Lease, tx txn.Tx, nonce txn.Nonce, kind txn.AttemptKind) {
	k.t.Helper()
	taken := take(tx, nonce)
	k.done(s, l, taken)
	tx = after(tx, taken.Writes[0])
	sent := submitted(tx)
	k.done(s, l, txn.Change{Writes: []txn.Write{sent}})
	tx = after(tx, sent)
	if kind != txn.Original {
		w := move(tx, txn.EventReplaced, txn.Tracking)
		w.Attempt = attempt(tx, nonce, 2)
		w.Attempt.Kind, w.Next.TxHash = kind, w.Attempt.Hash
		k.done(s, l, txn.Change{Writes: []txn.Write{w}})
		tx = after(tx, w)
	}
	in := included(tx, uint64(100+nonce))
	k.done(s, l, txn.Change{Writes: []txn.Write{in}})
	k.done(s, l, txn.Change{Writes: []txn.Write{confirmed(after(tx, in))}})
}

// TestReads_Included_ReportsAttemptKind: a transaction without a receipt has no kind, and the
// others have the kind of the attempt with the receipt's hash, in every read; and so do events.
func TestReads_Included_ReportsAttemptKind(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, lease := k.owned(s, "alice")
	want := map[txn.TxID]txn.AttemptKind{}
	for i, kind := range []txn.AttemptKind{txn.Original, txn.Bump, txn.Cancel} {
		info, _, err := s.CreateTx(
			k.ctx,
			Intent{
				Submitter: id,
				RequestID: "r" + string(kind),
				Payload:   payload("x"),
				Labels:    map[string]string{"of": "all"},
			},
		)
		k.must(err)
		k.ended(s, lease, info.Tx, txn.Nonce(i), kind)
		want[info.ID] = kind
	}
	info, _, err := s.CreateTx(
		k.ctx,
		Intent{
			Submitter: id,
			RequestID: "r",
			Payload:   payload("x"),
			Labels:    map[string]string{"of": "all"},
		},
	)
	k.must(err)
	want[info.ID] = ""
	ids, last := []txn.TxID{}, info.ID
	for id := range want {
		ids = append(ids, id)
	}

	one := map[txn.TxID]txn.AttemptKind{}
	byRequest := map[txn.TxID]txn.AttemptKind{}
	for id, kind := range want {
		info, err := s.Tx(k.ctx, id)
		k.must(err)
		one[id] = info.Included
		info, err = s.TxByRequest(k.ctx, id.Submitter(), "r"+string(kind))
		k.must(err)
		byRequest[info.ID] = info.Included
	}
	answers := map[string]map[txn.TxID]txn.AttemptKind{"one": one, "by request": byRequest}
	for what, filter := range map[string]TxFilter{
		"a list": {}, "a list of named ones": {IDs: ids},
		"a list by a label": {Labels: map[string]string{"of": "all"}},
	} {
		filter.Limit = 10
		page, err := s.Txs(k.ctx, filter)
		k.must(err)
		answers[what] = map[txn.TxID]txn.AttemptKind{}
		for _, info := range page {
			answers[what][info.ID] = info.Included
		}
	}
	for what, got := range answers {
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	open, err := s.Txs(k.ctx, TxFilter{States: []txn.State{txn.Queued}, Limit: 10})
	if k.must(err); len(open) != 1 || open[0].ID != last || open[0].Included != "" {
		t.Errorf("what is open: %+v", open)
	}
	k.eventsTell(s, want)
}

// eventsTell checks that each event with a receipt has the kind of its attempt, and no other event
// has one; and the other looked-up columns.
func (k *kit) eventsTell(s *Store, want map[txn.TxID]txn.AttemptKind) {
	k.t.Helper()
	ids := []txn.TxID{}
	for id := range want {
		ids = append(ids, id)
	}
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	all, err := s.EventsSince(k.ctx, nil, "1:1:", head, EventKey{}, 0, 100)
	k.must(err)
	for _, e := range all {
		if e.SubmitterName != "alice" || e.Labels["of"] != "all" {
			k.t.Errorf("an event is of %q with the labels %v", e.SubmitterName, e.Labels)
		}
	}
	named, err := s.EventsSinceOf(k.ctx, "1:1:", head, EventKey{}, ids, 100)
	k.must(err)
	var own []EventInfo
	for _, id := range ids {
		events, err := s.EventsOfTx(k.ctx, id, 0, 100)
		k.must(err)
		own = append(own, events...)
	}
	for what, events := range map[string][]EventInfo{"the feed": all, "the feed of some": named,
		"the events of each": own} {
		if len(events) != 3*5+2+1 {
			k.t.Errorf("%s has %d events", what, len(events))
		}
		for _, e := range events {
			form := txn.AttemptKind("")
			if e.Receipt != nil {
				form = want[e.Tx]
			}
			if e.Included != form {
				k.t.Errorf("%s: event %d of the one that ended by %q is %s and tells the form %q",
					what, e.Seq, want[e.Tx], e.Kind, e.Included)
			}
		}
	}
}

// TestReads_NotIncluded_NoAttemptLookup: pages of a list and of the feed read each row once, and
// nothing more for a row without a receipt. There are so few attempts here that one lookup would
// read them all.
func TestReads_NotIncluded_NoAttemptLookup(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "alice")
	const queued, page = 30_000, 100
	k.past(id, 100, queued)
	k.exec(
		`INSERT INTO tx_attempt (submitter_id, tx_id, attempt_no, kind, nonce, tx_hash, raw_tx,
		                        gas_limit, fee_cap, tip, legacy, fencing_token)
		SELECT submitter_id, tx_id, 1, 'ORIGINAL', nonce, sha256(uuid_send(tx_id)),
		       decode(repeat('02', 115), 'hex'), 21000, 3000000000, 1000000000, FALSE, 1
		  FROM managed_tx WHERE nonce IS NOT NULL`,
	)
	k.exec(
		`INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
		                      message)
		SELECT submitter_id, tx_id, 1, 'QUEUED', 'QUEUED', '', 'UNKNOWN', '', ''
		  FROM managed_tx WHERE nonce IS NULL LIMIT 1000`,
	)
	k.vacuum("managed_tx", "tx_attempt", "tx_event", "submitter", "tx_label")
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	tailer, err := s.tail.Acquire(k.ctx)
	k.must(err)
	e := &explain{DBTX: tailer, t: t}
	_, err = db.New(e).EventsSince(k.ctx,
		db.EventsSinceParams{Since: "1:1:", Until: head, AfterXid: "0", MaxRows: page})
	tailer.Release()
	if k.must(err); strings.Contains(e.plan, "Seq Scan") {
		t.Errorf("the tailer reads a whole table: %s", e.plan)
	}
	p := listParams(TxFilter{Submitter: id, Limit: page})
	for what, c := range map[string]struct {
		most int
		run  func(q *db.Queries) (int, error)
	}{
		"a page of the list": {page + 25, func(q *db.Queries) (int, error) {
			rows, err := q.ListTxs(k.ctx, p)
			return len(rows), err
		}},
		"a page of what is open": {page + 25, func(q *db.Queries) (int, error) {
			rows, err := q.ListOpenTxs(k.ctx, db.ListOpenTxsParams{
				SubmitterID: p.SubmitterID, AnyName: true, Before: 1 << 62,
				CreatedFrom: p.CreatedFrom, CreatedBefore: p.CreatedBefore,
				States: []string{"QUEUED"}, MaxRows: page, MaxBytes: p.MaxBytes,
			})
			return len(rows), err
		}},
		"a page of the feed": {40, func(q *db.Queries) (int, error) {
			rows, err := q.EventsSince(k.ctx, db.EventsSinceParams{Since: "1:1:", Until: head,
				AfterXid: "0", MaxRows: page})
			return len(rows), err
		}},
	} {
		meter := &pagesRead{DBTX: k.session(), t: t}
		rows, err := c.run(db.New(meter))
		k.must(err)
		if t.Logf("%s: %d pages", what, meter.pages); rows != page || meter.pages > c.most {
			t.Errorf("%s: %d pages are read for %d rows, %d at most are needed: %s", what,
				meter.pages, rows, c.most, meter.plan)
		}
	}
}
