package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/store"
)

func createRequest(submitter, request, value string) *pb.CreateTxRequest {
	return &pb.CreateTxRequest{
		Submitter: submitter,
		RequestId: request,
		Payload:   &pb.Payload{To: recipient, Value: value},
	}
}

func batchOf(requests ...*pb.CreateTxRequest) *pb.BatchCreateTxRequest {
	return &pb.BatchCreateTxRequest{Requests: requests}
}

func (n *node) batch(requests ...*pb.CreateTxRequest) []*pb.BatchCreateTxResult {
	n.t.Helper()
	r, err := n.txs.BatchCreateTx(n.ctx, batchOf(requests...))
	n.must(err)
	if len(r.GetResults()) != len(requests) {
		n.t.Fatalf("%d results for %d requests", len(r.GetResults()), len(requests))
	}
	return r.GetResults()
}

// The queue keeps the order of the batch, not the order of its keys.
func TestBatch_OneStatement_OrderKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	h.register("alice")
	h.register("bob")
	requests := make([]*pb.CreateTxRequest, 1000)
	for i := range requests {
		submitter := []string{"alice", "bob"}[i%2]
		requests[i] = createRequest(submitter, fmt.Sprint("r", (i*7919)%1000), fmt.Sprint(i))
	}
	for i, r := range n.batch(requests...) {
		if tx := r.GetTx(); !r.GetCreated() || tx.GetRequestId() != requests[i].GetRequestId() ||
			tx.GetPayload().GetValue() != fmt.Sprint(i) {
			t.Fatalf("result %d is %v", i, r)
		}
	}
	if n := h.count("(SELECT DISTINCT xmin FROM managed_tx) x"); n != 1 {
		t.Errorf("a batch took %d statements, want 1", n)
	}
	if n := h.count("(SELECT value, lag(value) OVER (ORDER BY queue_seq) AS before FROM " +
		"managed_tx) x WHERE before > value"); n != 0 {
		t.Errorf("%d of a batch are queued before one that was named before them", n)
	}
	for i, r := range n.batch(requests...) { // repeated
		if r.GetCreated() || r.GetTx().GetPayload().GetValue() != fmt.Sprint(i) {
			t.Fatalf("again, result %d is %v", i, r)
		}
	}
	if rows, events := h.count("managed_tx"), h.count("tx_event"); rows != 1000 || events != 1000 {
		t.Errorf("%d transactions and %d events, want 1000 each", rows, events)
	}
}

