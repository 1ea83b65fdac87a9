package server

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestLedgers_PoolWhileAnotherIsDown_Found: a pool needs its own ledger only, also on a node that
// began while another was down.
func TestLedgers_PoolWhileAnotherIsDown_Found(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n")
	ask := &pb.CreatePoolRequest{Pool: "fees", ChainId: chainID, Ledger: "eu1"}
	_, err := pb.NewPoolServiceClient(n.conn).CreatePool(n.ctx, ask)
	n.must(err)
	s.down(n, 1)
	pools := pb.NewPoolServiceClient(s.node("m").conn)
	if _, err := pools.GetPool(n.ctx, &pb.GetPoolRequest{Pool: "fees"}); err != nil {
		t.Errorf("a pool of the ledger that is up: %v", err)
	}
	ask.Pool = "other"
	_, err = pools.CreatePool(n.ctx, ask)
	wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE")
}

// TestLedgers_OneIsBusy_Retryable: while a ledger has no room for a question, a transaction is not
// said to be missing, and lists have the rows of the others.
func TestLedgers_OneIsBusy_Retryable(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n")
	kept := n.create("at-eu1", "1").GetTxId()
	full := n.server.router.ledgers[1]
	for range cap(full.slots) {
		full.slots <- struct{}{}
	}
	hash := "0x" + "11111111111111111111111111111111" + "11111111111111111111111111111111"
	_, err := n.txs.GetTx(n.ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_Hash{Hash: hash}})
	wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY")
	list, err := n.txs.ListTxs(n.ctx, &pb.ListTxsRequest{})
	n.must(err)
	if txs := list.GetTxs(); len(txs) != 1 || txs[0].GetTxId() != kept ||
		len(list.GetMissingLedgers()) != 1 || list.GetMissingLedgers()[0] != "eu2" {
		t.Errorf("the list: %v", list)
	}
	for range cap(full.slots) {
		<-full.slots
	}
	_, err = n.txs.GetTx(n.ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_Hash{Hash: hash}})
	wantStatus(t, err, codes.NotFound, "TX_NOT_FOUND")
}

// accountIDOf is the account id of a submitter of [newSeveral].
func accountIDOf(name string) string {
	var address txn.Address
	copy(address[:], name)
	return txn.AccountID(chainID, address)
}

// TestLedgers_AccountIDWhileDown_ByRights: a caller that names an account by its id learns that its
// own ledger is down, and not whether an account of others exists.
func TestLedgers_AccountIDWhileDown_ByRights(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	id := accountIDOf("at-eu2")
	begin := func(name string) *node {
		return s.node(name, func(o *Options) {
			o.Callers = []auth.Caller{
				{Name: "admin", Tokens: []string{tokenOf("admin")}, Operator: true,
					Submitters: []string{auth.AllSubmitters}},
				{Name: "shop", Tokens: []string{tokenOf("shop")}, Submitters: []string{"at-eu2"}},
				{Name: "other", Tokens: []string{tokenOf("other")},
					Submitters: []string{"at-eu1"}},
				{Name: "new", Tokens: []string{tokenOf("new")},
					Submitters: []string{"at-eu1", "unregistered"}}}
		})
	}
	of := s.ctx
	s.ctx = role{token: tokenOf("admin")}.in(of)
	createFor := func(n *node, caller, id string) error {
		_, err := n.txs.CreateTx(role{token: tokenOf(caller)}.in(of), &pb.CreateTxRequest{
			Submitter: id, RequestId: "r", Payload: payload()})
		return err
	}
	create := func(n *node, caller string) error { return createFor(n, caller, id) }
	strangers := func(n *node) {
		for _, account := range []string{id, accountIDOf("nobody")} {
			wantStatus(t, createFor(n, "other", account), codes.PermissionDenied,
				"PERMISSION_DENIED")
			got := wantStatus(t, createFor(n, "new", account), codes.Unavailable,
				"STORE_UNAVAILABLE")
			if strings.Contains(got.Proto().String(), "eu2") {
				t.Errorf("the ledger of an account of others is named: %v", got)
			}
		}
	}
	knows := begin("n")
	knows.eventually("the node knows the account",
		func() bool { return knows.server.router.index.submitter(id) != nil })
	wantStatus(t, create(knows, "new"), codes.PermissionDenied, "PERMISSION_DENIED")
	s.down(knows, 1)
	wantStatus(t, create(knows, "shop"), codes.Unavailable, "STORE_UNAVAILABLE")
	strangers(knows)
	later := begin("m")
	wantStatus(t, create(later, "shop"), codes.Unavailable, "STORE_UNAVAILABLE")
	strangers(later)
	knows.must(createFor(later, "other", accountIDOf("at-eu1")))

	// The ledger that the account has left names the one that is down.
	s.proxies[1].Heal()
	s.await(knows)
	s.moveAccount()
	s.down(knows, 2)
	moved := begin("o")
	wantStatus(t, create(moved, "shop"), codes.Unavailable, "STORE_UNAVAILABLE")
	wantStatus(t, create(moved, "other"), codes.PermissionDenied, "PERMISSION_DENIED")
}

