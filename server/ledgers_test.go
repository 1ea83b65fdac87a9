package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// several is a service of several ledgers, each with a submitter that is named as it.
type several struct {
	*harness // the first ledger, which also holds the directory
	names    []string
	of       []*harness
	proxies  []*pgproxy.Proxy // between the nodes and the ledgers
}

// newSeveral makes ledgers with the submitters "at-" and the name of the ledger.
func newSeveral(t *testing.T, names ...string) *several {
	t.Helper()
	s := &several{names: names}
	for i, name := range names {
		h := newHarness(t)
		s.of = append(s.of, h)
		s.harness = s.of[0]
		owner := h.openWith(h.db.URL, "owner", s.openDirectory(s.db.URL))
		joined, err := owner.JoinDirectory(h.ctx, name)
		h.must(err)
		if joined.First.Ledger() != int32(i) {
			t.Fatalf("ledger %s begins with number %d", name, joined.First)
		}
		h.store = h.openWith(h.db.NodeURL, "a", s.openDirectory(s.db.NodeURL))
		h.register("at-" + name)
		proxy, err := pgproxy.Start(h.db.NodeURL)
		h.must(err)
		t.Cleanup(func() { _ = proxy.Close() })
		s.proxies = append(s.proxies, proxy)
	}
	return s
}

func (s *several) openDirectory(url string) *store.Store {
	return s.openWith(url, "directory", nil)
}

func (h *harness) openWith(url, node string, directory *store.Store) *store.Store {
	h.t.Helper()
	s, err := store.Open(h.ctx, store.Config{URL: url, Schema: h.db.Schema, Node: node + "/boot",
		LeaseDuration: leaseDuration, Directory: directory})
	h.must(err)
	h.t.Cleanup(s.Close)
	return s
}

// node starts a node with these ledgers; none: all.
func (s *several) node(name string, tweaks ...func(*Options)) *node {
	s.t.Helper()
	return s.nodeOf(name, s.names, tweaks...)
}

func (s *several) nodeOf(name string, ledgers []string, tweaks ...func(*Options)) *node {
	s.t.Helper()
	n := s.serve(append(tweaks, func(o *Options) {
		o.Store = nil
		for _, of := range ledgers {
			i := slices.Index(s.names, of)
			opened := s.of[i].openWith(s.proxies[i].URL(), name, s.openDirectory(s.db.NodeURL))
			o.Ledgers = append(o.Ledgers, Ledger{Name: of, Store: opened,
				Tail: opened.TailFeed()})
		}
	})...)
	n.eventually("the node serves", func() bool {
		_, err := n.status.GetStatus(n.ctx, &pb.GetStatusRequest{})
		return err == nil
	})
	return n
}

// down makes a ledger refuse connections, and waits until a node has noticed.
func (s *several) down(n *node, ledger int) {
	s.t.Helper()
	s.proxies[ledger].Refuse()
	s.proxies[ledger].CutAll()
	s.await(n, s.names[ledger])
}

// await waits until these ledgers of a node are down.
func (s *several) await(n *node, missing ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("missing: %v", missing), func() bool {
		var down []string
		for _, l := range n.server.Ledgers() {
			if l.Down != nil {
				down = append(down, l.Name)
			}
		}
		return slices.Equal(down, missing)
	})
}

