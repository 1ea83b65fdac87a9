package status

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

// Errors of the API layer itself; package store has the errors of the ledger.
var (
	ErrDraining        = errors.New("the node is stopping")
	ErrNotApplied      = errors.New("no node has applied the request yet")
	ErrUnknownMethod   = errors.New("unknown method")
	ErrUnauthenticated = errors.New("unknown caller")
)

// aboutError attaches the resource that an error is about.
type aboutError struct {
	subject string
	err     error
}

func (a *aboutError) Error() string { return a.subject + ": " + a.err.Error() }
func (a *aboutError) Unwrap() error { return a.err }

// About attaches a subject to an error, for the message of its status; nil stays nil.
func About(subject string, err error) error {
	if err == nil {
		return nil
	}
	return &aboutError{subject, err}
}

// AboutSubmitter attaches the submitter that a client named.
func AboutSubmitter(name string, err error) error {
	return About(fmt.Sprintf("submitter %q", name), err)
}

// AboutTx attaches the tx_id that a client named.
func AboutTx(id string, err error) error { return About("transaction "+id, err) }

// AboutRequest attaches the submitter and request_id that a client named.
func AboutRequest(submitter, requestID string, err error) error {
	return About(fmt.Sprintf("request_id %q of submitter %q", requestID, submitter), err)
}

// UnknownMethod rejects a call of a method that this node does not have.
func UnknownMethod(name string) error {
	return About(fmt.Sprintf("method %q", Clip(name, MaxFieldBytes)), ErrUnknownMethod)
}

// refusedError is an error that brings its own mapping, because its message depends on the case.
type refusedError struct {
	mapping
	metadata map[string]string // of its ErrorInfo
}

func (r *refusedError) Error() string { return r.message }

func refuse(code codes.Code, reason pb.ErrorReason, format string, args []any) error {
	return &refusedError{
		mapping: mapping{code: code, reason: reason, message: fmt.Sprintf(format, args...)},
	}
}

// HashNotFound reports that no transaction has an attempt of this hash.
func HashNotFound(hash string) error {
	return About("transaction with hash "+hash,
		refuse(codes.NotFound, pb.ErrorReason_ERROR_REASON_TX_NOT_FOUND,
			"not found; check the hash, or use the tx_id", nil))
}

// PermissionDenied rejects a call that its caller has no right to make.
func PermissionDenied(format string, args ...any) error {
	return refuse(codes.PermissionDenied, pb.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		format, args)
}

// DecisionRefused rejects a decision that cannot be carried out in the present state.
func DecisionRefused(format string, args ...any) error {
	return refuse(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_DECISION_REFUSED,
		format, args)
}

// ProtectionChanged rejects a decision about a protection that is not in force.
func ProtectionChanged(format string, args ...any) error {
	return refuse(codes.Aborted, pb.ErrorReason_ERROR_REASON_PROTECTION_CHANGED, format, args)
}

// PauseChanged rejects the end of a pause that is not in force.
func PauseChanged(format string, args ...any) error {
	return refuse(codes.Aborted, pb.ErrorReason_ERROR_REASON_PAUSE_CHANGED, format, args)
}

// SubmitterProtected rejects a new transaction of a protected submitter.
func SubmitterProtected(format string, args ...any) error {
	return refuse(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_PROTECTED,
		format, args)
}

// SubmitterPaused rejects a new transaction of a paused submitter.
func SubmitterPaused(format string, args ...any) error {
	return refuse(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_PAUSED,
		format, args)
}

// AboutNonce attaches the nonce that a client named.
func AboutNonce(submitter string, nonce uint64, err error) error {
	return About(fmt.Sprintf("nonce %d of submitter %q", nonce, submitter), err)
}

// ReservationNotFound reports a reservation that the ledger does not have. A restore may have lost
// it while its client still holds the nonce.
func ReservationNotFound() error {
	return refuse(codes.NotFound, pb.ErrorReason_ERROR_REASON_NONCE_NOT_FOUND,
		"not found; correct its id. If the ledger was restored, sign nothing for it, and "+
			"report your transactions to an operator (docs/external.md)", nil)
}

// NonceAPIDisabled rejects a call of a service that is off.
func NonceAPIDisabled() error {
	return About("node", refuse(codes.FailedPrecondition,
		pb.ErrorReason_ERROR_REASON_NONCE_API_DISABLED,
		"serves no nonces; set nonce_api.enabled, or call another node", nil))
}

// SubmitterMode rejects a call that does not fit the mode of a submitter.
func SubmitterMode(format string, args ...any) error {
	return refuse(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_SUBMITTER_MODE, format,
		args)
}