// watchedStore is a ledger that counts decisions on undelivered events, and can fail to read
// accounts.
type watchedStore struct {
	*store.Store

	decisions atomic.Int64
	failing   atomic.Bool
}

// Submitter reads an account.
func (s *watchedStore) Submitter(ctx context.Context,
	id txn.SubmitterID) (store.SubmitterInfo, error) {
	if s.failing.Load() {
		return store.SubmitterInfo{}, store.ErrUnavailable
	}
	return s.Store.Submitter(ctx, id)
}

// SkipParked gives up an event.
func (s *watchedStore) SkipParked(ctx context.Context, d store.SinkDecision, id txn.TxID,
	seq int64) error {
	s.decisions.Add(1)
	return s.Store.SkipParked(ctx, d, id, seq)
}

// RetryParked makes a transaction due.
func (s *watchedStore) RetryParked(ctx context.Context, d store.SinkDecision,
	id txn.TxID) (int64, error) {
	s.decisions.Add(1)
	return s.Store.RetryParked(ctx, d, id)
}

// watchedNode starts a node with all ledgers, and returns them.
func (s *several) watchedNode(name string, callers ...auth.Caller) (*node, []*watchedStore) {
	s.t.Helper()
	var of []*watchedStore
	n := s.nodeOf(name, nil, func(o *Options) {
		o.Callers = callers
		for i, ledger := range s.names {
			opened := s.of[i].openWith(s.proxies[i].URL(), name, s.openDirectory(s.db.NodeURL))
			of = append(of, &watchedStore{Store: opened})
			o.Ledgers = append(o.Ledgers, Ledger{Name: ledger, Store: of[i],
				Tail: opened.TailFeed()})
		}
	})
	return n, of
}

// park leaves events of a transaction undelivered in a ledger.
func (s *several) park(ledger int, id string, first, last int64) {
	s.t.Helper()
	s.must(s.of[ledger].store.EnsureSinks(s.ctx, []string{"hook"}))
	_, err := s.of[ledger].db.Pool.Exec(s.ctx, `INSERT INTO sink_parked (sink, tx_id,
		submitter_id, next_seq, last_seq) VALUES ('hook', $1, $2, $3, $4)`,
		id, int32(txID(s.t, id).Submitter()), first, last)
	s.must(err)
}

// TestLedgers_UndeliveredOfUnmoved_OwnLedgerOnly: a decision on an account that has never moved
// does not wait for other ledgers.
func TestLedgers_UndeliveredOfUnmoved_OwnLedgerOnly(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n, of := s.watchedNode("n")
	id := n.create("at-eu1", "1").GetTxId()
	s.park(0, id, 1, 1)
	sinks := pb.NewSinkServiceClient(n.conn)
	retried, err := sinks.RetryUndelivered(n.ctx,
		&pb.RetryUndeliveredRequest{Sink: "hook", TxId: id, Reason: why})
	if err != nil || retried.GetRetried() != 1 {
		t.Errorf("retried: %v %v", retried, err)
	}
	skip := &pb.SkipUndeliveredRequest{Sink: "hook", TxId: id, Seq: 1, Reason: why}
	_, err = sinks.SkipUndelivered(n.ctx, skip)
	n.must(err)
	_, err = sinks.SkipUndelivered(n.ctx, skip)
	wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
	for i, want := range []int64{3, 0} {
		if got := of[i].decisions.Load(); got != want {
			t.Errorf("ledger %s had %d decisions, want %d", s.names[i], got, want)
		}
	}
}

