package server

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/txn"
)

// statusCallers are one caller of one account, and an operator of all.
func statusCallers(o *Options) {
	o.Node, o.Version = "a/boot", "v1.2.3"
	o.Callers = []auth.Caller{
		{Name: "one", Tokens: []string{tokenOf("one")}, Submitters: []string{"alice"}},
		{
			Name: "ops", Tokens: []string{tokenOf("ops")}, Operator: true,
			Submitters: []string{auth.AllSubmitters},
		},
	}
}

func tokenOf(name string) string { return name + "-0123456789abcdef" }

func TestGetStatus_CountsOwnSubmitters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	alice, bob := h.own(h.register("alice")), h.own(h.register("bob"))
	h.register("carol")
	n := h.serve(statusCallers)
	ops := role{token: tokenOf("ops")}.in(h.ctx)
	create := func(submitter, request string) txn.TxID {
		r, err := n.txs.CreateTx(ops, &pb.CreateTxRequest{
			Submitter: submitter, RequestId: request, Payload: payload(),
		})
		h.must(err)
		return txID(t, r.GetTx().GetTxId())
	}
	alice.allocate(create("alice", "r1"))
	create("alice", "r2")
	stuck := create("bob", "r1")
	bob.allocate(stuck)
	bob.move(stuck, txn.EventStuck, txn.Stuck, func(s *txn.Status) { s.Reason = "RETRY_BUDGET" })
	bob.move(create("bob", "r2"), txn.EventDelayed, txn.Queued, func(s *txn.Status) {
		s.Sub, s.Reason = txn.Unfunded, "INSUFFICIENT_FUNDS"
	})
	bob.commit(txn.Change{Protect: &txn.Protection{
		Expect: bob.next, Reason: txn.ReasonChainBehind, Evidence: "a test",
	}})

	for name, want := range map[string]*pb.GetStatusResponse{
		"one": {
			Caller: &pb.CallerRights{Name: "one"},
			Totals: &pb.LedgerTotals{Submitters: 1, Owned: 1, Queued: 1, InFlight: 1},
		},
		"ops": {
			Caller: &pb.CallerRights{Name: "ops", Operator: true, AllSubmitters: true},
			Totals: &pb.LedgerTotals{
				Submitters: 3, Owned: 2, Queued: 2, InFlight: 2, Stuck: 1, Protected: 1,
				Unfunded: 1,
			},
		},
	} {
		got, err := n.status.GetStatus(role{token: tokenOf(name)}.in(h.ctx),
			&pb.GetStatusRequest{})
		h.must(err)
		age := got.GetTime().AsTime().Sub(got.GetTotals().GetOldestQueueTime().AsTime())
		if age <= 0 || age > time.Minute {
			t.Errorf("%s: the oldest transaction is %v old", name, age)
		}
		want.NodeId, want.Version = "a/boot", "v1.2.3"
		want.Time = got.GetTime()
		want.Totals.OldestQueueTime = got.GetTotals().GetOldestQueueTime()
		if !proto.Equal(got, want) {
			t.Errorf("%s: status %v, want %v", name, got, want)
		}
	}
}

func TestGetStatus_EmptyLedger_NoTimeOfQueue(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	got, err := h.serve().status.GetStatus(h.ctx, &pb.GetStatusRequest{})
	h.must(err)
	if !got.GetCaller().GetOperator() || !got.GetCaller().GetAllSubmitters() ||
		!proto.Equal(got.GetTotals(), &pb.LedgerTotals{}) {
		t.Errorf("status %v, want all rights and no counts", got)
	}
}

func TestListNodes_CountsLeases(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.own(h.register("alice"))
	_, err := h.store.Heartbeat(h.ctx, []txn.ChainID{chainID, 5}, true)
	h.must(err)
	_, err = h.open("b").Heartbeat(h.ctx, nil, false)
	h.must(err)
	got, err := h.serve().status.ListNodes(h.ctx, &pb.ListNodesRequest{})
	h.must(err)
	if len(got.GetNodes()) != 2 {
		t.Fatalf("nodes %v, want two", got.GetNodes())
	}
	a, b := got.GetNodes()[0], got.GetNodes()[1]
	if a.GetNodeId() != "a/boot" || a.GetLeases() != 1 || !a.GetAccepting() ||
		!slices.Equal(a.GetChainIds(), []uint64{chainID, 5}) || a.GetStartTime() == nil ||
		!a.GetExpireTime().AsTime().After(a.GetStartTime().AsTime()) {
		t.Errorf("node %v", a)
	}
	if b.GetNodeId() != "b/boot" || b.GetLeases() != 0 || b.GetAccepting() {
		t.Errorf("node %v", b)
	}
}

func TestListChains_EndpointsWithoutAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(statusCallers, func(o *Options) {
		o.ChainStatus = func() []ChainStatus {
			return []ChainStatus{{Name: "dev", ID: chainID, Endpoints: []EndpointStatus{
				{Name: "endpoint 1", Healthy: true, Head: 7, BatchLimit: 100},
				{
					Name: "endpoint 2", Class: "UNAVAILABLE", Reason: "refused",
					RetryIn: time.Second, BatchLimit: 10, BatchLimitCause: "too large",
				},
			}}}
		}
	})
	got, err := n.status.ListChains(role{token: tokenOf("ops")}.in(h.ctx), &pb.ListChainsRequest{})
	h.must(err)
	want := &pb.ListChainsResponse{NodeId: "a/boot", Chains: []*pb.Chain{{
		Name: "dev", ChainId: chainID, Endpoints: []*pb.ChainEndpoint{
			{Name: "endpoint 1", Healthy: true, Head: 7, BatchLimit: 100},
			{
				Name: "endpoint 2", OutcomeClass: "UNAVAILABLE", Reason: "refused",
				RetryDelay: durationpb.New(time.Second), BatchLimit: 10, BatchReason: "too large",
			},
		},
	}}}
	if !proto.Equal(got, want) {
		t.Errorf("chains %v, want %v", got, want)
	}
	_, err = n.status.ListChains(role{token: tokenOf("one")}.in(h.ctx), &pb.ListChainsRequest{})
	wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
}
