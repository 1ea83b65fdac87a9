package server

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func (n *node) connectWatch(
	options ...connect.ClientOption) *connect.ServerStreamForClient[pb.WatchTxResponse] {
	n.t.Helper()
	client := connect.NewClient[pb.WatchTxRequest, pb.WatchTxResponse](
		http.DefaultClient,
		"http://"+n.conn.Target()+pb.TxService_WatchTx_FullMethodName,
		options...)
	stream, err := client.CallServerStream(n.ctx,
		connect.NewRequest(&pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}}))
	n.must(err)
	n.t.Cleanup(func() { stream.Close() })
	return stream
}

// Covers Connect and gRPC-Web, binary and JSON, over HTTP/1.1 and HTTP/2.
func TestProtocols_SameService(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	tx := n.create("alice", "r1")
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	h2 := &http.Client{Transport: &http.Transport{Protocols: p}}
	defer h2.CloseIdleConnections()
	for name, options := range map[string][]connect.ClientOption{
		"Connect": nil, "Connect JSON": {connect.WithProtoJSON()},
		"Connect gzip": {connect.WithSendGzip()}, "gRPC-Web": {connect.WithGRPCWeb()},
		"gRPC-Web JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
	} {
		for version, over := range map[string]*http.Client{"HTTP/1.1": http.DefaultClient,
			"HTTP/2": h2} {
			url := "http://" + n.conn.Target()
			get := connect.NewClient[pb.GetTxRequest, pb.GetTxResponse](
				over,
				url+pb.TxService_GetTx_FullMethodName,
				options...)
			r, err := get.CallUnary(h.ctx, connect.NewRequest(byKey("alice", "r1")))
			if err != nil || r.Msg.GetTx().GetTxId() != tx.GetTxId() {
				t.Errorf("%s over %s: %v, %v", name, version, r, err)
			}
			_, err = get.CallUnary(h.ctx, connect.NewRequest(byKey("alice", "never")))
			var received *connect.Error
			if connect.CodeOf(err) != connect.CodeNotFound || !asError(err, &received) ||
				len(received.Details()) == 0 {
				t.Errorf("%s over %s: %v", name, version, err)
			}
			watch := connect.NewClient[pb.WatchTxRequest, pb.WatchTxResponse](
				over,
				url+pb.TxService_WatchTx_FullMethodName,
				options...)
			stream, err := watch.CallServerStream(
				h.ctx,
				connect.NewRequest(
					&pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: tx.GetTxId()}}),
			)
			h.must(err)
			if !stream.Receive() || stream.Msg().GetEvent().GetSeq() != 1 {
				t.Errorf("%s over %s: %v, %v", name, version, stream.Msg(), stream.Err())
			}
			stream.Close()
		}
	}
}

func asError(err error, to **connect.Error) bool {
	e, ok := err.(*connect.Error)
	*to = e
	return ok
}

// The method does not run: a page that cannot read the response could still cause the write.
func TestOrigin_NotAllowed_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	body := `{"submitter":"alice","requestId":"r","payload":{"to":"` + recipient + `"}}`
	closed := h.serve()
	closed.http("POST", "/api/v1/tx", body, "Origin", "https://evil.example").wantError(t, 403,
		codes.PermissionDenied, "PERMISSION_DENIED")
	closed.http("GET", "/api/v1/events", "", "Origin", "https://evil.example").wantError(t, 403,
		codes.PermissionDenied, "PERMISSION_DENIED")
	closed.http("POST", pb.TxService_CreateTx_FullMethodName, body, "Origin",
		"https://evil.example").wantError(t, 403, codes.PermissionDenied, "PERMISSION_DENIED")
	closed.http("OPTIONS", "/api/v1/tx", "", "Origin", "https://evil.example",
		"Access-Control-Request-Method", "POST").wantError(t, 403,
		codes.PermissionDenied, "PERMISSION_DENIED")
	if rows := h.count("managed_tx"); rows != 0 {
		t.Errorf("a page of another site created %d transactions", rows)
	}
	open := h.serve(func(o *Options) { o.AllowedOrigins = []string{"https://app.example"} })
	open.http("POST", "/api/v1/tx", body, "Origin", "https://evil.example").wantError(t, 403,
		codes.PermissionDenied, "PERMISSION_DENIED")
	a := open.http("OPTIONS", "/api/v1/tx", "", "Origin", "https://app.example",
		"Access-Control-Request-Method", "POST")
	if a.code != 204 || a.header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Content-Type") {
		t.Errorf("preflight: %d %v", a.code, a.header)
	}
	a = open.http("POST", "/api/v1/tx", body, "Origin", "https://app.example")
	if a.want(t, 202); a.header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		a.header.Get("Vary") != "Origin" {
		t.Errorf("%v", a.header)
	}
}
