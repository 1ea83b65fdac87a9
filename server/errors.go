package server

import (
	"context"
	"errors"
	"fmt"
	random "math/rand/v2"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

// errorDomain qualifies the reasons in google.rpc.ErrorInfo.
const errorDomain = "fencepost.dev"

var (
	errDraining   = errors.New("the node is stopping")
	errNotApplied = errors.New("no node has applied the request yet")
	errNoMethod   = errors.New("there is no such method")
)

// about names what an error is about, for the sentence that the caller reads.
type about struct {
	thing string
	err   error
}

func (a *about) Error() string { return a.thing + ": " + a.err.Error() }
func (a *about) Unwrap() error { return a.err }

func onSubmitter(name string, err error) error { return on(fmt.Sprintf("submitter %q", name), err) }
func onTx(id string, err error) error          { return on("transaction "+id, err) }
func onRequest(submitter, request string, err error) error {
	return on(fmt.Sprintf("request_id %q of submitter %q", request, submitter), err)
}

func noMethodOf(name string) error {
	return on(fmt.Sprintf("method %q", clip(name, longestField)), errNoMethod)
}

func on(thing string, err error) error {
	if err == nil {
		return nil
	}
	return &about{thing, err}
}

// violation is one thing that is wrong with a request.
type violation struct {
	field string // path as BadRequest has it
	says  string // what must hold, so that "field: says" is a sentence
}

// invalid refuses a request for what is in it.
type invalid struct {
	reason     pb.ErrorReason
	violations []violation
}

func (i *invalid) Error() string {
	says := make([]string, len(i.violations))
	for n, v := range i.violations {
		says[n] = v.field + ": " + v.says
	}
	return strings.Join(says, "; ")
}

func invalidField(field, format string, args ...any) error {
	return &invalid{
		pb.ErrorReason_ERROR_REASON_INVALID_FIELD,
		[]violation{{field, fmt.Sprintf(format, args...)}},
	}
}

func payloadTooLarge(size, limit int) error {
	return &invalid{pb.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE, []violation{{"payload.data",
		fmt.Sprintf(
			"is %d bytes and the limit of this server is %d; send less, or raise payload.max_bytes in its configuration",
			size, limit)}}}
}

func isKeyReused(err error) bool { return errors.Is(err, store.ErrKeyReused) }
func isProtected(err error) bool { return errors.Is(err, store.ErrProtected) }
func isStopped(err error) bool   { return isProtected(err) || errors.Is(err, store.ErrPaused) }

// declinedError is a decision that cannot be carried out as things stand; its sentence says why.
type declinedError struct{ answer }

func (d *declinedError) Error() string { return d.says }

func decline(code codes.Code, reason pb.ErrorReason, format string, args ...any) error {
	return &declinedError{answer{code: code, reason: reason, says: fmt.Sprintf(format, args...)}}
}

// answer is how an error is told.
type answer struct {
	is     error
	code   codes.Code
	reason pb.ErrorReason
	says   string // reason and remedy
	retry  time.Duration
}

// answers lists every error that callers are told the meaning of. The order matters only where an error wraps two of them.
var answers = []answer{
	{store.ErrTxNotFound, codes.NotFound, pb.ErrorReason_ERROR_REASON_TX_NOT_FOUND,
		"there is no such transaction; use the tx_id that it got when it was created, or the submitter and request_id that it was created with", 0},
	{store.ErrSubmitterNotFound, codes.NotFound, pb.ErrorReason_ERROR_REASON_SUBMITTER_NOT_FOUND,
		"there is no such submitter; register it, or correct the name", 0},
	{store.ErrKeyReused, codes.AlreadyExists, pb.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
		"it was used with another payload or other terms; send those unchanged to get its transaction, or use a new request_id for a new intent", 0},
	{store.ErrSubmitterExists, codes.AlreadyExists, pb.ErrorReason_ERROR_REASON_SUBMITTER_EXISTS,
		"the name or the account is registered with other settings; use those, or another name and account", 0},
	{store.ErrPaused, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_PAUSED,
		"it is paused and takes no new transactions; resume it, then repeat the call", 0},
	{store.ErrProtected, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_PROTECTED,
		"it is protected and takes no new transactions until an operator decides; look at its evidence, then repeat the call", 0},
	{store.ErrTokenExpired, codes.OutOfRange, pb.ErrorReason_ERROR_REASON_RESUME_TOKEN_EXPIRED,
		"it lies before what is kept, or before a restore of the ledger; watch anew without a token", 0},
	{errStranger, codes.Unauthenticated, pb.ErrorReason_ERROR_REASON_UNAUTHENTICATED,
		"it shows nothing that this node knows; send a token of its grpc.tokens_file, or of one of its callers, as \"authorization: Bearer TOKEN\", or show the certificate of a caller", 0},
	{errNoMethod, codes.Unimplemented, pb.ErrorReason_ERROR_REASON_UNKNOWN_METHOD,
		"this node has no such method; correct its name, or update the node", 0},
	{errDraining, codes.Unavailable, pb.ErrorReason_ERROR_REASON_DRAINING,
		"it is stopping; repeat the call, or resume the stream, and another node answers", 100 * time.Millisecond},
	{errManyCalls, codes.ResourceExhausted, pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		"it answers as many calls at once as it may (grpc.max_calls), and did nothing of this one; repeat the call unchanged later, or call another node", time.Second},
	{errManyWatches, codes.ResourceExhausted, pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		"it serves as many watches as it may (watch.max_streams); watch through another node, or repeat the call later", 5 * time.Second},
	{errUnread, codes.ResourceExhausted, pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		fmt.Sprintf(
			"answers of %d MiB wait to be read by this connection, and it did nothing of this call; read them, then repeat the call unchanged, or call with more than one connection",
			unreadBytes>>20), time.Second},
	{errManyLists, codes.ResourceExhausted, pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		"it answers as many lists of one connection at once as it may, those that are not read yet among them; read them, then repeat the call unchanged, or call with more than one connection", time.Second},
	{errManyHealth, codes.ResourceExhausted, pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		fmt.Sprintf(
			"it answers as many calls of health of one connection as it may (%d); end those that are not needed",
			healthCalls), 5 * time.Second},
	{store.ErrBusy, codes.ResourceExhausted, pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		"it holds as many new transactions on their way to the database as it may, and queued nothing of this call; repeat the call unchanged later", time.Second},
	{errNotApplied, codes.DeadlineExceeded, pb.ErrorReason_ERROR_REASON_NOT_YET_APPLIED,
		"the request is recorded, but no node has applied it yet; repeat the call to go on waiting, and check that a node works for the submitter", time.Second},
	{store.ErrSchema, codes.Unavailable, pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		"the schema of the database does not fit this server; run \"fencepost migrate up\", then repeat the call unchanged", 10 * time.Second},
	{store.ErrUnavailable, codes.Unavailable, pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		"the database cannot be reached, or the fate of a write is unknown; repeat the call unchanged: it cannot act twice", time.Second},
}

// statusOf turns an error into what the caller gets. id names the call in the log.
func statusOf(err error, id string) *status.Status {
	if s, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		return s.GRPCStatus() // of the transport, or of a service that is not ours
	}
	var bad *invalid
	if errors.As(err, &bad) {
		return statusOfInvalid(bad)
	}
	var no *declinedError
	if errors.As(err, &no) {
		return no.status(err)
	}
	// The caller gave up or ran out of time: that is no fault of anything, even if it made the database unreachable.
	switch {
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "call: the caller cancelled it")
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded,
			"call: its deadline passed before the ledger answered; repeat it unchanged")
	}
	for _, a := range answers {
		if errors.Is(err, a.is) {
			return a.status(err)
		}
	}
	return withDetails(
		status.New(codes.Internal,
			"call "+id+": it failed by a defect of the server; the log of the node has the cause under this id"),
		pb.ErrorReason_ERROR_REASON_INTERNAL,
		&errdetails.RequestInfo{RequestId: id},
	)
}

