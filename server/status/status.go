// Package status maps errors to gRPC statuses. It is the only place where an error becomes a code,
// a reason of the contract and a message, so no text of a database driver reaches a client. Every
// status made here carries an ErrorInfo with a reason of the ErrorReason enum, and its message
// names the subject, the cause and the remedy.
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
		"not found; use its tx_id, " +
			"or the submitter and request_id it was created with", 0},
	{store.ErrSubmitterNotFound, codes.NotFound, pb.ErrorReason_ERROR_REASON_SUBMITTER_NOT_FOUND,
		"not found; correct the name, or register it", 0},
	{store.ErrPoolNotFound, codes.NotFound, pb.ErrorReason_ERROR_REASON_POOL_NOT_FOUND,
		"not found; correct the name, or create it", 0},
	{store.ErrPoolExists, codes.AlreadyExists, pb.ErrorReason_ERROR_REASON_POOL_EXISTS,
		"exists on another chain or in another ledger; use another name", 0},
	{store.ErrPoolEmpty, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_POOL_EMPTY,
		"has no active member, nothing was queued; add an account to it, then retry", 0},
	{store.ErrPoolStopped, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_POOL_STOPPED,
		"all its members are paused, protected or in mode external, nothing was queued; " +
			"resume one or exit its protection, or add an account, then retry", 0},
	{store.ErrPoolChain, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_DECISION_REFUSED,
		"the account is on another chain; add accounts of the pool's chain only", 0},
	{store.ErrPoolMode, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_MODE,
		"in mode EXTERNAL, where clients sign; add an account in mode strict or pipelined", 0},
	{store.ErrPoolMember, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_DECISION_REFUSED,
		"the account is not a member; see \"fencepost pool show\"", 0},
	{store.ErrSinkNotFound, codes.NotFound, pb.ErrorReason_ERROR_REASON_SINK_NOT_FOUND,
		"not found; correct the name, or add it to the node configuration", 0},
	{store.ErrNotParked, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_DECISION_REFUSED,
		"waits for no retry; list the undelivered events again", 0},
	{store.ErrNonceNotFound, codes.NotFound, pb.ErrorReason_ERROR_REASON_NONCE_NOT_FOUND,
		"not found: it was never reserved; ListNonces lists the nonces of the submitter", 0},
	{store.ErrMode, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_MODE,
		"in mode EXTERNAL, where clients sign; reserve a nonce with AllocateNonce and send with " +
			"SubmitSigned", 0},
	{store.ErrKeyReused, codes.AlreadyExists, pb.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
		"already used with a different payload or terms; resend the original " +
			"to get its transaction, or use a new request_id", 0},
	{store.ErrSubmitterExists, codes.AlreadyExists, pb.ErrorReason_ERROR_REASON_SUBMITTER_EXISTS,
		"name or account already registered with different settings; " +
			"use the same settings, or another name and account", 0},
	{store.ErrPaused, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_PAUSED,
		"paused, accepts no new transactions; resume it, then retry", 0},
	{store.ErrProtected, codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_PROTECTED,
		"protected, accepts no new transactions; review the evidence and " +
			"exit the protection, then retry", 0},
	{store.ErrTokenExpired, codes.OutOfRange, pb.ErrorReason_ERROR_REASON_RESUME_TOKEN_EXPIRED,
		"older than the retained events, or from before a ledger restore; " +
			"start a new watch without a token", 0},
	{store.ErrTrimmed, codes.OutOfRange, pb.ErrorReason_ERROR_REASON_RESUME_TOKEN_EXPIRED,
		"events after it were archived and removed; " +
			"start a new watch without a token, and read older events in the archive", 0},
	{ErrUnauthenticated, codes.Unauthenticated, pb.ErrorReason_ERROR_REASON_UNAUTHENTICATED,
		"credentials are missing or unknown; send \"authorization: Bearer TOKEN\" with a " +
			"configured token, or use the client certificate of a configured caller", 0},
	{ErrUnknownMethod, codes.Unimplemented, pb.ErrorReason_ERROR_REASON_UNKNOWN_METHOD,
		"unknown method; correct the name, or update the node", 0},
	{ErrDraining, codes.Unavailable, pb.ErrorReason_ERROR_REASON_DRAINING,
		"shutting down; retry the call, or resume the stream, on another node",
		100 * time.Millisecond},
	{store.ErrBusy, codes.ResourceExhausted, pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		"too many pending database operations; nothing was queued; " +
			"retry the call unchanged later", time.Second},
	{ErrNotApplied, codes.DeadlineExceeded, pb.ErrorReason_ERROR_REASON_NOT_YET_APPLIED,
		"recorded, but not yet applied by a node; retry the call to keep waiting, " +
			"and check that a node owns the submitter", time.Second},
	{store.ErrDirectory, codes.Unavailable, pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		"the directory of ledgers is unreachable, or does not have this ledger; only " +
			"registrations need it; see docs/ledgers.md, then retry", 10 * time.Second},
	{store.ErrSchema, codes.Unavailable, pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		"database schema does not match this server; run \"fencepost migrate up\", " +
			"then retry the call unchanged", 10 * time.Second},
	{store.ErrUnavailable, codes.Unavailable, pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		"database unreachable, or the outcome of a write is unknown; " +
			"retry the call unchanged, which cannot apply it twice", time.Second},
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
		return refused.status(err, refused.metadata)
	}
	if moved, ok := errors.AsType[*store.MovedError](err); ok {
		return movedStatus(err, moved)
	}
	// A call that the client ended is not a fault, even if that made the database unreachable.
	switch {
	case errors.Is(err, context.Canceled):
		return grpcstatus.New(codes.Canceled, "call: cancelled by the client")
	case errors.Is(err, context.DeadlineExceeded):
		return grpcstatus.New(codes.DeadlineExceeded,
			"call: deadline exceeded before the ledger responded; retry the call unchanged")
	}
	for _, m := range mappings {
		if errors.Is(err, m.is) {
			return m.status(err, nil)
		}
	}
	return WithReason(
		grpcstatus.New(codes.Internal, "call "+callID+": internal error; search the node's log "+
			"for this id"),
		pb.ErrorReason_ERROR_REASON_INTERNAL,
		&errdetails.RequestInfo{RequestId: callID},
	)
}

// status applies the mapping to an error. Retry delays of RESOURCE_EXHAUSTED have jitter, so that
// rejected clients do not all come back at the same moment.
func (m mapping) status(err error, metadata map[string]string) *grpcstatus.Status {
	retry := m.retry
	if m.code == codes.ResourceExhausted {
		retry += random.N(retry/2 + 1)
	}
	return withInfo(grpcstatus.New(m.code, m.subject(err)+": "+m.message),
		&errdetails.ErrorInfo{Reason: ReasonName(m.reason), Domain: Domain, Metadata: metadata},
		retryInfo(retry)...)
}

// subject names the resource that the error is about: the one that the handler attached, unless the
// cause lies elsewhere.
func (m mapping) subject(err error) string {
	switch m.reason {
	case pb.ErrorReason_ERROR_REASON_DRAINING, pb.ErrorReason_ERROR_REASON_NODE_BUSY:
		return "node"
	case pb.ErrorReason_ERROR_REASON_CALLER_LIMITED:
		return "caller"
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
	return withInfo(s, &errdetails.ErrorInfo{Reason: ReasonName(reason), Domain: Domain},
		details...)
}

func withInfo(s *grpcstatus.Status, info *errdetails.ErrorInfo,
	details ...protoadapt.MessageV1) *grpcstatus.Status {
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
