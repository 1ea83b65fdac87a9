package server

import (
	"context"
	"errors"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// cancelTries bounds how often a transaction is looked at that goes back into the queue while it is being cancelled.
const cancelTries = 3

// CancelTx cancels what is queued, and has the owner of the account cancel what is not: by another signed form of the same nonce, which does nothing. Which of
// the two is included first is for the chain to say, so the answer to that is REQUESTED and nothing more, for as long as neither is final. So it is for what was
// given back to the queue: its owner first makes sure that nothing ran of what was signed for it before. A cancel that is
// repeated gets the answer of the first one, and leaves no other command behind.
func (s *txService) CancelTx(ctx context.Context,
	r *pb.CancelTxRequest) (*pb.CancelTxResponse, error) {
	for range cancelTries {
		outcome, info, err := s.cancel(ctx, r)
		if err != nil {
			return nil, err
		}
		if outcome != pb.CancelOutcome_CANCEL_OUTCOME_UNSPECIFIED {
			return &pb.CancelTxResponse{Outcome: outcome, Tx: wireTx(info)}, nil
		}
	}
	return nil, status.AboutTx(r.GetTxId(),
		errors.New("server: transaction kept returning to the queue while it was cancelled"))
}

// cancel is one look and one attempt; it has no outcome when the transaction came back into the queue in between.
func (s *txService) cancel(ctx context.Context,
	r *pb.CancelTxRequest) (outcome pb.CancelOutcome, info store.TxInfo, err error) {
	text := r.GetTxId()
	id, info, err := s.resolver.txByID(ctx, text)
	if err != nil {
		return outcome, info, err
	}
	ask := store.Ask{
		Kind:     txn.CommandCancel,
		Tx:       &id,
		Reason:   r.GetReason(),
		Operator: r.GetOperator(),
	}
	if info.State == txn.Queued && info.Requeued == 0 {
		cancelled, err := s.store.CancelQueuedFor(ctx, id, ask)
		if err != nil {
			return outcome, info, status.AboutTx(text, err)
		}
		if _, info, err = s.resolver.txByID(ctx, text); err != nil {
			return outcome, info, err
		}
		if cancelled {
			if ask.Operator != "" || ask.Reason != "" { // else it is in no log of commands either
				s.commands.tellAccepted(ctx, id.Submitter(), 0, ask)
			}
			return pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED, info, nil
		}
	}
	switch {
	case info.State == txn.Cancelled:
		return pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED, info, nil
	case info.State.Final():
		return pb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FINAL, info, nil
	case info.State == txn.Queued && info.Requeued == 0:
		return outcome, info, nil
	case info.CancelRequested:
		return pb.CancelOutcome_CANCEL_OUTCOME_REQUESTED, info, nil
	}
	// A nonce is taken, or was: only the owner can sign something else for it and tell whether it ran, and only the chain decides.
	command, err := s.store.AddCommand(ctx, id.Submitter(), ask)
	if err != nil {
		return outcome, info, status.AboutTx(text, err)
	}
	s.commands.tellAccepted(ctx, id.Submitter(), command, ask)
	info.CancelRequested = true // the row says so once its owner has seen it; the caller is told that it is asked for, now
	return pb.CancelOutcome_CANCEL_OUTCOME_REQUESTED, info, nil
}
