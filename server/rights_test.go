package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/server/web"
	"github.com/fencepost/fencepost/txn"
)

// rightsTarget is a submitter and one of its transactions, as requests name them.
type rightsTarget struct{ name, account, tx, request string }

// row is one kind of request to an RPC, and its required role: "caller", "operator" or "operator of
// all". A request that names no account is limited to the caller's.
type row struct {
	method string
	who    string
	path   string // over HTTP
	ask    func(rightsTarget) proto.Message
	free   bool // it names no account
}

func byName(method, who, path string, ask func(string) proto.Message) []row {
	return []row{
		{method, who, path, func(a rightsTarget) proto.Message { return ask(a.name) }, false},
		{method, who, strings.ReplaceAll(path, "NAME", "ACCOUNT"),
			func(a rightsTarget) proto.Message { return ask(a.account) }, false},
	}
}

func byTx(method, who, path string, ask func(string) proto.Message) []row {
	return []row{
		{method, who, path, func(a rightsTarget) proto.Message { return ask(a.tx) }, false},
	}
}

func free(method, who, path string, ask proto.Message) []row {
	return []row{{method, who, path, func(rightsTarget) proto.Message { return ask }, true}}
}

const (
	caller        = "caller"
	operator      = "operator"
	operatorOfAll = "operator of all"

	why = "a test"
)

func key(name, request string) *pb.RequestKey {
	return &pb.RequestKey{Submitter: name, RequestId: request}
}

func createFor(name string) *pb.CreateTxRequest {
	return &pb.CreateTxRequest{Submitter: name, RequestId: "again", Payload: payload()}
}