// otherRows are the RPCs that the table of rights lacks. RIGHTS of pools are in its own test.
func otherRows(pool string) []row {
	byPoolName := func(method string, ask proto.Message) []row {
		return []row{{method: method, ask: func(rightsTarget) proto.Message { return ask }}}
	}
	reservation := func(method string, ask func(string) proto.Message) []row {
		return byTx(method, caller, "", ask)
	}
	return slices.Concat(
		free("PoolService/CreatePool", operator, "",
			&pb.CreatePoolRequest{Pool: pool, ChainId: chainID}),
		free("PoolService/ListPools", caller, "", &pb.ListPoolsRequest{}),
		byPoolName("PoolService/GetPool", &pb.GetPoolRequest{Pool: pool}),
		byName("PoolService/AddPoolMember", operator, "", func(s string) proto.Message {
			return &pb.AddPoolMemberRequest{Pool: pool, Submitter: s, Reason: why}
		}),
		byName("PoolService/DrainPoolMember", operator, "", func(s string) proto.Message {
			return &pb.DrainPoolMemberRequest{Pool: pool, Submitter: s, Reason: why}
		}),
		byName("PoolService/RemovePoolMember", operator, "", func(s string) proto.Message {
			return &pb.RemovePoolMemberRequest{Pool: pool, Submitter: s, Reason: why}
		}),
		free("SinkService/ListSinks", operator, "", &pb.ListSinksRequest{}),
		free("SinkService/ListUndelivered", operator, "",
			&pb.ListUndeliveredRequest{Sink: "log"}),
		free("SinkService/PauseSink", operator, "",
			&pb.PauseSinkRequest{Sink: "log", Reason: why}),
		free("SinkService/ResumeSink", operator, "",
			&pb.ResumeSinkRequest{Sink: "log", Reason: why}),
		free("SinkService/RetryUndelivered", operator, "",
			&pb.RetryUndeliveredRequest{Sink: "log", Reason: why}),
		byTx("SinkService/SkipUndelivered", operator, "", func(id string) proto.Message {
			return &pb.SkipUndeliveredRequest{Sink: "log", TxId: id, Seq: 1, Reason: why}
		}),
		free("SinkService/ReplaySink", operator, "", &pb.ReplaySinkRequest{Sink: "log",
			From: &pb.ReplaySinkRequest_Time{Time: timestamppb.Now()}, Reason: why}),
		byName("NonceService/AllocateNonce", caller, "", func(s string) proto.Message {
			return &pb.AllocateNonceRequest{Submitter: s, RequestId: "n"}
		}),
		reservation("NonceService/RecordNonceHash", func(id string) proto.Message {
			return &pb.RecordNonceHashRequest{ReservationId: id,
				TxHash: "0x" + strings.Repeat("1", 64)}
		}),
		reservation("NonceService/ReleaseNonce", func(id string) proto.Message {
			return &pb.ReleaseNonceRequest{ReservationId: id, NeverSigned: true,
				Reason: why}
		}),
		reservation("NonceService/QuarantineNonce", func(id string) proto.Message {
			return &pb.QuarantineNonceRequest{ReservationId: id, Reason: why}
		}),
		reservation("NonceService/ExtendReservation", func(id string) proto.Message {
			return &pb.ExtendReservationRequest{ReservationId: id}
		}),
		reservation("NonceService/SubmitSigned", func(id string) proto.Message {
			return &pb.SubmitSignedRequest{ReservationId: id, RawTx: []byte{2, 1}}
		}),
		byName("NonceService/GetNonce", caller, "", func(s string) proto.Message {
			return &pb.GetNonceRequest{Submitter: s, Nonce: 0}
		}),
		reservation("NonceService/GetNonce", func(id string) proto.Message {
			return &pb.GetNonceRequest{ReservationId: id}
		}),
		byName("NonceService/ListNonces", caller, "", func(s string) proto.Message {
			return &pb.ListNoncesRequest{Submitter: s}
		}),
		byName("NonceService/ResolveNonce", operator, "", func(s string) proto.Message {
			return &pb.ResolveNonceRequest{Submitter: s, Nonce: 0,
				Decision: pb.NonceDecision_NONCE_DECISION_NEVER_SIGNED, Reason: why,
				ReservationId: uuid.NewString()}
		}),
	)
}

