package server

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/store"
)

// poolNode is a node with pool "pay" of alice and bob, and pool "other" of carol.
func (h *harness) poolNode(tweaks ...func(*Options)) (*node, pb.PoolServiceClient) {
	h.t.Helper()
	for _, name := range []string{"alice", "bob", "carol"} {
		h.register(name)
	}
	for pool, members := range map[string][]string{"pay": {"alice", "bob"}, "other": {"carol"}} {
		p, _, err := h.store.CreatePool(h.ctx, pool, chainID)
		h.must(err)
		for _, name := range members {
			id, err := h.store.Lookup(h.ctx, name)
			h.must(err)
			h.must(h.store.SetPoolMember(h.ctx, p.PoolRef, id, store.MemberActive, store.Ask{}))
		}
	}
	n := h.serve(tweaks...)
	return n, pb.NewPoolServiceClient(n.conn)
}

func poolRequest(pool, request string) *pb.CreateTxRequest {
	return &pb.CreateTxRequest{Pool: pool, RequestId: request, Payload: payload()}
}

func TestPoolService_ManagesMembers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n, pools := h.poolNode()
	h.register("dora")
	created, err := pools.CreatePool(h.ctx, &pb.CreatePoolRequest{Pool: "new", ChainId: chainID})
	h.must(err)
	again, err := pools.CreatePool(h.ctx, &pb.CreatePoolRequest{Pool: "new", ChainId: chainID})
	h.must(err)
	if !created.GetCreated() || again.GetCreated() {
		t.Errorf("created %v, and again %v", created.GetCreated(), again.GetCreated())
	}
	_, err = n.txs.CreateTx(h.ctx, poolRequest("new", "r1"))
	wantStatus(t, err, codes.FailedPrecondition, "POOL_EMPTY")
	_, err = pools.DrainPoolMember(h.ctx,
		&pb.DrainPoolMemberRequest{Pool: "new", Submitter: "dora"})
	wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
	_, err = pools.AddPoolMember(h.ctx, &pb.AddPoolMemberRequest{Pool: "new", Submitter: "dora"})
	h.must(err)
	tx, err := n.txs.CreateTx(h.ctx, poolRequest("new", "r1"))
	h.must(err)
	if tx.GetTx().GetSubmitter() != "dora" || tx.GetTx().GetPool() != "new" {
		t.Errorf("created %v", tx)
	}
	_, err = pools.DrainPoolMember(h.ctx,
		&pb.DrainPoolMemberRequest{Pool: "new", Submitter: "dora"})
	h.must(err)
	got, err := pools.GetPool(h.ctx, &pb.GetPoolRequest{Pool: "new"})
	h.must(err)
	m := got.GetPool().GetMembers()
	if len(m) != 1 || m[0].GetStatus() != pb.PoolMemberStatus_POOL_MEMBER_STATUS_DRAINING ||
		m[0].GetAccepting() || m[0].GetQueued() != 1 {
		t.Errorf("members %v", m)
	}
	removed, err := pools.RemovePoolMember(h.ctx,
		&pb.RemovePoolMemberRequest{Pool: "new", Submitter: "dora"})
	h.must(err)
	if len(removed.GetPool().GetMembers()) != 0 {
		t.Errorf("removed %v", removed)
	}
	repeated, err := n.txs.CreateTx(h.ctx, poolRequest("new", "r1"))
	h.must(err)
	if repeated.GetCreated() || repeated.GetTx().GetTxId() != tx.GetTx().GetTxId() {
		t.Errorf("repeated %v", repeated)
	}
	_, err = pools.GetPool(h.ctx, &pb.GetPoolRequest{Pool: "none"})
	wantStatus(t, err, codes.NotFound, "POOL_NOT_FOUND")
	first, err := pools.ListPools(h.ctx, &pb.ListPoolsRequest{PageSize: 2})
	h.must(err)
	rest, err := pools.ListPools(h.ctx,
		&pb.ListPoolsRequest{PageSize: 2, PageToken: first.GetNextPageToken()})
	h.must(err)
	var names []string
	for _, p := range slices.Concat(first.GetPools(), rest.GetPools()) {
		names = append(names, p.GetName())
	}
	if !slices.Equal(names, []string{"new", "other", "pay"}) {
		t.Errorf("pools %v", names)
	}
}

