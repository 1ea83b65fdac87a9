package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
)

// twoCallers serves a node with the callers greedy and shop, and returns a context for each.
func twoCallers(h *harness, tweaks ...func(*Options)) (n *node, greedy, shop context.Context) {
	h.t.Helper()
	h.register("alice")
	const greedyToken, shopToken = "a-token-of-greedy", "a-token-of-the-shop"
	n = h.serve(append(tweaks, func(o *Options) {
		o.Callers = []auth.Caller{
			{Name: "greedy", Tokens: []string{greedyToken}, Submitters: []string{"alice"}},
			{Name: "shop", Tokens: []string{shopToken}, Submitters: []string{"alice"}},
		}
	})...)
	as := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(h.ctx, "authorization", "Bearer "+token)
	}
	return n, as(greedyToken), as(shopToken)
}

// A caller that opens calls and never sends their requests does not keep others out.
func TestCallers_OneHoldsManyCalls_OthersServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	reader := metric.NewManualReader()
	n, greedy, shop := twoCallers(h, func(o *Options) {
		o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	})
	held := 0
	for range 1024 {
		stream, err := n.conn.NewStream(greedy, &grpc.StreamDesc{ClientStreams: true},
			pb.TxService_CreateTx_FullMethodName)
		if h.must(err); stream != nil {
			held++
		}
	}
	const share = 1024/2/2 + 1024/2*7/8
	h.eventually("the greedy caller holds its share",
		func() bool { return n.server.limiter.Calls() >= share })
	for i := range 20 {
		_, err := n.txs.CreateTx(shop, createRequest("alice", fmt.Sprint("r", i), "1"))
		if err != nil {
			t.Fatalf("call %d of another caller, while %d are held: %v", i, held, err)
		}
	}
	if _, err := n.txs.BatchCreateTx(shop, &pb.BatchCreateTxRequest{
		Requests: []*pb.CreateTxRequest{createRequest("alice", "r0", "1")}}); err != nil {
		t.Errorf("a batch of another caller: %v", err)
	}
	_, err := n.txs.CreateTx(greedy, createRequest("alice", "g", "1"))
	wantRetry(t, wantStatus(t, err, codes.ResourceExhausted, "CALLER_LIMITED"), time.Second,
		1500*time.Millisecond)
	n.http("GET", "/api/v1/submitters/alice", "", "Authorization", "Bearer a-token-of-greedy").
		wantError(t, http.StatusTooManyRequests, codes.ResourceExhausted, "CALLER_LIMITED")
	if got := refusals(t, reader, "CALLER_LIMITED"); got < 2 {
		t.Errorf("%d refusals are counted", got)
	}
}

func TestCallers_OneHoldsManyStreams_OthersServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n, greedy, shop := twoCallers(h, limits(func(l *Limits) { l.Watches = 32 }))
	refused := 0
	for range 32 {
		stream, err := n.txs.WatchTx(greedy, watchSubmitter("alice"))
		h.must(err)
		if _, err := stream.Recv(); err != nil {
			wantStatus(t, err, codes.ResourceExhausted, "CALLER_LIMITED")
			refused++
		}
	}
	if refused != 32-8-14 {
		t.Errorf("%d streams were refused", refused)
	}
	for range 8 {
		stream, err := n.txs.WatchTx(shop, watchSubmitter("alice"))
		h.must(err)
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("a stream of another caller: %v", err)
		}
	}
}

// Without callers, one address cannot keep others out.
func TestCalls_BodiesIncompleteFromOneAddress_OthersServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	const connections = 2000
	for range connections {
		conn, err := net.Dial("tcp", n.conn.Target())
		h.must(err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprint(conn, "POST /api/v1/tx HTTP/1.1\r\nHost: 127.0.0.1\r\n"+
			"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		h.must(err)
	}
	h.eventually("the address holds its share",
		func() bool { return n.server.limiter.Calls() >= 1024*7/8 })

	other := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
	t.Cleanup(other.CloseIdleConnections)
	for i := range 20 {
		r := n.request("POST", "/api/v1/tx", fmt.Sprintf(
			`{"submitter": "alice", "request_id": "r%d", "payload": {"to": %q}}`, i, recipient))
		response, err := other.Do(r)
		h.must(err)
		if response.Body.Close(); response.StatusCode != http.StatusAccepted {
			t.Fatalf("call %d from another address: %s", i, response.Status)
		}
	}
	_, err := n.txs.GetTx(h.ctx, byKey("alice", "r0"))
	s := grpcstatus.Convert(err)
	if status.ReasonOf(s) != "CALLER_LIMITED" || !strings.HasPrefix(s.Message(), "caller: ") {
		t.Errorf("the same address gets %v", err)
	}
}
