package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/limit"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// bounded opens a store with queue limits.
func (h *harness) bounded(name string, each, all int) *store.Store {
	h.t.Helper()
	s, err := store.Open(h.ctx, store.Config{
		URL: h.db.NodeURL, Schema: h.db.Schema, Node: name + "/boot", LeaseDuration: leaseDuration,
		MaxQueued: each, MaxQueuedTotal: all,
	})
	h.must(err)
	h.t.Cleanup(s.Close)
	return s
}

// wantRetry checks the retry delay of a status.
func wantRetry(t testing.TB, s *grpcstatus.Status, least, most time.Duration) {
	t.Helper()
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			if delay := info.GetRetryDelay().AsDuration(); delay < least || delay > most {
				t.Errorf("retry after %v, want %v to %v", delay, least, most)
			}
			return
		}
	}
	t.Errorf("%v has no RetryInfo", s)
}

// refusals returns the number of counted rejections with a reason.
func refusals(t testing.TB, reader *metric.ManualReader, reason string) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != "fencepost.refusals" || !ok {
				continue
			}
			for _, point := range sum.DataPoints {
				if value, _ := point.Attributes.Value("reason"); value.AsString() == reason {
					n += point.Value
				}
			}
		}
	}
	return n
}

// The error has code, reason, remedy and retry delay on every protocol. Existing keys still return
// their transactions, and new requests are accepted once there is room.
func TestQueue_Full_RetryableError(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.register("bob")
	reader := metric.NewManualReader()
	n := h.serve(func(o *Options) {
		o.Store, o.MeterProvider = h.bounded("b", 3, 0), metric.NewMeterProvider(
			metric.WithReader(reader))
	})
	var first string
	for i := range 3 {
		if id := n.create("alice", fmt.Sprint("r", i)).GetTxId(); i == 0 {
			first = id
		}
	}
	_, err := n.txs.CreateTx(h.ctx, createRequest("alice", "r3", "1"))
	s := wantStatus(t, err, codes.ResourceExhausted, "QUEUE_FULL")
	wantRetry(t, s, time.Second, 45*time.Second)
	for _, part := range []string{`"alice"`, "3 transactions", "queue.max_per_submitter"} {
		if !strings.Contains(s.Message(), part) {
			t.Errorf("%q lacks %q", s.Message(), part)
		}
	}
	if again := n.create("alice", "r0"); again.GetTxId() != first {
		t.Errorf("the accepted transaction is now %v", again)
	}
	results := n.batch(createRequest("alice", "r1", "1"), createRequest("alice", "r4", "1"),
		createRequest("bob", "b1", "1"), createRequest("alice", "r5", "1"))
	for i, r := range results {
		if refused := i%2 == 1; refused != (r.GetError() != nil) || r.GetCreated() != (i == 2) {
			t.Errorf("of a batch, %d: %v", i, r)
		} else if refused {
			wantRetry(t, wantStatus(t, grpcstatus.ErrorProto(r.GetError()), codes.ResourceExhausted,
				"QUEUE_FULL"), time.Second, 45*time.Second)
		}
	}
	a := n.http("POST", "/api/v1/tx",
		`{"submitter": "alice", "request_id": "r6", "payload": {"to": "`+recipient+`"}}`)
	a.wantError(t, http.StatusTooManyRequests, codes.ResourceExhausted, "QUEUE_FULL")
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 ||
		seconds > 45 {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	known := `{"submitter":"alice","requestId":"r0",` +
		`"payload":{"to":"` + recipient + `","value":"1"}}`
	n.http("POST", "/api/v1/tx", known).want(t, http.StatusOK, "tx.txId", first)
	if got := refusals(t, reader, "QUEUE_FULL"); got != 4 {
		t.Errorf("%d refusals counted, want 4", got)
	}
	_, err = h.store.CancelQueued(h.ctx, txID(t, first))
	h.must(err)
	h.eventually("a call is accepted again", func() bool {
		r, err := n.txs.CreateTx(h.ctx, createRequest("alice", "r3", "1"))
		return err == nil && r.GetCreated()
	})
}

func TestQueue_LedgerFull_ErrorNamesSetting(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(func(o *Options) { o.Store = h.bounded("b", 0, 1) })
	n.create("alice", "r0")
	_, err := n.txs.CreateTx(h.ctx, createRequest("alice", "r1", "1"))
	if s := wantStatus(t, err, codes.ResourceExhausted, "QUEUE_FULL"); !strings.Contains(
		s.Message(), "queue.max_total") {
		t.Errorf("message %q", s.Message())
	}
}

// 64 clients create three times the limit. Accepted requests stay within the limit plus the
// requests that run at once, and both nodes return their transactions.
func TestQueue_BurstAtTwoNodes_LimitKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	const (
		limit   = 320
		callers = 64
		each    = 15
	)
	var nodes []*node
	for _, name := range []string{"b", "c"} {
		nodes = append(nodes, h.serve(func(o *Options) { o.Store = h.bounded(name, limit, 0) }))
	}
	var mu sync.Mutex
	var accepted []string
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range each {
				request := fmt.Sprint(c, "/", i)
				r, err := nodes[c%2].txs.CreateTx(h.ctx, createRequest("alice", request, "1"))
				if err == nil && r.GetCreated() {
					mu.Lock()
					accepted = append(accepted, request)
					mu.Unlock()
				} else if status.ReasonOf(grpcstatus.Convert(err)) != "QUEUE_FULL" {
					t.Errorf("%s: %v, %v", request, r, err)
				}
			}
		})
	}
	all.Wait()
	if n, most := len(accepted), limit+callers/2; n < limit || n > most ||
		n != h.count("managed_tx") {
		t.Fatalf("%d are accepted, %d rows, want %d to %d", n, h.count("managed_tx"), limit, most)
	}
	for i, request := range slices.Concat(accepted[:10], accepted[len(accepted)-10:]) {
		r, err := nodes[i%2].txs.CreateTx(h.ctx, createRequest("alice", request, "1"))
		if err != nil || r.GetCreated() {
			t.Errorf("accepted request %s: %v, %v", request, r, err)
		}
	}
}