// Each request of a batch has the result it would have alone.
func TestBatch_MixedRequests_OwnResults(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	h.register("alice")
	h.own(h.register("paused")).pause()
	h.own(h.register("protected")).protect()
	old := n.create("alice", "old")
	dated, err := n.txs.CreateTx(h.ctx,
		late(createRequest("alice", "dated", "1"), time.Now().Add(300*time.Millisecond)))
	h.must(err)
	deadline := dated.GetTx().GetTerms().GetNotAfter()
	h.eventually("the deadline", func() bool { return time.Now().After(deadline.AsTime()) })

	cases := []struct {
		name    string
		ask     *pb.CreateTxRequest
		code    codes.Code
		reason  string
		message string
		created bool
	}{
		{"good", createRequest("alice", "a", "1"), codes.OK, "", "", true},
		{
			"without a payload",
			&pb.CreateTxRequest{Submitter: "alice", RequestId: "b"},
			codes.InvalidArgument,
			"INVALID_FIELD",
			"payload: is missing",
			false,
		},
		{"with a nonce", nonced(createRequest("alice", "c", "1")), codes.InvalidArgument,
			"UNKNOWN_FIELD", "payload.nonce", false},
		{"with a NUL", createRequest("alice", "d\x00", "1"), codes.InvalidArgument, "INVALID_FIELD",
			"U+0000", false},
		{
			"mistyped",
			&pb.CreateTxRequest{
				Submitter: "alice",
				RequestId: "e",
				Payload:   &pb.Payload{To: mistyped},
			},
			codes.InvalidArgument,
			"INVALID_FIELD",
			"EIP-55",
			false,
		},
		{"unknown submitter", createRequest("nobody", "f", "1"), codes.NotFound,
			"SUBMITTER_NOT_FOUND", "register it", false},
		{"paused submitter", createRequest("paused", "g", "1"), codes.FailedPrecondition,
			"SUBMITTER_PAUSED", "resume it", false},
		{"protected submitter", createRequest("protected", "h", "1"), codes.FailedPrecondition,
			"SUBMITTER_PROTECTED", "protection 1", false},
		{"protected submitter again", createRequest("protected", "i", "1"),
			codes.FailedPrecondition, "SUBMITTER_PROTECTED", "protection 1", false},
		{
			"too large",
			&pb.CreateTxRequest{
				Submitter: "alice",
				RequestId: "j",
				Payload:   &pb.Payload{To: recipient, Data: make([]byte, 126<<10+1)},
			},
			codes.InvalidArgument,
			"PAYLOAD_TOO_LARGE",
			"above the limit",
			false,
		},
		{"known", createRequest("alice", "old", "1"), codes.OK, "", "", false},
		{"known with another payload", createRequest("alice", "old", "2"), codes.AlreadyExists,
			"IDEMPOTENCY_KEY_REUSED", `request_id "old"`, false},
		{"twice", createRequest("alice", "a", "1"), codes.OK, "", "", false},
		{"twice with another payload", createRequest("alice", "a", "2"), codes.AlreadyExists,
			"IDEMPOTENCY_KEY_REUSED", `request_id "a"`, false},
		{"late and known", late(createRequest("alice", "dated", "1"), deadline.AsTime()), codes.OK,
			"", "", false},
		{
			"late and new",
			late(createRequest("alice", "k", "1"), deadline.AsTime()),
			codes.InvalidArgument,
			"INVALID_FIELD",
			"terms.not_after: ",
			false,
		},
		{"good as well", createRequest("alice", "l", "1"), codes.OK, "", "", true},
	}
	requests := []*pb.CreateTxRequest{}
	for _, c := range cases {
		requests = append(requests, c.ask)
	}
	results := n.batch(requests...)
	for i, c := range cases {
		r := results[i]
		if c.code == codes.OK {
			if r.GetError() != nil || r.GetTx().GetRequestId() != c.ask.GetRequestId() ||
				r.GetCreated() != c.created {
				t.Errorf("%s: %v", c.name, r)
			}
			continue
		}
		s := wantStatus(t, grpcstatus.ErrorProto(r.GetError()), c.code, c.reason)
		if !strings.Contains(s.Message(), c.message) || r.GetCreated() {
			t.Errorf("%s: %v lacks %q", c.name, r, c.message)
		}
	}
	if results[10].GetTx().GetTxId() != old.GetTxId() ||
		results[12].GetTx().GetTxId() != results[0].GetTx().GetTxId() {
		t.Error("a request that came before has another transaction")
	}
	if rows := h.count("managed_tx"); rows != 4 {
		t.Errorf("%d transactions, want 4", rows)
	}
}

func late(r *pb.CreateTxRequest, at time.Time) *pb.CreateTxRequest {
	r.Terms = &pb.Terms{NotAfter: timestamppb.New(at)}
	return r
}

func nonced(r *pb.CreateTxRequest) *pb.CreateTxRequest {
	with(r.GetPayload(), contract.PayloadNonce)
	return r
}

// downStore is a ledger that does not respond to creates.
type downStore struct{ Store }

func (downStore) CreateTxs(_ context.Context, intents []store.Intent) []store.Created {
	results := make([]store.Created, len(intents))
	for i := range results {
		results[i].Err = store.ErrUnavailable
	}
	return results
}

