package store

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// awaiting creates a transaction of caller shop that needs an approval.
func (k *kit) awaiting(s *Store, id txn.SubmitterID, request string) txn.Tx {
	k.t.Helper()
	info, created, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: request,
		Caller: "shop", Payload: payload(request), ApprovalTime: time.Hour})
	k.must(err)
	if !created || info.Sub != txn.AwaitingApproval {
		k.t.Fatalf("created: %v, %+v", created, info.Tx)
	}
	return info.Tx
}

// queued returns the request ids that the owner of a submitter reads, in their order.
func (k *kit) queued(s *Store, id txn.SubmitterID) (requests []string) {
	k.t.Helper()
	boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 10)
	k.must(err)
	for _, tx := range boxes[id].Queue {
		requests = append(requests, tx.RequestID)
	}
	return requests
}

// TestApproval_Approved_InQueue: a transaction that awaits an approval holds up no other, and joins
// the queue in the order of acceptance.
func TestApproval_Approved_InQueue(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	key := []byte("0123456789abcdef0123456789abcdef")
	s := k.open("a", func(c *Config) { c.IntentKey = key })
	id := k.submitter(s, "alice")
	first := k.awaiting(s, id, "first")
	k.queue(s, id, "second")
	if got := k.queued(s, id); !slices.Equal(got, []string{"second"}) {
		t.Fatalf("queue: %q", got)
	}
	again, created, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "first",
		Caller: "shop", Payload: payload("first"), ApprovalTime: time.Hour})
	if err != nil || created || again.ID != first.ID || again.Sub != txn.AwaitingApproval {
		t.Errorf("a repeated request: %+v, %v, %v", again.Tx, created, err)
	}
	if n, err := s.Awaiting(k.ctx); n != 1 || err != nil {
		t.Errorf("%d await an approval, %v", n, err)
	}
	k.must(s.DecideApproval(k.ctx, &first,
		Decision{Approved: true, Caller: "desk", Operator: "ann", Reason: "invoice"}))
	if got := k.queued(s, id); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("queue: %q", got)
	}
	if n, err := s.Awaiting(k.ctx); n != 0 || err != nil {
		t.Errorf("%d await an approval, %v", n, err)
	}
	boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 10)
	k.must(err)
	tx := boxes[id].Queue[0]
	if err := tx.Verify(key, true); err != nil || tx.Approval.By != "desk" ||
		tx.Sub != txn.None || tx.Version != 2 {
		t.Errorf("approved: %+v, %v", tx, err)
	}
	if got := k.log(s, id); len(got) != 1 || got[0] != "APPROVE  0: invoice (ann)" {
		t.Errorf("commands: %q", got)
	}
	k.checkpointed(s)
	if found := k.broken(s, id); len(found) > 0 {
		t.Errorf("violations: %q", found)
	}
	l := k.lease(s, id)
	k.done(s, l, txn.Change{Init: &txn.CursorInit{Block: 7, BlockHash: hashOf(7)}})
	k.done(s, l, take(tx, 0))
	k.lawful(s, id)
}

