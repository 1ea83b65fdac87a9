package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

type created struct {
	info  TxInfo
	first bool
	err   error
}

// createAll creates at the same time, spread over the stores.
func (k *kit) createAll(stores []*Store, intents []Intent) []created {
	k.t.Helper()
	results := make([]created, len(intents))
	var all sync.WaitGroup
	for i, intent := range intents {
		all.Go(func() {
			r := &results[i]
			r.info, r.first, r.err = stores[i%len(stores)].CreateTx(k.ctx, intent)
		})
	}
	all.Wait()
	return results
}

// TestCreateTx_SameKeyConcurrently_OneTransaction: 100 calls on three nodes make one row and get
// one answer.
func TestCreateTx_SameKeyConcurrently_OneTransaction(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	stores := []*Store{k.open("a"), k.open("b"), k.open("c")}
	id := k.submitter(stores[0], "alice")
	intents := slices.Repeat([]Intent{{Submitter: id, RequestID: "pay-1", Payload: payload("pay")}},
		100)
	firsts := 0
	var answer TxInfo
	for i, r := range k.createAll(stores, intents) {
		k.must(r.err)
		if r.first {
			firsts++
		}
		if i == 0 {
			answer = r.info
		}
		if r.info.ID != answer.ID || r.info.QueueSeq != answer.QueueSeq ||
			!r.info.CreatedAt.Equal(answer.CreatedAt) ||
			!r.info.UpdatedAt.Equal(answer.UpdatedAt) ||
			r.info.Payload.Hash() != answer.Payload.Hash() ||
			r.info.SubmitterName != "alice" ||
			r.info.State != answer.State ||
			r.info.Version != answer.Version ||
			r.info.RequestHash != answer.RequestHash {
			t.Fatalf("answer %d is %+v, the first one %+v", i, r.info, answer)
		}
	}
	if rows := value[int](k, "SELECT count(*) FROM managed_tx"); firsts != 1 || rows != 1 {
		t.Fatalf("%d calls say that they created, %d rows", firsts, rows)
	}
	if n := value[int](k, "SELECT count(*) FROM tx_event"); n != 1 {
		t.Fatalf("%d events", n)
	}
}

// TestCreateTx_KeysInOtherOrder_NoDeadlock: nodes that create the same keys in different orders do
// not block each other.
func TestCreateTx_KeysInOtherOrder_NoDeadlock(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	stores := []*Store{k.open("a"), k.open("b")}
	id := k.submitter(stores[0], "alice")
	var intents []Intent
	for n := range 40 {
		for _, m := range []int{n, 39 - n} { // even places go to one node, odd ones to the other
			intents = append(
				intents,
				Intent{
					Submitter: id,
					RequestID: fmt.Sprint("r", m),
					Payload:   payload(fmt.Sprint(m)),
				},
			)
		}
	}
	for i, r := range k.createAll(stores, intents) {
		if r.err != nil {
			t.Fatalf("call %d: %v", i, r.err)
		}
	}
	if rows := value[int](k, "SELECT count(*) FROM managed_tx"); rows != 40 {
		t.Fatalf("%d rows, want 40", rows)
	}
	// A statement inserts its keys in their order, independent of the order of arrival.
	jobs := make([]*createJob, 3)
	for i, request := range []string{"z", "x", "y"} {
		jobs[i] = &createJob{
			intent: Intent{Submitter: id, RequestID: request},
			info:   &TxInfo{},
			call:   &createCall{ended: make(chan struct{})},
		}
		var err error
		jobs[i].id, err = txn.NewTxID(time.Now(), id)
		k.must(err)
	}
	if why := stores[0].sendCreates(false, jobs); why != nil {
		t.Fatal(why.err)
	}
	if order := value[string](k, "SELECT string_agg(request_id, '' ORDER BY ctid) FROM "+
		"managed_tx WHERE request_id IN ('x', 'y', 'z')"); order != "xyz" {
		t.Fatalf("x, y and z were inserted as %s", order)
	}
	z, x := jobs[0].info.QueueSeq, jobs[1].info.QueueSeq
	if y := jobs[2].info.QueueSeq; z > x || x > y {
		t.Fatalf("z, x and y, requested in this order, are queued as %d, %d and %d", z, x, y)
	}
}