// blockingStore blocks reads of submitters until it is released.
type blockingStore struct {
	Store
	called  chan struct{} // a value for each call
	release chan struct{}
}

func (b blockingStore) Submitter(ctx context.Context,
	id txn.SubmitterID) (store.SubmitterInfo, error) {
	b.called <- struct{}{}
	select {
	case <-b.release:
	case <-ctx.Done():
		return store.SubmitterInfo{}, ctx.Err()
	}
	return b.Store.Submitter(ctx, id)
}

// The limit covers all connections and protocols except health. A call whose client went away does
// not count.
func TestCalls_TooManyAtOnce_RejectedBeforeReading(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	blocked := blockingStore{h.store, make(chan struct{}, 10), make(chan struct{})}
	reader := metric.NewManualReader()
	n := h.serve(limits(func(l *Limits) { l.Calls = 2 }), func(o *Options) {
		o.Store, o.MeterProvider = blocked, metric.NewMeterProvider(metric.WithReader(reader))
	})
	get := &pb.GetSubmitterRequest{Submitter: "alice"}
	ended := make(chan error, 2)
	going, goAway := context.WithCancel(h.ctx)
	go func() { _, err := n.subs.GetSubmitter(going, get); ended <- err }()
	go func() {
		a := n.http("GET", "/api/v1/submitters/alice", "")
		if a.code != http.StatusOK {
			ended <- fmt.Errorf("%d: %s", a.code, a.body)
		}
		ended <- nil
	}()
	<-blocked.called
	<-blocked.called

	_, err := n.subs.GetSubmitter(h.ctx, get)
	s := wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY")
	wantRetry(t, s, time.Second, 1500*time.Millisecond)
	if !strings.HasPrefix(s.Message(), "node: ") ||
		!strings.Contains(s.Message(), "grpc.max_calls") {
		t.Errorf("message %q", s.Message())
	}
	a := n.http("POST", "/api/v1/tx",
		`{"submitter": "alice", "request_id": "r", "payload": {"to": "`+recipient+`"}}`)
	a.wantError(t, http.StatusTooManyRequests, codes.ResourceExhausted, "NODE_BUSY")
	if after := a.header.Get("Retry-After"); after != "1" && after != "2" {
		t.Errorf("Retry-After is %q", after)
	}
	for _, options := range [][]connect.ClientOption{nil, {connect.WithGRPCWeb()}} {
		client := connect.NewClient[pb.CreateTxRequest, pb.CreateTxResponse](
			http.DefaultClient,
			"http://"+n.conn.Target()+pb.TxService_CreateTx_FullMethodName,
			options...)
		_, err := client.CallUnary(h.ctx, connect.NewRequest(createRequest("alice", "r", "1")))
		if c := (*connect.Error)(nil); !asError(err, &c) ||
			c.Code() != connect.CodeResourceExhausted ||
			len(c.Details()) != 2 {
			t.Errorf("over Connect or gRPC-Web: %v", err)
		}
	}
	if got := refusals(t, reader, "NODE_BUSY"); got != 4 {
		t.Errorf("%d refusals counted, want 4", got)
	}
	health, err := healthpb.NewHealthClient(n.conn).Check(h.ctx, &healthpb.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", health, err)
	}

	goAway()
	if err := <-ended; !isCode(err, codes.Canceled) {
		t.Fatal(err)
	}
	h.eventually("a call is accepted again", func() bool {
		_, err := n.txs.CreateTx(h.ctx, createRequest("alice", "r", "1"))
		return err == nil
	})
	close(blocked.release)
	h.must(<-ended)
	h.eventually("all calls have ended", func() bool { return n.server.limiter.Calls() == 0 })
	if _, err := n.txs.ListTxs(h.ctx, &pb.ListTxsRequest{}); err != nil {
		t.Errorf("a heavy call, alone: %v", err)
	}
}

