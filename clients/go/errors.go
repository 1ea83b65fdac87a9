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

// errorDomain is the domain of Fencepost's reasons in google.rpc.ErrorInfo.
const errorDomain = "fencepost.dev"

// Error is the error of a failed call.
//
//	var e *fencepost.Error
//	if errors.As(err, &e) && e.Reason == pb.ErrorReason_ERROR_REASON_SUBMITTER_PAUSED { ... }
type Error struct {
	// Code is the gRPC code.
	Code codes.Code
	// Reason is the exact reason. UNSPECIFIED if the error does not come from a node (no
	// connection, a deadline, a proxy), or the client is too old to know it.
	Reason pb.ErrorReason
	// ReasonName is the reason as sent by the node, such as "SUBMITTER_PAUSED"; empty if the error
	// does not come from a node.
	ReasonName string
	// Message describes the problem and the remedy to people.
	Message string
	// RetryAfter is the minimum delay before a retry; 0 if the node sent none.
	RetryAfter time.Duration
	// RequestID identifies the call in the node's log; set only for a defect of the node.
	RequestID string
	// Violations lists the invalid fields of the request.
	Violations []Violation

	status *status.Status
	// own marks an error made by the client: nothing was sent, or the caller ended the call.
	own bool
}

// ErrClosed is the error of calls and watches of a closed client; use [errors.Is]. A transaction
// created before continues.
var ErrClosed error = &Error{
	Code:    codes.Canceled,
	Message: closedMessage,
	status:  status.New(codes.Canceled, closedMessage),
	own:     true,
}

const closedMessage = "the client is closed; connect another one"

// Violation is one invalid field of a request.
type Violation struct {
	Field       string // path in the request, for example "payload.to"
	Description string // the rule it breaks
}

func (v Violation) String() string { return v.Field + ": " + v.Description }

func (e *Error) Error() string {
	if e.ReasonName == "" {
		return fmt.Sprintf("fencepost: %s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("fencepost: %s (%s): %s", e.Code, e.ReasonName, e.Message)
}

// GRPCStatus returns the gRPC status with all details, for [status.FromError].
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Resumable reports whether a watch can resume after the error, as [Client.Watch] does: the node is
// unavailable or overloaded, or the connection was lost. Other errors from a node are final. So are
// errors from the client itself: it is closed, the caller's context ended, or the request cannot be
// encoded.
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

// ErrorOf converts an error of a stub on another connection; a [Client] returns Errors already. An
// error that does not come from a call is UNKNOWN. ErrorOf returns nil for nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	return typed(err)
}

// typedIn converts an error of a stream with the context of its caller. It keeps io.EOF.
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
	s, fromCall := status.FromError(err)
	if !fromCall {
		s = status.FromContextError(err)
	}
	e := &Error{Code: s.Code(), Message: s.Message(), status: s, own: !fromCall}
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
