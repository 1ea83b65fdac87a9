package limit

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
)

var streamOfCall = &grpc.StreamDesc{ServerStreams: true}

func TestErrors_AreNodeBusy(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		errManyCalls, errManyWatches, errManyLists, errManyHealth, errUnread,
	} {
		s := status.From(err, "call")
		if s.Code() != codes.ResourceExhausted || status.ReasonOf(s) != "NODE_BUSY" {
			t.Errorf("%v has the status %v", err, s)
		}
	}
}

// Rejected calls leave a timer each, which only the end of their connection stops.
func TestRejectedCalls_ManyWithTimeLeft_CloseTheConnection(t *testing.T) {
	t.Parallel()
	limits := defaultLimits()
	h := newHarness(t, limits)
	conn := h.dial()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	stranger := metadata.AppendToOutgoingContext(ctx, "stranger", "yes")
	client := pb.NewSubmitterServiceClient(conn)
	call := func() codes.Code {
		_, err := client.GetSubmitter(stranger, &pb.GetSubmitterRequest{})
		return codeOf(err)
	}
	if code := call(); code != codes.Unauthenticated {
		t.Fatalf("a stranger gets %v", code)
	}
	h.limiter.conns.mu.Lock()
	var state *ConnState
	for state = range h.limiter.conns.all {
	}
	h.limiter.conns.mu.Unlock()
	ended, rejected := 0, 0
	for rejected < 3*MaxRejectedStrangers && ended == 0 {
		switch code := call(); code {
		case codes.Unauthenticated:
			rejected++
		case codes.Unavailable:
			ended++
		default:
			t.Fatal(code)
		}
	}
	if ended == 0 || rejected < MaxRejectedStrangers-10 {
		t.Errorf("after %d rejected calls the connection has ended %d times", rejected, ended)
	}
	h.eventually("a known caller is admitted", func() bool {
		_, err := client.GetSubmitter(ctx, &pb.GetSubmitterRequest{})
		return err == nil
	})
	h.eventually("nothing is left of the connection that ended", func() bool {
		state.mu.Lock()
		defer state.mu.Unlock()
		return state.ended && len(state.rejected) == 0
	})
}

// A call that is rejected leaves nothing but its deadline, and that only until it has passed.
func TestConnState_RejectedCall_IsForgotten(t *testing.T) {
	t.Parallel()
	far, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	closed := make(chan struct{}, 10)
	c := &ConnState{close: func() error { closed <- struct{}{}; return nil }}
	content := new([64 << 10]byte)
	held := weak.Make(content)
	c.reject(context.WithValue(far, connKey{}, content), 2)
	for limit := time.After(patience); held.Value() != nil; runtime.GC() {
		select {
		case <-limit:
			t.Fatal("the content of the call is still held")
		default:
		}
	}
	for range 5 {
		past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		c.reject(past, 2)
		cancel()
	}
	c.reject(far, 2)
	if len(closed) > 0 || len(c.rejected) > 3 {
		t.Errorf("with two calls that have time left %d deadlines are kept, or the connection is "+
			"closed", len(c.rejected))
	}
	c.reject(far, 2)
	<-closed
}
