package server

import (
	"context"
	"fmt"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ExitProtect applies an operator's decision on one protection. The protection's id makes a retry
// safe: a decision is applied at most once, and repeating it returns the first response.
func (s *submitterService) ExitProtect(ctx context.Context,
	r *pb.ExitProtectRequest) (*pb.ExitProtectResponse, error) {
	id, err := s.resolver.lookup(ctx, "submitter", r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	ask := store.Ask{
		Kind:     txn.CommandExitProtect,
		Action:   exitOfWire(r.GetDecision()),
		Expect:   r.GetProtectionId(),
		Reason:   r.GetReason(),
		Operator: r.GetOperator(),
	}
	info, err := s.exited(ctx, id, ask)
	if err != nil {
		return nil, status.AboutSubmitter(r.GetSubmitter(), err)
	}
	return &pb.ExitProtectResponse{Submitter: wireSubmitter(info)}, nil
}

// exited leaves the decision to the owner while the protection is in force, then checks whether
// this decision ended it.
func (s *submitterService) exited(ctx context.Context, id txn.SubmitterID,
	ask store.Ask) (info store.SubmitterInfo, err error) {
	if info, err = s.store.Submitter(ctx, id); err != nil {
		return info, err
	}
	if p := inForce(info); p != nil && p.ID == ask.Expect {
		v, err := s.commands.obtain(ctx, id, ask)
		if err != nil {
			return info, err
		}
		if v.code != txn.Applied && v.code != txn.ResultNotProtected &&
			v.code != txn.ResultProtectionChanged {
			return info, declined(v)
		}
		if info, err = s.store.Submitter(ctx, id); err != nil || v.code == txn.Applied {
			return info, err
		}
	}
	return info, s.endedBy(ctx, info, ask)
}

// endedBy returns nil if the same decision ended the protection.
func (s *submitterService) endedBy(ctx context.Context, info store.SubmitterInfo,
	ask store.Ask) error {
	if info.Cursor == nil || ask.Expect > info.Cursor.Protections {
		return changed(info, "protection %d does not exist", ask.Expect)
	}
	end, err := s.commands.lastCommand(ctx, info.ID, func(c store.CommandInfo) bool {
		return c.Kind == txn.CommandExitProtect && c.Expect == ask.Expect && c.Result == txn.Applied
	})
	switch {
	case err != nil:
		return err
	case end == nil:
		return changed(info, "protection %d is no longer in force", ask.Expect)
	case end.Action == txn.ActionAutomatic:
		return changed(info, "protection %d ended automatically at %s", ask.Expect,
			end.AppliedAt.UTC().Format("2006-01-02T15:04:05Z"))
	case end.Action != ask.Action:
		return changed(info, "protection %d was ended by %s at %s", ask.Expect, end.Action,
			end.AppliedAt.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return nil
}

// changed rejects a decision on a protection that is not in force.
func changed(info store.SubmitterInfo, format string, args ...any) error {
	now := "no protection is in force"
	if p := inForce(info); p != nil {
		now = fmt.Sprintf("review protection %d (%s), which is in force, and decide again",
			p.ID, p.Reason)
	}
	return status.ProtectionChanged("%s; %s", fmt.Sprintf(format, args...), now)
}