// The call fails if the ledger responds for no request of the batch, so clients retry it. If any
// result is known, each request has its own.
func TestBatch_LedgerDown_CallFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(func(o *Options) { o.Store = downStore{h.store} })
	_, err := n.txs.BatchCreateTx(h.ctx,
		batchOf(createRequest("alice", "a", "1"), createRequest("alice", "b", "1")))
	wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE")
	results := n.batch(createRequest("alice", "a", "1"), createRequest("alice", "", "1"))
	wantStatus(t, grpcstatus.ErrorProto(results[0].GetError()), codes.Unavailable,
		"STORE_UNAVAILABLE")
	wantStatus(t, grpcstatus.ErrorProto(results[1].GetError()), codes.InvalidArgument,
		"INVALID_FIELD")
}

// The response has the call id under which the log has the cause.
func TestBatch_InternalError_CauseHidden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(func(o *Options) { o.Store = failingStore{h.store} })
	results := n.batch(createRequest("alice", "a", "1"))
	s := wantStatus(t, grpcstatus.ErrorProto(results[0].GetError()), codes.Internal, "INTERNAL")
	if strings.Contains(s.Message(), "secret") {
		t.Errorf("message %q", s.Message())
	}
}

type failingStore struct{ Store }

func (failingStore) CreateTxs(_ context.Context, intents []store.Intent) []store.Created {
	return []store.Created{{Err: errors.New("a secret of the driver")}}
}

func (n *node) list(r *pb.ListTxsRequest) (ids []string) {
	n.t.Helper()
	r = proto.CloneOf(r)
	for pages := 0; pages == 0 || r.GetPageToken() != ""; pages++ {
		page, err := n.txs.ListTxs(n.ctx, r)
		n.must(err)
		for _, tx := range page.GetTxs() {
			ids = append(ids, tx.GetRequestId())
		}
		r.PageToken = page.GetNextPageToken()
	}
	return ids
}

func TestPageToken_EquivalentFilter_Continues(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	h.register("alice")
	info, err := n.subs.GetSubmitter(h.ctx, &pb.GetSubmitterRequest{Submitter: "alice"})
	h.must(err)
	account := fmt.Sprintf("eip155:%d:%s", info.GetSubmitter().GetChainId(),
		info.GetSubmitter().GetAddress())
	for _, request := range []string{"r1", "r2"} {
		_, err := n.txs.CreateTx(h.ctx,
			labelled("alice", request, map[string]string{"a": "1", "b": "2"}))
		h.must(err)
	}
	first, err := n.txs.ListTxs(h.ctx,
		&pb.ListTxsRequest{Submitter: "alice", Labels: []string{"a=1", "b=2"}, PageSize: 1})
	h.must(err)
	for name, ask := range map[string]*pb.ListTxsRequest{
		"by account": {Submitter: account, Labels: []string{"a=1", "b=2"}},
		"by account, lower case": {Submitter: strings.ToLower(account),
			Labels: []string{"a=1", "b=2"}},
		"labels in other order": {Submitter: "alice", Labels: []string{"b=2", "a=1", "b=2"}},
	} {
		ask.PageToken = first.GetNextPageToken()
		if page, err := n.txs.ListTxs(h.ctx, ask); err != nil || len(page.GetTxs()) != 1 ||
			page.GetTxs()[0].GetRequestId() != "r1" {
			t.Errorf("%s: %v, %v", name, page.GetTxs(), err)
		}
	}
}

func labelled(submitter, request string, labels map[string]string) *pb.CreateTxRequest {
	r := createRequest(submitter, request, "1")
	r.Labels = labels
	return r
}