// TestTxs_Awaiting_Listed: newest first, page by page, by account, label and state, and none that
// was decided.
func TestTxs_Awaiting_Listed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	alice, bob := k.submitter(s, "alice"), k.submitter(s, "bob")
	k.queue(s, alice, "small")
	decided := k.awaiting(s, alice, "decided")
	k.must(s.DecideApproval(k.ctx, &decided, Decision{Approved: true, Caller: "desk"}))
	for _, request := range []string{"a1", "a2", "a3"} {
		k.awaiting(s, alice, request)
	}
	_, _, err := s.CreateTx(k.ctx, Intent{Submitter: bob, RequestID: "b1", Caller: "shop",
		Payload: payload("b1"), ApprovalTime: time.Hour, Labels: map[string]string{"of": "bob"}})
	k.must(err)
	for name, c := range map[string]struct {
		filter TxFilter
		want   []string
	}{
		"all":            {TxFilter{}, []string{"b1", "a3", "a2", "a1"}},
		"of one account": {TxFilter{Submitter: alice}, []string{"a3", "a2", "a1"}},
		"of some names":  {TxFilter{Names: []string{"bob"}}, []string{"b1"}},
		"of no name":     {TxFilter{Names: []string{}}, nil},
		"by label":       {TxFilter{Labels: map[string]string{"of": "bob"}}, []string{"b1"}},
		"queued": {TxFilter{States: []txn.State{txn.Queued}, Submitter: bob},
			[]string{"b1"}},
		"final":   {TxFilter{States: []txn.State{txn.Confirmed}}, nil},
		"earlier": {TxFilter{CreatedBefore: decided.CreatedAt}, nil},
	} {
		filter := c.filter
		filter.Awaiting, filter.Limit = true, 2
		var got []string
		for {
			page, err := s.Txs(k.ctx, filter)
			k.must(err)
			for _, info := range page {
				if got = append(got, info.RequestID); info.Sub != txn.AwaitingApproval {
					t.Errorf("%s: %+v", name, info.Status)
				}
			}
			if filter.Ends(page) {
				break
			}
			filter.Before = page[len(page)-1].ID
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestApproval_Waiting_GetsNoNonce: neither the fenced commit nor a statement by hand, such as of
// an older program, gives it a nonce, and no statement lifts the need of an approval.
func TestApproval_Waiting_GetsNoNonce(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx := k.awaiting(s, id, "first")
	k.want(k.commit(s, l, take(tx, 0)), Conflict)
	for what, sql := range map[string]string{
		"nonce": `UPDATE managed_tx SET state = 'ALLOCATED', sub_state = '', nonce = 0,
		           version = version + 1`,
		"no need":      `UPDATE managed_tx SET approval = '', sub_state = ''`,
		"own approval": `UPDATE managed_tx SET approval = 'APPROVED', approved_by = caller`,
		"no caller":    `UPDATE managed_tx SET approval = 'APPROVED', approved_by = ''`,
		"with a nonce": `UPDATE managed_tx SET approval = 'APPROVED', approved_by = 'desk',
		           state = 'ALLOCATED', sub_state = '', nonce = 0, version = version + 1`,
		"final and back": `UPDATE managed_tx SET sub_state = 'AWAITING_APPROVAL', state = 'STUCK'`,
	} {
		if _, err := k.db.Pool.Exec(k.ctx, sql); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	k.must(s.DecideApproval(k.ctx, &tx, Decision{Approved: true, Caller: "desk"}))
	if _, err := k.db.Pool.Exec(k.ctx,
		`UPDATE managed_tx SET approved_by = 'boss'`); err == nil {
		t.Error("the approver is changed")
	}
	k.want(k.commit(s, l, take(tx, 0)), Conflict) // of the version before
	now, err := s.Tx(k.ctx, tx.ID)
	k.must(err)
	k.done(s, l, take(now.Tx, 0))
}

func TestApproval_NotAwaiting_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	yes := Decision{Approved: true, Caller: "desk"}
	refused := func(tx txn.Tx, d Decision) {
		t.Helper()
		if err := s.DecideApproval(k.ctx, &tx, d); !errors.Is(err, ErrNotAwaiting) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	own := k.awaiting(s, id, "own")
	refused(own, Decision{Approved: true, Caller: "shop"})
	refused(own, Decision{Caller: "shop"})
	refused(own, Decision{Approved: true})
	refused(k.queue(s, id, "none needed"), yes)

	denied := k.awaiting(s, id, "denied")
	k.must(s.DecideApproval(k.ctx, &denied, Decision{Caller: "desk"}))
	refused(denied, yes)
	info, err := s.Tx(k.ctx, denied.ID)
	if err != nil || info.State != txn.Failed || info.Executed != txn.No ||
		info.Reason != txn.ReasonApprovalDenied {
		t.Errorf("denied: %+v, %v", info.Tx, err)
	}
	cancelled := k.awaiting(s, id, "cancelled")
	if ok, err := s.CancelQueued(k.ctx, cancelled.ID); !ok || err != nil {
		t.Errorf("cancel: %v, %v", ok, err)
	}
	refused(cancelled, yes)
	k.lawful(s, id)
}

// TestApproval_ConcurrentDeciders_OneWins: callers on three nodes approve and deny the same
// transactions.
func TestApproval_ConcurrentDeciders_OneWins(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	stores := []*Store{k.open("a"), k.open("b"), k.open("c")}
	id := k.submitter(stores[0], "alice")
	for _, request := range []string{"r1", "r2", "r3", "r4"} {
		tx := k.awaiting(stores[0], id, request)
		var won [2]atomic.Int64
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				d := Decision{Approved: i%2 == 0, Caller: []string{"desk", "boss"}[i/6]}
				switch err := stores[i%3].DecideApproval(k.ctx, &tx, d); {
				case err == nil:
					won[i%2].Add(1)
				case !errors.Is(err, ErrNotAwaiting):
					t.Error(err)
				}
			})
		}
		all.Wait()
		info, err := stores[0].Tx(k.ctx, tx.ID)
		k.must(err)
		approved := info.State == txn.Queued && info.Approval.State == txn.ApprovalGiven
		if won[0].Load()+won[1].Load() != 1 || approved != (won[0].Load() == 1) ||
			info.Version != 2 {
			t.Errorf("%d approved, %d denied: %+v", won[0].Load(), won[1].Load(), info.Tx)
		}
	}
	k.lawful(stores[0], id)
}