// status is the answer to an error.
func (a answer) status(err error) *status.Status {
	retry := a.retry
	if a.code == codes.ResourceExhausted { // those who are too many at once must not be it again
		retry += random.N(retry/2 + 1)
	}
	return withDetails(status.New(a.code, thing(err, a)+": "+a.says), a.reason, retryInfo(retry)...)
}

// thing is what the error is about, if the handler said so and it is the cause.
func thing(err error, a answer) string {
	switch a.reason {
	case pb.ErrorReason_ERROR_REASON_DRAINING, pb.ErrorReason_ERROR_REASON_NODE_BUSY:
		return "node"
	case pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE:
		return "ledger"
	case pb.ErrorReason_ERROR_REASON_RESUME_TOKEN_EXPIRED:
		return "resume_token"
	}
	var named *about
	if errors.As(err, &named) {
		return named.thing
	}
	return "call"
}

// An error travels in trailers, of which many clients read 8 KiB, and whoever gets more of them loses the connection. So no more is told at once than fits, however much
// is wrong and however long the names are that a caller gives to things.
const (
	mostViolations = 16
	mostTold       = 1200 // bytes of all, beyond the first
	longestField   = 200  // bytes
	longestSays    = 600
)

// told are the violations that are told, and whether they are all.
func (i *invalid) told() (*invalid, bool) {
	bytes, few := 0, &invalid{reason: i.reason}
	for n, v := range i.violations {
		v = violation{clip(v.field, longestField), clip(v.says, longestSays)}
		if bytes += len(v.field) + len(v.says); n == mostViolations || n > 0 && bytes > mostTold {
			return few, false
		}
		few.violations = append(few.violations, v)
	}
	return few, true
}

// clip shortens a text, and makes UTF-8 of it, without which no message can hold it.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func statusOfInvalid(bad *invalid) *status.Status {
	told, all := bad.told()
	violations := make([]*errdetails.BadRequest_FieldViolation, len(told.violations))
	for i, v := range told.violations {
		violations[i] = &errdetails.BadRequest_FieldViolation{
			Field:       v.field,
			Description: v.says,
			Reason:      reasonName(bad.reason),
		}
	}
	says := told.Error()
	if !all {
		says += "; and there is more, which is told once these are corrected"
	}
	return withDetails(status.New(codes.InvalidArgument, says), bad.reason,
		&errdetails.BadRequest{FieldViolations: violations})
}

func retryInfo(delay time.Duration) []protoadapt.MessageV1 {
	if delay == 0 {
		return nil
	}
	return []protoadapt.MessageV1{&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}}
}

func withDetails(s *status.Status, reason pb.ErrorReason,
	details ...protoadapt.MessageV1) *status.Status {
	info := &errdetails.ErrorInfo{Reason: reasonName(reason), Domain: errorDomain}
	full, err := s.WithDetails(append([]protoadapt.MessageV1{info}, details...)...)
	if err != nil {
		return s // only a message that cannot be marshalled: the sentence is still right
	}
	return full
}

// reasonName is the reason as ErrorInfo has it: without the prefix of the enum.
func reasonName(reason pb.ErrorReason) string {
	return strings.TrimPrefix(reason.String(), "ERROR_REASON_")
}

// reasonOf is the reason in a status; empty if it has none.
func reasonOf(s *status.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return info.GetReason()
		}
	}
	return ""
}
