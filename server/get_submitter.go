package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
)

// GetSubmitter tells all of one submitter.
func (s *submitterService) GetSubmitter(ctx context.Context,
	r *pb.GetSubmitterRequest) (*pb.GetSubmitterResponse, error) {
	id, err := s.resolver.lookup(ctx, "submitter", r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	info, err := s.store.Submitter(ctx, id)
	if err != nil {
		return nil, status.AboutSubmitter(r.GetSubmitter(), err)
	}
	blocking, head, gaps, err := s.store.Waiting(ctx, id)
	if err != nil {
		return nil, status.AboutSubmitter(r.GetSubmitter(), err)
	}
	submitter := wireSubmitter(info)
	submitter.Blocking, submitter.QueueHead, submitter.Gaps = wireWaiting(blocking),
		wireWaiting(head), wireGaps(gaps)
	return &pb.GetSubmitterResponse{Submitter: submitter}, nil
}
