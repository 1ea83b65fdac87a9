package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// hookedStore runs a hook before each read of a transaction.
type hookedStore struct {
	Store
	tx func(ctx context.Context) error
}

func (h hookedStore) Tx(ctx context.Context, id txn.TxID) (store.TxInfo, error) {
	if err := h.tx(ctx); err != nil {
		return store.TxInfo{}, err
	}
	return h.Store.Tx(ctx, id)
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// The client gets a call id, under which the log has the cause. The node keeps running.
func TestPanic_Internal_CauseOnlyInLog(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	for name, defect := range map[string]func(context.Context) error{
		"panic": func(context.Context) error { panic("lost the thread") },
		"error": func(context.Context) error {
			return errors.New("lost the thread: secret of the " +
				"driver")
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &buffer{}
			n := h.serve(func(o *Options) {
				o.Store, o.Logger = hookedStore{
					h.store,
					defect,
				}, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			tx := n.create("alice", name)
			for _, call := range []func() error{
				func() error { return n.call(getTx, byID(tx.GetTxId())) },
				func() error {
					return n.call(watchTx,
						&pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: tx.GetTxId()}})
				},
			} {
				s := wantStatus(t, call(), codes.Internal, "INTERNAL")
				id := ""
				for _, d := range s.Details() {
					if info, ok := d.(*errdetails.RequestInfo); ok {
						id = info.GetRequestId()
					}
				}
				if id == "" || !strings.Contains(s.Message(), id) ||
					strings.Contains(s.Message(), "thread") {
					t.Errorf("message %q", s.Message())
				}
				h.eventually("the log", func() bool { return strings.Contains(log.String(), id) })
				if !strings.Contains(log.String(), "lost the thread") {
					t.Errorf("the log lacks the cause: %s", log)
				}
			}
			if strings.Contains(log.String(), recipient) {
				t.Errorf("a payload is in the log: %s", log)
			}
		})
	}
}

func TestHealthAndReflection(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	health := healthpb.NewHealthClient(n.conn)
	for _, service := range []string{"", "fencepost.v1.TxService",
		"fencepost.v1.SubmitterService"} {
		r, err := health.Check(h.ctx, &healthpb.HealthCheckRequest{Service: service})
		h.must(err)
		if r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q is %v", service, r.GetStatus())
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(n.conn).ServerReflectionInfo(h.ctx)
	h.must(err)
	h.must(stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "fencepost.v1.TxService",
		},
	}))
	r, err := stream.Recv()
	h.must(err)
	if len(r.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection returns %v", r)
	}
	h.must(stream.CloseSend())
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the reflection stream ends with %v", err)
	}

	// A health watch reports the shutdown and does not delay it.
	watch, err := health.Watch(h.ctx, &healthpb.HealthCheckRequest{})
	h.must(err)
	first, err := watch.Recv()
	h.must(err)
	if first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("watched: %v", first)
	}
	n.stop()
	for err == nil {
		first, err = watch.Recv()
	}
	if !isCode(err, codes.Unavailable) {
		t.Errorf("the watch of the health ends with %v after %v", err, first)
	}
}

func TestDrain_StreamsEnd_CallsFinish(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	entered, release := make(chan struct{}), make(chan struct{})
	slowly := atomic.Bool{}
	hook := func(context.Context) error {
		if slowly.CompareAndSwap(true, false) { // one call alone
			close(entered)
			<-release
		}
		return nil
	}
	n := h.serve(func(o *Options) {
		o.Store, o.Limits.Grace = hookedStore{h.store, hook}, time.Minute
	})
	tx := n.create("alice", "r1")
	streams := []pb.TxService_WatchTxClient{
		n.watch(
			&pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}}),
		n.watch(&pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: tx.GetTxId()}}),
	}
	for _, stream := range streams {
		_, err := stream.Recv()
		h.must(err)
	}
	slow := make(chan error, 1)
	slowly.Store(true)
	go func() {
		_, err := n.txs.GetTx(h.ctx, byID(tx.GetTxId()))
		slow <- err
	}()
	<-entered
	pausing := make(chan error, 1)
	go func() {
		_, err := n.subs.PauseSubmitter(h.ctx, &pb.PauseSubmitterRequest{Submitter: "alice"})
		pausing <- err
	}()
	h.eventually("the command", func() bool { return h.count("submitter_command") == 1 })

	n.stop()
	for _, stream := range streams {
		err := error(nil)
		for err == nil {
			_, err = stream.Recv()
		}
		wantStatus(t, err, codes.Unavailable, "DRAINING")
	}
	wantStatus(t, <-pausing, codes.Unavailable, "DRAINING")
	select {
	case err := <-slow:
		t.Fatalf("the call in progress ended with %v", err)
	default:
	}
	if r, err := n.server.health.Check(h.ctx, &healthpb.HealthCheckRequest{}); err != nil ||
		r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while it drains the node is %v (%v)", r.GetStatus(), err)
	}
	close(release)
	h.must(<-slow)
	h.must(<-n.served)
	n.served <- nil // for the cleanup
	if _, err := n.txs.GetTx(h.ctx, byID(tx.GetTxId())); !isCode(err, codes.Unavailable) {
		t.Errorf("a stopped node returns %v", err)
	}
}

