package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
)

var (
	errManyCalls = status.NodeBusy(time.Second,
		"it answers as many calls at once as it may (grpc.max_calls), and did nothing of this one; "+
			"repeat the call unchanged later, or call another node")
	errManyWatches = status.NodeBusy(5*time.Second,
		"it serves as many watches as it may (watch.max_streams); watch through another node, "+
			"or repeat the call later")
	errUnread = status.NodeBusy(time.Second,
		"answers of %d MiB wait to be read by this connection, and it did nothing of this call; "+
			"read them, then repeat the call unchanged, or call with more than one connection",
		unreadBytes>>20)
	errManyLists = status.NodeBusy(time.Second,
		"it answers as many lists of one connection at once as it may, "+
			"those that are not read yet among them; read them, then repeat the call unchanged, "+
			"or call with more than one connection")
	errManyHealth = status.NodeBusy(5*time.Second,
		"it answers as many calls of health of one connection as it may (%d); "+
			"end those that are not needed", healthCalls)
)

// healthBytes is the most of a request of health over HTTP. Whoever asks for that is not known, and the transcoder holds all that has come.
const healthBytes = 4 << 10

// heavyCall is as how many calls one of those counts whose request or answer may be megabytes long.
const heavyCall = 16

// listShare is what part of the lists that a node answers at once one connection may have.
const listShare = 4

// turnstile bounds what is answered at once, whoever calls and over how many connections: each call holds memory, until its answer is read. Who does not get in is told
// so before anything is read of the request. It knows no queue: the waiting is for the client, which holds the request anyway.
type turnstile struct {
	calls, watches, healthWatches atomic.Int64
}

// room is what a call takes of something that is bounded.
type room struct {
	count  *atomic.Int64
	weight int64
	most   int
	full   error
}

// rooms are those that a call takes. Health is for everybody, and a busy node is no sick one: its calls take none of what callers need.
func (s *Server) rooms(l *link, method string) []room {
	t := &s.turnstile
	switch {
	case method == healthpb.Health_Watch_FullMethodName:
		return []room{
			{&l.health, 1, healthCalls, errManyHealth},
			{&t.healthWatches, 1, s.limits.Watches, errManyWatches},
		}
	case rpc.IsHealth(method):
		return []room{{&l.health, 1, healthCalls, errManyHealth}}
	case method == pb.TxService_WatchTx_FullMethodName:
		return []room{{&t.watches, 1, s.limits.Watches, errManyWatches}}
	}
	calls := room{&t.calls, 1, s.limits.Calls, errManyCalls}
	switch method {
	case pb.TxService_BatchCreateTx_FullMethodName:
		calls.weight = min(heavyCall, int64(s.limits.Calls))
	case pb.TxService_ListTxs_FullMethodName: // whose answers are long: who does not read them takes no more than a share
		calls.weight = min(heavyCall, int64(s.limits.Calls))
		return []room{
			{&l.lists, 1, max(1, s.limits.Calls/heavyCall/listShare), errManyLists},
			calls,
		}
	}
	return []room{calls}
}

// enter counts a call in, until its seat is released.
func (s *Server) enter(l *link, method string) (*seat, error) {
	taken := &seat{link: l, holds: 1}
	for _, r := range s.rooms(l, method) {
		if r.count.Add(r.weight) > int64(r.most) {
			r.count.Add(-r.weight)
			taken.release()
			return nil, s.busy(r.full)
		}
		taken.rooms = append(taken.rooms, r)
	}
	if !l.mayCall() && !rpc.IsHealth(method) {
		taken.release()
		return nil, s.busy(errUnread)
	}
	return taken, nil
}

// busy counts a refusal.
func (s *Server) busy(why error) error {
	s.metrics.refuse(pb.ErrorReason_ERROR_REASON_NODE_BUSY)
	return why
}

// tap lets calls of gRPC in, before the transport reads on, and no stranger, who would take the room of others. However a call ends, the transport ends its context:
// so that is what gives its room back.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	l, most := linkIn(ctx), int(s.limits.StreamsPerConnection)
	ctx, err := s.letIn(ctx, info.FullMethodName)
	if err != nil {
		most = refusedStrangers
	} else {
		var taken *seat
		if taken, err = s.enter(l, info.FullMethodName); err == nil {
			ctx, forget := s.whileItMay(ctx, info.FullMethodName)
			context.AfterFunc(ctx, func() { forget(); taken.release() })
			return context.WithValue(ctx, seatKey{}, taken), nil
		}
	}
	l.refuse(ctx, most)
	return ctx, s.access.Begin(info.FullMethodName).End(ctx, nil, err)
}

// whileItMay bounds a call that was let in. Its handler has a limit of its own, which begins with the request: a call whose request never comes would keep its room
// for as long as its connection stands.
func (s *Server) whileItMay(ctx context.Context,
	method string) (context.Context, context.CancelFunc) {
	if rpc.IsEndless(method) {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.limits.wholeCall())
}

// methodOf is the method of a request over HTTP, as far as the turnstile tells methods apart.
func methodOf(r *http.Request) string {
	switch {
	case watched(r.URL) != nil && r.Method == http.MethodGet:
		return pb.TxService_WatchTx_FullMethodName
	case r.URL.Path == "/api/v1/tx" && r.Method == http.MethodGet:
		return pb.TxService_ListTxs_FullMethodName
	case r.URL.Path == "/api/v1/tx/batch":
		return pb.TxService_BatchCreateTx_FullMethodName
	}
	return r.URL.Path
}

// refuse counts what is refused for want of room.
func (m *metrics) refuse(reason pb.ErrorReason) {
	m.refusals.Add(context.Background(), 1,
		metric.WithAttributes(attribute.String("reason", status.ReasonName(reason))))
}
