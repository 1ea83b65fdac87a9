package server

import (
	"context"
	"encoding/binary"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
)

// ListCommands pages through what was asked of the owners of a submitter, newest first.
func (s *submitterService) ListCommands(ctx context.Context,
	r *pb.ListCommandsRequest) (*pb.ListCommandsResponse, error) {
	asked := question(&pb.ListCommandsRequest{Submitter: r.GetSubmitter()})
	last, err := parsePageToken(r.GetPageToken(), asked)
	if err != nil {
		return nil, err
	}
	before, err := commandOfToken(last)
	if err != nil {
		return nil, err
	}
	id, err := s.resolver.lookup(ctx, "submitter", r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	size := pageSize(r.GetPageSize())
	commands, err := s.store.Commands(ctx, id, before,
		size+1) // one more tells whether there is another page
	if err != nil {
		return nil, status.AboutSubmitter(r.GetSubmitter(), err)
	}
	response := &pb.ListCommandsResponse{}
	if len(commands) > size {
		commands = commands[:size]
		response.NextPageToken = pageToken(asked,
			binary.BigEndian.AppendUint64(nil, uint64(commands[size-1].ID)))
	}
	for _, c := range commands {
		response.Commands = append(response.Commands, wireCommand(c))
	}
	return response, nil
}

// commandOfToken is the number of the last command of the page before; 0 for the first page.
func commandOfToken(last []byte) (int64, error) {
	if last == nil {
		return 0, nil
	}
	if len(last) != 8 || int64(binary.BigEndian.Uint64(last)) <= 0 {
		return 0, errPageToken()
	}
	return int64(binary.BigEndian.Uint64(last)), nil
}
