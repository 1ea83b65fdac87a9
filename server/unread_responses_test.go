package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/limit"
)

// fillPage queues transactions that fill a page of a list.
func (n *node) fillPage() {
	n.t.Helper()
	n.register("alice")
	var requests []*pb.CreateTxRequest
	for i := range 20 {
		a := createRequest("alice", fmt.Sprint("large", i), "1")
		a.Payload.Data = make([]byte, 126<<10)
		requests = append(requests, a)
	}
	n.batch(requests...)
}

// ownConn returns the same node over its own connection, whose windows stay small.
func (n *node) ownConn() *node {
	n.t.Helper()
	m := *n
	m.dial(n.conn.Target(), grpc.WithInitialWindowSize(65535),
		grpc.WithInitialConnWindowSize(1<<24))
	return &m
}

// listUnread requests a page and does not read it.
func (n *node) listUnread(ctx context.Context) grpc.ClientStream {
	n.t.Helper()
	stream, err := n.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
		pb.TxService_ListTxs_FullMethodName)
	n.must(err)
	n.must(stream.SendMsg(&pb.ListTxsRequest{PageSize: 1000}))
	n.must(stream.CloseSend())
	return stream
}

func (n *node) get() error {
	_, err := n.subs.GetSubmitter(n.ctx, &pb.GetSubmitterRequest{Submitter: "alice"})
	return err
}

// This holds across connections. Reading, cancelling and disconnecting each release a slot.
func TestResponses_Unread_HoldCallSlots(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) { l.Calls = 3 * limit.HeavyCall }))
	n.fillPage()
	reading, leaving := n.ownConn(), n.ownConn()
	hanging := n.ownConn()
	ctx, leave := context.WithCancel(h.ctx)
	for i, stream := range []func() grpc.ClientStream{
		func() grpc.ClientStream { return leaving.listUnread(ctx) },
		func() grpc.ClientStream { return hanging.listUnread(h.ctx) },
	} {
		stream()
		h.eventually("a page waits",
			func() bool { return n.server.limiter.UnreadBytes() > (i+1)*pageBytes })
	}
	page := reading.listUnread(h.ctx)
	h.eventually("three pages wait",
		func() bool { return n.server.limiter.UnreadBytes() > 3*pageBytes })
	s := wantStatus(t, n.get(), codes.ResourceExhausted, "NODE_BUSY")
	wantRetry(t, s, time.Second, 1500*time.Millisecond)
	n.http("GET", "/api/v1/submitters/alice", "").wantError(t, http.StatusTooManyRequests,
		codes.ResourceExhausted, "NODE_BUSY")

	for i, give := range []func(){
		func() { h.must(page.RecvMsg(&pb.ListTxsResponse{})) }, leave,
		func() { h.must(hanging.conn.Close()) },
	} {
		give()
		h.eventually("slots are released",
			func() bool { return n.server.limiter.Calls() == int64(2-i)*limit.HeavyCall })
		if err := n.get(); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	h.eventually("nothing waits", func() bool { return n.server.limiter.UnreadBytes() == 0 })
}

// Health and other connections still work.
func TestConnection_TooMuchUnread_CallsRejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	n.fillPage()
	lazy := n.ownConn()
	var pages []grpc.ClientStream
	for n.server.limiter.UnreadBytes() < limit.MaxUnreadBytes {
		before := n.server.limiter.UnreadBytes()
		pages = append(pages, lazy.listUnread(h.ctx))
		h.eventually("another page waits",
			func() bool { return n.server.limiter.UnreadBytes() > before+pageBytes })
	}
	s := wantStatus(t, lazy.get(), codes.ResourceExhausted, "NODE_BUSY")
	if !strings.Contains(s.Message(), "unread") {
		t.Errorf("message %q", s.Message())
	}
	_, err := healthpb.NewHealthClient(lazy.conn).Check(h.ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Errorf("health: %v", err)
	}
	if err := n.get(); err != nil {
		t.Errorf("another connection: %v", err)
	}
	for _, page := range pages {
		h.must(page.RecvMsg(&pb.ListTxsResponse{}))
	}
	h.eventually("calls are accepted again", func() bool { return lazy.get() == nil })
}

