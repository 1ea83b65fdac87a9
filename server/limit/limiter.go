// Package limit bounds the calls and watches in progress on a node, and the responses that clients
// do not read. All code that relies on internals of grpc-go is in response.go and connstate.go, and
// canary_test.go fails if grpc-go changes them.
package limit

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
)

var (
	errCallShare = status.CallerLimited(time.Second,
		"its calls in progress use its share of the node (limit grpc.max_calls); "+
			"the request was not processed; retry the call unchanged later, "+
			"or raise callers[].weight")
	errWatchShare = status.CallerLimited(5*time.Second,
		"its watch streams use its share of the node (limit watch.max_streams); "+
			"use another node, end unused streams, or raise callers[].weight")
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
	errListShare = status.CallerLimited(time.Second,
		"its list calls, unread responses included, use its share of the node "+
			"(limit grpc.max_calls); read them, then retry the call unchanged")
	errUnreadRoom = status.NodeBusy(time.Second,
		"too many unread responses; retry the call unchanged later, or on another node")
	errUnreadShare = status.CallerLimited(time.Second,
		"it left more than %d MiB of responses unread; read them, then retry the call unchanged",
		MaxUnreadOfCaller>>20)
	errManyBuilds = status.NodeBusy(time.Second,
		"too many list calls over HTTP wait for each other; "+
			"retry the call unchanged later, or on another node")
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
	// are rejected: sixteen pages of a list.
	MaxUnreadBytes = 16 << 20
	// MaxUnreadOfCaller is how much of long responses over HTTP a caller may leave unread, on all
	// its connections, and unreadRoom how much all callers may.
	MaxUnreadOfCaller, unreadRoom = 8 << 20, 128 << 20
	// smallResponse is a size of responses that the limit of calls bounds well enough.
	smallResponse = 32 << 10
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

// Caller configures the share of one caller.
type Caller struct {
	Weight int64   // of its guaranteed share, relative to other callers
	Rate   float64 // calls a second, heavy ones counted by weight; 0: no limit
}

// Counters receive the calls that a limiter rejects.
type Counters struct {
	// Busy is called for a call that the node has no room for.
	Busy func()
	// Limited is called for a call that is beyond the share or the rate of its caller, which is ""
	// if callers have no names. limit is LimitCalls, LimitStreams or LimitRate.
	Limited func(caller, limit string)
}

// Names of the limits of a caller.
const (
	LimitCalls   = "calls"
	LimitStreams = "streams"
	LimitRate    = "rate"
)

// Limiter bounds the calls in progress, across callers and connections. Each call holds memory
// until its response is read. A call for which there is no room is rejected before its request is
// read. There is no queue: the client waits, since it holds the request anyway.
//
// The room is divided among callers (Shares). Calls whose caller has no name, because none is
// configured, are divided among the source addresses of their connections.
type Limiter struct {
	limits   Limits
	clock    clock.Clock
	log      *slog.Logger
	counters Counters

	calls, watches, healthWatches *Shares
	lists                         *quota // in progress or unread
	unread                        *Shares
	unreadOfCaller                *quota
	builds                        *turns
	// rates has the limits of all callers; nil: no limit.
	rates atomic.Pointer[map[string]*rate.Limiter]
	conns connStates
}

// New returns a limiter without callers.
func New(limits Limits, c clock.Clock, log *slog.Logger, counters Counters) *Limiter {
	l := &Limiter{
		limits: limits, clock: c, log: log, counters: counters,
		calls:         NewShares(int64(limits.Calls), nil),
		watches:       NewShares(int64(limits.Watches), nil),
		healthWatches: NewShares(int64(limits.Watches), nil),
		lists:         newQuota(max(ListShare, int64(limits.Calls/HeavyCall/ListShare))),
		unread:        NewShares(unreadRoom, nil), unreadOfCaller: newQuota(MaxUnreadOfCaller),
		builds: newTurns(),
	}
	l.SetCallers(nil)
	return l
}

// SetCallers replaces the callers, by name.
func (l *Limiter) SetCallers(callers map[string]Caller) {
	weights, rates := map[string]int64{}, map[string]*rate.Limiter{}
	for name, c := range callers {
		weights[namedPrefix+name], rates[name] = max(c.Weight, 1), nil
		if c.Rate > 0 {
			// A heavy call must fit into the burst.
			rates[name] = rate.NewLimiter(rate.Limit(c.Rate), max(HeavyCall, int(c.Rate)))
		}
	}
	l.calls.Divide(weights)
	l.watches.Divide(weights)
	l.unread.Divide(weights)
	l.rates.Store(&rates)
}

// Calls returns the weight of the calls in progress.
func (l *Limiter) Calls() int64 { return l.calls.Total() }

// Watches returns how many WatchTx streams are in progress.
func (l *Limiter) Watches() int64 { return l.watches.Total() }

// HealthWatches returns how many watches of the node's health are in progress.
func (l *Limiter) HealthWatches() int64 { return l.healthWatches.Total() }

// Used returns the room that each caller takes, for one of LimitCalls and LimitStreams. All callers
// without a name are one, "".
func (l *Limiter) Used(limit string) map[string]int64 {
	of := l.calls
	if limit == LimitStreams {
		of = l.watches
	}
	used := map[string]int64{"": 0}
	for caller := range *l.rates.Load() {
		used[caller] = 0
	}
	for key, n := range of.Used() {
		used[callerOf(key)] += n
	}
	return used
}

// UnreadBytes returns the size of the responses that clients have not read yet.
func (l *Limiter) UnreadBytes() int { return l.conns.unread() }

// room is a bounded resource.
type room interface {
	Take(key string, weight int64) Outcome
	Add(key string, weight int64)
}

// bound is a room of one connection, which has no shares.
type bound struct {
	count *atomic.Int64
	max   int64
}

// Take implements room.
func (b bound) Take(_ string, weight int64) Outcome {
	if b.count.Add(weight) > b.max {
		b.count.Add(-weight)
		return RoomFull
	}
	return Taken
}

// Add implements room.
func (b bound) Add(_ string, weight int64) { b.count.Add(weight) }

// share is the part of a bounded resource that a call takes.
type share struct {
	of     room
	key    string
	weight int64

	full    error  // if the room is full
	limit   string // of the caller; empty: none
	limited error  // if the share of the caller is full
}

// shares returns the resources that a call takes. Health calls have their own: a busy node is a
// healthy node.
func (l *Limiter) shares(c *ConnState, key, method string) []share {
	health := share{
		of: bound{&c.health, MaxHealthCalls}, weight: 1, full: errManyHealth,
	}
	switch {
	case method == healthpb.Health_Watch_FullMethodName:
		return []share{health, {
			l.healthWatches, sourceKey(c.source), 1, errManyWatches, LimitStreams, errWatchShare,
		}}
	case rpc.IsHealth(method):
		return []share{health}
	case method == pb.TxService_WatchTx_FullMethodName:
		return []share{{l.watches, key, 1, errManyWatches, LimitStreams, errWatchShare}}
	}
	calls := share{l.calls, key, l.weight(method), errManyCalls, LimitCalls, errCallShare}
	if method == pb.TxService_ListTxs_FullMethodName {
		// The responses are long, so a connection that does not read them gets only a share, and so
		// does a caller with many connections.
		lists := int64(max(1, l.limits.Calls/HeavyCall/ListShare))
		return []share{
			{of: bound{&c.lists, lists}, weight: 1, full: errManyLists},
			{l.lists, key, 1, nil, LimitCalls, errListShare}, calls,
		}
	}
	return []share{calls}
}

// unreadShares returns the resources that a long response takes.
func (l *Limiter) unreadShares(key string, bytes int64) []share {
	return []share{
		{l.unreadOfCaller, key, bytes, nil, LimitCalls, errUnreadShare},
		{l.unread, key, bytes, errUnreadRoom, LimitCalls, errUnreadShare},
	}
}

// weight returns how much a call counts.
func (l *Limiter) weight(method string) int64 {
	switch method {
	case pb.TxService_BatchCreateTx_FullMethodName, pb.TxService_ListTxs_FullMethodName:
		return min(HeavyCall, int64(l.limits.Calls))
	}
	return 1
}

// Prefixes of keys distinguish callers with names from the addresses of those without.
const namedPrefix, sourcePrefix = "caller ", "source "

func sourceKey(source netip.Prefix) string { return sourcePrefix + source.String() }

// keyOf returns the key of a call in the shares.
func keyOf(c *ConnState, caller string) string {
	if caller == "" {
		return sourceKey(c.source)
	}
	return namedPrefix + caller
}

// callerOf returns the name of the caller of a key; "" if it has none.
func callerOf(key string) string {
	name, named := strings.CutPrefix(key, namedPrefix)
	if !named {
		return ""
	}
	return name
}

// Enter takes a slot for a call of a caller, "" if it has no name, over a connection. The error has
// a status with the reason NODE_BUSY or CALLER_LIMITED.
func (l *Limiter) Enter(c *ConnState, caller, method string) (*Slot, error) {
	if err := l.spend(caller, method); err != nil {
		return nil, err
	}
	slot := &Slot{limiter: l, conn: c, caller: caller, holds: 1}
	if err := slot.takeLocked(l.shares(c, keyOf(c, caller), method)); err != nil {
		slot.Release()
		return nil, err
	}
	if !c.mayCall() && !rpc.IsHealth(method) {
		slot.Release()
		return nil, l.reject(errUnread)
	}
	if !rpc.IsHealth(method) { // which is for strangers too
		c.prove()
	}
	return slot, nil
}

// spend takes a call from the rate of its caller.
func (l *Limiter) spend(caller, method string) error {
	limiter := (*l.rates.Load())[caller]
	if limiter == nil || rpc.IsHealth(method) {
		return nil
	}
	now := l.clock.Now()
	reserved := limiter.ReserveN(now, int(l.weight(method)))
	wait := reserved.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reserved.CancelAt(now)
	l.counters.Limited(caller, LimitRate)
	return status.CallerLimited(wait, "it made more than %v calls a second (callers[].rate); "+
		"the request was not processed; retry the call unchanged later",
		float64(limiter.Limit()))
}

func (l *Limiter) reject(err error) error {
	l.counters.Busy()
	return err
}

// Tap returns the handler that admits calls of gRPC before the transport reads on. Calls that
// authenticate rejects take no slot; caller names those that it admits. The transport ends the
// context of a call however the call ends, and that releases the slot. finish returns the status of
// a rejected call.
func (l *Limiter) Tap(
	authenticate func(ctx context.Context, method string) (context.Context, error),
	caller func(ctx context.Context) string,
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
			if slot, err = l.Enter(c, caller(ctx), info.FullMethodName); err == nil {
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
