package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

var (
	errManyCalls   = errors.New("the node answers as many calls as it may")
	errManyWatches = errors.New("the node serves as many watches as it may")
)

// healthBytes is the most of a request of health over HTTP. Whoever asks for that is not counted, nor known, and the transcoder holds all that has come.
const healthBytes = 4 << 10

// heavyCall is as how many calls one of those counts whose request or answer may be megabytes long.
const heavyCall = 16

// turnstile bounds what is answered at once, whoever calls and over how many connections: each call holds memory. Who does not get in is told so before anything is
// read of the request. It knows no queue: the waiting is for the client, which holds the request anyway.
type turnstile struct {
	calls, watches atomic.Int64
}

// enter counts a call in until it leaves. Health is for everybody: a busy node is no sick one.
func (s *Server) enter(method string) (leave func(), err error) {
	if strings.HasPrefix(method, healthPrefix) {
		return func() {}, nil
	}
	count, weight, most, full := &s.turnstile.calls, int64(1), s.limits.Calls, errManyCalls
	switch method {
	case pb.TxService_WatchTx_FullMethodName:
		count, most, full = &s.turnstile.watches, s.limits.Watches, errManyWatches
	case pb.TxService_BatchCreateTx_FullMethodName, pb.TxService_ListTxs_FullMethodName:
		weight = min(heavyCall, int64(most))
	}
	if count.Add(weight) > int64(most) {
		count.Add(-weight)
		s.metrics.refuse(pb.ErrorReason_ERROR_REASON_NODE_BUSY)
		return nil, full
	}
	return func() { count.Add(-weight) }, nil
}

// tap lets calls of gRPC in, before the transport reads on, and no stranger, who would take the room of others. A call leaves with its context, which ends with the
// call whatever becomes of it.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	_, err := s.admission.Load().admit(ctx, info.FullMethodName)
	if err == nil {
		var leave func()
		if leave, err = s.enter(info.FullMethodName); err == nil {
			ctx, forget := s.whileItMay(ctx, info.FullMethodName)
			context.AfterFunc(ctx, func() { forget(); leave() })
			return ctx, nil
		}
	}
	return ctx, s.begin(info.FullMethodName).end(ctx, nil, err)
}

// whileItMay bounds a call that was let in. Its handler has a limit of its own, which begins with the request: a call whose request never comes would keep its room
// for as long as its connection stands.
func (s *Server) whileItMay(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	if endless(method) {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.limits.wholeCall())
}

// endless tells the methods whose answers are streams that may stand for ever.
func endless(method string) bool {
	return method == pb.TxService_WatchTx_FullMethodName || method == healthpb.Health_Watch_FullMethodName
}

// methodOf is the method of a request over HTTP, as far as the turnstile tells methods apart.
func methodOf(r *http.Request) string {
	switch {
	case watched(r.URL.Path) != nil && r.Method == http.MethodGet:
		return pb.TxService_WatchTx_FullMethodName
	case r.URL.Path == "/api/v1/tx" && r.Method == http.MethodGet:
		return pb.TxService_ListTxs_FullMethodName
	case r.URL.Path == "/api/v1/tx/batch":
		return pb.TxService_BatchCreateTx_FullMethodName
	}
	return r.URL.Path
}

// queueFull says which queue is full, and when to come back.
func queueFull(full *store.QueueFullError) error {
	where := fmt.Sprintf("its queue is full: %d transactions wait, the limit of queue.max_per_submitter", full.Limit)
	if full.Ledger {
		where = fmt.Sprintf("the queues of the ledger are full: %d transactions wait in all, the limit of queue.max_total", full.Limit)
	}
	return &declinedError{answer{
		code: codes.ResourceExhausted, reason: pb.ErrorReason_ERROR_REASON_QUEUE_FULL, retry: full.RetryAfter,
		says: where + "; nothing was queued: repeat the call unchanged later, when some of them are sent, or send less",
	}}
}

// refuse counts what is refused for want of room.
func (m *metrics) refuse(reason pb.ErrorReason) {
	m.refusals.Add(context.Background(), 1, metric.WithAttributes(attribute.String("reason", reasonName(reason))))
}