// Unread responses count as well.
func TestLists_OneConnection_LimitedShare(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) { l.Calls = 2 * limit.ListShare * limit.HeavyCall }))
	n.fillPage()
	lazy := n.ownConn()
	for range 2 * limit.ListShare {
		lazy.listUnread(h.ctx)
	}
	h.eventually("two pages wait",
		func() bool { return n.server.limiter.UnreadBytes() > 2*pageBytes })
	_, err := lazy.txs.ListTxs(h.ctx, &pb.ListTxsRequest{PageSize: 1})
	s := wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY")
	wantRetry(t, s, time.Second, 1500*time.Millisecond)
	if !strings.Contains(s.Message(), "list calls") ||
		n.server.limiter.Calls() != 2*limit.HeavyCall {
		t.Errorf("message %q, with %d calls in progress", s.Message(),
			n.server.limiter.Calls())
	}
	if _, err := n.txs.ListTxs(h.ctx, &pb.ListTxsRequest{PageSize: 1}); err != nil {
		t.Errorf("another connection: %v", err)
	}
	if err := lazy.get(); err != nil {
		t.Errorf("a call of another kind: %v", err)
	}
}

// A client that reads nothing for longer than a call may take is disconnected. Connections and
// streams that are read continue.
func TestConnection_Stalled_Closed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) {
		l.PingAfter = 100 * time.Millisecond
		l.Answer = time.Second
		l.CommandWait = 100 * time.Millisecond
	}))
	n.fillPage()
	stream := n.watch(watchAll())
	_, err := stream.Recv()
	h.must(err)
	lazy := n.ownConn()
	page := lazy.listUnread(h.ctx)
	h.eventually("a page waits", func() bool { return n.server.limiter.UnreadBytes() > pageBytes })
	h.eventually("the connection is ended",
		func() bool { return n.server.limiter.UnreadBytes() == 0 })
	if err := page.RecvMsg(&pb.ListTxsResponse{}); !isCode(err, codes.Unavailable) {
		t.Errorf("the page ends with %v", err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("a stream of another connection: %v", err)
	}
	if n.server.limiter.Calls() != 0 {
		t.Error("its slot is not released")
	}
}

// A connection has a limit of health calls, and an address of health watches. Neither counts
// against the limits of callers.
func TestHealth_TooManyCalls_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) { l.Watches = limit.MaxHealthCalls + 2 }))
	watch := func(n *node, ctx context.Context) error {
		stream, err := healthpb.NewHealthClient(n.conn).Watch(ctx, &healthpb.HealthCheckRequest{})
		h.must(err)
		_, err = stream.Recv()
		return err
	}
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	for range limit.MaxHealthCalls {
		h.must(watch(n, ctx))
	}
	s := wantStatus(t, watch(n, ctx), codes.ResourceExhausted, "NODE_BUSY")
	if !strings.Contains(s.Message(), "health calls") {
		t.Errorf("message %q", s.Message())
	}
	other := n.ownConn()
	h.must(watch(other, ctx))
	s = wantStatus(t, watch(other, ctx), codes.ResourceExhausted, "CALLER_LIMITED")
	if !strings.Contains(s.Message(), "watch.max_streams") {
		t.Errorf("the message is %q", s.Message())
	}
	if _, err := other.watch(watchAll()).Recv(); err != nil {
		t.Errorf("a watch of transactions: %v", err)
	}
	cancel()
	h.eventually("all calls have ended",
		func() bool { return n.server.limiter.HealthWatches() == 0 })
	h.must(watch(n, h.ctx))
}

func TestHealth_HTTPLimit_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	client := connect.NewClient[healthpb.HealthCheckRequest, healthpb.HealthCheckResponse](
		&http.Client{Transport: transport},
		"http://"+n.conn.Target()+healthpb.Health_Watch_FullMethodName)
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	for i := range limit.MaxHealthCalls + 1 {
		stream, err := client.CallServerStream(ctx,
			connect.NewRequest(&healthpb.HealthCheckRequest{}))
		h.must(err)
		received := stream.Receive()
		if c := (*connect.Error)(nil); received != (i < limit.MaxHealthCalls) ||
			!received && (!asError(stream.Err(), &c) || c.Code() != connect.CodeResourceExhausted) {
			t.Errorf("watch %d: %v, %v", i, received, stream.Err())
		}
	}
}
