package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ours tells a method of the contract from those of health and reflection, which follow their own.
func ours(method string) bool { return strings.HasPrefix(method, "/fencepost.v1.") }

func (s *Server) interceptUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (response any, err error) {
	c := s.begin(info.FullMethod)
	defer func() {
		err = c.end(ctx, recover(), err)
		s.metrics.answered(ctx, request, response, err)
		c.tellWrites(ctx, response)
	}()
	r, err := s.admission.Load().whose(ctx, info.FullMethod)
	if err == nil {
		c.caller, err = r.caller, r.mayCall(info.FullMethod)
	}
	if err != nil {
		return nil, err
	}
	if message, ok := request.(proto.Message); ok && ours(info.FullMethod) {
		if err := s.check(message); err != nil {
			return nil, err
		}
	}
	limit := s.limits.Answer
	if waits(info.FullMethod) {
		limit += s.limits.CommandWait
	}
	bounded, cancel := context.WithTimeoutCause(withRights(ctx, r), limit, store.ErrUnavailable)
	defer cancel()
	return handler(bounded, request)
}

// waits tells the methods that wait for an owner.
func waits(method string) bool {
	switch method {
	case pb.TxService_SpeedUpTx_FullMethodName, pb.SubmitterService_UpdateSubmitter_FullMethodName,
		pb.SubmitterService_PauseSubmitter_FullMethodName, pb.SubmitterService_ResumeSubmitter_FullMethodName,
		pb.SubmitterService_ProtectSubmitter_FullMethodName, pb.SubmitterService_ExitProtect_FullMethodName, pb.SubmitterService_ResolveStuck_FullMethodName:
		return true
	}
	return false
}

func (s *Server) interceptStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) (err error) {
	c := &checkedStream{ServerStream: stream, server: s, ours: ours(info.FullMethod)}
	defer func() { err = c.end(recover(), err) }()
	if err := apart(func() error { return c.begin(info.FullMethod, service != nil) }); err != nil {
		return err
	}
	return handler(service, c)
}

// noMethod answers a call of a method that there is not. It comes behind the door and the interceptor, as all do: a stranger is not told which methods there are.
func noMethod(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	return status.UnknownMethod(name)
}

// checkedStream checks what it receives, and its context ends when the node begins to stop.
type checkedStream struct {
	grpc.ServerStream
	ctx    context.Context
	cancel context.CancelCauseFunc
	server *Server
	ours   bool
	call   *call
	gone   func() // nil: it was not let in
}

// begin lets a stream in. What is no method of ours is nobody's to call.
func (c *checkedStream) begin(method string, known bool) error {
	s, from := c.server, c.ServerStream.Context()
	c.call = s.begin(method)
	c.ctx, c.cancel = context.WithCancelCause(from)
	r, gone, err := s.admitStream(from, method, c.cancel)
	if err != nil {
		return err
	}
	if c.gone = gone; s.draining.Err() != nil { // whoever stops the node may not have seen this stream
		c.cancel(status.ErrDraining)
	}
	if c.call.caller, c.ctx = r.caller, withRights(c.ctx, r); !known {
		return nil
	}
	return r.mayCall(method)
}

// end tells what became of the stream: if its context ended first, why that did.
func (c *checkedStream) end(panicked any, err error) error {
	if c.gone != nil {
		defer c.gone()
	}
	defer c.cancel(nil)
	if err != nil && c.ctx.Err() != nil {
		err = context.Cause(c.ctx)
	}
	return c.call.end(c.ServerStream.Context(), panicked, err)
}

func (c *checkedStream) Context() context.Context { return c.ctx }

func (c *checkedStream) RecvMsg(m any) error {
	return apart(func() error {
		if err := c.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		if message, ok := m.(proto.Message); ok && c.ours {
			return c.server.check(message)
		}
		return nil
	})
}

// call is one call under way, for the log.
type call struct {
	server *Server
	id     string
	method string
	caller string // empty: it has no name, or is not known
	start  time.Time
}

func (s *Server) begin(method string) *call {
	return &call{
		server: s,
		id:     uuid.NewString(),
		method: status.Clip(method, status.MaxFieldBytes),
		start:  s.clock.Now(),
	}
}

// end turns what the handler left, be it a panic, into what the caller gets, and logs the call: never its content.
func (c *call) end(ctx context.Context, panicked any, err error) error {
	if panicked != nil {
		err = fmt.Errorf("server: panic: %v\n%s", panicked, debug.Stack())
	}
	attributes := []slog.Attr{
		slog.String("method", c.method),
		slog.String("call", c.id),
		slog.Duration("took", c.server.clock.Now().Sub(c.start)),
	}
	if c.caller != "" {
		attributes = append(attributes, slog.String("caller", c.caller))
	}
	if err == nil {
		c.server.log.LogAttrs(ctx, slog.LevelDebug, "call answered", attributes...)
		return nil
	}
	s := status.From(err, c.id)
	attributes = append(attributes, slog.String("code", s.Code().String()),
		slog.String("reason", status.ReasonOf(s)))
	level := levelOf(s.Code())
	if errors.Is(err,
		status.ErrDraining) { // each open stream has one: that is told once, with their number
		c.server.drained.Add(1)
		level = slog.LevelDebug
	}
	if level > slog.LevelInfo {
		attributes = append(attributes, slog.String("cause", err.Error()))
	}
	c.server.log.LogAttrs(ctx, level, "call refused", attributes...)
	return s.Err()
}

// tellWrites logs what a call has written into the ledger by itself, as owners log their writes. What callers write has no fencing token.
func (c *call) tellWrites(ctx context.Context, response any) {
	if !c.server.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	tell := func(event txn.Kind, tx *pb.Tx) {
		c.server.log.LogAttrs(ctx, slog.LevelDebug, "transaction moved",
			slog.String("submitter", tx.GetSubmitter()), slog.String("tx_id", tx.GetTxId()),
			slog.Int64("fencing_token", 0), slog.String("event", string(event)),
			slog.String("call", c.id))
	}
	switch r := response.(type) {
	case *pb.CreateTxResponse:
		if r.GetCreated() {
			tell(txn.EventQueued, r.GetTx())
		}
	case *pb.BatchCreateTxResponse:
		for _, one := range r.GetResults() {
			if one.GetCreated() {
				tell(txn.EventQueued, one.GetTx())
			}
		}
	case *pb.CancelTxResponse:
		if r.GetOutcome() == pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED {
			tell(txn.EventCancelled, r.GetTx())
		}
	}
}

// levelOf is how much an operator should care: callers' mistakes are no fault of the node.
func levelOf(code codes.Code) slog.Level {
	switch code {
	case codes.Internal, codes.Unknown:
		return slog.LevelError
	case codes.Unavailable:
		return slog.LevelWarn
	case codes.Canceled,
		codes.ResourceExhausted: // a burst must not fill the log as well: it is counted
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}
