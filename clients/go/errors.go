package fencepost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// errorDomain qualifies the reasons of Fencepost in google.rpc.ErrorInfo.
const errorDomain = "fencepost.dev"

// Error is why a call failed.
//
//	var e *fencepost.Error
//	if errors.As(err, &e) && e.Reason == pb.ErrorReason_ERROR_REASON_SUBMITTER_PAUSED { ... }
type Error struct {
	// Code is the class of the error.
	Code codes.Code
	// Reason is what exactly; UNSPECIFIED if the error is not a node's (no connection, a deadline, a proxy in between), or this client does not know it.
	Reason pb.ErrorReason
	// ReasonName is the reason as the node wrote it, "SUBMITTER_PAUSED" for example; empty if the error is not a node's.
	ReasonName string
	// Message says what is wrong with what, and the remedy: for people.
	Message string
	// RetryAfter is when to repeat the call at the earliest; 0 if the node does not say.
	RetryAfter time.Duration
	// RequestID names the call in the node's log; empty unless the error is a defect of the node.
	RequestID string
	// Violations are the fields of the request that are wrong.
	Violations []Violation

	status *status.Status
	// own says that the client itself made the error: nothing went over a connection, or the caller wanted no more.
	own bool
}

// ErrClosed is why a call or a watch fails whose client is closed; [errors.Is] finds it. A transaction that was created before goes on.
var ErrClosed error = &Error{
	Code:    codes.Canceled,
	Message: closedMessage,
	status:  status.New(codes.Canceled, closedMessage),
	own:     true,
}

const closedMessage = "the client is closed; connect another one"

// Violation is one thing that is wrong with a request.
type Violation struct {
	Field       string // path in the request, for example "payload.to"
	Description string // what must hold
}

func (v Violation) String() string { return v.Field + ": " + v.Description }

func (e *Error) Error() string {
	if e.ReasonName == "" {
		return fmt.Sprintf("fencepost: %s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("fencepost: %s (%s): %s", e.Code, e.ReasonName, e.Message)
}

// GRPCStatus is the error as gRPC has it, with all details: [status.FromError] finds it.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Resumable tells whether a watch that fails with the error goes on with another stream, as [Client.Watch] does: a node that cannot go on, or has no room now, and
// whatever the network and what stands in it make of a lost connection. Any other answer of a node is an answer; and what the client says by itself stays so: it is closed, the context of the caller ended, or the request
// cannot be encoded.
func (e *Error) Resumable() bool {
	if e.own {
		return false
	}
	switch e.Code {
	case codes.Unavailable:
		return true
	case codes.ResourceExhausted:
		return e.RetryAfter > 0
	case codes.Internal, codes.Unknown, codes.Canceled, codes.Aborted:
		return e.ReasonName == ""
	}
	return false
}

// ErrorOf makes an Error of what stubs over a connection of one's own return; those of a [Client] return Errors. What did not come from a call is UNKNOWN, and nil
// is none.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	return typed(err)
}

// typedIn types an error of a stream with the context of its caller; its end is none.
func typedIn(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	e := typed(err)
	if !e.own && ownEnd(ctx, e) {
		e.own = true
	}
	return e
}

func typed(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	s, told := status.FromError(err)
	if !told {
		s = status.FromContextError(err)
	}
	e := &Error{Code: s.Code(), Message: s.Message(), status: s, own: !told}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == errorDomain {
				e.ReasonName = d.GetReason()
				e.Reason = pb.ErrorReason(pb.ErrorReason_value["ERROR_REASON_"+d.GetReason()])
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = max(0, d.GetRetryDelay().AsDuration())
		case *errdetails.RequestInfo:
			e.RequestID = d.GetRequestId()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{v.GetField(), v.GetDescription()})
			}
		}
	}
	return e
}