// Labels are part of every view of a transaction, filter lists, and do not affect idempotency.
func TestLabels(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	h.register("alice")
	h.register("bob")
	type m = map[string]string
	given := m{"order": "17", "team/name": "päy \"out\" = 1"}
	r, err := n.txs.CreateTx(h.ctx, labelled("alice", "r0", given))
	h.must(err)
	again, err := n.txs.CreateTx(h.ctx, labelled("alice", "r0", m{"order": "18"}))
	h.must(err)
	got, err := n.txs.GetTx(h.ctx, byKey("alice", "r0"))
	h.must(err)
	stream := n.watch(&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "alice"}})
	first, err := stream.Recv()
	h.must(err)
	for where, tx := range map[string]*pb.Tx{"created": r.GetTx(), "created again": again.GetTx(),
		"read": got.GetTx(), "watched": first.GetSnapshot()} {
		if !maps.Equal(tx.GetLabels(), given) {
			t.Errorf("%s: labels are %v, want %v", where, tx.GetLabels(), given)
		}
	}
	if again.GetCreated() {
		t.Error("other labels made another transaction of the same request")
	}

	n.batch(labelled("alice", "r1", m{"order": "17"}), labelled("alice", "r2", m{"order": "18"}),
		labelled("bob", "r3", m{"order": "17", "x": ""}), labelled("bob", "r4", nil))
	for _, c := range []struct {
		name string
		ask  *pb.ListTxsRequest
		want string
	}{
		{"one label", &pb.ListTxsRequest{Labels: []string{"order=17"}}, "r0 r1 r3"},
		{"of one submitter", &pb.ListTxsRequest{Submitter: "alice", Labels: []string{"order=17"}},
			"r0 r1"},
		{"two labels",
			&pb.ListTxsRequest{Labels: []string{"order=17", "team/name=" + given["team/name"]}},
			"r0"},
		{"an empty value", &pb.ListTxsRequest{Labels: []string{"x="}}, "r3"},
		{"unused value", &pb.ListTxsRequest{Labels: []string{"order=1"}}, ""},
		{"labels of different transactions", &pb.ListTxsRequest{Labels: []string{"order=18", "x="}},
			""},
		{"and a state", &pb.ListTxsRequest{Labels: []string{"order=17"},
			States: []pb.TxState{pb.TxState_TX_STATE_CONFIRMED}}, ""},
		{"all", &pb.ListTxsRequest{}, "r0 r1 r2 r3 r4"},
	} {
		for _, c.ask.PageSize = range []int32{0, 1} {
			if got := sorted(n.list(c.ask)); got != c.want {
				t.Errorf("%s, pages of %d: %q, want %q", c.name, c.ask.PageSize, got, c.want)
			}
		}
	}
	if n := h.count("tx_label"); n != 6 {
		t.Errorf("%d labels are indexed, want 6", n)
	}
}

// A time range includes its start and excludes its end, regardless of the clock of the node that
// made the ids.
func TestListTxs_TimeRange_HalfOpen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	h.register("alice")
	at := []*timestamppb.Timestamp{}
	for i := range 4 {
		r, err := n.txs.CreateTx(h.ctx,
			labelled("alice", fmt.Sprint("r", i), map[string]string{"a": "b"}))
		h.must(err)
		at = append(at, r.GetTx().GetCreateTime())
	}
	for _, c := range []struct {
		from, before *timestamppb.Timestamp
		want         string
	}{
		{at[1], nil, "r1 r2 r3"}, {nil, at[1], "r0"}, {at[1], at[3], "r1 r2"}, {at[2], at[2], ""},
		{at[3], at[0], ""},
		{timestamppb.New(time.Time{}), timestamppb.New(at[3].AsTime().Add(time.Hour)),
			"r0 r1 r2 r3"},
		{timestamppb.New(at[0].AsTime().Add(48 * time.Hour)), nil, ""},
		{nil, timestamppb.New(at[0].AsTime().Add(-48 * time.Hour)), ""},
	} {
		for _, labels := range [][]string{nil, {"a=b"}} {
			for _, size := range []int32{0, 1} {
				ask := &pb.ListTxsRequest{
					CreatedFrom:   c.from,
					CreatedBefore: c.before,
					Labels:        labels,
					PageSize:      size,
				}
				if got := sorted(n.list(ask)); got != c.want {
					t.Errorf("from %v before %v with labels %v: %q, want %q", c.from.AsTime(),
						c.before.AsTime(), labels, got, c.want)
				}
			}
		}
	}
}

func sorted(texts []string) string {
	slices.Sort(texts)
	return strings.Join(texts, " ")
}
