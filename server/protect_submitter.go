package server

import (
	"context"
	"slices"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ProtectSubmitter protects a submitter manually. An existing protection stays, with its reason,
// unless it may end automatically.
func (s *submitterService) ProtectSubmitter(ctx context.Context,
	r *pb.ProtectSubmitterRequest) (*pb.ProtectSubmitterResponse, error) {
	id, err := s.resolver.lookup(ctx, "submitter", r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	info, err := s.protected(ctx, id,
		store.Ask{Kind: txn.CommandProtect, Reason: r.GetReason(), Operator: r.GetOperator()})
	if err != nil {
		return nil, status.AboutSubmitter(r.GetSubmitter(), err)
	}
	return &pb.ProtectSubmitterResponse{Submitter: wireSubmitter(info)}, nil
}

func (s *submitterService) protected(ctx context.Context, id txn.SubmitterID,
	ask store.Ask) (info store.SubmitterInfo, err error) {
	if info, err = s.store.Submitter(ctx, id); err != nil {
		return info, err
	}
	// A pending exit may end the current protection first; then this command takes effect after it.
	commands, err := s.commands.underway(ctx, id)
	if err != nil {
		return info, err
	}
	leaving := slices.ContainsFunc(commands,
		func(c txn.Command) bool { return c.Kind == txn.CommandExitProtect })
	if p := inForce(info); p != nil && !p.MayEndAutomatically() && !leaving {
		return info, nil
	}
	v, err := s.commands.obtain(ctx, id, ask)
	if err != nil {
		return info, err
	}
	if v.code != txn.Applied && v.code != txn.ResultAlreadyProtected {
		return info, declined(v)
	}
	return s.store.Submitter(ctx, id)
}

// inForce returns the current protection of a submitter, or nil.
func inForce(info store.SubmitterInfo) *txn.Protected {
	if info.Cursor == nil {
		return nil
	}
	return info.Cursor.Protected
}
