package server

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// moveAccount moves "at-eu2" to the ledger us1, with an owner in the old ledger meanwhile.
func (s *several) moveAccount() {
	s.t.Helper()
	for _, h := range s.of {
		s.must(h.store.RegisterChain(s.ctx, chainID, txn.Hash{1}))
		_, err := h.store.Heartbeat(s.ctx, []txn.ChainID{chainID}, true)
		s.must(err)
	}
	id, err := s.of[1].store.Lookup(s.ctx, "at-eu2")
	s.must(err)
	owner := s.of[1].own(id)
	asOwner := func(i int) *store.Store {
		return s.of[i].openWith(s.of[i].db.URL, "move", s.openDirectory(s.db.URL))
	}
	move, err := store.PrepareMove(s.ctx, asOwner(1), asOwner(2), "at-eu2", "us1")
	s.must(err)
	_, err = move.Run(s.ctx, 5*time.Millisecond, func(store.MoveProgress) {
		for _, c := range owner.commands() {
			owner.apply(c)
		}
	})
	s.must(err)
}

// TestLedgers_Submitter_NamesItsLedger: the ledger of an account is in each response about it, and
// is the new one after a move.
func TestLedgers_Submitter_NamesItsLedger(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n")
	check := func(want map[string]string) {
		t.Helper()
		list, err := n.subs.ListSubmitters(n.ctx, &pb.ListSubmittersRequest{})
		n.must(err)
		listed := map[string]string{}
		for _, one := range list.GetSubmitters() {
			listed[one.GetName()] = one.GetLedger()
		}
		if !maps.Equal(listed, want) {
			t.Errorf("listed %v, want %v", listed, want)
		}
		for name, ledger := range want {
			got, err := n.subs.GetSubmitter(n.ctx, &pb.GetSubmitterRequest{Submitter: name})
			if err != nil || got.GetSubmitter().GetLedger() != ledger {
				t.Errorf("%s: %v %v, want %s", name, got, err, ledger)
			}
		}
	}
	check(map[string]string{"at-eu1": "eu1", "at-eu2": "eu2", "at-us1": "us1"})
	added := &pb.RegisterSubmitterRequest{Name: "new", ChainId: uint64(chainID),
		Address: "0x" + strings.Repeat("7", 40), Signer: "local", StartFrom: "0",
		Mode: pb.SubmitterMode_SUBMITTER_MODE_STRICT, Ledger: "us1"}
	if is, err := n.subs.RegisterSubmitter(n.ctx, added); err != nil ||
		is.GetSubmitter().GetLedger() != "us1" {
		t.Errorf("registered: %v %v", is, err)
	}
	added.Ledger = "us2"
	_, err := n.subs.RegisterSubmitter(n.ctx, added)
	if got := wantStatus(t, err, codes.InvalidArgument, "INVALID_FIELD"); !strings.Contains(
		got.Message(), "eu1, eu2, us1") {
		t.Errorf("the error does not name the ledgers: %v", got)
	}
	s.moveAccount()
	check(map[string]string{"at-eu1": "eu1", "at-eu2": "us1", "at-us1": "us1", "new": "us1"})
}

// TestLedgers_AccountMoved_Followed: requests for an account that has moved reach it in its new
// ledger, with its transactions and keys.
func TestLedgers_AccountMoved_Followed(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n")
	before := n.create("at-eu2", "before").GetTxId()
	s.moveAccount()
	batch, err := n.txs.BatchCreateTx(n.ctx, &pb.BatchCreateTxRequest{
		Requests: []*pb.CreateTxRequest{
			{Submitter: "at-eu1", RequestId: "1", Payload: payload()},
			{Submitter: "at-eu2", RequestId: "1", Payload: payload()},
		}})
	n.must(err)
	ids := []string{before}
	for i, r := range batch.GetResults() {
		if r.GetError() != nil {
			t.Errorf("request %d of a batch: %v", i, r.GetError())
		}
		ids = append(ids, r.GetTx().GetTxId())
	}
	if again := n.create("at-eu2", "before").GetTxId(); again != before {
		t.Errorf("the key names %s, want %s", again, before)
	}
	ids = append(ids, n.create("at-eu2", "after").GetTxId())
	for _, id := range []string{before, ids[2], ids[3]} {
		if got, err := n.txs.GetTx(n.ctx, byID(id)); err != nil ||
			got.GetTx().GetSubmitter() != "at-eu2" {
			t.Errorf("transaction %s: %v %v", id, got, err)
		}
		ctx, cancel := context.WithCancel(n.ctx)
		stream, err := n.txs.WatchTx(ctx, watchID(id))
		n.must(err)
		if m, err := stream.Recv(); err != nil || m.GetEvent().GetSeq() != 1 {
			t.Errorf("the watch of %s: %v %v", id, m, err)
		}
		cancel()
	}
	if got := s.of[2].count("managed_tx t JOIN submitter s USING (submitter_id) " +
		"WHERE s.name = 'at-eu2'"); got != 3 {
		t.Errorf("the new ledger has %d transactions, want 3", got)
	}
	list, err := n.txs.ListTxs(n.ctx, &pb.ListTxsRequest{})
	n.must(err)
	seen := map[string]int{}
	for _, tx := range list.GetTxs() {
		seen[tx.GetTxId()]++
	}
	for _, id := range ids {
		if seen[id] != 1 || len(seen) != len(ids) {
			t.Errorf("%s is listed %d times, among %d", id, seen[id], len(seen))
		}
	}
}