// rows has every RPC with every way to name an account.
func rows() []row {
	return slices.Concat(
		byName(createTx, caller, "POST /api/v1/tx",
			func(s string) proto.Message { return createFor(s) }),
		byName(batchCreate, caller, "POST /api/v1/tx/batch", func(s string) proto.Message {
			return &pb.BatchCreateTxRequest{Requests: []*pb.CreateTxRequest{createFor(s)}}
		}),
		byName(simulateTx, caller, "POST /api/v1/tx/simulate", func(s string) proto.Message {
			return &pb.SimulateTxRequest{Submitter: s, Payload: payload()}
		}),
		byTx(getTx, caller, "GET /api/v1/tx/TX", func(id string) proto.Message { return byID(id) }),
		[]row{
			{getTx, caller, "GET /api/v1/tx/by-request?submitter=NAME&request_id=REQUEST",
				func(a rightsTarget) proto.Message { return byKey(a.name, a.request) }, false},
			{getTx, caller, "GET /api/v1/tx/by-request?submitter=ACCOUNT&request_id=REQUEST",
				func(a rightsTarget) proto.Message { return byKey(a.account, a.request) }, false},
		},
		free(listTxs, caller, "GET /api/v1/tx", &pb.ListTxsRequest{}),
		byName(listTxs, caller, "GET /api/v1/tx?submitter=NAME",
			func(s string) proto.Message { return &pb.ListTxsRequest{Submitter: s} }),
		byTx(cancelTx, caller, "POST /api/v1/tx/TX/cancel",
			func(id string) proto.Message { return &pb.CancelTxRequest{TxId: id} }),
		byTx(speedUpTx, caller, "POST /api/v1/tx/TX/speed-up",
			func(id string) proto.Message { return &pb.SpeedUpTxRequest{TxId: id} }),
		byTx(approveTx, operator, "POST /api/v1/tx/TX/approve",
			func(id string) proto.Message { return &pb.ApproveTxRequest{TxId: id} }),
		byTx(denyTx, operator, "POST /api/v1/tx/TX/deny",
			func(id string) proto.Message { return &pb.DenyTxRequest{TxId: id} }),
		free(watchTx, caller, "GET /api/v1/events", watchAll()),
		byTx(watchTx, caller, "GET /api/v1/tx/TX/events",
			func(id string) proto.Message { return watchID(id) }),
		byTx(watchTx, caller, "GET /api/v1/tx/by-ids/events?tx_ids=TX",
			func(id string) proto.Message { return watchIDs(id) }),
		byName(watchTx, caller, "GET /api/v1/submitters/NAME/events",
			func(s string) proto.Message { return watchSubmitter(s) }),
		[]row{
			{
				watchTx,
				caller,
				"GET /api/v1/tx/by-request/events?submitter=NAME&request_id=REQUEST",
				func(a rightsTarget) proto.Message {
					return &pb.WatchTxRequest{
						Target: &pb.WatchTxRequest_Request{Request: key(a.name, a.request)},
					}
				},
				false,
			},
		},
		byName(getSub, caller, "GET /api/v1/submitters/NAME",
			func(s string) proto.Message { return &pb.GetSubmitterRequest{Submitter: s} }),
		free(listSubs, caller, "GET /api/v1/submitters", &pb.ListSubmittersRequest{}),
		byName(listBalances, operator, "GET /api/v1/balances?submitters=NAME",
			func(s string) proto.Message {
				return &pb.ListBalancesRequest{Submitters: []string{s}}
			}),
		free(getStatus, caller, "GET /api/v1/status", &pb.GetStatusRequest{}),
		free(listCosts, operator,
			"GET /api/v1/costs?by=COST_GROUP_DAY&from=2026-01-01T00:00:00Z",
			&pb.ListCostsRequest{By: pb.CostGroup_COST_GROUP_DAY,
				From: timestamppb.New(time.Unix(1767225600, 0))}),
		free(listNodes, operator, "GET /api/v1/nodes", &pb.ListNodesRequest{}),
		free(listChains, operator, "GET /api/v1/chains", &pb.ListChainsRequest{}),
		free(listCommands, caller, "GET /api/v1/commands", &pb.ListCommandsRequest{}),
		byName(listCommands, caller, "GET /api/v1/submitters/NAME/commands",
			func(s string) proto.Message { return &pb.ListCommandsRequest{Submitter: s} }),
		[]row{{register, operatorOfAll, "POST /api/v1/submitters", func(
			a rightsTarget) proto.Message {
			_, address, _, _ := txn.ParseAccountID(a.account)
			return &pb.RegisterSubmitterRequest{
				Name:    a.name,
				ChainId: uint64(chainID),
				Address: address.Hex(),
				Signer:  "local",
			}
		}, false}},
		byName(updateSub, operator, "PATCH /api/v1/submitters/NAME", func(s string) proto.Message {
			r := &pb.UpdateSubmitterRequest{
				Submitter: s,
				OnFailure: pb.FailurePolicy_FAILURE_POLICY_PAUSE,
			}
			r.UpdateMask = &fieldmaskpb.FieldMask{Paths: []string{"on_failure"}}
			return r
		}),
		byName(pauseSub, operator, "POST /api/v1/submitters/NAME/pause",
			func(s string) proto.Message {
				return &pb.PauseSubmitterRequest{Submitter: s,
					Reason: why}
			}),
		byName(resumeSub, operator, "POST /api/v1/submitters/NAME/resume",
			func(s string) proto.Message {
				return &pb.ResumeSubmitterRequest{Submitter: s,
					Reason: why}
			}),
		byName(protectSub, operator, "POST /api/v1/submitters/NAME/protect",
			func(s string) proto.Message {
				return &pb.ProtectSubmitterRequest{Submitter: s,
					Reason: why}
			}),
		byName(
			exitProtect,
			operator,
			"POST /api/v1/submitters/NAME/exit-protect",
			func(s string) proto.Message {
				return &pb.ExitProtectRequest{
					Submitter:    s,
					ProtectionId: 1,
					Decision:     pb.ProtectionDecision_PROTECTION_DECISION_RESUME,
					Reason:       why,
				}
			},
		),
		byTx(resolveStuck, operator, "POST /api/v1/tx/TX/resolve", func(id string) proto.Message {
			return &pb.ResolveStuckRequest{
				TxId:     id,
				Decision: pb.StuckDecision_STUCK_DECISION_RETRY,
				Reason:   why,
			}
		}),
	)
}