func TestCreateTx_Invalid_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	k.queue(s, id, "taken")
	big := payload("x")
	big.GasLimit = 1 << 63
	for name, c := range map[string]struct {
		intent Intent
		want   error
		text   string
	}{
		"another payload": {Intent{Submitter: id, RequestID: "taken",
			Payload: payload("other")}, ErrKeyReused, "it belongs to transaction"},
		"no such submitter": {Intent{Submitter: 4711, RequestID: "r"}, ErrSubmitterNotFound,
			"submitter 4711"},
		"a key without text": {Intent{Submitter: id, RequestID: ""}, nil,
			"managed_tx_request_id_check"},
		"a key that no text is": {Intent{Submitter: id, RequestID: "\x00"}, nil, "SQLSTATE 22"},
		"too much gas": {Intent{Submitter: id, RequestID: "r", Payload: big}, nil,
			"gas limit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, first, err := s.CreateTx(k.ctx, c.intent)
			if err == nil || first || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("created %v, error %v", first, err)
			}
			if c.text != "" && !strings.Contains(err.Error(), c.text) {
				t.Fatalf("the error says %q, want %q", err, c.text)
			}
		})
	}
	t.Cleanup(func() {
		if n := value[int](k, "SELECT count(*) FROM managed_tx"); n != 1 {
			t.Errorf("%d rows are left, want 1", n)
		}
	})
}

// TestCreateTxs_OneBad_OthersCreated: one that the database refuses does not take its group with
// it.
func TestCreateTxs_OneBad_OthersCreated(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	// The first insert waits for a key that another session is inserting, so that the rest gather
	// behind it.
	session, err := k.session().Begin(k.ctx)
	k.must(err)
	plug := &createJob{intent: Intent{Submitter: id, RequestID: "plug"}, chain: 31337}
	plug.id, err = txn.NewTxID(time.Now(), id)
	k.must(err)
	plug.hash = plug.intent.Payload.Hash()
	_, err = db.New(session).InsertTxs(k.ctx, insertParams([]*createJob{plug}))
	k.must(err)

	intents := []Intent{{Submitter: id, RequestID: "plug"}}
	for n := range 20 {
		intents = append(intents,
			Intent{Submitter: id, RequestID: fmt.Sprint("r", n), Payload: payload(fmt.Sprint(n))})
	}
	intents[7].RequestID = "\x00"
	done := make(chan []created)
	go func() { done <- k.createAll([]*Store{s}, intents[:1]) }()
	k.waiting(s, "api")
	go func() { done <- k.createAll([]*Store{s}, intents[1:]) }()
	k.eventually("the rest wait", func() bool {
		s.creates.mu.Lock()
		defer s.creates.mu.Unlock()
		return len(s.creates.waiting) == 20
	})
	k.must(session.Commit(k.ctx))
	if r := <-done; r[0].err != nil || r[0].first || !r[0].info.ID.SameButTime(plug.id) {
		t.Fatalf("the loser of a race got %+v", r[0])
	}
	for i, r := range <-done {
		if bad := i == 6; bad != (r.err != nil) || bad == r.first {
			t.Errorf("call %d: %+v", i, r)
		}
	}
}

// TestCreateTx_CallerGone_StillCreated returns the results that are certain when the caller leaves;
// jobs that continue do not change them.
func TestCreateTx_CallerGone_StillCreated(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", func(c *Config) { c.MaxGroupChanges = 1 }) // four transactions in a statement
	id := k.submitter(s, "alice")
	session, err := k.session().Begin(k.ctx)
	k.must(err)
	plug := &createJob{intent: Intent{Submitter: id, RequestID: "plug"}, chain: 31337}
	plug.id, err = txn.NewTxID(time.Now(), id)
	k.must(err)
	plug.hash = plug.intent.Payload.Hash()
	_, err = db.New(session).InsertTxs(k.ctx, insertParams([]*createJob{plug}))
	k.must(err)

	intents := make([]Intent, 7)
	// the last two are the second group
	for n, request := range []string{"a", "bad", "c", "d", "e", "plug", "f"} {
		intents[n] = Intent{Submitter: id, RequestID: request}
	}
	intents[1].Payload.GasLimit = math.MaxUint64
	ctx, cancel := context.WithCancelCause(k.ctx)
	done := make(chan []Created)
	go func() { done <- s.CreateTxs(ctx, intents) }()
	k.eventually("the first group is there",
		func() bool { return value[int](k, "SELECT count(*) FROM managed_tx") > 0 })
	k.waiting(s, "api")
	why := errors.New("it has no time")
	cancel(why)
	results := <-done
	k.must(session.Commit(k.ctx))
	s.Close()
	for i, result := range results {
		switch left := errors.Is(result.Err, why); {
		case i == 1:
			if result.Err == nil || left {
				t.Errorf("what cannot be: %v", result.Err)
			}
		case left:
			if result.Created || result.Info.ID != (txn.TxID{}) {
				t.Errorf("call %d is left, and yet %+v", i, result)
			}
		case result.Err != nil || !result.Created || result.Info.RequestID != intents[i].RequestID:
			t.Errorf("call %d: %+v", i, result)
		}
	}
	if results[0].Err != nil || !errors.Is(results[5].Err, why) || !errors.Is(results[6].Err, why) {
		t.Errorf("the first group was there, the second was not: %v, %v, %v", results[0].Err,
			results[5].Err, results[6].Err)
	}
	if n := value[int](k, "SELECT count(*) FROM managed_tx"); n != 6 {
		t.Errorf("%d transactions, want 6", n)
	}
}