// TestLedgers_FormerLedgerFails_Unavailable: while a ledger cannot tell whether an account has
// moved, nothing of the account is said to be missing.
func TestLedgers_FormerLedgerFails_Unavailable(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	of := s.ctx
	s.ctx = role{token: tokenOf("admin")}.in(of)
	n, ledgers := s.watchedNode("n",
		auth.Caller{Name: "admin", Tokens: []string{tokenOf("admin")}, Operator: true,
			Submitters: []string{auth.AllSubmitters}},
		auth.Caller{Name: "shop", Tokens: []string{tokenOf("shop")},
			Submitters: []string{"at-eu2"}})
	first := n.create("at-eu2", "1").GetTxId()
	s.moveAccount()
	later := s.node("m").create("at-eu2", "2").GetTxId()
	for _, h := range s.of {
		s.must(h.store.EnsureSinks(s.ctx, []string{"hook"}))
	}
	ledgers[1].failing.Store(true)
	s.down(n, 2)
	for _, caller := range []string{"shop", "admin"} {
		_, err := n.txs.GetTx(role{token: tokenOf(caller)}.in(of), byID(later))
		wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE")
	}
	_, err := pb.NewSinkServiceClient(n.conn).SkipUndelivered(n.ctx,
		&pb.SkipUndeliveredRequest{Sink: "hook", TxId: first, Seq: 1, Reason: why})
	wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE")
}

// TestLedgers_SinkDecision_InThoseThatHaveIt: decisions about a sink are made in each ledger that
// has it, and an error names all that did not respond.
func TestLedgers_SinkDecision_InThoseThatHaveIt(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n")
	for i, name := range s.names[1:] {
		id := n.create("at-"+name, "1").GetTxId()
		s.park(i+1, id, 1, 1)
	}
	sinks := pb.NewSinkServiceClient(n.conn)
	pause := func(sink string) (*pb.Sink, error) {
		r, err := sinks.PauseSink(n.ctx, &pb.PauseSinkRequest{Sink: sink, Reason: why})
		return r.GetSink(), err
	}
	decide := map[string]func(sink string) error{
		"pause": func(sink string) error { _, err := pause(sink); return err },
		"resume": func(sink string) error {
			_, err := sinks.ResumeSink(n.ctx, &pb.ResumeSinkRequest{Sink: sink, Reason: why})
			return err
		},
		"retry": func(sink string) error {
			_, err := sinks.RetryUndelivered(n.ctx,
				&pb.RetryUndeliveredRequest{Sink: sink, Reason: why})
			return err
		},
		"replay": func(sink string) error {
			_, err := sinks.ReplaySink(n.ctx, &pb.ReplaySinkRequest{Sink: sink, Reason: why,
				From: &pb.ReplaySinkRequest_Time{Time: timestamppb.Now()}})
			return err
		},
	}
	list, err := sinks.ListUndelivered(n.ctx, &pb.ListUndeliveredRequest{Sink: "hook"})
	if err != nil || len(list.GetUndelivered()) != 2 {
		t.Errorf("undelivered: %v %v", list, err)
	}
	wantStatus(t, decide["pause"]("none"), codes.NotFound, "SINK_NOT_FOUND")
	if sink, err := pause("hook"); err != nil || sink.GetName() != "hook" {
		t.Errorf("paused: %v %v", sink, err)
	}
	for _, h := range s.of { // also in the first, where no node has delivered
		h.must(h.store.EnsureSinks(h.ctx, []string{"hook"})) // as a node does that begins to
		if h.count("sink_cursor WHERE status = 'PAUSED'") != 1 || h.count("sink_cursor") != 1 {
			t.Error("a ledger has not paused the sink")
		}
		if h.count("sink_cursor WHERE position <> ''") != 1 {
			t.Error("a paused sink has no position: it would lose the events of the pause")
		}
	}
	s.must(s.of[1].store.EnsureSinks(s.ctx, []string{"late"}))
	s.must(decide["replay"]("late"))
	for i, h := range s.of {
		if h.count("sink_cursor WHERE sink = 'late' AND position <> ''") != 1 {
			t.Errorf("ledger %s does not replay: its sink would begin later", s.names[i])
		}
	}
	retried, err := sinks.RetryUndelivered(n.ctx,
		&pb.RetryUndeliveredRequest{Sink: "hook", Reason: why})
	if err != nil || retried.GetRetried() != 2 {
		t.Errorf("retried: %v %v", retried, err)
	}
	for name, call := range decide {
		if err := call("hook"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantStatus(t, call("none"), codes.NotFound, "SINK_NOT_FOUND")
	}
	s.down(n, 1)
	s.proxies[2].Refuse()
	s.proxies[2].CutAll()
	s.await(n, "eu2", "us1")
	for _, call := range decide {
		got := wantStatus(t, call("hook"), codes.Unavailable, "STORE_UNAVAILABLE")
		if !strings.Contains(got.Message(), "eu2, us1") {
			t.Errorf("the error does not name both ledgers: %v", got)
		}
	}
}
