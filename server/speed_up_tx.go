package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// SpeedUpTx has a transaction replaced that is in flight. A caller who repeats the call while no owner has decided waits for the same command; one who repeats
// it later asks for another raise, which the fee caps bound.
func (s *txService) SpeedUpTx(ctx context.Context,
	r *pb.SpeedUpTxRequest) (*pb.SpeedUpTxResponse, error) {
	id, info, err := s.resolver.txByID(ctx, r.GetTxId())
	if err != nil {
		return nil, err
	}
	if says := nothingToSpeedUp(info.State); says != "" {
		return nil, status.AboutTx(
			r.GetTxId(),
			status.DecisionRefused("%s",
				says),
		)
	}
	v, err := s.commands.obtain(
		ctx,
		id.Submitter(),
		store.Ask{
			Kind:     txn.CommandSpeedUp,
			Tx:       &id,
			Reason:   r.GetReason(),
			Operator: r.GetOperator(),
		},
	)
	if err != nil {
		return nil, status.AboutTx(r.GetTxId(), err)
	}
	if v.code != txn.Applied {
		return nil, status.AboutTx(r.GetTxId(), declined(v))
	}
	if _, info, err = s.resolver.txByID(ctx, r.GetTxId()); err != nil {
		return nil, err
	}
	return &pb.SpeedUpTxResponse{Tx: wireTx(info)}, nil
}

// nothingToSpeedUp says why no owner needs to be asked; empty if one does.
func nothingToSpeedUp(state txn.State) string {
	switch {
	case state == txn.Queued:
		return "still QUEUED, with no fees to raise; retry once it is submitted"
	case state.Final():
		return "already final (" + string(state) + "); it cannot be replaced"
	}
	return ""
}
