package server

import (
	"context"
	"errors"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// cancelTries bounds the attempts for a transaction that returns to the queue meanwhile.
const cancelTries = 3

// CancelTx cancels a queued transaction directly. For any other it asks the owner for a cancel
// transaction at the same nonce. Either of the two may be included, so the outcome is REQUESTED
// until one is final. So it is for a requeued transaction: its owner first checks that no earlier
// attempt executed. A repeated call returns the first outcome and adds no command.
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

// cancel makes one attempt. The outcome is UNSPECIFIED if the transaction returned to the queue
// meanwhile.
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
		Caller:   auth.RightsOf(ctx).Caller(),
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
			// A command without them is not in the ledger either.
			if ask.Operator != "" || ask.Reason != "" || ask.Caller != "" {
				s.commands.logAccepted(ctx, id.Submitter(), 0, ask)
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
	// A nonce is or was assigned: only the owner can sign a replacement and check for execution.
	command, err := s.store.AddCommand(ctx, id.Submitter(), ask)
	if err != nil {
		return outcome, info, status.AboutTx(text, err)
	}
	s.commands.logAccepted(ctx, id.Submitter(), command, ask)
	info.CancelRequested = true // the row follows once the owner has read the command
	return pb.CancelOutcome_CANCEL_OUTCOME_REQUESTED, info, nil
}
