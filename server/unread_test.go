package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// large queues transactions of which a page of a list is full.
func (n *node) large() {
	n.t.Helper()
	n.register("alice")
	var asks []*pb.CreateTxRequest
	for i := range 20 {
		a := ask("alice", fmt.Sprint("large", i), "1")
		a.Payload.Data = make([]byte, 126<<10)
		asks = append(asks, a)
	}
	n.batch(asks...)
}

// another is the same node over a connection of its own, whose windows stay small.
func (n *node) another() *node {
	n.t.Helper()
	m := *n
	m.dial(n.conn.Target(), grpc.WithInitialWindowSize(65535),
		grpc.WithInitialConnWindowSize(1<<24))
	return &m
}

// unread asks for a page and does not read it.
func (n *node) unread(ctx context.Context) grpc.ClientStream {
	n.t.Helper()
	stream, err := n.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
		pb.TxService_ListTxs_FullMethodName)
	n.must(err)
	n.must(stream.SendMsg(&pb.ListTxsRequest{PageSize: 1000}))
	n.must(stream.CloseSend())
	return stream
}

func (n *node) links() []*link {
	n.server.links.mu.Lock()
	defer n.server.links.mu.Unlock()
	return slices.Collect(maps.Keys(n.server.links.all))
}

// waiting is how much of answers waits for its reader.
func (n *node) waiting() (bytes int) {
	for _, l := range n.links() {
		l.mu.Lock()
		bytes += l.unread
		l.mu.Unlock()
	}
	return bytes
}

func (n *node) get() error {
	_, err := n.subs.GetSubmitter(n.ctx, &pb.GetSubmitterRequest{Submitter: "alice"})
	return err
}

// Answers that are not read keep the room of their calls, on whatever connections they wait; reading them, going away and hanging up all give it back.
func TestUnreadAnswersKeepTheirRoom(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := k.serve(limits(func(l *Limits) { l.Calls = 3 * heavyCall }))
	n.large()
	reading, leaving, hanging := n.another(), n.another(), n.another()
	ctx, leave := context.WithCancel(k.ctx)
	for i, stream := range []func() grpc.ClientStream{
		func() grpc.ClientStream { return leaving.unread(ctx) }, func() grpc.ClientStream { return hanging.unread(k.ctx) },
	} {
		stream()
		k.eventually("a page waits", func() bool { return n.waiting() > (i+1)*pageBytes })
	}
	page := reading.unread(k.ctx)
	k.eventually("three pages wait", func() bool { return n.waiting() > 3*pageBytes })
	s := wantStatus(t, n.get(), codes.ResourceExhausted, "NODE_BUSY")
	wantRetry(t, s, time.Second, 1500*time.Millisecond)
	n.http("GET", "/api/v1/submitters/alice", "").wantError(t, http.StatusTooManyRequests,
		codes.ResourceExhausted, "NODE_BUSY")

	for i, give := range []func(){
		func() { k.must(page.RecvMsg(&pb.ListTxsResponse{})) }, leave, func() { k.must(hanging.conn.Close()) },
	} {
		give()
		k.eventually("room is given back",
			func() bool { return n.server.turnstile.calls.Load() == int64(2-i)*heavyCall })
		if err := n.get(); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	k.eventually("nothing waits", func() bool { return n.waiting() == 0 })
}

// A connection that leaves much unread is answered no more, but for its health; others are.
func TestAConnectionThatDoesNotRead(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := k.serve()
	n.large()
	lazy := n.another()
	var pages []grpc.ClientStream
	for n.waiting() < unreadBytes {
		before := n.waiting()
		pages = append(pages, lazy.unread(k.ctx))
		k.eventually("another page waits", func() bool { return n.waiting() > before+pageBytes })
	}
	s := wantStatus(t, lazy.get(), codes.ResourceExhausted, "NODE_BUSY")
	if !strings.Contains(s.Message(), "wait to be read") {
		t.Errorf("it says %q", s.Message())
	}
	if _, err := healthpb.NewHealthClient(lazy.conn).Check(k.ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	if err := n.get(); err != nil {
		t.Errorf("another connection: %v", err)
	}
	for _, page := range pages {
		k.must(page.RecvMsg(&pb.ListTxsResponse{}))
	}
	k.eventually("it is answered again", func() bool { return lazy.get() == nil })
}

// Of all the lists that a node answers at once, or has answered to those who do not read, one connection has no more than its share.
func TestOneConnectionHasAShareOfLists(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := k.serve(limits(func(l *Limits) { l.Calls = 2 * listShare * heavyCall }))
	n.large()
	lazy := n.another()
	for range 2 * listShare {
		lazy.unread(k.ctx)
	}
	k.eventually("two pages wait", func() bool { return n.waiting() > 2*pageBytes })
	_, err := lazy.txs.ListTxs(k.ctx, &pb.ListTxsRequest{PageSize: 1})
	s := wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY")
	wantRetry(t, s, time.Second, 1500*time.Millisecond)
	if !strings.Contains(s.Message(), "lists of one connection") ||
		n.server.turnstile.calls.Load() != 2*heavyCall {
		t.Errorf("it says %q, with %d calls under way", s.Message(),
			n.server.turnstile.calls.Load())
	}
	if _, err := n.txs.ListTxs(k.ctx, &pb.ListTxsRequest{PageSize: 1}); err != nil {
		t.Errorf("another connection: %v", err)
	}
	if err := lazy.get(); err != nil {
		t.Errorf("a call of another kind: %v", err)
	}
}

// A connection whose caller reads nothing for longer than a call may take is ended; one that reads goes on, and so does a stream.
func TestStalledConnectionsEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := k.serve(limits(func(l *Limits) {
		l.PingAfter, l.Answer, l.CommandWait = 100*time.Millisecond, time.Second, 100*time.Millisecond
	}))
	n.large()
	stream := n.watch(watchAll())
	_, err := stream.Recv()
	k.must(err)
	lazy := n.another()
	page := lazy.unread(k.ctx)
	k.eventually("a page waits", func() bool { return n.waiting() > pageBytes })
	k.eventually("the connection is ended", func() bool { return n.waiting() == 0 })
	if err := page.RecvMsg(&pb.ListTxsResponse{}); !isCode(err, codes.Unavailable) {
		t.Errorf("the page ends with %v", err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("a stream of another connection: %v", err)
	}
	if n.server.turnstile.calls.Load() != 0 {
		t.Error("its room is not given back")
	}
}

// Calls that are refused before they begin leave nothing behind for good: a connection that has many of them with time left is ended, and their timers with it.
func TestRefusedCallsLeaveNoTimers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := k.serve(func(o *Options) { o.Tokens = []string{"a-token-of-alice"} })
	ctx, cancel := context.WithTimeout(k.ctx, time.Hour)
	defer cancel()
	wantStatus(t, n.get(), codes.Unauthenticated, "UNAUTHENTICATED")
	l := n.links()[0]
	ended, refused := 0, 0
	for refused < 3*refusedStrangers && ended == 0 {
		switch _, err := n.subs.GetSubmitter(ctx, &pb.GetSubmitterRequest{Submitter: "alice"}); grpcstatus.Code(err) {
		case codes.Unauthenticated:
			refused++
		case codes.Unavailable:
			ended++
		default:
			t.Fatal(err)
		}
	}
	if ended == 0 || refused < refusedStrangers-10 {
		t.Errorf("after %d refused calls the connection has ended %d times", refused, ended)
	}
	known := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer a-token-of-alice")
	k.register("alice")
	k.eventually("who is known is let in", func() bool {
		_, err := n.subs.GetSubmitter(known, &pb.GetSubmitterRequest{Submitter: "alice"})
		return err == nil
	})
	k.eventually("what the connection that ended has left is gone", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.ended && len(l.refused) == 0
	})
}

