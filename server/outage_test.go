package server

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/store"
)

// The node stays healthy, and serves again automatically once the database is back.
func TestDatabase_Down_RetryableErrors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	proxy := newProxy(t, h.db.TCPAddr())
	s, err := store.Open(h.ctx,
		store.Config{URL: h.db.Through(proxy.address()), Schema: h.db.Schema, Node: "b/boot"})
	h.must(err)
	t.Cleanup(s.Close)
	n := h.serve(func(o *Options) { o.Store = s })
	tx := n.create("alice", "r1")
	proxy.setDown(true)
	requests := map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := n.txs.CreateTx(ctx,
				&pb.CreateTxRequest{Submitter: "alice", RequestId: "r2", Payload: payload()})
			return err
		},
		"get": func(ctx context.Context) error {
			_, err := n.txs.GetTx(ctx, byID(tx.GetTxId()))
			return err
		},
		"list": func(ctx context.Context) error {
			_,
				err := n.txs.ListTxs(ctx, &pb.ListTxsRequest{})
			return err
		},
		"cancel": func(ctx context.Context) error {
			_, err := n.txs.CancelTx(ctx, &pb.CancelTxRequest{TxId: tx.GetTxId()})
			return err
		},
		"lookup": func(ctx context.Context) error {
			_, err := n.subs.GetSubmitter(ctx,
				&pb.GetSubmitterRequest{Submitter: "nobody-looked-up"})
			return err
		},
	}
	for name, ask := range requests {
		s := wantStatus(t, ask(h.ctx), codes.Unavailable, "STORE_UNAVAILABLE")
		if !strings.Contains(s.Message(), "unchanged") ||
			strings.Contains(s.Message(), proxy.address()) {
			t.Errorf("%s: the message is %q", name, s.Message())
		}
	}
	r, err := healthpb.NewHealthClient(n.conn).Check(h.ctx, &healthpb.HealthCheckRequest{})
	h.must(err)
	if r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("without its database the node is %v: a restart would not help", r.GetStatus())
	}
	proxy.setDown(false)
	h.eventually("recovery", func() bool { return requests["create"](h.ctx) == nil })
}

// The connections stay open, but nothing responds.
func TestDatabase_Silent_TreatedAsDown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	proxy := newProxy(t, h.db.TCPAddr())
	s, err := store.Open(h.ctx,
		store.Config{URL: h.db.Through(proxy.address()), Schema: h.db.Schema, Node: "b/boot"})
	h.must(err)
	t.Cleanup(s.Close)
	n := h.serve(
		func(o *Options) {
			o.Store = s
			o.Limits.Answer = 2 * time.Second // enough for a busy machine
			o.Limits.Outage = time.Minute
		})
	tx := n.create("alice", "r1")
	stream := n.watch(watchID(tx.GetTxId()))
	_, err = stream.Recv()
	h.must(err)
	proxy.paused.Lock()
	speak := sync.OnceFunc(proxy.paused.Unlock)
	defer speak()
	silent := []error{
		n.call(getTx, byID(tx.GetTxId())),
		n.call(createTx, createBad(func(r *pb.CreateTxRequest) { r.RequestId = "r2" })),
	}
	h.eventually("the failure of the feed", func() bool {
		return !n.server.feed.Healthy()
	})
	speak()
	for _, err := range silent {
		wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE")
	}
	o.finalize(txID(t, tx.GetTxId()))
	for _, want := range lifecycle[1:] {
		m, err := stream.Recv()
		if h.must(err); m.GetEvent().GetKind() != want {
			t.Errorf("after the database responds again: %v, want %v", m, want)
		}
	}
}

