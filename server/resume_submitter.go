package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// ResumeSubmitter ends a pause.
func (s *submitterService) ResumeSubmitter(ctx context.Context,
	r *pb.ResumeSubmitterRequest) (*pb.ResumeSubmitterResponse, error) {
	info, err := s.setStatus(ctx, statusCommand{
		submitter: r.GetSubmitter(),
		kind:      txn.CommandResume,
		status:    txn.Active,
		reason:    r.GetReason(),
		operator:  r.GetOperator(),
		expect:    r.GetPauseId(),
	})
	if err != nil {
		return nil, err
	}
	return &pb.ResumeSubmitterResponse{Submitter: wireSubmitter(info)}, nil
}
