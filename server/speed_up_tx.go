package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// SpeedUpTx has the owner replace an in-flight transaction. A retry while the command is pending
// waits for the same command; a later one requests another bump, which the fee caps bound.
func (s *txService) SpeedUpTx(ctx context.Context,
	r *pb.SpeedUpTxRequest) (*pb.SpeedUpTxResponse, error) {
	id, info, err := s.resolver.txByID(ctx, r.GetTxId())
	if err != nil {
		return nil, err
	}
	if cause := nothingToSpeedUp(info.State); cause != "" {
		return nil, status.AboutTx(r.GetTxId(), status.DecisionRefused("%s", cause))
	}
	v, err := s.commands.obtain(ctx, id.Submitter(), store.Ask{
		Kind:     txn.CommandSpeedUp,
		Tx:       &id,
		Reason:   r.GetReason(),
		Operator: r.GetOperator(),
	})
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

// nothingToSpeedUp returns why the state rules out a replacement; empty if the owner decides.
func nothingToSpeedUp(state txn.State) string {
	switch {
	case state == txn.Queued:
		return "still QUEUED, with no fees to raise; retry once it is submitted"
	case state.Final():
		return "already final (" + string(state) + "); it cannot be replaced"
	}
	return ""
}