// TestLedgers_EveryMethod_Routed: every RPC, with every way to name an account, reaches the ledger
// of the account while another ledger is down, and is retryable while its own is.
func TestLedgers_EveryMethod_Routed(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n", limits(func(l *Limits) {
		l.CommandWait, l.Outage = 20*time.Millisecond, 50*time.Millisecond
	}),
		func(o *Options) { o.Nonces.Enabled = true })
	everyone := role{}
	target := map[string]rightsTarget{}
	for i, name := range s.names {
		target[name] = n.rightsTarget("at-"+name, everyone)
		s.must(s.of[i].store.EnsureSinks(s.ctx, []string{"log"}))
		_, _, err := s.of[i].store.CreatePool(s.ctx, "pool-"+name, chainID)
		s.must(err)
	}
	table := slices.Concat(rows(), otherRows("pool-us1"))
	checkAllRows(t, table)
	ask := func(row row, of string) *grpcstatus.Status {
		if row.method == watchTx {
			return n.overGRPC(t, everyone, row, target[of])
		}
		return n.invoke(row.method, row.ask(target[of]))
	}
	for _, row := range table {
		if one := ask(row, "us1"); one.Code() == codes.NotFound && !answersNotFound(one) ||
			one.Code() == codes.Unavailable || one.Code() == codes.Internal {
			t.Errorf("%s for the last ledger: %v", row.method, one)
		}
	}
	s.down(n, 1)
	for _, row := range table {
		one := ask(row, "us1")
		inEach := slices.Contains([]string{"SinkService/PauseSink", "SinkService/ResumeSink",
			"SinkService/RetryUndelivered", "SinkService/ReplaySink"}, row.method)
		if (one.Code() == codes.Unavailable) != inEach {
			t.Errorf("%s while another ledger is down: %v", row.method, one)
		}
		if !row.free && !strings.HasPrefix(row.method, "PoolService/") &&
			row.method != listBalances {
			wantStatus(t, ask(row, "eu2").Err(), codes.Unavailable, "STORE_UNAVAILABLE")
		}
	}
}

// invoke calls a method of any service.
func (n *node) invoke(method string, request proto.Message) *grpcstatus.Status {
	n.t.Helper()
	name := protoreflect.FullName("fencepost.v1." + strings.ReplaceAll(method, "/", "."))
	desc, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	n.must(err)
	kind, err := protoregistry.GlobalTypes.FindMessageByName(
		desc.(protoreflect.MethodDescriptor).Output().FullName())
	n.must(err)
	answer := kind.New().Interface()
	if err := n.conn.Invoke(n.ctx, "/fencepost.v1."+method, request, answer); err != nil {
		return grpcstatus.Convert(err)
	}
	return inBatch(answer)
}

// answersNotFound reports whether a method has nothing to find in this test, though it was routed.
func answersNotFound(s *grpcstatus.Status) bool {
	return slices.Contains([]string{"NONCE_NOT_FOUND", "SINK_NOT_FOUND"}, status.ReasonOf(s))
}

func serviceDescs() []*grpc.ServiceDesc {
	return []*grpc.ServiceDesc{&pb.TxService_ServiceDesc, &pb.SubmitterService_ServiceDesc,
		&pb.StatusService_ServiceDesc, &pb.SinkService_ServiceDesc, &pb.PoolService_ServiceDesc,
		&pb.NonceService_ServiceDesc}
}

// checkAllRows fails for an RPC of any service that has no row or no route.
func checkAllRows(t *testing.T, table []row) {
	t.Helper()
	for _, desc := range serviceDescs() {
		service := strings.TrimPrefix(desc.ServiceName, "fencepost.v1.")
		for _, m := range desc.Methods {
			name := service + "/" + m.MethodName
			if !slices.ContainsFunc(table, func(r row) bool { return r.method == name }) {
				t.Errorf("%s has no row", name)
			}
			if routes["/fencepost.v1."+name] == nil {
				t.Errorf("%s has no route", name)
			}
		}
	}
}

