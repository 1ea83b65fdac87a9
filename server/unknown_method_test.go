package server

import (
	"context"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
)

// Unauthenticated clients get the same error as for any method.
func TestMethod_Unknown_ReasonOnEveryProtocol(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(func(o *Options) {
		o.Callers = []auth.Caller{
			{Name: "one", Tokens: []string{"one-0123456789abcdef"}, Submitters: []string{"alice"}},
		}
	})
	const tomorrow = "/fencepost.v1.TxService/CreateTxTomorrow"
	known := role{token: "one-0123456789abcdef"}.in(h.ctx)
	for _, method := range []string{tomorrow, "/fencepost.v2.TxService/CreateTx",
		"/example.Service/Call", "/grpc.reflection.v1.ServerReflection/Other"} {
		unary := func(ctx context.Context) error {
			return n.conn.Invoke(ctx, method, &pb.GetTxRequest{}, &pb.GetTxResponse{})
		}
		wantStatus(t, unary(known), codes.Unimplemented, "UNKNOWN_METHOD")
		wantStatus(t, unary(h.ctx), codes.Unauthenticated, "UNAUTHENTICATED")
		stream, err := n.conn.NewStream(known,
			&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		h.must(err)
		wantStatus(t, stream.RecvMsg(&pb.WatchTxResponse{}), codes.Unimplemented, "UNKNOWN_METHOD")
	}
	for name, options := range map[string][]connect.ClientOption{"Connect": nil,
		"Connect JSON": {connect.WithProtoJSON()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		for token, want := range map[string]string{"one-0123456789abcdef": "UNKNOWN_METHOD",
			"another": "UNAUTHENTICATED"} {
			ask := connect.NewRequest(&pb.GetTxRequest{})
			ask.Header().Set("Authorization", "Bearer "+token)
			_, err := connect.NewClient[pb.GetTxRequest, pb.GetTxResponse](
				http.DefaultClient,
				"http://"+n.conn.Target()+tomorrow,
				options...).CallUnary(
				h.ctx,
				ask,
			)
			var received *connect.Error
			if !asError(err, &received) || reasonOfConnect(received) != want {
				t.Errorf("%s with %s: %v", name, token, err)
			}
		}
	}
	n.http("GET", "/api/v1/nothing", "").wantError(t, http.StatusUnauthorized,
		codes.Unauthenticated, "UNAUTHENTICATED")
	n.http("GET", "/api/v1/nothing", "", "Authorization", "Bearer one-0123456789abcdef").wantError(
		t, http.StatusNotFound, codes.Unimplemented, "UNKNOWN_METHOD")
	a := n.http("GET", "/index.html", "", "Authorization", "Bearer one-0123456789abcdef")
	if a.code != http.StatusNotFound {
		t.Errorf("a page: %v", a)
	}
}

func reasonOfConnect(e *connect.Error) string {
	s := grpcstatus.New(codes.Code(e.Code()), e.Message())
	for _, d := range e.Details() {
		if value, err := d.Value(); err == nil {
			if info, ok := value.(*errdetails.ErrorInfo); ok {
				return info.GetReason()
			}
		}
	}
	return status.ReasonOf(s)
}