func TestPool_ListGetAndWatch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n, _ := h.poolNode()
	watch := n.watch(&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Pool{Pool: "pay"}})
	if _, err := watch.Recv(); err != nil { // the heartbeat after the snapshots
		t.Fatal(err)
	}
	n.create("alice", "direct")
	_, err := n.txs.CreateTx(h.ctx, poolRequest("other", "r1"))
	h.must(err)
	batch := &pb.BatchCreateTxRequest{}
	for i := range 10 {
		batch.Requests = append(batch.Requests, poolRequest("pay", fmt.Sprint("r", i)))
	}
	results, err := n.txs.BatchCreateTx(h.ctx, batch)
	h.must(err)
	ids, used := map[string]bool{}, map[string]int{}
	for _, r := range results.GetResults() {
		ids[r.GetTx().GetTxId()] = true
		used[r.GetTx().GetSubmitter()]++
	}
	if len(ids) != 10 || used["alice"] < 4 || used["bob"] < 4 {
		t.Errorf("%d transactions, %v", len(ids), used)
	}
	for seen := map[string]bool{}; len(seen) < 10; {
		message, err := watch.Recv()
		h.must(err)
		if e := message.GetEvent(); e != nil {
			if !ids[e.GetTxId()] {
				t.Fatalf("an event of another transaction: %v", e)
			}
			seen[e.GetTxId()] = true
		}
	}
	if got := n.list(&pb.ListTxsRequest{Pool: "pay"}); len(got) != 10 {
		t.Errorf("the pool lists %d transactions", len(got))
	}
	queued := []pb.TxState{pb.TxState_TX_STATE_QUEUED}
	if got := n.list(&pb.ListTxsRequest{Pool: "pay", Submitter: "bob",
		States: queued}); len(got) != used["bob"] {
		t.Errorf("the pool lists %d transactions of bob, want %d", len(got), used["bob"])
	}
	got, err := n.txs.GetTx(h.ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_Request{
		Request: &pb.RequestKey{Pool: "pay", RequestId: "r3"}}})
	h.must(err)
	if !ids[got.GetTx().GetTxId()] || len(got.GetTx().GetLabels()) != 0 {
		t.Errorf("got %v", got)
	}
	if r := n.http("GET", "/api/v1/tx/by-request?pool=pay&request_id=r3", ""); r.code != 200 {
		t.Errorf("by request over HTTP: %d %s", r.code, r.body)
	}
	if r := n.http("GET", "/api/v1/pools/pay", ""); r.code != 200 {
		t.Errorf("the pool over HTTP: %d %s", r.code, r.body)
	}
}

func TestPool_InvalidRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n, _ := h.poolNode()
	for field, ask := range map[string]*pb.CreateTxRequest{
		"submitter": {RequestId: "r", Payload: payload()},
		"pool":      {Pool: "pay", Submitter: "alice", RequestId: "r", Payload: payload()},
		"sticky_key": {
			Submitter: "alice", StickyKey: "k", RequestId: "r", Payload: payload(),
		},
	} {
		_, err := n.txs.CreateTx(h.ctx, ask)
		wantField(t, err, field)
	}
	_, err := n.txs.CreateTx(h.ctx, poolRequest("none", "r"))
	wantStatus(t, err, codes.NotFound, "POOL_NOT_FOUND")
	_, err = n.txs.GetTx(h.ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_Request{
		Request: &pb.RequestKey{RequestId: "r"}}})
	wantField(t, err, "request.submitter")
}