// TestLedgers_Lists_Merged: lists page through all ledgers in order, and say which are missing.
func TestLedgers_Lists_Merged(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n")
	var want []string
	for i := range 13 {
		name := s.names[i%3]
		if i < 4 {
			name = "us1"
		}
		want = append(want, n.create("at-"+name, fmt.Sprint(i)).GetTxId())
	}
	slices.SortFunc(want, func(a, b string) int { return slices.Compare(txKey(b), txKey(a)) })
	pages := func(size int32, between func(page int)) (ids, missing []string) {
		ask := &pb.ListTxsRequest{PageSize: size}
		for page := 1; ; page++ {
			r, err := n.txs.ListTxs(n.ctx, ask)
			n.must(err)
			for _, tx := range r.GetTxs() {
				ids = append(ids, tx.GetTxId())
			}
			missing = append(missing, r.GetMissingLedgers()...)
			if ask.PageToken = r.GetNextPageToken(); ask.GetPageToken() == "" {
				return ids, missing
			}
			between(page)
		}
	}
	for _, size := range []int32{1, 4, 100} {
		ids, missing := pages(size, func(int) {})
		if !slices.Equal(ids, want) || len(missing) > 0 {
			t.Errorf("pages of %d: %v without %v, want %v", size, ids, missing, want)
		}
	}
	subs, err := n.subs.ListSubmitters(n.ctx, &pb.ListSubmittersRequest{PageSize: 2})
	n.must(err)
	if all := subs.GetSubmitters(); len(all) != 2 || all[0].GetName() != "at-eu1" ||
		all[1].GetName() != "at-eu2" || subs.GetNextPageToken() == "" {
		t.Errorf("submitters: %v", subs)
	}
	state, err := n.status.GetStatus(n.ctx, &pb.GetStatusRequest{})
	n.must(err)
	if state.GetTotals().GetSubmitters() != 3 || state.GetTotals().GetQueued() != 13 {
		t.Errorf("totals: %v", state)
	}

	// A ledger that is missing on some pages follows on the next ones: none of it is lost.
	ids, missing := pages(2, func(page int) {
		switch page {
		case 1:
			s.down(n, 2)
		case 3:
			s.proxies[2].Heal()
			s.await(n)
		}
	})
	if slices.Sort(ids); len(ids) != len(want) || len(slices.Compact(ids)) != len(want) ||
		!slices.Equal(missing, []string{"us1", "us1"}) {
		t.Errorf("with an outage: %v without %v", ids, missing)
	}
	s.down(n, 2)
	state, err = n.status.GetStatus(n.ctx, &pb.GetStatusRequest{})
	n.must(err)
	if !slices.Equal(state.GetMissingLedgers(), []string{"us1"}) ||
		state.GetTotals().GetSubmitters() != 2 {
		t.Errorf("totals without a ledger: %v", state)
	}
	for name, missing := range map[string]func() ([]string, error){
		"ListSubmitters": func() ([]string, error) {
			r, err := n.subs.ListSubmitters(n.ctx, &pb.ListSubmittersRequest{})
			return r.GetMissingLedgers(), err
		},
		"ListCommands": func() ([]string, error) {
			r, err := n.subs.ListCommands(n.ctx, &pb.ListCommandsRequest{})
			return r.GetMissingLedgers(), err
		},
		"ListNodes": func() ([]string, error) {
			r, err := n.status.ListNodes(n.ctx, &pb.ListNodesRequest{})
			return r.GetMissingLedgers(), err
		},
		"ListPools": func() ([]string, error) {
			r, err := pb.NewPoolServiceClient(n.conn).ListPools(n.ctx, &pb.ListPoolsRequest{})
			return r.GetMissingLedgers(), err
		},
		"ListSinks": func() ([]string, error) {
			r, err := pb.NewSinkServiceClient(n.conn).ListSinks(n.ctx, &pb.ListSinksRequest{})
			return r.GetMissingLedgers(), err
		},
	} {
		if got, err := missing(); err != nil || !slices.Equal(got, []string{"us1"}) {
			t.Errorf("%s says missing: %v %v", name, got, err)
		}
	}
}