// This includes calls that are opened and never sent.
func TestCalls_Unauthenticated_NotCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(func(l *Limits) { l.Calls = 1 }),
		func(o *Options) { o.Tokens = []string{"a-token-of-alice"} })
	begin := func(ctx context.Context) grpc.ClientStream {
		stream, err := n.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
			pb.SubmitterService_GetSubmitter_FullMethodName)
		h.must(err)
		return stream
	}
	for range 3 {
		wantStatus(t, begin(h.ctx).RecvMsg(&pb.GetSubmitterResponse{}), codes.Unauthenticated,
			"UNAUTHENTICATED")
	}
	known := metadata.AppendToOutgoingContext(h.ctx, "authorization", "Bearer a-token-of-alice")
	begin(known)
	h.eventually("the opened call takes its slot",
		func() bool { return n.server.limiter.Calls() == 1 })
	_, err := n.subs.GetSubmitter(known, &pb.GetSubmitterRequest{Submitter: "alice"})
	wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY")
}

// A call that may carry megabytes counts as limit.HeavyCall, on every protocol.
func TestCalls_Heavy_CountMore(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(func(l *Limits) { l.Calls = 20 }))
	for range 5 { // calls in progress
		_, err := n.server.limiter.Enter(limit.ConnOf(h.ctx), "", pb.TxService_GetTx_FullMethodName)
		h.must(err)
	}
	for name, call := range map[string]func() error{
		"list": func() error { _, err := n.txs.ListTxs(h.ctx, &pb.ListTxsRequest{}); return err },
		"batch": func() error {
			_, err := n.txs.BatchCreateTx(h.ctx, batchOf(createRequest("alice", "r", "1")))
			return err
		},
	} {
		if err := call(); status.ReasonOf(grpcstatus.Convert(err)) != "NODE_BUSY" {
			t.Errorf("%s: %v", name, err)
		}
	}
	n.http("GET", "/api/v1/tx?page_size=1", "").wantError(t, http.StatusTooManyRequests,
		codes.ResourceExhausted, "NODE_BUSY")
	n.http("POST", "/api/v1/tx/batch", `{"requests": []}`).wantError(t, http.StatusTooManyRequests,
		codes.ResourceExhausted, "NODE_BUSY")
	n.create("alice", "light")
}

