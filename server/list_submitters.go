package server

import (
	"context"
	"regexp"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
)

// submitterName matches the names of the contract, and the empty name before the first page.
var submitterName = regexp.MustCompile(`^([a-z][a-z0-9._-]{0,63})?$`)

// ListSubmitters pages through submitters by name.
func (s *submitterService) ListSubmitters(ctx context.Context,
	r *pb.ListSubmittersRequest) (*pb.ListSubmittersResponse, error) {
	digest := filterDigest(&pb.ListSubmittersRequest{})
	last, err := parsePageToken(r.GetPageToken(), digest)
	if err != nil {
		return nil, err
	}
	if !submitterName.Match(last) {
		return nil, errPageToken()
	}
	size := pageSize(r.GetPageSize())
	// One more row shows whether there is another page.
	infos, err := s.store.Submitters(ctx, auth.RightsOf(ctx).Submitters(), string(last), size+1)
	if err != nil {
		return nil, status.About("submitters", err)
	}
	response := &pb.ListSubmittersResponse{}
	if len(infos) > size {
		infos = infos[:size]
		response.NextPageToken = pageToken(digest, []byte(infos[size-1].Name))
	}
	for _, info := range infos {
		response.Submitters = append(response.Submitters, wireSubmitter(info))
	}
	return response, nil
}
