package server

import (
	"context"
	"errors"
	"log/slog"

	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/accesslog"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// BatchCreateTx queues many transactions. Each request has its own result, also for a full queue.
// The call fails only if the ledger responds for none, so that clients retry it like any other.
func (s *txService) BatchCreateTx(ctx context.Context,
	r *pb.BatchCreateTxRequest) (*pb.BatchCreateTxResponse, error) {
	b := &batch{
		txService: s,
		requests:  r.GetRequests(),
		errs:      make([]error, len(r.GetRequests())),
		stops:     map[txn.SubmitterID]error{},
	}
	b.checkAll(ctx)
	created := b.create(ctx)
	if b.unanswered() {
		return nil, status.About("batch", b.errs[0])
	}
	response := &pb.BatchCreateTxResponse{Results: make([]*pb.BatchCreateTxResult, len(b.requests))}
	for i, err := range b.errs {
		if err != nil {
			response.Results[i] = &pb.BatchCreateTxResult{
				Result: &pb.BatchCreateTxResult_Error{Error: b.errorStatus(ctx, err).Proto()},
			}
			continue
		}
		response.Results[i] = &pb.BatchCreateTxResult{
			Result: &pb.BatchCreateTxResult_Tx{
				Tx: withoutData(wireCreated(&created[i].Info, b.requests[i])),
			},
			Created: created[i].Created,
		}
	}
	return response, nil
}

// withoutData omits the call data, which the client has, so that any batch's response fits.
func withoutData(tx *pb.Tx) *pb.Tx {
	tx.Payload.Data = nil
	return tx
}

// batch is a batch in progress. A request with an error is not processed further.
type batch struct {
	*txService
	requests []*pb.CreateTxRequest
	errs     []error
	intents  []store.Intent
	stops    map[txn.SubmitterID]error // error per protected or paused submitter
}

// checkAll performs for each request the checks of the interceptor and of CreateTx.
func (b *batch) checkAll(ctx context.Context) {
	b.intents = make([]store.Intent, len(b.requests))
	for i, request := range b.requests {
		if b.errs[i] = b.check(request); b.errs[i] == nil {
			b.intents[i], b.errs[i] = b.intent(ctx, request)
		}
		if b.errs[i] == nil {
			b.applyPolicy(ctx, &b.intents[i])
		}
	}
}

// create queues the requests without an error in one write.
func (b *batch) create(ctx context.Context) []*store.Created {
	left := make([]int, 0, len(b.requests))
	intents := make([]store.Intent, 0, len(b.requests))
	for i, err := range b.errs {
		if err == nil {
			left = append(left, i)
			intents = append(intents, b.intents[i])
		}
	}
	created := make([]*store.Created, len(b.requests))
	if len(left) == 0 {
		return created
	}
	results := b.store.CreateTxs(ctx, intents)
	for n := range results {
		i := left[n]
		if created[i] = &results[n]; created[i].Err != nil {
			b.errs[i] = b.createError(ctx, b.requests[i], b.intents[i].Submitter, created[i].Err)
		}
	}
	return created
}

func (b *batch) createError(ctx context.Context, ask *pb.CreateTxRequest, submitter txn.SubmitterID,
	err error) error {
	if !isStopped(err) {
		return b.txService.createError(ctx, ask, submitter, err)
	}
	if b.stops[submitter] == nil {
		b.stops[submitter] = b.stopped(ctx, submitter, err)
	}
	return status.AboutSubmitter(ask.GetSubmitter(), b.stops[submitter])
}

// unanswered reports whether the ledger responded for no request.
func (b *batch) unanswered() bool {
	for _, err := range b.errs {
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrBusy) &&
			!errors.Is(err, context.DeadlineExceeded) &&
			!errors.Is(err, context.Canceled) && !errors.Is(err, status.ErrDraining) {
			return false
		}
	}
	return true
}

// errorStatus returns the status of one request. An internal error is logged with its cause, by
// call id.
func (b *batch) errorStatus(ctx context.Context, err error) *grpcstatus.Status {
	c := b.access.Begin(pb.TxService_BatchCreateTx_FullMethodName)
	err = asDraining(ctx, err)
	if s := status.From(err, c.ID); accesslog.Level(s.Code()) < slog.LevelError {
		return s
	}
	return grpcstatus.Convert(c.End(ctx, nil, err))
}