// role is a kind of caller.
type role struct {
	name, token     string
	known, operator bool
	all             bool
}

var roles = []role{
	{name: "nobody"},
	{name: "stranger", token: "stranger-0123456789abcdef"},
	{name: "caller", token: "caller-0123456789abcdef", known: true},
	{name: "caller of all", token: "caller-of-all-0123456789abcdef", known: true, all: true},
	{name: "operator", token: "operator-0123456789abcdef", known: true, operator: true},
	{
		name:     "operator of all",
		token:    "operator-of-all-0123456789abcdef",
		known:    true,
		operator: true,
		all:      true,
	},
}

// may returns the code that the table requires for a role.
func (r role) may(who string, own, free bool) codes.Code {
	switch {
	case !r.known:
		return codes.Unauthenticated
	case who == operator && !r.operator,
		who == operatorOfAll && !(r.operator && r.all),
		!own && !free && !r.all:
		return codes.PermissionDenied
	}
	return codes.OK
}

func callersOf(roles []role) (callers []auth.Caller) {
	for _, r := range roles {
		if r.known {
			c := auth.Caller{
				Name:       r.name,
				Tokens:     []string{r.token},
				Submitters: []string{"alice"},
				Operator:   r.operator,
			}
			if r.all {
				c.Submitters = []string{auth.AllSubmitters}
			}
			callers = append(callers, c)
		}
	}
	return callers
}

// Every RPC, with every way to name an account, returns the result in the table for each role: for
// an account of the role, of another caller, and for an unknown one, over gRPC and HTTP. The last
// two are indistinguishable, so that no caller learns which accounts and transactions exist.
func TestRights(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	h.own(h.register("bob"))
	n := h.serve(
		func(o *Options) {
			o.Callers, o.Limits.CommandWait = callersOf(roles),
				20*time.Millisecond
		})
	all := roles[len(roles)-1]
	accounts := map[string]rightsTarget{
		"alice": n.rightsTarget("alice", all),
		"bob":   n.rightsTarget("bob", all),
		"carol": unknownTarget(t, "carol"),
	}
	o.finalize(txID(t, accounts["alice"].tx))

	table := rows()
	checkRows(t, table)
	for _, r := range roles {
		for _, row := range table {
			if row.method == register && r.may(row.who, true, false) == codes.OK {
				continue // tested below
			}
			t.Run(r.name+"/"+row.method+" "+row.path,
				func(t *testing.T) { n.checkRow(t, r, row, accounts) })
		}
	}
	ctx := all.in(h.ctx)
	info, err := n.subs.RegisterSubmitter(ctx, &pb.RegisterSubmitterRequest{
		Name:    "dora",
		ChainId: uint64(chainID),
		Address: recipient,
		Signer:  "local",
	})
	if err != nil || !info.GetCreated() {
		t.Errorf("an operator of all registers: %v, %v", info, err)
	}
}

// checkRows fails for an RPC that has no row.
func checkRows(t *testing.T, table []row) {
	t.Helper()
	for name := range methods() {
		if !slices.ContainsFunc(table, func(r row) bool { return r.method == name }) {
			t.Errorf("%s has no row; add its required role", name)
		}
	}
}

// rightsTarget creates a transaction of an account.
func (n *node) rightsTarget(name string, by role) rightsTarget {
	r, err := n.txs.CreateTx(by.in(n.ctx),
		&pb.CreateTxRequest{Submitter: name, RequestId: "r1", Payload: payload()})
	n.must(err)
	return rightsTarget{name, accountOf(name), r.GetTx().GetTxId(), "r1"}
}

func accountOf(name string) string {
	var a txn.Address
	copy(a[:], name)
	return txn.AccountID(chainID, a)
}

func unknownTarget(t *testing.T, name string) rightsTarget {
	t.Helper()
	id, err := txn.NewTxID(time.Now(), 4711)
	if err != nil {
		t.Fatal(err)
	}
	return rightsTarget{name, accountOf(name), id.String(), "r1"}
}

func (r role) in(ctx context.Context) context.Context {
	if r.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+r.token)
}

