package server

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// UpdateSubmitter changes the policies that the mask names. The owner is told even when nothing changes: the call before may have written them and been lost
// before it told the owner.
func (s *submitterService) UpdateSubmitter(ctx context.Context,
	r *pb.UpdateSubmitterRequest) (*pb.UpdateSubmitterResponse, error) {
	change, err := changes(r)
	if err != nil {
		return nil, err
	}
	id, err := s.resolver.lookup(ctx, "submitter", r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	info, err := s.updated(ctx, id, change,
		store.Ask{Kind: txn.CommandUpdate, Reason: r.GetReason(), Operator: r.GetOperator()})
	if err != nil {
		return nil, status.AboutSubmitter(r.GetSubmitter(), err)
	}
	return &pb.UpdateSubmitterResponse{Submitter: wireSubmitter(info)}, nil
}

func (s *submitterService) updated(ctx context.Context, id txn.SubmitterID, change store.PolicyChange,
	ask store.Ask) (info store.SubmitterInfo, err error) {
	if err = s.store.SetPolicies(ctx, id, change); err != nil {
		return info, err
	}
	// A command that is under way already does: its owner reads the policies after it has recorded that, and so after they were written here.
	v, err := s.commands.obtain(ctx, id, ask)
	if err != nil {
		return info, err
	}
	if v.code != txn.Applied {
		return info, declined(v)
	}
	return s.store.Submitter(ctx, id)
}

// maskRemedy names what a mask may hold.
const maskRemedy = "name on_failure, max_fee, or both; in JSON these are onFailure and maxFee, with a comma between them"

// judged is a request without the policies that its mask does not name: callers may send back all that they have read.
func judged(request proto.Message) proto.Message {
	r, ok := request.(*pb.UpdateSubmitterRequest)
	if !ok {
		return request
	}
	r = proto.CloneOf(r)
	if named := r.GetUpdateMask().GetPaths(); len(named) > 0 {
		if !slices.Contains(named, "on_failure") {
			r.OnFailure = pb.FailurePolicy_FAILURE_POLICY_UNSPECIFIED
		}
		if !slices.Contains(named, "max_fee") {
			r.MaxFee = ""
		}
	}
	return r
}

// changes is what a request does to the policies of a submitter: to those alone that its mask names.
func changes(r *pb.UpdateSubmitterRequest) (change store.PolicyChange, err error) {
	paths := r.GetUpdateMask().GetPaths()
	if len(paths) == 0 {
		return change, status.InvalidField("update_mask", "names nothing to change; %s", maskRemedy)
	}
	for _, path := range paths {
		switch path {
		case "on_failure":
			change.OnFailure = new(onFailureOfWire(r.GetOnFailure()))
		case "max_fee":
			limit, err := maxFee(r.GetMaxFee())
			if err != nil {
				return change, status.InvalidField("max_fee", "%v", err)
			}
			change.MaxFee = &limit
		default:
			return change, status.InvalidField("update_mask", "names %q, which cannot be changed; %s",
				path, maskRemedy)
		}
	}
	return change, nil
}
