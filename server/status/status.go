// Package status maps errors to gRPC statuses. It is the only place where an error becomes a code,
// a reason of the contract and a message, so no text of a database driver reaches a client. Every
// status made here carries an ErrorInfo with a reason of the ErrorReason enum, and its message names
// the subject, the cause and the remedy.
package status

import (
	"context"
	"errors"
	random "math/rand/v2"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

// Domain qualifies the reasons in google.rpc.ErrorInfo.
const Domain = "fencepost.dev"

// mapping is the status of an error.
type mapping struct {
	is      error
	code    codes.Code
	reason  pb.ErrorReason
	message string // cause and remedy; the subject is put before it
	retry   time.Duration
}

// mappings lists every error that has a reason of its own. The order matters only for an error that
// wraps two of them.
var mappings = []mapping{
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
	{ErrUnauthenticated, codes.Unauthenticated, pb.ErrorReason_ERROR_REASON_UNAUTHENTICATED,
		"it shows nothing that this node knows; send a token of its grpc.tokens_file, or of one of its callers, as \"authorization: Bearer TOKEN\", or show the certificate of a caller", 0},
	{ErrUnknownMethod, codes.Unimplemented, pb.ErrorReason_ERROR_REASON_UNKNOWN_METHOD,
		"this node has no such method; correct its name, or update the node", 0},
	{ErrDraining, codes.Unavailable, pb.ErrorReason_ERROR_REASON_DRAINING,
		"it is stopping; repeat the call, or resume the stream, and another node answers", 100 * time.Millisecond},
	{store.ErrBusy, codes.ResourceExhausted, pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		"it holds as many new transactions on their way to the database as it may, and queued nothing of this call; repeat the call unchanged later", time.Second},
	{ErrNotApplied, codes.DeadlineExceeded, pb.ErrorReason_ERROR_REASON_NOT_YET_APPLIED,
		"the request is recorded, but no node has applied it yet; repeat the call to go on waiting, and check that a node works for the submitter", time.Second},
	{store.ErrSchema, codes.Unavailable, pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		"the schema of the database does not fit this server; run \"fencepost migrate up\", then repeat the call unchanged", 10 * time.Second},
	{store.ErrUnavailable, codes.Unavailable, pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		"the database cannot be reached, or the fate of a write is unknown; repeat the call unchanged: it cannot act twice", time.Second},
}

// From returns the status of an error. An error without a mapping is INTERNAL, and its message
// names only callID, under which the node logs the cause.
func From(err error, callID string) *grpcstatus.Status {
	if s, ok := err.(interface{ GRPCStatus() *grpcstatus.Status }); ok {
		return s.GRPCStatus() // of the transport, or of a service that is not ours
	}
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return invalid.status()
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused.status(err)
	}
	// A call that the client ended is nobody's fault, even if that made the database unreachable.
	switch {
	case errors.Is(err, context.Canceled):
		return grpcstatus.New(codes.Canceled, "call: the caller cancelled it")
	case errors.Is(err, context.DeadlineExceeded):
		return grpcstatus.New(codes.DeadlineExceeded,
			"call: its deadline passed before the ledger answered; repeat it unchanged")
	}
	for _, m := range mappings {
		if errors.Is(err, m.is) {
			return m.status(err)
		}
	}
	return WithReason(
		grpcstatus.New(codes.Internal, "call "+callID+": it failed by a defect of the server; "+
			"the log of the node has the cause under this id"),
		pb.ErrorReason_ERROR_REASON_INTERNAL,
		&errdetails.RequestInfo{RequestId: callID},
	)
}

// status applies the mapping to an error. Retry delays of RESOURCE_EXHAUSTED have jitter, so that
// rejected clients do not all come back at the same moment.
func (m mapping) status(err error) *grpcstatus.Status {
	retry := m.retry
	if m.code == codes.ResourceExhausted {
		retry += random.N(retry/2 + 1)
	}
	return WithReason(grpcstatus.New(m.code, m.subject(err)+": "+m.message), m.reason,
		retryInfo(retry)...)
}

// subject names the resource that the error is about: the one that the handler attached, unless the
// cause lies elsewhere.
func (m mapping) subject(err error) string {
	switch m.reason {
	case pb.ErrorReason_ERROR_REASON_DRAINING, pb.ErrorReason_ERROR_REASON_NODE_BUSY:
		return "node"
	case pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE:
		return "ledger"
	case pb.ErrorReason_ERROR_REASON_RESUME_TOKEN_EXPIRED:
		return "resume_token"
	}
	var about *aboutError
	if errors.As(err, &about) {
		return about.subject
	}
	return "call"
}

func retryInfo(delay time.Duration) []protoadapt.MessageV1 {
	if delay == 0 {
		return nil
	}
	return []protoadapt.MessageV1{&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}}
}

// WithReason adds an ErrorInfo with the reason, and the other details, to a status.
func WithReason(s *grpcstatus.Status, reason pb.ErrorReason,
	details ...protoadapt.MessageV1) *grpcstatus.Status {
	info := &errdetails.ErrorInfo{Reason: ReasonName(reason), Domain: Domain}
	full, err := s.WithDetails(append([]protoadapt.MessageV1{info}, details...)...)
	if err != nil {
		return s // the details cannot be marshalled; code and message are still right
	}
	return full
}

// ReasonName returns the reason as ErrorInfo spells it: without the prefix of the enum.
func ReasonName(reason pb.ErrorReason) string {
	return strings.TrimPrefix(reason.String(), "ERROR_REASON_")
}

// ReasonOf returns the reason of a status, or "" if it has none.
func ReasonOf(s *grpcstatus.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info.GetReason()
		}
	}
	return ""
}