func (n *node) checkRow(t *testing.T, r role, row row, accounts map[string]rightsTarget) {
	received := map[string][]string{}
	for name, a := range accounts {
		want := r.may(row.who, name == "alice", row.free)
		for protocol, s := range map[string]*grpcstatus.Status{"gRPC": n.overGRPC(t, r, row, a),
			"HTTP": n.overHTTP(t, r, row, a)} {
			denied := s.Code() == codes.PermissionDenied || s.Code() == codes.Unauthenticated
			if denied && s.Code() != want || !denied && want != codes.OK {
				t.Errorf("of %s over %s: %v, want %v", name, protocol, s, want)
			}
			if reason := status.ReasonOf(s); denied &&
				reason != map[codes.Code]string{codes.PermissionDenied: "PERMISSION_DENIED",
					codes.Unauthenticated: "UNAUTHENTICATED"}[want] {
				t.Errorf("of %s over %s: %v with the reason %q", name, protocol, s, reason)
			}
			text := strings.NewReplacer(a.name, "NAME", a.account, "ACCOUNT", a.tx, "TX").Replace(
				s.Message())
			if denied && !strings.Contains(text, "; ") {
				t.Errorf("of %s over %s: no remedy in %q", name, protocol, text)
			}
			received[name] = append(received[name], fmt.Sprint(denied, s.Code() == want, text))
		}
	}
	if slices.Sort(received["bob"]); r.may(row.who, false, row.free) == codes.PermissionDenied {
		if slices.Sort(received["carol"]); !slices.Equal(received["bob"], received["carol"]) {
			t.Errorf("existing: %q, unknown: %q", received["bob"],
				received["carol"])
		}
	}
}

// overGRPC makes the call and returns its status: for a batch the status of the first
// request, for a stream OK after its first message.
func (n *node) overGRPC(t *testing.T, r role, row row, a rightsTarget) *grpcstatus.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(r.in(n.ctx), testTimeout)
	defer cancel()
	if row.method == watchTx {
		stream, err := n.txs.WatchTx(ctx, row.ask(a).(*pb.WatchTxRequest))
		if err == nil {
			_, err = stream.Recv()
		}
		return grpcstatus.Convert(err)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(
		methods()[row.method].Output().FullName())
	n.must(err)
	answer := kind.New().Interface()
	if err := n.conn.Invoke(ctx, "/fencepost.v1."+row.method, row.ask(a), answer); err != nil {
		return grpcstatus.Convert(err)
	}
	return inBatch(answer)
}

// inBatch returns the status of the first request of a batch.
func inBatch(answer proto.Message) *grpcstatus.Status {
	if b, ok := answer.(*pb.BatchCreateTxResponse); ok {
		return grpcstatus.FromProto(b.GetResults()[0].GetError())
	}
	return grpcstatus.New(codes.OK, "")
}

func (n *node) overHTTP(t *testing.T, r role, row row, a rightsTarget) *grpcstatus.Status {
	t.Helper()
	verb, path, _ := strings.Cut(
		strings.NewReplacer("NAME", a.name, "ACCOUNT", a.account, "TX", a.tx, "REQUEST",
			a.request).Replace(
			row.path,
		),
		" ",
	)
	header := []string{}
	if r.token != "" {
		header = []string{"Authorization", "Bearer " + r.token}
	}
	if row.method == watchTx {
		if l := n.stream(path, header...); l.code == http.StatusOK {
			return grpcstatus.New(codes.OK, "")
		}
	}
	body := ""
	if verb != http.MethodGet {
		text, err := protojson.Marshal(row.ask(a))
		n.must(err)
		body = string(text)
	}
	answer := n.http(verb, path, body, header...)
	if answer.code < http.StatusBadRequest {
		b := &pb.BatchCreateTxResponse{}
		if row.method != batchCreate {
			return grpcstatus.New(codes.OK, "")
		}
		n.must(protojson.Unmarshal(answer.body, b))
		return inBatch(b)
	}
	received := grpcstatus.New(codes.OK, "").Proto()
	n.must(protojson.Unmarshal(answer.body, received))
	if s := grpcstatus.FromProto(received); web.HTTPStatus(s.Code()) != answer.code {
		t.Errorf("%s %s: %d for %v", verb, path, answer.code, s)
	}
	return grpcstatus.FromProto(received)
}

