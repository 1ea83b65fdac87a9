package store

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// TestTransaction_FullLifecycle takes two transactions of one submitter through a whole life and
// reads back all that was written.
func TestTransaction_FullLifecycle(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	first, second := k.queue(s, id, "r1"), k.queue(s, id, "r2")

	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	if ledger.Submitter.Name != "alice" || ledger.Cursor == nil || ledger.Cursor.Next != 0 ||
		len(ledger.Open) != 0 {
		t.Fatalf("loaded %+v", ledger)
	}
	boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 10)
	k.must(err)
	queue := boxes[id].Queue
	if len(queue) != 2 || queue[0].ID != first.ID || queue[1].ID != second.ID {
		t.Fatalf("queue %+v", queue)
	}
	if queue[0].Payload.Hash() != first.RequestHash {
		t.Fatalf("the payload came back as %+v", queue[0].Payload)
	}

	change := take(first, 0)
	k.done(s, l, change)
	first = after(first, change.Writes[0])
	for _, write := range []func(txn.Tx) txn.Write{submitted,
		func(tx txn.Tx) txn.Write { return included(tx, 9) }} {
		w := write(first)
		if w.Next.Released { // the slot goes from one transaction to the next in one change
			w.Next.Released = false
		}
		k.done(s, l, txn.Change{Writes: []txn.Write{w}})
		first = after(first, w)
	}
	ledger, err = s.Load(k.ctx, l)
	k.must(err)
	if len(ledger.Open) != 1 {
		t.Fatalf("open: %+v", ledger.Open)
	}
	got := ledger.Open[0]
	if !reflect.DeepEqual(got.Status, first.Status) || len(got.Attempts) != 1 ||
		got.Attempts[0].Hash != first.Attempts[0].Hash ||
		string(got.Attempts[0].Raw) != string(first.Attempts[0].Raw) ||
		got.Attempts[0].Fees != first.Attempts[0].Fees ||
		got.Token != l.Token() {
		t.Fatalf("loaded %+v, want %+v", got, first)
	}

	both := take(second, 1)
	end := confirmed(first)
	both.Writes = append(both.Writes, end)
	k.done(s, l, both)
	first, second = after(first, end), after(second, both.Writes[0])

	ledger, err = s.Load(k.ctx, l)
	k.must(err)
	if ledger.Cursor.Next != 2 || len(ledger.Open) != 1 || ledger.Open[0].ID != second.ID {
		t.Fatalf("after the hand-over: %+v", ledger)
	}
	info, err := s.Tx(k.ctx, first.ID)
	k.must(err)
	if info.State != txn.Confirmed || info.Executed != txn.Success || info.FinalAt.IsZero() ||
		info.SubmitterName != "alice" ||
		info.Version != 5-1+1 {
		t.Fatalf("confirmed transaction: %+v", info)
	}
	events, err := s.EventsOfTx(k.ctx, first.ID, 0, 100)
	k.must(err)
	kinds := []txn.Kind{
		txn.EventQueued,
		txn.EventAllocated,
		txn.EventSubmitted,
		txn.EventIncluded,
		txn.EventConfirmed,
	}
	if len(events) != len(kinds) {
		t.Fatalf("events %+v", events)
	}
	for i, e := range events {
		if e.Kind != kinds[i] || e.Seq != int64(i+1) {
			t.Errorf("event %d is %s of number %d, want %s", i, e.Kind, e.Seq, kinds[i])
		}
	}
	attempts, err := s.Attempts(k.ctx, first.ID)
	k.must(err)
	if len(attempts) != 1 || attempts[0].Raw != nil || attempts[0].Hash != first.TxHash {
		t.Fatalf("attempts %+v", attempts)
	}
	readBack(k, s, id, first.ID, second.ID)
}

func readBack(k *kit, s *Store, id txn.SubmitterID, first, second txn.TxID) {
	k.t.Helper()
	submitter, err := s.Submitter(k.ctx, id)
	k.must(err)
	if !submitter.Lease.Live || submitter.Lease.OwnerNode != "a/boot" || submitter.InFlight != 1 ||
		submitter.Queued != 0 ||
		submitter.Cursor.Next != 2 {
		k.t.Fatalf("submitter %+v", submitter)
	}
	byRequest, err := s.TxByRequest(k.ctx, id, "r2")
	k.must(err)
	if byRequest.ID != second {
		k.t.Fatalf("by request: %+v", byRequest)
	}
	list, err := s.Txs(k.ctx, TxFilter{Submitter: id, Limit: 10})
	k.must(err)
	page, err := s.Txs(k.ctx,
		TxFilter{Before: list[0].ID, States: []txn.State{txn.Confirmed}, Limit: 1})
	k.must(err)
	if len(list) != 2 || len(page) > 1 || len(page) == 1 && page[0].ID != first {
		k.t.Fatalf("lists %+v %+v", list, page)
	}
}

// TestSchedule writes when something is due, and nothing else.
func TestSchedule(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "r1")
	w := txn.Write{
		Tx:      tx.ID,
		Version: tx.Version,
		From:    tx.State,
		Next:    tx.Status,
		Delay:   time.Hour,
	}
	w.Next.Sub, w.Next.Reason = txn.BackingOff, txn.ReasonChainUnavailable
	k.done(s, l, txn.Change{Writes: []txn.Write{w}})
	boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 1)
	k.must(err)
	got := boxes[id].Queue[0]
	if wait := time.Until(got.Due); wait < 59*time.Minute || wait > time.Hour || got.Version != 1 ||
		got.Sub != txn.BackingOff {
		t.Fatalf("due in %v: %+v", wait, got)
	}
	if events, err := s.EventsOfTx(k.ctx, tx.ID, 0, 10); err != nil || len(events) != 1 {
		t.Fatalf("a schedule wrote events: %+v %v", events, err)
	}
}

