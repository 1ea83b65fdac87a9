// Package limit bounds what clients make a node hold: calls, watches, and responses that a client
// does not read. All of it that rests on internals of grpc-go is in response.go and conn.go, and
// canary_test.go fails if grpc-go changes them.
package limit

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
)

var (
	errManyCalls = status.NodeBusy(time.Second,
		"too many concurrent calls (limit grpc.max_calls); the request was not processed; "+
			"retry the call unchanged later, or on another node")
	errManyWatches = status.NodeBusy(5*time.Second,
		"too many watch streams (limit watch.max_streams); "+
			"use another node, or retry the call later")
	errUnread = status.NodeBusy(time.Second,
		"more than %d MiB of unread responses on this connection; the request was not processed; "+
			"read them, then retry the call unchanged, or use more connections",
		MaxUnreadBytes>>20)
	errManyLists = status.NodeBusy(time.Second,
		"too many list calls on this connection, unread responses included; "+
			"read them, then retry the call unchanged, or use more connections")
	errManyHealth = status.NodeBusy(5*time.Second,
		"too many health calls on this connection (limit %d); "+
			"end unused calls", MaxHealthCalls)
)

const (
	// HeavyCall is the weight of a call whose request or response may be megabytes long.
	HeavyCall = 16
	// ListShare divides the lists that a node answers at once: one connection gets 1/ListShare.
	ListShare = 4
	// MaxHealthCalls is how many health calls a connection may have in progress: one for each
	// service, and some more. Health calls are not authenticated.
	MaxHealthCalls = 8
	// MaxUnreadBytes is how much of responses a connection may leave unread before its next calls
	// are rejected: eight pages of a list.
	MaxUnreadBytes = 16 << 20
	// MaxRejectedStrangers is how many rejected calls of a connection may have time left until
	// their deadlines, if their caller is unknown. A known caller, whom a busy node rejects, has
	// more of them: Limits.StreamsPerConnection.
	MaxRejectedStrangers = 1000
)

// Limits configure a Limiter. All fields must be positive.
type Limits struct {
	// Calls is how many calls the node answers at once, heavy ones counted by weight.
	Calls int
	// Watches is how many WatchTx streams it serves at once, and as many watches of its health.
	Watches int
	// StreamsPerConnection is the limit that the transport has.
	StreamsPerConnection int
	// Call is the longest that a call may take, until its client has read the response.
	Call time.Duration
	// CheckEvery is how often CloseStalled looks for connections that do not read.
	CheckEvery time.Duration
}

// Limiter bounds the calls in progress, across callers and connections. Each call holds memory
// until its response is read. A call for which there is no room is rejected before its request is
// read. There is no queue: the client waits, since it holds the request anyway.
type Limiter struct {
	limits   Limits
	clock    clock.Clock
	log      *slog.Logger
	rejected func()

	calls, watches, healthWatches atomic.Int64
	conns                         connStates
}

// New returns a limiter. It calls rejected for each call that it rejects.
func New(limits Limits, c clock.Clock, log *slog.Logger, rejected func()) *Limiter {
	return &Limiter{limits: limits, clock: c, log: log, rejected: rejected}
}

// Calls returns the weight of the calls in progress.
func (l *Limiter) Calls() int64 { return l.calls.Load() }

// Watches returns how many WatchTx streams are in progress.
func (l *Limiter) Watches() int64 { return l.watches.Load() }

// HealthWatches returns how many watches of the node's health are in progress.
func (l *Limiter) HealthWatches() int64 { return l.healthWatches.Load() }

// UnreadBytes returns the size of the responses that clients have not read yet.
func (l *Limiter) UnreadBytes() int { return l.conns.unread() }

// share is the part of a bounded resource that a call takes.
type share struct {
	count  *atomic.Int64
	weight int64
	max    int
	full   error
}

// shares returns what a call takes. Health calls take nothing that other calls need: a busy node is
// a healthy node.
func (l *Limiter) shares(c *ConnState, method string) []share {
	switch {
	case method == healthpb.Health_Watch_FullMethodName:
		return []share{
			{&c.health, 1, MaxHealthCalls, errManyHealth},
			{&l.healthWatches, 1, l.limits.Watches, errManyWatches},
		}
	case rpc.IsHealth(method):
		return []share{{&c.health, 1, MaxHealthCalls, errManyHealth}}
	case method == pb.TxService_WatchTx_FullMethodName:
		return []share{{&l.watches, 1, l.limits.Watches, errManyWatches}}
	}
	calls := share{&l.calls, 1, l.limits.Calls, errManyCalls}
	switch method {
	case pb.TxService_BatchCreateTx_FullMethodName:
		calls.weight = min(HeavyCall, int64(l.limits.Calls))
	case pb.TxService_ListTxs_FullMethodName:
		// The responses are long, so one connection that does not read them gets only a share.
		calls.weight = min(HeavyCall, int64(l.limits.Calls))
		return []share{
			{&c.lists, 1, max(1, l.limits.Calls/HeavyCall/ListShare), errManyLists},
			calls,
		}
	}
	return []share{calls}
}

// Enter takes a slot for a call of a connection. The error has a status with the reason NODE_BUSY.
func (l *Limiter) Enter(c *ConnState, method string) (*Slot, error) {
	slot := &Slot{conn: c, holds: 1}
	for _, s := range l.shares(c, method) {
		if s.count.Add(s.weight) > int64(s.max) {
			s.count.Add(-s.weight)
			slot.Release()
			return nil, l.reject(s.full)
		}
		slot.shares = append(slot.shares, s)
	}
	if !c.mayCall() && !rpc.IsHealth(method) {
		slot.Release()
		return nil, l.reject(errUnread)
	}
	return slot, nil
}

func (l *Limiter) reject(err error) error {
	l.rejected()
	return err
}

// Tap returns the handler that admits calls of gRPC before the transport reads on. Calls that
// authenticate rejects take no slot. The transport ends the context of a call however the call
// ends, and that releases the slot. finish returns the status of a rejected call.
func (l *Limiter) Tap(
	authenticate func(ctx context.Context, method string) (context.Context, error),
	finish func(ctx context.Context, method string, err error) error,
) tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		c := ConnOf(ctx)
		maxRejected := l.limits.StreamsPerConnection
		ctx, err := authenticate(ctx, info.FullMethodName)
		if err != nil {
			maxRejected = MaxRejectedStrangers
		} else {
			var slot *Slot
			if slot, err = l.Enter(c, info.FullMethodName); err == nil {
				ctx, cancel := l.bound(ctx, info.FullMethodName)
				context.AfterFunc(ctx, func() { cancel(); slot.Release() })
				return context.WithValue(ctx, slotKey{}, slot), nil
			}
		}
		c.reject(ctx, maxRejected)
		return ctx, finish(ctx, info.FullMethodName, err)
	}
}

// bound limits the duration of a call that has a slot. Its handler has a limit of its own, which
// starts with the request: a call whose request never comes would keep its slot for as long as its
// connection stands.
func (l *Limiter) bound(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	if rpc.IsEndless(method) {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, l.limits.Call)
}

// CloseStalled closes the connections that leave a response unread for longer than a call may take,
// until ctx ends.
func (l *Limiter) CloseStalled(ctx context.Context) {
	for clock.Sleep(ctx, l.clock, l.limits.CheckEvery) == nil {
		for _, c := range l.conns.stalled(l.clock.Now().Add(-l.limits.Call)) {
			l.log.Warn("stalled connection closed", "after", l.limits.Call)
			go c.close() // which may wait for the peer
		}
	}
}
