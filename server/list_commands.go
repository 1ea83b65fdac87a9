package server

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
)

// ListCommands pages through the commands of a submitter, or of all, newest first.
func (s *submitterService) ListCommands(ctx context.Context,
	r *pb.ListCommandsRequest) (*pb.ListCommandsResponse, error) {
	digest := commandsDigest(r)
	last, err := parsePageToken(r.GetPageToken(), digest)
	if err != nil {
		return nil, err
	}
	before, err := commandOfToken(last)
	if err != nil {
		return nil, err
	}
	size := pageSize(r.GetPageSize())
	// One more row shows whether there is another page.
	commands, err := s.commandsOf(ctx, r.GetSubmitter(), before, size+1)
	if err != nil {
		return nil, err
	}
	response := &pb.ListCommandsResponse{}
	if len(commands) > size {
		commands = commands[:size]
		response.NextPageToken = pageToken(digest,
			binary.BigEndian.AppendUint64(nil, uint64(commands[size-1].ID)))
	}
	for _, c := range commands {
		response.Commands = append(response.Commands, wireCommand(c))
	}
	return response, nil
}

// commandsDigest returns the digest of a filter.
func commandsDigest(r *pb.ListCommandsRequest) []byte {
	return filterDigest(&pb.ListCommandsRequest{Submitter: r.GetSubmitter()})
}

// commandsOf reads the commands of one submitter, or of all of the caller.
func (s *submitterService) commandsOf(ctx context.Context, submitter string, before int64,
	limit int) ([]store.CommandInfo, error) {
	if submitter == "" {
		all, err := s.allCommands(ctx, before, limit)
		return all, status.About("commands", err)
	}
	id, err := s.resolver.lookup(ctx, "submitter", submitter)
	if err != nil {
		return nil, err
	}
	commands, err := s.store.Commands(ctx, id, before, limit)
	return commands, status.AboutSubmitter(submitter, err)
}

// allCommands merges the commands of the caller's submitters with the decisions about sinks, which
// concern all submitters.
func (s *submitterService) allCommands(ctx context.Context, before int64,
	limit int) ([]store.CommandInfo, error) {
	rights := auth.RightsOf(ctx)
	all, err := s.store.AllCommands(ctx, rights.Submitters(), before, limit)
	if err != nil || !rights.Operator() || rights.Submitters() != nil {
		return all, err
	}
	sinks, err := s.store.SinkCommands(ctx, before, limit)
	if err != nil {
		return nil, err
	}
	all = append(all, sinks...)
	slices.SortFunc(all, func(a, b store.CommandInfo) int { return cmp.Compare(b.ID, a.ID) })
	return all[:min(len(all), limit)], nil
}

// commandOfToken returns the id of the last command of the previous page; 0 for the first page.
func commandOfToken(last []byte) (int64, error) {
	if last == nil {
		return 0, nil
	}
	if len(last) != 8 || int64(binary.BigEndian.Uint64(last)) <= 0 {
		return 0, errPageToken()
	}
	return int64(binary.BigEndian.Uint64(last)), nil
}