// TestCommands goes through pause, resume and cancel as an owner sees them.
func TestCommands(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "r1")

	pause, err := s.AddCommand(k.ctx, id, Ask{Kind: txn.CommandPause, Reason: "maintenance"})
	k.must(err)
	cancel, err := s.AddCommand(k.ctx, id, Ask{Kind: txn.CommandCancel, Tx: &tx.ID})
	k.must(err)
	repeated, err := s.AddCommand(k.ctx, id, Ask{Kind: txn.CommandCancel, Tx: &tx.ID})
	k.must(err)
	if cancel != repeated {
		t.Fatalf("a repeated cancel got number %d, the first one %d", repeated, cancel)
	}
	if _, done, err := s.CommandResult(k.ctx, id, pause); done || err != nil {
		t.Fatalf("done %v, %v", done, err)
	}
	k.want(k.commit(s, l, take(tx, 0)), Conflict) // nothing is taken past a command

	k.done(
		s,
		l,
		txn.Change{
			Status:   txn.Paused,
			Commands: []txn.CommandResult{{ID: pause, Result: txn.Applied}},
		},
	)
	if result, done, err := s.CommandResult(k.ctx, id, pause); !done || result != txn.Applied ||
		err != nil {
		t.Fatalf("%q %v %v", result, done, err)
	}
	ended := take(tx, 0)
	ended.Commands = []txn.CommandResult{{ID: cancel, Result: "TOO_LATE"}}
	k.want(k.commit(s, l, ended), Conflict) // paused
	if _, _, err := s.CreateTx(k.ctx,
		Intent{Submitter: id, RequestID: "r2", Payload: payload("r2")}); !errors.Is(
		err, ErrPaused) {
		t.Fatalf("created while paused: %v", err)
	}
	if info, created, err := s.CreateTx(k.ctx,
		Intent{Submitter: id, RequestID: "r1", Payload: payload("r1")}); err != nil ||
		created ||
		info.ID != tx.ID {
		t.Fatalf("a request that was accepted is not found while paused: %v", err)
	}
	k.done(s, l, txn.Change{Status: txn.Active})
	k.done(s, l, ended) // the change that ends the last command may take a nonce
	if _, _, err := s.CommandResult(k.ctx, id, 1<<40); !errors.Is(err, ErrCommandNotFound) {
		t.Fatalf("%v", err)
	}
	if _, err := s.AddCommand(k.ctx, 4711, Ask{Kind: txn.CommandPause}); !errors.Is(err,
		ErrSubmitterNotFound) {
		t.Fatalf("%v", err)
	}
}

// TestProtection stops the cursor and new transactions.
func TestProtection(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "r1")
	k.want(
		k.commit(
			s,
			l,
			txn.Change{
				Protect: &txn.Protection{Expect: 5, Reason: "EXTERNAL_USE", Evidence: "nonce 5"},
			},
		),
		Conflict,
	)
	k.done(
		s,
		l,
		txn.Change{
			Protect: &txn.Protection{
				Expect:   0,
				Reason:   "EXTERNAL_USE",
				Evidence: "nonce 0 in 0xabc",
			},
		},
	)
	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	if p := ledger.Cursor.Protected; p == nil || p.Reason != "EXTERNAL_USE" ||
		p.Evidence != "nonce 0 in 0xabc" ||
		p.At.IsZero() {
		t.Fatalf("cursor %+v", ledger.Cursor)
	}
	k.want(k.commit(s, l, take(tx, 0)), Conflict)
	if _, _, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "r2"}); !errors.Is(err,
		ErrProtected) {
		t.Fatalf("%v", err)
	}
	k.want(k.commit(s, l, txn.Change{Init: &txn.CursorInit{Nonce: 3, BlockHash: hashOf(1)}}),
		Conflict) // a cursor starts once
}

// A page ends early where its rows are large, and those behind it are on the next ones.
func TestTxs_MaxBytes_EndsPage(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	var want []txn.TxID
	for n := range 8 {
		intent := Intent{
			Submitter: id,
			RequestID: fmt.Sprint("r", n),
			Payload:   payload("x"),
			Labels:    map[string]string{"of": "all"},
		}
		intent.Payload.Data = bytes.Repeat([]byte{byte(n)}, 100<<10)
		info, _, err := s.CreateTx(k.ctx, intent)
		k.must(err)
		want = append([]txn.TxID{info.ID}, want...)
	}
	for name, labels := range map[string]map[string]string{"all": nil, "by label": {"of": "all"}} {
		filter := TxFilter{Limit: 100, MaxBytes: 250 << 10, Labels: labels}
		var got []txn.TxID
		for last := false; !last; {
			page, err := s.Txs(k.ctx, filter)
			k.must(err)
			if len(page) > 4 {
				t.Errorf(
					"%s: a page has %d rows, want the first three, with which it is beyond 250 "+
						"KiB, and one more",
					name, len(page))
			}
			for _, info := range page {
				got = append(got, info.ID)
			}
			last = filter.Ends(page)
			filter.Before = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the pages have %d rows, want the %d that there are, newest first", name,
				len(got), len(want))
		}
	}
}
