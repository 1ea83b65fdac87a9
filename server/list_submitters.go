package server

import (
	"context"
	"regexp"
	"slices"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
)

// submitterName matches the names of the contract, and the empty name before the first page.
var submitterName = regexp.MustCompile(`^([a-z][a-z0-9._-]{0,63})?$`)

// ListSubmitters pages through submitters by name.
func (s *submitterService) ListSubmitters(ctx context.Context,
	r *pb.ListSubmittersRequest) (*pb.ListSubmittersResponse, error) {
	digest := submittersDigest(r)
	last, err := parsePageToken(r.GetPageToken(), digest)
	if err != nil {
		return nil, err
	}
	if !submitterName.Match(last) {
		return nil, errPageToken()
	}
	size := pageSize(r.GetPageSize())
	// One more row shows whether there is another page.
	infos, err := s.listed(ctx, r, string(last), size+1)
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

// submittersDigest returns the digest of a filter.
func submittersDigest(r *pb.ListSubmittersRequest) []byte {
	return filterDigest(&pb.ListSubmittersRequest{Conditions: sortedConditions(r)})
}

// listed reads the submitters of one page.
func (s *submitterService) listed(ctx context.Context, r *pb.ListSubmittersRequest, last string,
	limit int) ([]store.SubmitterInfo, error) {
	own := auth.RightsOf(ctx).Submitters()
	if len(r.GetConditions()) == 0 {
		return s.store.Submitters(ctx, own, last, limit)
	}
	var in store.Conditions
	for _, c := range r.GetConditions() {
		switch c {
		case pb.SubmitterCondition_SUBMITTER_CONDITION_PROTECTED:
			in.Protected = true
		case pb.SubmitterCondition_SUBMITTER_CONDITION_PAUSED:
			in.Paused = true
		case pb.SubmitterCondition_SUBMITTER_CONDITION_UNFUNDED:
			in.Unfunded = true
		case pb.SubmitterCondition_SUBMITTER_CONDITION_NONCE_NEEDS_OPERATOR:
			in.Nonces = true
		}
	}
	return s.store.SubmittersIn(ctx, in, own, last, limit)
}

// sortedConditions returns the conditions of a request in one order, since their order and
// repetitions do not matter.
func sortedConditions(r *pb.ListSubmittersRequest) []pb.SubmitterCondition {
	return slices.Compact(slices.Sorted(slices.Values(r.GetConditions())))
}
