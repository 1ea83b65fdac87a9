package server

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/store"
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
			Caller: &pb.CallerRights{
				Name: "ops", Operator: true, AllSubmitters: true, Approve: true},
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

func TestListSubmitters_Conditions_SelectSubmitters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	owners := map[string]*owner{}
	for _, name := range []string{"calm", "paused", "protected", "queued", "short", "waiting"} {
		owners[name] = h.own(h.register(name))
	}
	n := h.serve()
	protected := owners["protected"]
	protected.allocate(txID(t, n.create("protected", "r1").GetTxId()))
	protected.commit(txn.Change{Protect: &txn.Protection{
		Expect: protected.next, Reason: txn.ReasonChainBehind, Evidence: "a test",
	}})
	_, err := h.db.Pool.Exec(h.ctx, "UPDATE submitter SET status = 'PAUSED' WHERE name = 'paused'")
	h.must(err)
	unfunded := func(s *txn.Status) { s.Sub, s.Reason = txn.Unfunded, "INSUFFICIENT_FUNDS" }
	queued, first := owners["queued"], n.create("queued", "r1")
	queued.move(txID(t, first.GetTxId()), txn.EventDelayed, txn.Queued, unfunded)
	n.create("queued", "r2")
	short, second := owners["short"], n.create("short", "r1")
	short.allocate(txID(t, second.GetTxId()))
	short.move(txID(t, second.GetTxId()), txn.EventDelayed, txn.Allocated, unfunded)
	n.create("waiting", "r1")

	const prefix = "SUBMITTER_CONDITION_"
	for want, conditions := range map[string][]string{
		"calm paused protected queued short waiting": nil,
		"protected":                     {"PROTECTED"},
		"paused":                        {"PAUSED"},
		"queued short":                  {"UNFUNDED"},
		"paused protected":              {"PAUSED", "PROTECTED"},
		"paused protected queued short": {"UNFUNDED", "PROTECTED", "PAUSED"},
	} {
		ask := &pb.ListSubmittersRequest{PageSize: 1}
		for _, c := range conditions {
			ask.Conditions = append(ask.Conditions,
				pb.SubmitterCondition(pb.SubmitterCondition_value[prefix+c]))
		}
		var names []string
		for len(names) == 0 || ask.PageToken != "" {
			page, err := n.subs.ListSubmitters(h.ctx, ask)
			h.must(err)
			for _, s := range page.GetSubmitters() {
				names = append(names, s.GetName())
				if is := s.GetName() == "queued" || s.GetName() == "short"; s.GetUnfunded() != is {
					t.Errorf("%s: unfunded %v", s.GetName(), s.GetUnfunded())
				}
			}
			ask.PageToken = page.GetNextPageToken()
			slices.Reverse(ask.Conditions) // their order does not matter
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%v: submitters %q, want %q", conditions, got, want)
		}
	}
	got, err := n.subs.GetSubmitter(h.ctx, &pb.GetSubmitterRequest{Submitter: "queued"})
	h.must(err)
	if !proto.Equal(got.GetSubmitter().GetQueueHeadTime(), first.GetCreateTime()) {
		t.Errorf("time of the head %v, want %v", got.GetSubmitter().GetQueueHeadTime(),
			first.GetCreateTime())
	}
}

// TestListBalances_TopUp_Shown: with its transaction, once it is created, and why there is no other
// one.
func TestListBalances_TopUp_Shown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	alice, bob := h.register("alice"), h.register("bob")
	n := h.serve(statusCallers, func(*Options) {})
	info, err := h.store.Submitter(h.ctx, alice)
	h.must(err)
	funds, err := h.store.FundsOf(h.ctx, []txn.SubmitterID{alice})
	h.must(err)
	u, decided, err := h.store.DecideTopUp(h.ctx, store.TopUpNeed{Submitter: alice, Treasury: bob,
		Funds: funds[alice], Amount: *uint256.NewInt(5), DayLimit: *uint256.NewInt(5)})
	h.must(err)
	_, err = h.store.RecordHeld(h.ctx, alice, "DAY_LIMIT")
	h.must(err)
	shown := func() *pb.Balance {
		got, err := n.status.ListBalances(role{token: tokenOf("ops")}.in(h.ctx),
			&pb.ListBalancesRequest{Submitters: []string{"alice"}})
		h.must(err)
		return got.GetBalances()[0]
	}
	got := shown()
	if of := got.GetTopUp(); !decided || of.GetNo() != 1 || of.GetTreasury() != "bob" ||
		of.GetAmount() != "5" || of.GetTxId() != "" || of.GetTime() == nil ||
		got.GetTopUpHeld() != "DAY_LIMIT" {
		t.Errorf("decided %v, shown %v", decided, got)
	}
	tx, created, err := h.store.CreateTopUp(h.ctx, info.Submitter, u)
	h.must(err)
	if of := shown().GetTopUp(); !created || of.GetTxId() != tx.ID.String() {
		t.Errorf("created %v %s, shown %v", created, tx.ID, of)
	}
}

func TestListBalances_OneReadPerChain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.register("bob")
	for name, chain := range map[string]txn.ChainID{"away": 7, "foreign": 9} {
		_, _, err := h.store.Register(h.ctx, store.Registration{
			Name: name, Chain: chain, Address: txn.Address{1}, Signer: "local", Mode: txn.Strict,
			StartFrom: "0",
		})
		h.must(err)
	}
	var reads atomic.Int32
	n := h.serve(statusCallers, func(o *Options) {
		o.Balances = func(_ context.Context, chain txn.ChainID,
			of []txn.Address) ([]uint256.Int, error) {
			reads.Add(1)
			switch chain {
			case 7:
				return nil, txn.ErrUnavailable
			case 9:
				return nil, ErrUnknownChain
			}
			all := make([]uint256.Int, len(of))
			for i, a := range of {
				all[i].SetUint64(uint64(a[0])) // the first letter of the name
			}
			return all, nil
		}
	})
	var bob txn.Address
	copy(bob[:], "bob")
	account := txn.AccountID(chainID, bob)
	got, err := n.status.ListBalances(role{token: tokenOf("ops")}.in(h.ctx),
		&pb.ListBalancesRequest{Submitters: []string{account, "away", "alice", "foreign"}})
	h.must(err)
	want := &pb.ListBalancesResponse{Balances: []*pb.Balance{
		{Submitter: account, Balance: "98"}, {Submitter: "away", Reason: "CHAIN_UNAVAILABLE"},
		{Submitter: "alice", Balance: "97"}, {Submitter: "foreign", Reason: "CHAIN_NOT_CONFIGURED"},
	}}
	for _, b := range want.GetBalances() {
		b.Committed = "0"
	}
	if !proto.Equal(got, want) || reads.Load() != 3 {
		t.Errorf("balances %v in %d reads, want %v in 3", got, reads.Load(), want)
	}
}
