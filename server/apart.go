package server

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc/stats"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Most of what a WatchTx stream costs is the stack of the goroutine that waits for its events, and the collector halves a stack only when less than a quarter of it
// is in use: what was deep once stays large for as long as the stream stands. gRPC alone takes 1.4 KB of it. So a stream's own goroutine only waits, and 4 KB are
// enough for that; all else is done apart.

// apart takes a step on a stack of its own, which is gone then.
func apart(step func() error) (err error) {
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		err = step()
	}()
	<-done
	if panicked != nil {
		panic(panicked) // where it is answered and logged
	}
	return err
}

// shallow is a handler of statistics that takes its steps apart for a stream that is about to wait, and goes by the names of methods that there are: what a stranger
// calls a method must not become a series of its own, or a text that no metric may have.
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
	_ = apart(func() error {
		ctx = s.Handler.TagRPC(ctx, info)
		return nil
	})
	return ctx
}

// HandleRPC takes note of what happens to the call. All but its beginning happens apart anyway, or when it ends.
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
	_ = apart(func() error {
		s.Handler.HandleRPC(ctx, what)
		return nil
	})
}
