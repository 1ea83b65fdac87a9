package server

import (
	"context"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ResolveStuck carries out an operator's decision on a STUCK transaction. A caller who repeats the decision that was carried out gets the transaction as it
// is now.
func (s *submitterService) ResolveStuck(ctx context.Context, r *pb.ResolveStuckRequest) (*pb.ResolveStuckResponse, error) {
	id, info, err := s.txByID(ctx, r.GetTxId())
	if err != nil {
		return nil, err
	}
	action := resolveOfWire(r.GetDecision())
	if resolved(info.Tx, action) {
		return &pb.ResolveStuckResponse{Tx: wireTx(info)}, nil
	}
	if info.State.Final() {
		return nil, onTx(r.GetTxId(), decline(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_DECISION_REFUSED,
			"it is %s, which is final; there is nothing to decide", info.State))
	}
	v, err := s.obtain(ctx, id.Submitter(), store.Ask{
		Kind: txn.CommandResolve, Tx: &id, Action: action, Expect: int64(r.GetExpectVersion()), Reason: r.GetReason(), Operator: r.GetOperator(),
	})
	if err != nil {
		return nil, onTx(r.GetTxId(), err)
	}
	if _, info, err = s.txByID(ctx, r.GetTxId()); err != nil {
		return nil, err
	}
	// The owner refuses a second command for what the first has done.
	if v.code != txn.Applied && !resolved(info.Tx, action) {
		return nil, onTx(r.GetTxId(), declined(v))
	}
	return &pb.ResolveStuckResponse{Tx: wireTx(info)}, nil
}

// resolved tells whether a decision is what became of a transaction. One that was put back into the queue and is STUCK again needs another decision.
func resolved(tx txn.Tx, action txn.Action) bool {
	if action == txn.ActionRequeue || action == txn.ActionRequeueUnproven {
		return tx.Requeued > 0 && tx.State != txn.Stuck
	}
	return tx.State == txn.Failed && tx.Executed == txn.No && tx.Reason == txn.ReasonNonceElsewhere
}