// TestLedgers_Batch_PartsAnswered: a batch has a result for each request, also if a ledger is down.
func TestLedgers_Batch_PartsAnswered(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n")
	ask := &pb.BatchCreateTxRequest{}
	for i, submitter := range []string{"at-eu2", "at-eu1", "nobody", "at-eu2", "at-eu1"} {
		ask.Requests = append(ask.Requests, &pb.CreateTxRequest{Submitter: submitter,
			RequestId: fmt.Sprint(i), Payload: payload()})
	}
	send := func(ctx context.Context) (codes []codes.Code) {
		r, err := n.txs.BatchCreateTx(ctx, ask)
		n.must(err)
		for i, result := range r.GetResults() {
			code := grpcstatus.FromProto(result.GetError()).Code()
			codes = append(codes, code)
			if tx := result.GetTx(); tx != nil && tx.GetSubmitter() !=
				ask.GetRequests()[i].GetSubmitter() {
				t.Errorf("result %d is of %s", i, tx.GetSubmitter())
			}
		}
		return codes
	}
	if got := send(n.ctx); !slices.Equal(got, []codes.Code{0, 0, codes.NotFound, 0, 0}) {
		t.Errorf("all up: %v", got)
	}
	s.down(n, 1)
	away := codes.Unavailable
	if got := send(n.ctx); !slices.Equal(got, []codes.Code{away, 0, away, away, 0}) {
		t.Errorf("one down: %v", got)
	}
}

// TestLedgers_Register_OneLedgerOnly: a name and an account are in one ledger, whichever a request
// names, and a pool too.
func TestLedgers_Register_OneLedgerOnly(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n")
	register := func(name, ledger string, address byte) (*pb.RegisterSubmitterResponse, error) {
		return n.subs.RegisterSubmitter(n.ctx, &pb.RegisterSubmitterRequest{Name: name,
			ChainId: chainID, Address: txn.Address{address}.Hex(), Signer: "local",
			Ledger: ledger})
	}
	_, err := register("alice", "eu2", 1)
	n.must(err)
	if got := s.of[1].count("submitter WHERE name = 'alice'"); got != 1 {
		t.Errorf("alice is not in the ledger of the request: %d", got)
	}
	again, err := register("alice", "", 1)
	if err != nil || again.GetCreated() {
		t.Errorf("alice again: %v %v", again, err)
	}
	for _, other := range []struct {
		name    string
		address byte
	}{{"alice", 1}, {"alice", 2}, {"bob", 1}} {
		_, err = register(other.name, "eu1", other.address)
		wantStatus(t, err, codes.AlreadyExists, "SUBMITTER_EXISTS")
	}
	_, err = register("carol", "mars", 3)
	wantStatus(t, err, codes.InvalidArgument, "INVALID_FIELD")
	pools := pb.NewPoolServiceClient(n.conn)
	ask := &pb.CreatePoolRequest{Pool: "fees", ChainId: chainID, Ledger: "eu2"}
	_, err = pools.CreatePool(n.ctx, ask)
	n.must(err)
	ask.Ledger = "eu1"
	_, err = pools.CreatePool(n.ctx, ask)
	wantStatus(t, err, codes.AlreadyExists, "POOL_EXISTS")
	_, _, err = s.of[0].store.CreatePool(s.ctx, "fees", chainID)
	if err == nil {
		t.Error("another node creates the pool in another ledger")
	}
	ask.Ledger = ""
	if same, err := pools.CreatePool(n.ctx, ask); err != nil || same.GetCreated() {
		t.Errorf("the pool again: %v %v", same, err)
	}
	_, err = pools.AddPoolMember(n.ctx,
		&pb.AddPoolMemberRequest{Pool: "fees", Submitter: "at-eu1", Reason: why})
	wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
}

// TestLedgers_Freeze_OthersServed: a ledger that does not respond at all holds no room of others.
func TestLedgers_Freeze_OthersServed(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n", limits(func(l *Limits) { l.Calls = 4 }))
	n.create("at-eu2", "before")
	s.proxies[1].BlackHole()
	results := make(chan error)
	for i := range 4 {
		go func() {
			_, err := n.txs.CreateTx(n.ctx, &pb.CreateTxRequest{Submitter: "at-eu2",
				RequestId: fmt.Sprint(i), Payload: payload()})
			results <- err
		}()
	}
	for i := range 2 { // as many as the ledger has no room for
		if err := <-results; err == nil {
			t.Errorf("call %d succeeds in a frozen ledger", i)
		}
	}
	n.create("at-eu1", "during")
	s.await(n, "eu2")
	for range 2 {
		wantStatus(t, <-results, codes.Unavailable, "STORE_UNAVAILABLE")
	}
	s.proxies[1].Heal()
	s.await(n)
	n.create("at-eu2", "after")
}
