package server

import (
	"context"
	"errors"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// UpdateSubmitter changes the policies that the mask names. It notifies the owner even if nothing
// changes: an earlier call may have written the policies and failed before it did.
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

func (s *submitterService) updated(ctx context.Context, id txn.SubmitterID,
	change store.PolicyChange,
	ask store.Ask) (info store.SubmitterInfo, err error) {
	change.Asked = ask
	change.Asked.Caller = auth.RightsOf(ctx).Caller()
	if err = s.store.SetPolicies(ctx, id, change); errors.Is(err, store.ErrModeLimit) {
		return info, status.InvalidField("max_in_flight", limitOfStrict)
	}
	if errors.Is(err, store.ErrModeBusy) {
		return info, status.SubmitterMode("has queued, open or reserved nonces; the mode changes " +
			"to or from EXTERNAL once nothing is queued, open, RESERVED, PENDING or RECYCLABLE")
	}
	if err != nil {
		return info, err
	}
	// A pending command is enough: the owner reads the policies after it has recorded the result,
	// and therefore after they were written here.
	v, err := s.commands.obtain(ctx, id, ask)
	if err != nil {
		return info, err
	}
	if v.code != txn.Applied {
		return info, declined(v)
	}
	return s.store.Submitter(ctx, id)
}

// changes returns the requested changes: only fields that the mask names.
func changes(r *pb.UpdateSubmitterRequest) (change store.PolicyChange, err error) {
	paths := r.GetUpdateMask().GetPaths()
	if len(paths) == 0 {
		return change, status.InvalidField("update_mask", "is empty; %s", contract.MaskRemedy)
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
		case "mode":
			if r.GetMode() == pb.SubmitterMode_SUBMITTER_MODE_UNSPECIFIED {
				return change, status.InvalidField("mode", "must be STRICT, PIPELINED or EXTERNAL")
			}
			change.Mode = new(modeOfWire(r.GetMode()))
		case "max_in_flight":
			if r.GetMaxInFlight() < 1 {
				return change, status.InvalidField("max_in_flight", "must be at least 1")
			}
			change.MaxInFlight = new(int(r.GetMaxInFlight()))
		default:
			return change, status.InvalidField("update_mask",
				"contains %q, which cannot be changed; %s", path, contract.MaskRemedy)
		}
	}
	return change, nil
}