func TestDrain_CallBeyondGrace_Aborted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	entered := make(chan struct{})
	hook := func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}
	n := h.serve(func(o *Options) {
		o.Store, o.Limits.Grace = hookedStore{h.store, hook}, 10*time.Millisecond
	})
	tx := n.create("alice", "r1")
	stuck := make(chan error, 1)
	go func() {
		_, err := n.txs.GetTx(h.ctx, byID(tx.GetTxId()))
		stuck <- err
	}()
	<-entered
	n.stop()
	h.must(<-n.served)
	n.served <- nil
	if err := <-stuck; grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("the aborted call ends with %v", err)
	}
}

func TestOptions_Invalid_Rejected(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"no store": {},
		"negative": {Store: hookedStore{}, Limits: Limits{Grace: -1}},
		"calls":    {Store: hookedStore{}, Limits: Limits{Calls: -1}},
		"relation": {Store: hookedStore{},
			Limits: Limits{FeedGap: time.Second, FeedPoll: time.Millisecond}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: New takes %+v", name, o)
		}
	}
}

func TestErrors_Reasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		code   codes.Code
		reason string
	}{
		{declined(commandResult{code: txn.ResultRefused}), codes.FailedPrecondition,
			"DECISION_REFUSED"},
		{changed(store.SubmitterInfo{}, "over"), codes.Aborted, "PROTECTION_CHANGED"},
		{(&auth.Rights{}).MayCall(pb.TxService_CreateTx_FullMethodName + "Tomorrow"),
			codes.PermissionDenied, "PERMISSION_DENIED"},
	} {
		wantStatus(t, status.From(c.err, "id").Err(), c.code, c.reason)
	}
}

func TestEnums_MatchTxn(t *testing.T) {
	t.Parallel()
	for _, s := range txn.States {
		if wireState(s) == 0 || stateOfWire(wireState(s)) != s {
			t.Errorf("state %s is %v in the contract", s, wireState(s))
		}
	}
	if len(txn.States)+1 != len(pb.TxState_name) {
		t.Error("the contract has other states than txn")
	}
	for _, s := range txn.Subs {
		if (wireSub(s) == 0) != (s == txn.None) {
			t.Errorf("sub-state %s is %v in the contract", s, wireSub(s))
		}
	}
	if len(txn.Subs) != len(pb.TxSubState_name) {
		t.Error("the contract has other sub-states than txn")
	}
	kinds := map[txn.Kind]bool{}
	for _, m := range txn.Moves {
		kinds[m.Kind] = true
		if wireKind(m.Kind) == 0 {
			t.Errorf("event %s is not in the contract", m.Kind)
		}
	}
	if len(kinds)+1 != len(pb.TxEventKind_name) {
		t.Error("the contract has other events than txn")
	}
	for _, e := range []txn.Executed{txn.Unknown, txn.No, txn.Success, txn.Reverted} {
		if wireExecuted(e) == 0 {
			t.Errorf("executed %s is not in the contract", e)
		}
	}
	exits := map[pb.ProtectionDecision]txn.Action{
		resume: txn.ActionResume, align: txn.ActionAlign,
		pb.ProtectionDecision_PROTECTION_DECISION_RESUME_KEEP_QUEUE:        txn.ActionResumeKeep,
		pb.ProtectionDecision_PROTECTION_DECISION_ALIGN_FORWARD_KEEP_QUEUE: txn.ActionAlignKeep,
	}
	for value, action := range exits {
		if exitOfWire(value) != action {
			t.Errorf("%v is the decision %s", value, exitOfWire(value))
		}
	}
	if len(exits)+1 != len(pb.ProtectionDecision_name) {
		t.Error("the contract has other decisions on a protection than txn")
	}
	for value, action := range map[pb.StuckDecision]txn.Action{
		pb.StuckDecision_STUCK_DECISION_FAIL:    txn.ActionFail,
		pb.StuckDecision_STUCK_DECISION_REQUEUE: txn.ActionRequeue, retry: txn.ActionRetry,
		pb.StuckDecision_STUCK_DECISION_BUMP:   txn.ActionBump,
		pb.StuckDecision_STUCK_DECISION_CANCEL: txn.ActionCancel} {
		if resolveOfWire(value) != action {
			t.Errorf("%v is the decision %s", value, resolveOfWire(value))
		}
	}
	for _, s := range txn.Speeds {
		if wireSpeed(s) == 0 || speedOfWire(wireSpeed(s)) != s {
			t.Errorf("speed %q is %v in the contract", s, wireSpeed(s))
		}
	}
	for _, f := range []txn.OnFailure{txn.Continue, txn.PauseOnFailure} {
		if wireOnFailure(f) == 0 || onFailureOfWire(wireOnFailure(f)) != f {
			t.Errorf("policy %q is %v in the contract", f, wireOnFailure(f))
		}
	}
	if speedOfWire(0) != txn.Standard || onFailureOfWire(0) != txn.Continue ||
		len(txn.Speeds)+1 != len(pb.TxSpeed_name) ||
		len(pb.FailurePolicy_name) != 3 {
		t.Error("speeds or policies differ")
	}
}
