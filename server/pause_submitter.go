package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// PauseSubmitter stops the assignment of new nonces.
func (s *submitterService) PauseSubmitter(ctx context.Context,
	r *pb.PauseSubmitterRequest) (*pb.PauseSubmitterResponse, error) {
	info, err := s.setStatus(ctx, statusCommand{
		submitter: r.GetSubmitter(),
		kind:      txn.CommandPause,
		status:    txn.Paused,
		reason:    r.GetReason(),
		operator:  r.GetOperator(),
	})
	if err != nil {
		return nil, err
	}
	return &pb.PauseSubmitterResponse{Submitter: wireSubmitter(info)}, nil
}