// A watch of all includes submitters that are registered while it runs.
func TestRights_ListsAndWatches_OwnAccountsOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.register("bob")
	few := auth.Caller{
		Name:       "few",
		Tokens:     []string{"few-0123456789abcdef"},
		Submitters: []string{"late", "alice", "alice"},
	}
	none := auth.Caller{
		Name:       "none",
		Tokens:     []string{"none-0123456789abcdef"},
		Submitters: []string{"nothing"},
	}
	n := h.serve(func(o *Options) { o.Callers = append(callersOf(roles), few, none) })
	all, ctx := roles[len(roles)-1].in(h.ctx), role{token: few.Tokens[0]}.in(h.ctx)
	create := func(name string) string {
		r, err := n.txs.CreateTx(all, &pb.CreateTxRequest{
			Submitter: name,
			RequestId: rand(),
			Payload:   payload(),
			Labels:    map[string]string{"a": "b"},
		})
		h.must(err)
		return r.GetTx().GetTxId()
	}
	mine := []string{create("alice"), create("alice")}
	create("bob")
	stream, err := n.txs.WatchTx(ctx, watchAll())
	h.must(err)
	for i := range mine {
		m, err := stream.Recv()
		if h.must(err); m.GetSnapshot().GetTxId() != mine[1-i] {
			t.Errorf("snapshot %d is %v", i, m)
		}
	}
	first, err := stream.Recv()
	if h.must(err); first.GetHeartbeat() == nil {
		t.Errorf("the snapshots are followed by %v", first)
	}
	create("bob")
	h.register("late")
	mine = append(mine, create("late"))
	m, err := stream.Recv()
	if h.must(err); m.GetEvent().GetTxId() != mine[2] {
		t.Errorf("received %v", m)
	}
	ask := watchAll()
	ask.ResumeToken = first.GetResumeToken()
	resumed, err := n.txs.WatchTx(ctx, ask)
	h.must(err)
	if m, err = resumed.Recv(); err != nil || m.GetEvent().GetTxId() != mine[2] {
		t.Errorf("resumed: %v: %v", m, err)
	}
	for _, labels := range [][]string{nil, {"a=b"}} {
		got, token := []string{}, ""
		for more := true; more; more = token != "" {
			page, err := n.txs.ListTxs(ctx,
				&pb.ListTxsRequest{PageSize: 1, PageToken: token, Labels: labels})
			h.must(err)
			for _, tx := range page.GetTxs() {
				got = append(got, tx.GetTxId())
			}
			token = page.GetNextPageToken()
		}
		if slices.Reverse(got); !slices.Equal(got, mine) {
			t.Errorf("listed %v, want %v", got, mine)
		}
	}
	for who, want := range map[string][]string{few.Tokens[0]: {"alice", "late"},
		none.Tokens[0]: nil, roles[len(roles)-1].token: {"alice", "bob", "late"}} {
		got := []string{}
		page, err := n.subs.ListSubmitters(role{token: who}.in(h.ctx), &pb.ListSubmittersRequest{})
		h.must(err)
		for _, s := range page.GetSubmitters() {
			got = append(got, s.GetName())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", who, got, want)
		}
	}
	page, err := n.txs.ListTxs(role{token: none.Tokens[0]}.in(h.ctx), &pb.ListTxsRequest{})
	if h.must(err); len(page.GetTxs()) != 0 {
		t.Errorf("a caller without accounts lists %v", page)
	}
}

