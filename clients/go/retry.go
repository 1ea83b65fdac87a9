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

// serviceConfig spreads calls over the addresses of the target and retries UNAVAILABLE. It cannot
// read error details, so interceptUnary retries RESOURCE_EXHAUSTED. WatchTx resumes instead.
const serviceConfig = `{
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [
    {
      "name": [
        {"service": "fencepost.v1.TxService"}, {"service": "fencepost.v1.SubmitterService"},
        {"service": "fencepost.v1.NonceService"}
      ],
      "retryPolicy": {
        "maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "5s", "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE"]
      }
    },
    {"name": [{"service": "fencepost.v1.TxService", "method": "WatchTx"}]}
  ]
}`

// maxAttempts limits the attempts of a call that nodes delay.
const maxAttempts = 5

// interceptUnary limits a call by its timeout and the life of the client, retries it if the node
// sends a delay, and converts its error.
func (c *Client) interceptUnary(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
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
			if !e.delayed() || attempt == maxAttempts || !pause(ctx, e.RetryAfter) {
				if !e.own && (ownEnd(ctx, e) || e.Code == codes.Internal && !encodes(request)) {
					e.own = true
				}
				return c.closedOr(last.explain(e))
			}
		}
	}
}

// lastFailure is the error of the last failed attempt. If a deadline ends the call between two
// attempts, gRPC reports only the deadline.
type lastFailure struct{ err atomic.Pointer[Error] }

type lastFailureKey struct{}

// explain adds the last failure to an error of a passed deadline.
func (l *lastFailure) explain(e *Error) *Error {
	last := l.err.Load()
	if e.Code != codes.DeadlineExceeded || e.ReasonName != "" || last == nil {
		return e
	}
	explained := *e
	explained.Message += "; the previous attempt failed: " + last.Error()
	explained.status = status.New(explained.Code, explained.Message)
	return &explained
}

// attempts records the error of each attempt.
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

func (e *Error) delayed() bool { return e.Code == codes.ResourceExhausted && e.RetryAfter > 0 }

// closedOr returns ErrClosed for a call that failed because the client is closed, and err
// otherwise.
func (c *Client) closedOr(err error) error {
	if err != nil && c.closed.Err() != nil {
		return ErrClosed
	}
	return err
}

// ownEnd reports whether the caller cancelled the call, and not a proxy.
func ownEnd(ctx context.Context, e *Error) bool {
	return e.Code == codes.Canceled && ctx.Err() != nil
}

// encodes reports whether a request can be encoded. Used only after a failure, because gRPC has the
// same code for this and for a lost connection.
func encodes(request any) bool {
	message, ok := request.(proto.Message)
	if !ok {
		return true
	}
	_, err := proto.Marshal(message)
	return err == nil
}

// interceptStream converts the errors of a stream.
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
	ctx    context.Context // the caller's; the stream's own ends with the stream
}

// SendMsg returns io.EOF if the stream failed, and RecvMsg then returns the cause. Any other error
// means that the message cannot be sent.
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

// pause waits, and reports whether ctx outlasted it. It does not begin if the deadline is earlier:
// the error that requested the pause is more useful than a timeout.
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