// A restored ledger has a new feed epoch: streams and tokens of the old one end.
func TestRestore_OldTokens_Expired(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	for _, ask := range []*pb.WatchTxRequest{watchID(id), watchSubmitter("alice"), watchAll()} {
		stream := n.watch(ask)
		m, err := stream.Recv()
		for h.must(err); m.GetResumeToken() == ""; m, err = stream.Recv() {
			h.must(err)
		}
		_, err = h.db.Pool.Exec(h.ctx, "UPDATE ledger SET feed_epoch = feed_epoch + 1")
		h.must(err)
		for err == nil {
			_, err = stream.Recv()
		}
		wantStatus(t, err, codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
		ask.ResumeToken = m.GetResumeToken()
		wantStatus(t, n.call(watchTx, ask), codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	}
	epoch, _, err := h.store.FeedHead(h.ctx)
	h.must(err)
	ask := watchID(id)
	// There is only one event.
	ask.ResumeToken = feed.TxToken(epoch, feed.Target{Tx: txID(t, id)}, 2)
	wantStatus(t, n.call(watchTx, ask), codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
}

// Streams send no heartbeats during the outage.
func TestWatch_ShortOutage_NothingLost(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	proxy := newProxy(t, h.db.TCPAddr())
	s, err := store.Open(h.ctx,
		store.Config{URL: h.db.Through(proxy.address()), Schema: h.db.Schema, Node: "b/boot"})
	h.must(err)
	t.Cleanup(s.Close)
	n := h.serve(func(o *Options) { o.Store = s })
	id := n.create("alice", "r1").GetTxId()
	ask := watchAll()
	ask.Heartbeat = durationpb.New(time.Second)
	many, one := n.watch(ask), n.watch(watchID(id))
	// a snapshot and a heartbeat; an event
	for _, stream := range []pb.TxService_WatchTxClient{many, many, one} {
		_, err := stream.Recv()
		h.must(err)
	}
	proxy.setDown(true)
	h.eventually("the failure", func() bool {
		return !n.server.feed.Healthy()
	})
	late := n.watch(watchID(id)) // starts during the outage
	o.finalize(txID(t, id))
	began := time.Now()
	h.eventually("a heartbeat that was due",
		func() bool { return time.Since(began) > 1200*time.Millisecond })
	proxy.setDown(false)
	for i := range 5 {
		m, err := late.Recv()
		if h.must(err); m.GetEvent().GetKind() != lifecycle[i] {
			t.Errorf("the stream that started in the outage returns %v", m)
		}
	}
	for _, stream := range []pb.TxService_WatchTxClient{many, one} {
		for _, want := range lifecycle[1:] {
			m, err := stream.Recv()
			if h.must(err); m.GetEvent().GetKind() != want {
				t.Errorf("after the outage: %v, want %v", m, want)
			}
		}
	}
}

// Running and new streams end, so that clients switch to another node.
func TestWatch_LongOutage_Unavailable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	proxy := newProxy(t, h.db.TCPAddr())
	s, err := store.Open(h.ctx,
		store.Config{URL: h.db.Through(proxy.address()), Schema: h.db.Schema, Node: "b/boot"})
	h.must(err)
	t.Cleanup(s.Close)
	n, healthy := h.serve(
		func(o *Options) { o.Store, o.Limits.Outage = s, 50*time.Millisecond }), h.serve()
	id := n.create("alice", "r1").GetTxId()
	streams := []pb.TxService_WatchTxClient{n.watch(watchAll()), n.watch(watchID(id))}
	tokens := []string{}
	for i, stream := range streams {
		m, err := stream.Recv()
		for h.must(err); m.GetResumeToken() == ""; m, err = stream.Recv() {
			h.must(err)
		}
		tokens = append(tokens, m.GetResumeToken())
		if i == len(streams)-1 {
			proxy.setDown(true)
		}
	}
	for _, stream := range streams {
		_, err := stream.Recv()
		wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE")
	}
	for _, ask := range []*pb.WatchTxRequest{watchID(id), watchAll()} {
		wantStatus(t, n.call(watchTx, ask), codes.Unavailable, "STORE_UNAVAILABLE")
	}
	_, err = h.store.CancelQueued(h.ctx, txID(t, id))
	h.must(err)
	for i, ask := range []*pb.WatchTxRequest{watchAll(), watchID(id)} {
		ask.ResumeToken = tokens[i]
		if m, err := healthy.watch(ask).Recv(); err != nil || m.GetEvent().GetSeq() != 2 {
			t.Errorf("resumed on another node: %v, %v", m, err)
		}
	}
	proxy.setDown(false)
	h.eventually("recovery", func() bool {
		m, err := n.watch(watchID(id)).Recv()
		return err == nil && m.GetEvent().GetSeq() == 1
	})
}

// proxy forwards connections to the database, and can refuse or pause them.
type proxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	paused sync.RWMutex // locked: nothing is forwarded, and connections stay open
	closed bool
	conns  map[net.Conn]struct{}
}

// pausableWriter writes while the proxy is not paused.
type pausableWriter struct {
	proxy *proxy
	to    net.Conn
}

func (v pausableWriter) Write(p []byte) (int, error) {
	v.proxy.paused.RLock()
	defer v.proxy.paused.RUnlock()
	return v.to.Write(p)
}

func newProxy(t *testing.T, target string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &proxy{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { g.pass(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		g.setDown(true)
		open.Wait()
	})
	return g
}

func (g *proxy) address() string { return g.listener.Addr().String() }

func (g *proxy) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer to.Close()
	if !g.admit(from, to) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			io.Copy(pausableWriter{g, way[0]}, way[1])
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, from)
	delete(g.conns, to)
}

func (g *proxy) admit(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		g.conns[c] = struct{}{}
	}
	return !g.closed
}

// setDown closes every connection and refuses new ones, or accepts them again.
func (g *proxy) setDown(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	if closed {
		for c := range g.conns {
			c.Close()
		}
	}
}
