package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
)

// GetSubmitter returns one submitter with the transactions that it waits for.
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
	submitter.Blocking = wireWaiting(blocking)
	submitter.QueueHead = wireWaiting(head)
	submitter.Gaps = wireGaps(gaps)
	return &pb.GetSubmitterResponse{Submitter: submitter}, nil
}
