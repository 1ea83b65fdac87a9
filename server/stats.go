package server

import (
	"context"

	"google.golang.org/grpc/stats"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/feed"
)

// statsHandler runs the deep steps for a watch on a fresh stack, and replaces the names of unknown
// methods: a name that a client invents must not become a metric series, or an attribute that is
// not UTF-8.
type statsHandler struct {
	stats.Handler
	serves func(path string) bool
}

// otherMethod replaces the names of unknown methods, as OpenTelemetry prescribes for rpc.method.
const otherMethod = "/_OTHER"

// TagRPC returns the context of a call.
func (s statsHandler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if !s.serves(info.FullMethodName) {
		other := *info
		other.FullMethodName = otherMethod
		info = &other
	}
	if info.FullMethodName != pb.TxService_WatchTx_FullMethodName {
		return s.Handler.TagRPC(ctx, info)
	}
	_ = feed.OnFreshStack(func() error {
		ctx = s.Handler.TagRPC(ctx, info)
		return nil
	})
	return ctx
}

// HandleRPC records an event of a call. Later events of a stream already run on a fresh stack, or
// when it ends.
func (s statsHandler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	starts := false
	switch e := event.(type) {
	case *stats.InHeader:
		starts = e.FullMethod == pb.TxService_WatchTx_FullMethodName
	case *stats.Begin:
		starts = e.IsServerStream
	}
	if !starts {
		s.Handler.HandleRPC(ctx, event)
		return
	}
	_ = feed.OnFreshStack(func() error {
		s.Handler.HandleRPC(ctx, event)
		return nil
	})
}
