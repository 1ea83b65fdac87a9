package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ResolveStuck applies an operator's decision on a STUCK transaction. Repeating an applied decision
// returns the transaction in its current state.
func (s *submitterService) ResolveStuck(ctx context.Context,
	r *pb.ResolveStuckRequest) (*pb.ResolveStuckResponse, error) {
	id, info, err := s.resolver.txByID(ctx, r.GetTxId())
	if err != nil {
		return nil, err
	}
	ask := store.Ask{
		Kind: txn.CommandResolve, Tx: &id, Action: resolveOfWire(r.GetDecision()),
		Expect: int64(r.GetExpectVersion()), Reason: r.GetReason(), Operator: r.GetOperator(),
	}
	done, err := s.resolved(ctx, info.Tx, ask)
	if err != nil {
		return nil, status.AboutTx(r.GetTxId(), err)
	}
	if done {
		return &pb.ResolveStuckResponse{Tx: wireTx(info)}, nil
	}
	if info.State.Final() {
		return nil, status.AboutTx(
			r.GetTxId(),
			status.DecisionRefused("already final (%s); only a STUCK transaction can be resolved",
				info.State),
		)
	}
	v, err := s.commands.obtain(ctx, id.Submitter(), ask)
	if err != nil {
		return nil, status.AboutTx(r.GetTxId(), err)
	}
	if _, info, err = s.resolver.txByID(ctx, r.GetTxId()); err != nil {
		return nil, err
	}
	if v.code == txn.Applied {
		return &pb.ResolveStuckResponse{Tx: wireTx(info)}, nil
	}
	// The owner rejects a second command once the first has been applied.
	if done, err = s.resolved(ctx, info.Tx, ask); err == nil && !done {
		err = declined(v)
	}
	if err != nil {
		return nil, status.AboutTx(r.GetTxId(), err)
	}
	return &pb.ResolveStuckResponse{Tx: wireTx(info)}, nil
}

// resolved reports whether this decision was applied. The command log decides, not the
// transaction's outcome, which may have other causes; an earlier decision of the same kind is a
// different one. A decision without a version concerns the transaction if it is STUCK now.
func (s *submitterService) resolved(ctx context.Context, tx txn.Tx, ask store.Ask) (bool, error) {
	if tx.State == txn.Stuck && (ask.Expect == 0 || ask.Expect == tx.Version) {
		return false, nil
	}
	command, err := s.commands.lastCommand(ctx, tx.Submitter, func(c store.CommandInfo) bool {
		same := c.Kind == ask.Kind && c.Tx == tx.ID && c.Action == ask.Action &&
			(ask.Expect == 0 || c.Expect == ask.Expect)
		return same && c.Result == txn.Applied
	})
	return command != nil, err
}