// TestApproval_NotInTime_Expires: it fails once, on whichever node, also after a restart; one that
// was decided or cancelled does not.
func TestApproval_NotInTime_Expires(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	late, approved := k.awaiting(s, id, "late"), k.awaiting(s, id, "approved")
	cancelled, open := k.awaiting(s, id, "cancelled"), k.awaiting(s, id, "open")
	k.must(s.DecideApproval(k.ctx, &approved, Decision{Approved: true, Caller: "desk"}))
	_, err := s.CancelQueued(k.ctx, cancelled.ID)
	k.must(err)
	if n, err := s.ExpireApprovals(k.ctx); n != 0 || err != nil {
		t.Fatalf("%d expired, %v", n, err)
	}
	k.exec(`UPDATE tx_approval SET expires_at = clock_timestamp() WHERE tx_id <> $1`,
		open.ID.String())
	if err := s.DecideApproval(k.ctx, &late,
		Decision{Approved: true, Caller: "desk"}); !errors.Is(err, ErrNotAwaiting) {
		t.Errorf("approved late: %v", err)
	}
	stores := []*Store{k.open("b"), k.open("c")}
	var expired atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			n, err := stores[i%2].ExpireApprovals(k.ctx)
			if err != nil {
				t.Error(err)
			}
			expired.Add(n)
		})
	}
	all.Wait()
	k.eventually("the rows that are due are gone", func() bool {
		n, err := s.ExpireApprovals(k.ctx)
		k.must(err)
		expired.Add(n)
		return value[int](k, `SELECT count(*) FROM tx_approval`) == 1
	})
	if expired.Load() != 1 {
		t.Errorf("%d expired", expired.Load())
	}
	for tx, want := range map[txn.TxID]txn.State{late.ID: txn.Failed, approved.ID: txn.Queued,
		cancelled.ID: txn.Cancelled, open.ID: txn.Queued} {
		info, err := s.Tx(k.ctx, tx)
		k.must(err)
		if info.State != want {
			t.Errorf("%s is %s (%s), want %s", info.RequestID, info.State, info.Reason, want)
		}
		if tx == late.ID && (info.Reason != txn.ReasonApprovalExpired ||
			info.Executed != txn.No) {
			t.Errorf("expired: %+v", info.Tx)
		}
	}
	k.lawful(s, id)
}

// TestApproval_ChangedByHand_Found: an approval that a statement by hand gave or removed is a
// violation of the history, and of its code.
func TestApproval_ChangedByHand_Found(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a", func(c *Config) { c.IntentKey = []byte("0123456789abcdef0123456789abcdef") })
	id := k.submitter(s, "alice")
	k.awaiting(s, id, "given")
	k.awaiting(s, id, "removed")
	if found := k.broken(s, id); len(found) > 0 {
		t.Fatalf("violations: %q", found)
	}
	k.exec(`ALTER TABLE managed_tx DISABLE TRIGGER USER`)
	k.exec(`UPDATE managed_tx SET approval = 'APPROVED', approved_by = 'desk', sub_state = ''
	         WHERE request_id = 'given'`)
	k.exec(`UPDATE managed_tx SET approval = '', sub_state = '' WHERE request_id = 'removed'`)
	found := k.broken(s, id)
	slices.Sort(found)
	if want := []string{"approval_changed", "approval_changed", "intent_unverified",
		"intent_unverified"}; !slices.Equal(found, want) {
		t.Errorf("violations: %q, want %q", found, want)
	}
}
