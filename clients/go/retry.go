package fencepost

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// serviceConfig spreads calls over the addresses of the target and repeats those that are UNAVAILABLE: the request did not get there, or may be repeated. It
// cannot see details of errors, so RESOURCE_EXHAUSTED is interceptUnary's; and WatchTx resumes rather than repeats.
const serviceConfig = `{
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [
    {
      "name": [{"service": "fencepost.v1.TxService"}, {"service": "fencepost.v1.SubmitterService"}],
      "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "5s", "backoffMultiplier": 3, "retryableStatusCodes": ["UNAVAILABLE"]}
    },
    {"name": [{"service": "fencepost.v1.TxService", "method": "WatchTx"}]}
  ]
}`

// maxAttempts is how often a call is made in all when nodes ask for patience.
const maxAttempts = 5

// interceptUnary bounds a call, in time and by the life of the client, repeats it when a node says when to, and gives its error a type.
func (c *Client) interceptUnary(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx, release := c.whileOpen(ctx)
		defer release()
		var last lastFailure
		ctx = context.WithValue(ctx, lastFailureKey{}, &last)
		for attempt := 1; ; attempt++ {
			err := invoke(ctx, method, request, reply, conn, options...)
			if err == nil {
				return nil
			}
			e := typed(err)
			if !e.asksForPatience() || attempt == maxAttempts || !pause(ctx, e.RetryAfter) {
				if !e.own && (ownEnd(ctx, e) || e.Code == codes.Internal && !encodes(request)) {
					e.own = true
				}
				return c.closedOr(last.explain(e))
			}
		}
	}
}

// lastFailure is why the last attempt of a call failed, other than by its end: when a deadline ends the call between two attempts, gRPC tells of the deadline alone.
type lastFailure struct{ err atomic.Pointer[Error] }

type lastFailureKey struct{}

// explain adds it to a deadline that passed.
func (l *lastFailure) explain(e *Error) *Error {
	last := l.err.Load()
	if e.Code != codes.DeadlineExceeded || e.ReasonName != "" || last == nil {
		return e
	}
	told := *e
	told.Message += "; the attempt before failed: " + last.Error()
	told.status = status.New(told.Code, told.Message)
	return &told
}

// attempts notes the failure of each attempt for its call.
type attempts struct{}

func (attempts) HandleRPC(ctx context.Context, s stats.RPCStats) {
	last, _ := ctx.Value(lastFailureKey{}).(*lastFailure)
	end, ended := s.(*stats.End)
	if last == nil || !ended || end.Error == nil {
		return
	}
	if e := typed(end.Error); e.Code != codes.DeadlineExceeded && e.Code != codes.Canceled {
		last.err.Store(e)
	}
}

func (attempts) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (attempts) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (attempts) HandleConn(context.Context, stats.ConnStats)                       {}

func (e *Error) asksForPatience() bool { return e.Code == codes.ResourceExhausted && e.RetryAfter > 0 }

// closedOr is ErrClosed for a call that fails when the client is closed: what the transport makes of that says less.
func (c *Client) closedOr(err error) error {
	if err != nil && c.closed.Err() != nil {
		return ErrClosed
	}
	return err
}

// ownEnd tells whether a call was cancelled by its caller, not by what stands in the network.
func ownEnd(ctx context.Context, e *Error) bool {
	return e.Code == codes.Canceled && ctx.Err() != nil
}

// encodes tells whether a request can be sent at all. It is asked only of one that failed: gRPC has the same code for this and for a lost connection.
func encodes(request any) bool {
	message, ok := request.(proto.Message)
	if !ok {
		return true
	}
	_, err := proto.Marshal(message)
	return err == nil
}

// interceptStream gives the errors of a stream their type.
func (c *Client) interceptStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn,
	method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return nil, c.closedOr(typedIn(ctx, err))
	}
	return typedStream{stream, c, ctx}, nil
}

type typedStream struct {
	grpc.ClientStream
	client *Client
	ctx    context.Context // the caller's: that of the stream ends with it
}

// SendMsg fails with io.EOF where the stream did, which RecvMsg then explains; any other error is of a message that cannot be sent.
func (s typedStream) SendMsg(m any) error {
	err := typedIn(s.ctx, s.ClientStream.SendMsg(m))
	if e := (*Error)(nil); errors.As(err, &e) && !e.own {
		e.own = true
	}
	return s.client.closedOr(err)
}

func (s typedStream) RecvMsg(m any) error {
	err := typedIn(s.ctx, s.ClientStream.RecvMsg(m))
	if errors.Is(err, io.EOF) {
		return err
	}
	return s.client.closedOr(err)
}

// pause waits, and tells whether ctx let it. One that would outlast the deadline is not begun: the error that asked for it says more than a timeout.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
