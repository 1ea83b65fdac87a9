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
	done, err := s.resolved(ctx, info.Tx, action)
	if err != nil {
		return nil, onTx(r.GetTxId(), err)
	}
	if done {
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
	if v.code == txn.Applied {
		return &pb.ResolveStuckResponse{Tx: wireTx(info)}, nil
	}
	// The owner refuses a second command for what the first has done.
	if done, err = s.resolved(ctx, info.Tx, action); err == nil && !done {
		err = declined(v)
	}
	if err != nil {
		return nil, onTx(r.GetTxId(), err)
	}
	return &pb.ResolveStuckResponse{Tx: wireTx(info)}, nil
}

// resolved tells whether a decision was carried out. One that is STUCK again needs another decision. A RETRY leaves no trace in the transaction: what was asked
// of its owner tells.
func (s *Server) resolved(ctx context.Context, tx txn.Tx, action txn.Action) (bool, error) {
	if action != txn.ActionRetry {
		return became(tx, action), nil
	}
	if tx.State == txn.Stuck {
		return false, nil
	}
	command, err := s.lastCommand(ctx, tx.Submitter, func(c store.CommandInfo) bool {
		return c.Kind == txn.CommandResolve && c.Tx == tx.ID && c.Action == action && c.Result == txn.Applied
	})
	return command != nil, err
}

// became tells whether a decision is what became of a transaction.
func became(tx txn.Tx, action txn.Action) bool {
	if action == txn.ActionRequeue || action == txn.ActionRequeueUnproven {
		return tx.Requeued > 0 && tx.State != txn.Stuck
	}
	return tx.State == txn.Failed && tx.Executed == txn.No && tx.Reason == txn.ReasonNonceElsewhere
}