func TestWatches_TooManyAtOnce_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(func(l *Limits) { l.Watches = 2 }))
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	stream, err := n.txs.WatchTx(ctx, watchAll())
	h.must(err)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	lines := n.stream("/api/v1/events")
	lines.message()

	refused, err := n.txs.WatchTx(h.ctx, watchAll())
	h.must(err)
	_, err = refused.Recv()
	s := wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY")
	wantRetry(t, s, 5*time.Second, 7500*time.Millisecond)
	if !strings.Contains(s.Message(), "watch.max_streams") {
		t.Errorf("message %q", s.Message())
	}
	n.http("GET", "/api/v1/submitters/alice/events", "").wantError(t, http.StatusTooManyRequests,
		codes.ResourceExhausted, "NODE_BUSY")
	n.create("alice", "unary calls are not limited")
	cancel()
	h.eventually("a watch is served again", func() bool {
		again, err := n.txs.WatchTx(h.ctx, watchAll())
		h.must(err)
		_, err = again.Recv()
		return err == nil
	})
}

// busyStore has too many pending operations.
type busyStore struct{ Store }

func (busyStore) CreateTx(context.Context, store.Intent) (store.TxInfo, bool, error) {
	return store.TxInfo{}, false, fmt.Errorf("store: create: %w", store.ErrBusy)
}

func (busyStore) CreateTxs(_ context.Context, intents []store.Intent) []store.Created {
	return slices.Repeat([]store.Created{{Err: fmt.Errorf("store: create: %w", store.ErrBusy)}},
		len(intents))
}

// A batch fails as a whole as well, so that clients retry all of it.
func TestCreate_TooManyDatabaseOperations_WholeCallRejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(func(o *Options) { o.Store = busyStore{h.store} })
	_, err := n.txs.CreateTx(h.ctx, createRequest("alice", "r", "1"))
	wantRetry(t, wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY"), time.Second,
		1500*time.Millisecond)
	_, err = n.txs.BatchCreateTx(h.ctx,
		batchOf(createRequest("alice", "r", "1"), createRequest("alice", "s", "1")))
	wantRetry(t, wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY"), time.Second,
		1500*time.Millisecond)
}

// measuringStore records the most call data read in one page, in bytes.
type measuringStore struct {
	Store
	mu   *sync.Mutex
	most *int
}

func (m measuringStore) Txs(ctx context.Context, filter store.TxFilter) ([]store.TxInfo, error) {
	infos, err := m.Store.Txs(ctx, filter)
	bytes := 0
	for _, info := range infos {
		bytes += len(info.Payload.Data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	*m.most = max(*m.most, bytes)
	return infos, err
}

// The node reads no more of the ledger than fits into one page or one part of the snapshots.
func TestPage_Large_ReadInParts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	most := 0
	m := measuringStore{h.store, &sync.Mutex{}, &most}
	n := h.serve(func(o *Options) { o.Store = m }, limits(func(l *Limits) { l.PageEvents = 1000 }))
	const rows, size = 60, 126 << 10
	want := map[string]bool{}
	var requests []*pb.CreateTxRequest
	for i := range rows {
		a := createRequest("alice", fmt.Sprint("r", i), "1")
		a.Payload.Data = make([]byte, size)
		if requests = append(requests, a); len(requests) == 30 {
			n.batch(requests...)
			requests = nil
		}
		want[a.RequestId] = true
	}
	listed := n.list(&pb.ListTxsRequest{Submitter: "alice", PageSize: 1000})
	if slices.Sort(listed); len(listed) != rows || len(slices.Compact(listed)) != rows {
		t.Errorf("%d rows are listed, want %d", len(listed), rows)
	}
	if most > pageBytes+2*size {
		t.Errorf("a page of %d bytes is read, want %d at most", most, pageBytes+2*size)
	}
	m.mu.Lock()
	most = 0
	m.mu.Unlock()
	stream := n.watch(watchAll())
	shown := 0
	for {
		message, err := stream.Recv()
		h.must(err)
		if message.GetSnapshot() == nil {
			break
		}
		if shown++; !want[message.GetSnapshot().GetRequestId()] {
			t.Errorf("%s is shown twice, or was never made", message.GetSnapshot().GetRequestId())
		}
		delete(want, message.GetSnapshot().GetRequestId())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if shown != rows || most > feed.SnapshotBytes+2*size {
		t.Errorf("%d snapshots, of which a page has %d bytes, want %d and %d", shown, most, rows,
			feed.SnapshotBytes+2*size)
	}
}
