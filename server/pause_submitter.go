package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// PauseSubmitter stops the taking of new nonces.
func (s *submitterService) PauseSubmitter(ctx context.Context,
	r *pb.PauseSubmitterRequest) (*pb.PauseSubmitterResponse, error) {
	info, err := s.demand(ctx,
		demand{r.GetSubmitter(), txn.CommandPause, txn.Paused, r.GetReason(), r.GetOperator()})
	if err != nil {
		return nil, err
	}
	return &pb.PauseSubmitterResponse{Submitter: wireSubmitter(info)}, nil
}