func TestRights_Batch_PerRequest(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.register("bob")
	n := h.serve(func(o *Options) { o.Callers = callersOf(roles) })
	r, err := n.txs.BatchCreateTx(roles[2].in(h.ctx), &pb.BatchCreateTxRequest{
		Requests: []*pb.CreateTxRequest{
			createFor("bob"),
			createFor("alice"),
			createFor("carol"),
		},
	})
	h.must(err)
	for i, want := range []codes.Code{codes.PermissionDenied, codes.OK, codes.PermissionDenied} {
		if got := codes.Code(r.GetResults()[i].GetError().GetCode()); got != want {
			t.Errorf("request %d: %v, want %v", i, got, want)
		}
	}
	if got := h.count("managed_tx"); got != 1 {
		t.Errorf("%d transactions are queued", got)
	}
}

// Calls and running streams are checked against the new callers; streams that would still be
// admitted continue.
func TestCallers_Replaced_EffectiveAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	before := []auth.Caller{
		{
			Name:       "kept",
			Tokens:     []string{"kept-0123456789abcdef", "old-0123456789abcdef"},
			Submitters: []string{"alice"},
		},
		{Name: "gone", Tokens: []string{"gone-0123456789abcdef"}, Submitters: []string{"alice"}},
		{Name: "other", Tokens: []string{"moved-0123456789abcdef"}, Submitters: []string{"alice"}},
	}
	n := h.serve(func(o *Options) { o.Callers = before })
	streams := map[string]pb.TxService_WatchTxClient{}
	for _, token := range []string{"kept", "old", "gone", "moved"} {
		stream, err := n.txs.WatchTx(role{token: token + "-0123456789abcdef"}.in(h.ctx),
			watchSubmitter("alice"))
		h.must(err)
		_, err = stream.Recv()
		h.must(err)
		streams[token] = stream
	}
	over := n.stream("/api/v1/submitters/alice/events", "Authorization",
		"Bearer gone-0123456789abcdef")
	over.message()
	n.server.SetCallers(nil, []auth.Caller{
		{
			Name:       "kept",
			Tokens:     []string{"kept-0123456789abcdef", "new-0123456789abcdef"},
			Submitters: []string{"alice"},
		},
		{
			Name:       "another",
			Tokens:     []string{"moved-0123456789abcdef"},
			Submitters: []string{"alice"},
		},
	})
	for _, token := range []string{"old", "gone", "moved"} {
		_, err := streams[token].Recv()
		wantStatus(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
	}
	if line, _ := over.next(); !strings.Contains(line, "UNAUTHENTICATED") {
		t.Errorf("over HTTP the stream ends with %q", line)
	}
	for token, known := range map[string]bool{"kept": true, "new": true, "moved": true,
		"old": false, "gone": false} {
		_, err := n.txs.CreateTx(role{token: token + "-0123456789abcdef"}.in(h.ctx),
			createFor("alice"))
		if !known {
			wantStatus(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
		} else if err != nil {
			t.Errorf("%s: %v", token, err)
		}
	}
	r, err := n.txs.CreateTx(role{token: "new-0123456789abcdef"}.in(h.ctx),
		&pb.CreateTxRequest{Submitter: "alice", RequestId: rand(), Payload: payload()})
	h.must(err)
	for m := (*pb.WatchTxResponse)(nil); m.GetEvent().GetTxId() != r.GetTx().GetTxId(); {
		if m, err = streams["kept"].Recv(); err != nil {
			t.Fatalf("the stream of a caller that was kept: %v", err)
		}
	}
	h.eventually("streams that ended are forgotten",
		func() bool { return n.server.authn.Streams() == 1 })
}

func TestRights_NoCallers_EverythingAllowed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.own(h.register("alice"))
	for name, tweak := range map[string]func(*Options){"nothing": func(*Options) {},
		"tokens": func(o *Options) { o.Tokens = []string{roles[2].token} }} {
		n := h.serve(tweak, limits(func(l *Limits) { l.CommandWait = 20 * time.Millisecond }))
		a := n.rightsTarget("alice", roles[2])
		for _, row := range rows() {
			if s := n.overGRPC(t, roles[2], row, a); s.Code() == codes.PermissionDenied ||
				s.Code() == codes.Unauthenticated {
				t.Errorf("%s: %s: %v", name, row.method, s)
			}
		}
	}
}
