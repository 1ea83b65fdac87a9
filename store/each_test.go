package store

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// TestEach_GeneratedQuery_SameRows: parameters and columns of each.go are written by hand, in the
// generated order; and rows must not share memory.
func TestEach_GeneratedQuery_SameRows(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	k.queue(s, k.submitter(s, "bob"), "r")
	id, lease := k.owned(s, "alice")
	for i, kind := range []txn.AttemptKind{txn.Original, txn.Bump, txn.Cancel} {
		info, _, err := s.CreateTx(
			k.ctx,
			Intent{
				Submitter: id,
				RequestID: "r" + string(kind),
				Payload:   payload("x"),
				Labels:    map[string]string{"of": string(kind)},
			},
		)
		k.must(err)
		k.ended(s, lease, info.Tx, txn.Nonce(i), kind)
		k.queue(s, id, fmt.Sprint("queued ", i))
	}
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	q, all := s.own(), db.EventsSinceParams{Since: "1:1:", Until: head, AfterXid: "0", MaxRows: 100}
	first, err := q.EventsSince(k.ctx, all)
	k.must(err)
	after := first[0] // of bob
	for _, p := range []db.EventsSinceParams{all, {
		Since: all.Since, Until: head, AfterXid: after.Xid, AfterSubmitter: after.SubmitterID,
		AfterTx: after.TxID, AfterSeq: after.Seq, SubmitterID: int32(id), MaxRows: 7,
	}} {
		want, err := q.EventsSince(k.ctx, p)
		k.must(err)
		var got []db.EventsSinceRow
		k.must(
			q.EachEventSince(k.ctx, p,
				func(r *db.EventsSinceRow) error { got = append(got, *r); return nil }),
		)
		if len(want) < 7 || !reflect.DeepEqual(got, want) {
			t.Errorf("events: %+v, want %+v", got, want)
		}
	}
	inbox := db.InboxTxsParams{SubmitterIds: []int32{int32(id)}, Heads: []int32{2}}
	want, err := q.InboxTxs(k.ctx, inbox)
	k.must(err)
	var got []db.InboxTxsRow
	k.must(
		q.EachInboxTx(k.ctx, inbox,
			func(r *db.InboxTxsRow) error { got = append(got, *r); return nil }),
	)
	if len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("queues: %+v, want %+v", got, want)
	}
}
