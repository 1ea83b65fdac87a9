package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// CreateTx queues a transaction.
func (s *txService) CreateTx(ctx context.Context,
	r *pb.CreateTxRequest) (*pb.CreateTxResponse, error) {
	intent, err := s.intent(ctx, r)
	if err != nil {
		return nil, err
	}
	s.applyPolicy(ctx, &intent)
	info, created, err := s.store.CreateTx(ctx, intent)
	if err != nil {
		return nil, s.createError(ctx, r, intent.Submitter, err)
	}
	return &pb.CreateTxResponse{Tx: wireCreated(&info, r), Created: created}, nil
}

// createError maps an error of CreateTx to the resource at fault: key, deadline, queue or
// submitter.
func (s *txService) createError(ctx context.Context, r *pb.CreateTxRequest,
	submitter txn.SubmitterID, err error) error {
	if isKeyReused(err) {
		return aboutRequest(r.GetSubmitter(), r.GetPool(), r.GetRequestId(), err)
	}
	if errors.Is(err, store.ErrLate) {
		return status.InvalidField("terms.not_after",
			"is in the past, nothing was queued; "+
				"set a later time and keep the request_id")
	}
	if denied, ok := errors.AsType[*store.PolicyError](err); ok {
		caller := auth.RightsOf(ctx).Caller()
		s.metrics.deny(caller, denied.Rule, enforced)
		return status.AboutRequest(r.GetSubmitter(), r.GetRequestId(),
			status.PolicyDenied(caller, denied))
	}
	var full *store.QueueFullError
	if errors.As(err, &full) {
		s.metrics.refuse(pb.ErrorReason_ERROR_REASON_QUEUE_FULL)
		return aboutAccount(r.GetSubmitter(), r.GetPool(), status.QueueFull(full))
	}
	if isStopped(err) {
		err = s.stopped(ctx, submitter, err)
	}
	return aboutAccount(r.GetSubmitter(), r.GetPool(), err)
}

// aboutAccount attaches the submitter or the pool of a request.
func aboutAccount(submitter, pool string, err error) error {
	if pool != "" {
		return aboutPool(pool, err)
	}
	return status.AboutSubmitter(submitter, err)
}

// aboutRequest attaches the key of a request.
func aboutRequest(submitter, pool, requestID string, err error) error {
	if pool != "" {
		return status.About(fmt.Sprintf("request_id %q of pool %q", requestID, pool), err)
	}
	return status.AboutRequest(submitter, requestID, err)
}

// stopped returns first with the protection or pause that caused it. It returns first unchanged if
// that has ended meanwhile, or cannot be read.
func (s *txService) stopped(ctx context.Context, submitter txn.SubmitterID, first error) error {
	info, err := s.store.Submitter(ctx, submitter)
	if err != nil {
		return first
	}
	p := inForce(info)
	switch {
	case isProtected(first) && p != nil:
		return protectedError(info, p)
	case !isProtected(first) && info.Pause != nil:
		return pausedError(info, info.Pause)
	}
	return first
}

func protectedError(info store.SubmitterInfo, p *txn.Protected) error {
	return status.SubmitterProtected("protection %d (%s) is in force; "+
		"see \"fencepost submitter show %s\", exit the protection, then retry",
		p.ID,
		p.Reason,
		info.Name,
	)
}

// pausedError reports the cause only if the failure policy paused the account, since resuming
// without reading it defeats the policy. The reason of an operator is for operators only.
func pausedError(info store.SubmitterInfo, p *store.Pause) error {
	if !p.OnFailure {
		return status.SubmitterPaused("paused by an operator at %s; "+
			"see \"fencepost submitter show %s\", resume it, then retry",
			p.At.UTC().Format(time.RFC3339),
			info.Name,
		)
	}
	return status.SubmitterPaused("paused by its failure policy at %s: %s; "+
		"investigate the revert, resume it, then retry",
		p.At.UTC().Format(time.RFC3339),
		p.Reason,
	)
}

// intent applies the checks that the proto rules cannot express, and reports all violations at
// once.
func (s *txService) intent(ctx context.Context, r *pb.CreateTxRequest) (store.Intent, error) {
	if size := len(r.GetPayload().GetData()); size > s.payloadBytes {
		return store.Intent{}, status.PayloadTooLarge(size, s.payloadBytes)
	}
	payload, found := payloadOfWire(r.GetPayload())
	terms, more := terms(r.GetTerms())
	found = append(append(found, more...), accountViolations(r)...)
	if len(found) > 0 {
		return store.Intent{}, status.Invalid(found...)
	}
	submitter, pool, err := s.resolver.account(ctx, "", r.GetSubmitter(), r.GetPool())
	return store.Intent{
		Submitter: submitter,
		Pool:      pool,
		StickyKey: r.GetStickyKey(),
		RequestID: r.GetRequestId(),
		Payload:   payload,
		Terms:     terms,
		Labels:    r.GetLabels(),
		Caller:    auth.RightsOf(ctx).Caller(),

		TraceParent: traceParent(ctx),
	}, err
}

// accountViolations checks that a request names a submitter or a pool.
func accountViolations(r *pb.CreateTxRequest) (found []status.Violation) {
	switch {
	case r.GetPool() == "" && r.GetSubmitter() == "":
		found = append(found, status.Violation{Field: "submitter",
			Message: "is missing; set it, or set pool"})
	case r.GetPool() != "" && r.GetSubmitter() != "":
		found = append(found, status.Violation{Field: "pool",
			Message: "cannot be combined with submitter; set one of them"})
	case r.GetPool() == "" && r.GetStickyKey() != "":
		found = append(found, status.Violation{Field: "sticky_key",
			Message: "applies only to a pool; set pool, or omit sticky_key"})
	}
	return found
}

func payloadOfWire(p *pb.Payload) (out txn.Payload, found []status.Violation) {
	out = txn.Payload{Data: p.GetData(), GasLimit: p.GetGasLimit()}
	if p.GetTo() != "" {
		to, err := txn.ParseAddress(p.GetTo())
		if err != nil {
			found = append(found, status.Violation{Field: "payload.to", Message: err.Error()})
		}
		out.To = &to
	} else if len(out.Data) == 0 {
		found = append(found, status.Violation{Field: "payload.to",
			Message: "must name a recipient; " +
				"only a contract creation, with init code in data, may omit it"})
	}
	value, err := txn.ParseWei(p.GetValue())
	if err != nil {
		found = append(found, status.Violation{Field: "payload.value", Message: err.Error()})
	}
	out.Value = value
	if out.GasLimit > math.MaxInt64 {
		found = append(found, status.Violation{
			Field:   "payload.gas_limit",
			Message: "must be at most 9223372036854775807; set 0 to have it estimated",
		})
	}
	return out, found
}

func isKeyReused(err error) bool { return errors.Is(err, store.ErrKeyReused) }
func isProtected(err error) bool { return errors.Is(err, store.ErrProtected) }
func isStopped(err error) bool   { return isProtected(err) || errors.Is(err, store.ErrPaused) }
