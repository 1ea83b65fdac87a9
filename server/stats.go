package server

import (
	"context"

	"google.golang.org/grpc/stats"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/feed"
)

// shallow is a handler of statistics that takes its steps apart for a stream that is about to wait,
// and goes by the names of methods that there are: what a stranger calls a method must not become a
// series of its own, or a text that no metric may have.
type shallow struct {
	stats.Handler
	serves func(path string) bool
}

// otherMethod is what all that there is not is called, as OpenTelemetry has it for rpc.method.
const otherMethod = "/_OTHER"

// TagRPC gives the call a context.
func (s shallow) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
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

// HandleRPC takes note of what happens to the call. All but its beginning happens apart anyway, or
// when it ends.
func (s shallow) HandleRPC(ctx context.Context, what stats.RPCStats) {
	begins := false
	switch w := what.(type) {
	case *stats.InHeader:
		begins = w.FullMethod == pb.TxService_WatchTx_FullMethodName
	case *stats.Begin:
		begins = w.IsServerStream
	}
	if !begins {
		s.Handler.HandleRPC(ctx, what)
		return
	}
	_ = feed.OnFreshStack(func() error {
		s.Handler.HandleRPC(ctx, what)
		return nil
	})
}