// TestCreateTx_ReplyLost_FoundByKey is found by its own key, and is the caller's own.
func TestCreateTx_ReplyLost_FoundByKey(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.proxy()
	s := k.open("a", func(c *Config) { c.URL = p.URL() })
	id := k.submitter(s, "alice")
	lost := p.On(pgproxy.Running("name: InsertTxs "), pgproxy.LoseReply)
	info, first, err := s.CreateTx(k.ctx,
		Intent{Submitter: id, RequestID: "lost-reply", Payload: payload("x")})
	k.must(err)
	<-lost.Fired()
	if !first {
		t.Fatalf("somebody else is said to have created %+v", info)
	}
	if n := value[int](k, "SELECT count(*) FROM managed_tx"); n != 1 {
		t.Fatalf("%d rows", n)
	}
}

// TestCreateTxs_ContextEnds_KnownResultsKept leaves its transaction to be found.
func TestCreateTxs_ContextEnds_KnownResultsKept(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	ctx, cancel := context.WithCancelCause(k.ctx)
	gone := errors.New("the caller is gone")
	cancel(gone)
	_, _, err := s.CreateTx(ctx, Intent{Submitter: id, RequestID: "r", Payload: payload("x")})
	if err != nil && !errors.Is(err, gone) {
		t.Fatalf("%v", err)
	}
	if info, _, err := s.CreateTx(k.ctx,
		Intent{Submitter: id, RequestID: "r", Payload: payload("x")}); err != nil ||
		info.State != txn.Queued {
		t.Fatalf("%+v, %v", info, err)
	}
}

func TestWakeUps(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	tx := k.queue(s, id, "r1")
	expect := func(what string) {
		t.Helper()
		select {
		case <-s.Woken():
		default:
			t.Fatalf("nobody is woken by %s", what)
		}
		if ids, heard, look := s.TakeWoken(); look || len(heard) > 0 ||
			!slices.Equal(ids, []txn.SubmitterID{id}) {
			t.Fatalf("woken by %s: %v, look %v", what, ids, look)
		}
	}
	expectEvent := func(what string, want bool) {
		t.Helper()
		select {
		case <-s.EventsWritten():
			if !want {
				t.Fatalf("%s tells of events", what)
			}
		default:
			if want {
				t.Fatalf("%s does not tell of its event", what)
			}
		}
	}
	if ids := s.TakeQueued(); !slices.Equal(ids, []txn.SubmitterID{id}) {
		t.Fatalf("queued for %v", ids)
	}
	select {
	case <-s.Woken():
	default:
		t.Fatal("nobody is woken by a new transaction")
	}
	expectEvent("a new transaction", true)
	k.queue(s, id, "r1")
	if ids := s.TakeQueued(); len(ids) != 0 {
		t.Fatalf("a repeated call wakes %v", ids)
	}
	_, err := s.AddCommand(k.ctx, id, Ask{Kind: txn.CommandPause})
	k.must(err)
	expect("a command")
	expectEvent("a command", false)
	if cancelled, err := s.CancelQueued(k.ctx, tx.ID); !cancelled || err != nil {
		t.Fatalf("%v %v", cancelled, err)
	}
	expect("a cancel")
	expectEvent("a cancel", true)
	if cancelled, err := s.CancelQueued(k.ctx, tx.ID); cancelled || err != nil {
		t.Fatalf("cancelled twice: %v %v", cancelled, err)
	}
	unknown, err := txn.NewTxID(time.Now(), id)
	k.must(err)
	if _, err := s.CancelQueued(k.ctx, unknown); !errors.Is(err, ErrTxNotFound) {
		t.Fatalf("%v", err)
	}
}

// TestCreateTx_Plan_UsesKeys: however many submitters and transactions, none is compared with each
// of the others.
func TestCreateTx_Plan_UsesKeys(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	crowd(k, k.open("a"), 500)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			k.exec("ANALYZE submitter, submitter_nonce_cursor, managed_tx")
		}
		tap := &textTap{DBTX: k.db.Pool}
		_, err := db.New(tap).InsertTxs(k.ctx, db.InsertTxsParams{})
		k.must(err)
		if plan := tap.kept(k); strings.Contains(plan, "Join Filter") ||
			strings.Count(plan, "hashed SubPlan") != 10 {
			t.Errorf("analyzed: %v\n%s", analyzed, plan)
		}
	}
}