// Nothing that came with a call that is refused is kept until its deadline; and calls whose deadlines have passed do not count.
func TestARefusedCallIsForgotten(t *testing.T) {
	t.Parallel()
	far, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	closed := make(chan struct{}, 10)
	l := &link{close: func() error { closed <- struct{}{}; return nil }}
	came := new([headerBytes]byte)
	held := weak.Make(came)
	l.refuse(context.WithValue(far, linkKey{}, came), 2)
	for limit := time.After(patience); held.Value() != nil; runtime.GC() {
		select {
		case <-limit:
			t.Fatal("what came with the call is still held")
		default:
		}
	}
	for range 5 {
		past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		l.refuse(past, 2)
		cancel()
	}
	l.refuse(far, 2)
	if len(closed) > 0 || len(l.refused) > 3 {
		t.Errorf(
			"with two calls that have time left %d deadlines are kept, or the connection is closed",
			len(l.refused))
	}
	l.refuse(far, 2)
	<-closed
}

// A connection has so many calls of health under way, and a node so many watches of health, none of which takes room of a caller; one that ends makes room.
func TestHealthIsCounted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := k.serve(limits(func(l *Limits) { l.Watches = healthCalls + 1 }))
	watch := func(n *node, ctx context.Context) error {
		stream, err := healthpb.NewHealthClient(n.conn).Watch(ctx, &healthpb.HealthCheckRequest{})
		k.must(err)
		_, err = stream.Recv()
		return err
	}
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	for range healthCalls {
		k.must(watch(n, ctx))
	}
	s := wantStatus(t, watch(n, ctx), codes.ResourceExhausted, "NODE_BUSY")
	if !strings.Contains(s.Message(), "calls of health") {
		t.Errorf("it says %q", s.Message())
	}
	other := n.another()
	k.must(watch(other, ctx))
	if s := wantStatus(t, watch(other, ctx), codes.ResourceExhausted, "NODE_BUSY"); !strings.Contains(
		s.Message(), "watch.max_streams") {
		t.Errorf("it says %q", s.Message())
	}
	if _, err := other.watch(watchAll()).Recv(); err != nil {
		t.Errorf("a watch of transactions: %v", err)
	}
	cancel()
	k.eventually("all have left",
		func() bool { return n.server.turnstile.healthWatches.Load() == 0 })
	k.must(watch(n, k.ctx))
}

// So it is over HTTP/2 with other tongues.
func TestHealthIsCountedOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := k.serve()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	client := connect.NewClient[healthpb.HealthCheckRequest, healthpb.HealthCheckResponse](
		&http.Client{Transport: transport},
		"http://"+n.conn.Target()+healthpb.Health_Watch_FullMethodName)
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	for i := range healthCalls + 1 {
		stream, err := client.CallServerStream(ctx,
			connect.NewRequest(&healthpb.HealthCheckRequest{}))
		k.must(err)
		told := stream.Receive()
		if c := (*connect.Error)(nil); told != (i < healthCalls) ||
			!told && (!asError(stream.Err(), &c) || c.Code() != connect.CodeResourceExhausted) {
			t.Errorf("watch %d: %v, %v", i, told, stream.Err())
		}
	}
}
