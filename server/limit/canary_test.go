package limit

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// The accounting of this package rests on behaviour of grpc-go that grpc-go does not document. If
// one of these tests fails after an update of grpc-go, do not adapt the test: the accounting itself
// has to change, or calls leak slots, or are not counted at all.

// canary fails with the assumption that no longer holds.
func (h *harness) canary(assumption string, is func() bool) {
	h.Helper()
	for limit := time.After(patience); !is(); {
		select {
		case <-limit:
			h.Fatalf("grpc-go changed: package limit assumes that %s", assumption)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestCanary_SmallestCountedBuffer(t *testing.T) {
	t.Parallel()
	if mem.IsBelowBufferPoolingThreshold(refCounted) {
		t.Errorf("grpc-go changed: package limit assumes that buffers of %d bytes are counted",
			refCounted)
	}
	if !mem.IsBelowBufferPoolingThreshold(refCounted - 1) {
		t.Errorf("grpc-go changed: smaller buffers than %d bytes are counted now", refCounted)
	}
	freed := &countingPool{}
	buffer := make([]byte, refCounted)
	one := mem.NewBuffer(&buffer, freed)
	one.Ref()
	one.Free()
	if freed.puts != 0 {
		t.Error("grpc-go changed: a buffer returns to its pool before its last reference is freed")
	}
	one.Free()
	if freed.puts != 1 {
		t.Errorf("grpc-go changed: a freed buffer returned to its pool %d times, want 1",
			freed.puts)
	}
}

type countingPool struct{ puts int }

func (p *countingPool) Get(length int) *[]byte { b := make([]byte, length); return &b }
func (p *countingPool) Put(*[]byte)            { p.puts++ }

func TestCanary_AddressOfConnection_ReachesTagConn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, defaultLimits())
	h.request(t.Context(), h.dial())
	if _, ok := (<-h.contexts).Value(connKey{}).(*ConnState); !ok {
		t.Error("grpc-go changed: package limit assumes that ConnTagInfo.RemoteAddr is the " +
			"address " +
			"that the connection returns, and that calls inherit the context of TagConn")
	}
}

func TestCanary_TapContext_ReachesHandler(t *testing.T) {
	t.Parallel()
	h := newHarness(t, defaultLimits())
	h.request(t.Context(), h.dial())
	if _, ok := (<-h.contexts).Value(slotKey{}).(*Slot); !ok {
		t.Error("grpc-go changed: package limit assumes that the context which the tap handler " +
			"returns is the one of the handler")
	}
}

func TestCanary_UnreadResponse_HoldsItsBuffer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, defaultLimits())
	stream := h.request(t.Context(), h.dial())
	ctx := <-h.contexts
	h.canary("a response is marshalled by the codec of the server",
		func() bool { return h.limiter.UnreadBytes() >= responseBytes })
	h.canary("the context of a call ends once the handler has returned",
		func() bool { return ctx.Err() != nil })
	if h.limiter.UnreadBytes() == 0 || h.limiter.Calls() != 1 {
		t.Error("grpc-go changed: package limit assumes that the buffer of a response is " +
			"freed no " +
			"sooner than it is sent")
	}
	if err := stream.RecvMsg(&pb.GetSubmitterResponse{}); err != nil {
		t.Fatal(err)
	}
	h.canary("the buffer of a response is freed once it is sent",
		func() bool { return h.limiter.UnreadBytes() == 0 && h.limiter.Calls() == 0 })
}

func TestCanary_CallWithoutRequest_EndsItsContext(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel context.CancelFunc, hangUp func() error){
		"cancelled":       func(cancel context.CancelFunc, _ func() error) { cancel() },
		"connection lost": func(_ context.CancelFunc, hangUp func() error) { _ = hangUp() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, defaultLimits())
			conn := h.dial()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if _, err := conn.NewStream(ctx, streamOfCall,
				pb.SubmitterService_GetSubmitter_FullMethodName); err != nil {
				t.Fatal(err)
			}
			h.canary("the tap handler sees a call before its request",
				func() bool { return h.limiter.Calls() == 1 })
			end(cancel, conn.Close)
			h.canary("the transport ends the context of a call that is "+name,
				func() bool { return h.limiter.Calls() == 0 })
		})
	}
}

func TestCanary_RejectedByTap_StatusReachesClient(t *testing.T) {
	t.Parallel()
	limits := defaultLimits()
	limits.Calls = 1
	h := newHarness(t, limits)
	conn := h.dial()
	if _, err := conn.NewStream(t.Context(), streamOfCall,
		pb.SubmitterService_GetSubmitter_FullMethodName); err != nil {
		t.Fatal(err)
	}
	h.canary("the tap handler sees a call before its request",
		func() bool { return h.limiter.Calls() == 1 })
	_, err := pb.NewSubmitterServiceClient(conn).GetSubmitter(t.Context(),
		&pb.GetSubmitterRequest{})
	if codeOf(err) != codes.ResourceExhausted {
		t.Errorf("grpc-go changed: package limit assumes that the status which the tap handler "+
			"returns reaches the client; it received %v", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(),
		&healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health of a full node: %v", err)
	}
}
