package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/fencepost/fencepost/server/accesslog"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
)

func (s *Server) interceptUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (response any, err error) {
	c := s.access.Begin(info.FullMethod)
	defer func() {
		err = c.End(ctx, recover(), err)
		s.metrics.countCreates(ctx, request, response, err)
		c.Writes(ctx, response)
	}()
	r, err := s.authn.Rights(ctx, info.FullMethod)
	if err == nil {
		c.Caller, err = r.Caller(), r.MayCall(info.FullMethod)
	}
	if err != nil {
		return nil, err
	}
	if message, ok := request.(proto.Message); ok && rpc.IsFencepost(info.FullMethod) {
		if err := s.validator.Check(message); err != nil {
			return nil, err
		}
	}
	limit := s.limits.Answer
	if rpc.AwaitsOwner(info.FullMethod) {
		limit += s.limits.CommandWait
	}
	bounded, cancel := context.WithTimeoutCause(auth.WithRights(ctx, r), limit,
		store.ErrUnavailable)
	defer cancel()
	bounded, cutOff := context.WithCancelCause(bounded)
	defer cutOff(nil)
	defer context.AfterFunc(s.cutoff, func() { cutOff(status.ErrDraining) })()
	response, err = handler(bounded, request)
	return response, asDraining(bounded, err)
}

// asDraining returns ErrDraining for an error that a call has because a stopping node cancelled it.
func asDraining(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), status.ErrDraining) {
		return err
	}
	switch status.From(err, "").Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return status.ErrDraining
	}
	return err
}

func (s *Server) interceptStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) (err error) {
	c := &checkedStream{ServerStream: stream, server: s, ours: rpc.IsFencepost(info.FullMethod)}
	defer func() { err = c.end(recover(), err) }()
	err = feed.OnFreshStack(func() error { return c.begin(info.FullMethod, service != nil) })
	if err != nil {
		return err
	}
	return handler(service, c)
}

// unknownMethod handles calls of unknown methods. It runs after the interceptor, like all handlers,
// so unauthenticated clients do not learn which methods exist.
func unknownMethod(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	return status.UnknownMethod(name)
}

// checkedStream validates the messages that it receives. Its context ends when the node starts to
// stop.
type checkedStream struct {
	grpc.ServerStream
	ctx    context.Context
	cancel context.CancelCauseFunc
	server *Server
	ours   bool
	call   *accesslog.Call
	closed func() // nil: not admitted
}

// begin admits a stream. Calls of unknown methods are not checked for a role.
func (c *checkedStream) begin(method string, known bool) error {
	s, from := c.server, c.ServerStream.Context()
	c.call = s.access.Begin(method)
	c.ctx, c.cancel = context.WithCancelCause(from)
	r, closed, err := s.authn.StreamRights(from, method, c.cancel)
	if err != nil {
		return err
	}
	// CancelStreams may have run before this stream was registered.
	if c.closed = closed; s.draining.Err() != nil {
		c.cancel(status.ErrDraining)
	}
	if c.call.Caller, c.ctx = r.Caller(), auth.WithRights(c.ctx, r); !known {
		return nil
	}
	return r.MayCall(method)
}

// end returns the outcome of the stream: the cause of its context, if that ended first.
func (c *checkedStream) end(panicked any, err error) error {
	if c.closed != nil {
		defer c.closed()
	}
	defer c.cancel(nil)
	if err != nil && c.ctx.Err() != nil {
		err = context.Cause(c.ctx)
	}
	return c.call.End(c.ServerStream.Context(), panicked, err)
}

func (c *checkedStream) Context() context.Context { return c.ctx }

func (c *checkedStream) RecvMsg(m any) error {
	return feed.OnFreshStack(func() error {
		if err := c.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		if message, ok := m.(proto.Message); ok && c.ours {
			return c.server.validator.Check(message)
		}
		return nil
	})
}