// TestLedgers_UndeliveredOfMoved_InFormerLedger: decisions on the undelivered events of a
// transaction reach the ledger that has them, also after its account has moved.
func TestLedgers_UndeliveredOfMoved_InFormerLedger(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n")
	id := n.create("at-eu2", "1").GetTxId()
	account := txID(t, id).Submitter()
	for _, h := range s.of {
		s.must(h.store.EnsureSinks(s.ctx, []string{"hook"}))
	}
	s.park(1, id, 1, 2)
	s.moveAccount()
	s.park(2, id, 3, 3)
	n = s.node("m")
	sinks := pb.NewSinkServiceClient(n.conn)
	skip := func(seq uint64) error {
		_, err := sinks.SkipUndelivered(n.ctx,
			&pb.SkipUndeliveredRequest{Sink: "hook", TxId: id, Seq: seq, Reason: why})
		return err
	}
	retry := func() (int64, error) {
		r, err := sinks.RetryUndelivered(n.ctx,
			&pb.RetryUndeliveredRequest{Sink: "hook", TxId: id, Reason: why})
		return r.GetRetried(), err
	}
	n.eventually("the node knows where the account is",
		func() bool { return n.server.router.index.id(account) != nil })
	if got, err := retry(); err != nil || got != 1 {
		t.Errorf("retried: %d %v", got, err)
	}
	n.must(skip(1))
	wantStatus(t, skip(1), codes.FailedPrecondition, "DECISION_REFUSED")
	n.must(skip(3))
	s.down(n, 2)
	_, err := retry()
	wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE") // the other one may have more
	n.must(skip(2))
	for i, h := range s.of {
		if got := h.count("sink_parked"); got != 0 {
			t.Errorf("ledger %s has %d parked transactions", s.names[i], got)
		}
	}
	wantStatus(t, skip(2), codes.Unavailable, "STORE_UNAVAILABLE") // the other one may have it
	s.proxies[2].Heal()
	s.await(n)
	wantStatus(t, skip(2), codes.FailedPrecondition, "DECISION_REFUSED")
	_, err = retry()
	wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
}

// TestLedgers_AccountMoved_AccountIDFollowed: a caller with rights to the name of an account
// reaches it by its id at once after it has moved. Others learn nothing.
func TestLedgers_AccountMoved_AccountIDFollowed(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	id := accountIDOf("at-eu2")
	ask := &pb.CreateTxRequest{Submitter: id, RequestId: "1", Payload: payload()}
	calls := map[string]func(context.Context, *node) error{
		"create": func(ctx context.Context, n *node) error {
			_, err := n.txs.CreateTx(ctx, ask)
			return err
		},
		"batch": func(ctx context.Context, n *node) error {
			r, err := n.txs.BatchCreateTx(ctx,
				&pb.BatchCreateTxRequest{Requests: []*pb.CreateTxRequest{ask}})
			if err != nil {
				return err
			}
			return grpcstatus.ErrorProto(r.GetResults()[0].GetError())
		},
		"get by key": func(ctx context.Context, n *node) error {
			_, err := n.txs.GetTx(ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_Request{
				Request: &pb.RequestKey{Submitter: id, RequestId: "before"}}})
			return err
		},
		"get account": func(ctx context.Context, n *node) error {
			_, err := pb.NewSubmitterServiceClient(n.conn).GetSubmitter(ctx,
				&pb.GetSubmitterRequest{Submitter: id})
			return err
		},
		"list": func(ctx context.Context, n *node) error {
			_, err := n.txs.ListTxs(ctx, &pb.ListTxsRequest{Submitter: id})
			return err
		},
		"watch": func(ctx context.Context, n *node) error {
			stream, err := n.txs.WatchTx(ctx, &pb.WatchTxRequest{
				Target: &pb.WatchTxRequest_Submitter{Submitter: id}})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	}
	of := s.ctx
	s.ctx = role{token: tokenOf("admin")}.in(of)
	callers := []auth.Caller{
		{Name: "admin", Tokens: []string{tokenOf("admin")}, Operator: true,
			Submitters: []string{auth.AllSubmitters}},
		{Name: "other", Tokens: []string{tokenOf("other")}, Submitters: []string{"at-eu1"}}}
	for name := range calls { // each asks for its rights for the first time
		callers = append(callers, auth.Caller{Name: name, Tokens: []string{tokenOf(name)},
			Submitters: []string{"at-eu2"}})
	}
	as := func(name string) context.Context { return role{token: tokenOf(name)}.in(of) }
	n := s.node("n", func(o *Options) { o.Callers = callers })
	n.create("at-eu2", "before")
	n.eventually("the node knows the account",
		func() bool { return n.server.router.index.submitter(id) != nil })
	s.moveAccount()
	old := n.server.router.ledgers[1]
	for name, call := range calls {
		n.server.router.index.move("at-eu2", old) // as until the accounts are read again
		if err := call(as(name), n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	n.server.router.index.move("at-eu2", old)
	alone := s.nodeOf("alone", []string{"eu2"}, func(o *Options) { o.Callers = callers })
	for name, call := range calls {
		for _, at := range []*node{n, alone} {
			wantStatus(t, call(as("other"), at), codes.PermissionDenied, "PERMISSION_DENIED")
		}
		wantStatus(t, call(as(name), alone), codes.FailedPrecondition, "SUBMITTER_MOVED")
	}
}
