package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Covers every protocol.
func TestTokens_Configured_RequiredExceptForHealth(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(
		func(o *Options) { o.Tokens = []string{"one-0123456789abcdef", "two-0123456789abcdef"} })
	for _, c := range []struct {
		header []string
		known  bool
	}{
		{nil, false}, {[]string{""}, false}, {[]string{"Bearer "}, false},
		{[]string{"Bearer one"}, false}, {[]string{"Basic one-0123456789abcdef"}, false},
		{[]string{"one-0123456789abcdef"}, false},
		{[]string{"Bearer one-0123456789abcdef", "Bearer one-0123456789abcdef"}, false},
		{[]string{"Bearer one-0123456789abcdef"}, true},
		{[]string{"bearer  two-0123456789abcdef"}, true},
	} {
		ctx, header := h.ctx, []string{}
		for _, value := range c.header {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
			header = append(header, "Authorization", value)
		}
		for what, err := range n.callAndWatch(ctx) {
			if c.known && err != nil {
				t.Errorf("%q, %s: %v", c.header, what, err)
			}
			if !c.known {
				wantStatus(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
			}
		}
		if len(c.header) < 2 && !c.known {
			for _, path := range []string{"/api/v1/submitters", "/api/v1/events",
				"/api/v1/submitters/alice/events"} {
				a := n.http("GET", path, "", header...)
				a.wantError(t, http.StatusUnauthorized, codes.Unauthenticated, "UNAUTHENTICATED")
				if a.header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s: header %q", path, a.header)
				}
			}
		}
	}
	if _, err := grpc_health_v1.NewHealthClient(n.conn).Check(h.ctx,
		&grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(n.conn).ServerReflectionInfo(h.ctx)
	h.must(err)
	_, err = stream.Recv()
	wantStatus(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
	l := n.stream("/api/v1/submitters/alice/events", "Authorization", "Bearer one-0123456789abcdef")
	if l.message().GetHeartbeat() == nil {
		t.Error("a watch over HTTP is rejected")
	}
}

// callAndWatch makes a call and a watch, and returns their errors.
func (n *node) callAndWatch(ctx context.Context) map[string]error {
	errs := map[string]error{}
	_, errs["call"] = n.subs.ListSubmitters(ctx, &pb.ListSubmittersRequest{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := n.txs.WatchTx(ctx, watchSubmitter("alice"))
	if err == nil {
		_, err = stream.Recv()
	}
	errs["watch"] = err
	return errs
}

// Handlers read the caller from the context: the token was digested once, before.
func TestAuthentication_HappensOnce_OverEveryProtocol(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	recorder := &contextStore{}
	n := h.serve(func(o *Options) {
		recorder.Store = o.Store
		o.Store, o.Tokens = recorder, []string{"one-0123456789abcdef"}
	})
	url, of := "http://"+n.conn.Target(), []string{"Authorization", "Bearer one-0123456789abcdef"}
	for protocol, call := range map[string]func(){
		"gRPC": func() {
			_, _ = n.txs.GetTx(role{token: "one-0123456789abcdef"}.in(h.ctx),
				byKey("alice", "never"))
		},
		"gRPC stream": func() {
			stream, err := n.txs.WatchTx(role{token: "one-0123456789abcdef"}.in(h.ctx),
				&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Request{Request: byKey("alice",
					"never").GetRequest()}})
			h.must(err)
			_, _ = stream.Recv()
		},
		"Connect": func() {
			ask := connect.NewRequest(byKey("alice", "never"))
			ask.Header().Set(of[0], of[1])
			_, _ = connect.NewClient[pb.GetTxRequest, pb.GetTxResponse](http.DefaultClient,
				url+pb.TxService_GetTx_FullMethodName).CallUnary(h.ctx, ask)
		},
		"JSON": func() {
			n.http("GET",
				"/api/v1/tx/by-request?submitter=alice&request_id=never", "", of...)
		},
		"JSON stream": func() {
			n.http("GET",
				"/api/v1/tx/by-request/events?submitter=alice&request_id=never", "", of...)
		},
	} {
		recorder.ctx.Store(nil)
		call()
		if ctx := recorder.ctx.Load(); ctx == nil {
			t.Errorf("%s: the handler was not called", protocol)
		} else if _, err := n.server.authn.Rights(metadata.NewIncomingContext(*ctx, nil),
			pb.TxService_GetTx_FullMethodName); err != nil {
			t.Errorf("%s: the handler's context has no caller: %v", protocol, err)
		}
	}
}

// contextStore keeps the context of the newest call.
type contextStore struct {
	Store
	ctx atomic.Pointer[context.Context]
}

func (c *contextStore) TxByRequest(ctx context.Context, of txn.SubmitterID,
	key string) (store.TxInfo, error) {
	c.ctx.Store(&ctx)
	return c.Store.TxByRequest(ctx, of, key)
}