// TestPool_Rights: a right to a pool is a right to its transactions and to nothing else of its
// accounts.
func TestPool_Rights(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n, pools := h.poolNode(func(o *Options) {
		o.Callers = []auth.Caller{
			{Name: "shop", Tokens: []string{tokenOf("shop")}, Pools: []string{"pay"}},
			{Name: "ops", Tokens: []string{tokenOf("ops")}, Submitters: []string{"*"},
				Operator: true},
			{Name: "some", Tokens: []string{tokenOf("some")}, Submitters: []string{"alice"},
				Operator: true},
		}
	})
	shop := role{token: tokenOf("shop")}.in(h.ctx)
	ops := role{token: tokenOf("ops")}.in(h.ctx)
	some := role{token: tokenOf("some")}.in(h.ctx)
	direct, err := n.txs.CreateTx(ops, createFor("alice"))
	h.must(err)
	mine, err := n.txs.CreateTx(shop, poolRequest("pay", "r1"))
	h.must(err)
	other, err := n.txs.CreateTx(ops, poolRequest("other", "r1"))
	h.must(err)
	get := func(tx *pb.CreateTxResponse) error {
		_, err := n.txs.GetTx(shop, byID(tx.GetTx().GetTxId()))
		return err
	}
	list := func(ask *pb.ListTxsRequest) error {
		_, err := n.txs.ListTxs(shop, ask)
		return err
	}
	for name, err := range map[string]error{
		"its transaction": get(mine),
		"its list":        list(&pb.ListTxsRequest{Pool: "pay"}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	create := func(ask *pb.CreateTxRequest) error {
		_, err := n.txs.CreateTx(shop, ask)
		return err
	}
	_, getPool := pools.GetPool(shop, &pb.GetPoolRequest{Pool: "other"})
	add := &pb.AddPoolMemberRequest{Pool: "pay", Submitter: "alice"}
	_, addByCaller := pools.AddPoolMember(shop, add)
	_, addBySome := pools.AddPoolMember(some, add)
	for name, err := range map[string]error{
		"a direct transaction of a member":      get(direct),
		"a transaction of another pool":         get(other),
		"the list of another pool":              list(&pb.ListTxsRequest{Pool: "other"}),
		"a create with another pool":            create(poolRequest("other", "r2")),
		"a create with an unknown pool":         create(poolRequest("none", "r2")),
		"a direct create of a member":           create(createFor("alice")),
		"another pool":                          getPool,
		"a new member by a caller":              addByCaller,
		"a new member by an account's operator": addBySome,
	} {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
		})
	}
	listed, err := pools.ListPools(shop, &pb.ListPoolsRequest{})
	h.must(err)
	if len(listed.GetPools()) != 1 || listed.GetPools()[0].GetName() != "pay" {
		t.Errorf("the caller lists %v", listed)
	}
	all, err := n.txs.ListTxs(shop, &pb.ListTxsRequest{})
	h.must(err)
	if len(all.GetTxs()) != 0 {
		t.Errorf("without the pool the caller lists %v", all)
	}
	stream, err := n.txs.WatchTx(shop, &pb.WatchTxRequest{
		Target: &pb.WatchTxRequest_Pool{Pool: "pay"}})
	h.must(err)
	first, err := stream.Recv()
	h.must(err)
	if !proto.Equal(first.GetSnapshot(), mine.GetTx()) {
		t.Errorf("the watch begins with %v", first)
	}
}

// TestWatch_FewRights_TokensRestricted: a stream needs no names where the right to a pool, or to
// each transaction, was checked. Its tokens still name no event of other accounts.
func TestWatch_FewRights_TokensRestricted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	callers := []auth.Caller{
		{Name: "shop", Tokens: []string{tokenOf("shop")}, Pools: []string{"pay"}},
		{Name: "ops", Tokens: []string{tokenOf("ops")}, Submitters: []string{"*"}},
	}
	n, _ := h.poolNode(func(o *Options) { o.Callers = callers })
	mine, err := n.txs.CreateTx(role{token: tokenOf("shop")}.in(h.ctx), poolRequest("pay", "r1"))
	h.must(err)
	authenticator := auth.NewAuthenticator(nil, callers)
	for name, restricted := range map[string]bool{"shop": true, "ops": false} {
		rights, err := authenticator.Rights(metadata.NewIncomingContext(h.ctx,
			metadata.Pairs(auth.AuthorizationHeader, "Bearer "+tokenOf(name))),
			pb.TxService_WatchTx_FullMethodName)
		h.must(err)
		for _, ask := range []*pb.WatchTxRequest{
			{Target: &pb.WatchTxRequest_Pool{Pool: "pay"}},
			{Target: &pb.WatchTxRequest_Txs{
				Txs: &pb.TxIds{TxIds: []string{mine.GetTx().GetTxId()}}}},
		} {
			got, err := n.server.txs.watchRequest(auth.WithRights(h.ctx, rights), ask,
				rights.Submitters())
			if h.must(err); got.Restricted != restricted {
				t.Errorf("%s watches %v: tokens are restricted: %t", name, ask, got.Restricted)
			}
		}
	}
}

// wantField checks that a request is invalid in one field.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	s := wantStatus(t, err, codes.InvalidArgument, "INVALID_FIELD")
	for _, d := range s.Details() {
		if bad, is := d.(*errdetails.BadRequest); is {
			if v := bad.GetFieldViolations(); len(v) != 1 || v[0].GetField() != field {
				t.Errorf("violations %v, want one of %s", v, field)
			}
		}
	}
}