// NonceState rejects a call that the state of a nonce does not allow.
func NonceState(format string, args ...any) error {
	return refuse(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_NONCE_STATE, format, args)
}

// nonceRetry is the delay before an allocation is worth a retry.
const nonceRetry = time.Second

// NoncesExhausted rejects an allocation for want of free nonces.
func NoncesExhausted(format string, args ...any) error {
	return &refusedError{mapping: mapping{
		code: codes.ResourceExhausted, reason: pb.ErrorReason_ERROR_REASON_NONCES_EXHAUSTED,
		message: fmt.Sprintf(format, args...), retry: nonceRetry,
	}}
}

// AccountNotReady rejects an allocation while the account cannot be compared with the ledger.
func AccountNotReady(format string, args ...any) error {
	return &refusedError{mapping: mapping{
		code: codes.Unavailable, reason: pb.ErrorReason_ERROR_REASON_ACCOUNT_NOT_READY,
		message: fmt.Sprintf(format, args...), retry: nonceRetry,
	}}
}

// NodeBusy rejects a call for want of room on the node. The client is asked to wait for retry, with
// jitter on top.
func NodeBusy(retry time.Duration, format string, args ...any) error {
	return &refusedError{mapping: mapping{
		code: codes.ResourceExhausted, reason: pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		message: fmt.Sprintf(format, args...), retry: retry,
	}}
}

// CallerLimited rejects a call that is beyond the share or the rate of its caller. The client is
// asked to wait for retry, with jitter on top.
func CallerLimited(retry time.Duration, format string, args ...any) error {
	return &refusedError{mapping: mapping{
		code: codes.ResourceExhausted, reason: pb.ErrorReason_ERROR_REASON_CALLER_LIMITED,
		message: fmt.Sprintf(format, args...), retry: retry,
	}}
}

// QueueFull rejects a new transaction because of a full queue, which it names.
func QueueFull(full *store.QueueFullError) error {
	where := fmt.Sprintf(
		"queue full: %d transactions queued, the limit of queue.max_per_submitter", full.Limit)
	if full.Ledger {
		where = fmt.Sprintf(
			"all queues full: %d transactions queued in total, the limit of queue.max_total",
			full.Limit)
	}
	if full.Share {
		where = fmt.Sprintf("queue holds its share of all queues (%d transactions in total, "+
			"the limit of queue.max_total)", full.Limit)
	}
	return &refusedError{mapping: mapping{
		code: codes.ResourceExhausted, reason: pb.ErrorReason_ERROR_REASON_QUEUE_FULL,
		retry:   full.RetryAfter,
		message: where + "; nothing was queued; retry the call unchanged later",
	}}
}

// AboutTxs attaches the transactions that an error concerns, at most MaxViolations of them.
func AboutTxs(ids []string, err error) error {
	if len(ids) == 1 {
		return AboutTx(ids[0], err)
	}
	more := ""
	if beyond := len(ids) - MaxViolations; beyond > 0 {
		more = fmt.Sprintf(" and %d more", beyond)
		ids = ids[:MaxViolations]
	}
	return About("transactions "+strings.Join(ids, ", ")+more, err)
}

// metadataLedger is the key of ErrorInfo's metadata with the ledger that has an account now.
const metadataLedger = "ledger"

// movedStatus rejects a request for an account that another ledger has.
func movedStatus(err error, moved *store.MovedError) *grpcstatus.Status {
	const reason = pb.ErrorReason_ERROR_REASON_SUBMITTER_MOVED
	m := mapping{code: codes.FailedPrecondition, reason: reason,
		message: fmt.Sprintf("moved to ledger %q, nothing was done here; send the request to a "+
			"node of that ledger", moved.Ledger)}
	return withInfo(grpcstatus.New(m.code, m.subject(err)+": "+m.message),
		&errdetails.ErrorInfo{Reason: ReasonName(reason), Domain: Domain,
			Metadata: map[string]string{metadataLedger: moved.Ledger}})
}

// MovedTo returns the ledger that an account has moved to; empty for other statuses.
func MovedTo(s *grpcstatus.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetMetadata()[metadataLedger]
		}
	}
	return ""
}

// LedgerUnavailable reports that some of several ledgers do not respond.
func LedgerUnavailable(names []string) error {
	return fmt.Errorf("%w: %w", &refusedError{mapping: mapping{
		code:   codes.Unavailable,
		reason: pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		message: strings.Join(names, ", ") + " does not respond, or the outcome of a write is " +
			"unknown; retry the call unchanged, which cannot apply it twice",
		retry: time.Second,
	}}, store.ErrUnavailable)
}
