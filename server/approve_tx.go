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

// ApproveTx approves a transaction that awaits it; its owner then sends it.
func (s *txService) ApproveTx(ctx context.Context,
	r *pb.ApproveTxRequest) (*pb.ApproveTxResponse, error) {
	info, err := s.decide(ctx, r.GetTxId(), store.Decision{
		Approved: true, Caller: auth.RightsOf(ctx).Caller(), Operator: r.GetOperator(),
		Reason: r.GetReason(),
	})
	if err != nil {
		return nil, err
	}
	return &pb.ApproveTxResponse{Tx: wireTx(info)}, nil
}

// DenyTx fails a transaction that awaits an approval.
func (s *txService) DenyTx(ctx context.Context, r *pb.DenyTxRequest) (*pb.DenyTxResponse, error) {
	info, err := s.decide(ctx, r.GetTxId(), store.Decision{
		Caller: auth.RightsOf(ctx).Caller(), Operator: r.GetOperator(), Reason: r.GetReason(),
	})
	if err != nil {
		return nil, err
	}
	return &pb.DenyTxResponse{Tx: wireTx(info)}, nil
}

// decide applies a decision once. A repeated one returns the transaction.
func (s *txService) decide(ctx context.Context, text string,
	d store.Decision) (info store.TxInfo, err error) {
	id, info, err := s.resolver.txByID(ctx, text)
	if err != nil {
		return info, err
	}
	if !info.Approval.Required() {
		return info, status.AboutTx(text, status.DecisionRefused("it needs no approval"))
	}
	if cause := mayNotDecide(&info.Tx, d.Caller); cause != "" {
		return info, status.AboutTx(text, status.PermissionDenied("%s", cause))
	}
	if info.State == txn.Queued && info.Approval.State == txn.ApprovalWaiting {
		err = s.store.DecideApproval(ctx, &info.Tx, d)
		if err != nil && !errors.Is(err, store.ErrNotAwaiting) {
			return info, status.AboutTx(text, err)
		}
		if err == nil {
			s.log.Info("approval decided", "tx_id", text, "approved", d.Approved, "caller",
				d.Caller, "operator", d.Operator, "submitter_id", int32(id.Submitter()))
		}
		if _, info, err = s.resolver.txByID(ctx, text); err != nil {
			return info, err
		}
	}
	if cause := decidedOtherwise(&info.Tx, d.Approved); cause != "" {
		return info, status.AboutTx(text, status.DecisionRefused("%s", cause))
	}
	return info, nil
}

// mayNotDecide returns why a caller must not decide about a transaction; empty: it may.
func mayNotDecide(tx *txn.Tx, caller string) string {
	switch caller {
	case "":
		return "an approval requires an authenticated caller; configure callers"
	case tx.Caller:
		return "caller " + caller + " created the transaction; another caller must approve or " +
			"deny it"
	}
	return ""
}

// decidedOtherwise returns why a transaction that needs an approval does not have the outcome of a
// decision; empty: it has.
func decidedOtherwise(tx *txn.Tx, approved bool) string {
	const created = "; create it again under a new request_id"
	switch {
	case tx.Approval.State == txn.ApprovalGiven && approved:
		return ""
	case tx.Approval.State == txn.ApprovalGiven:
		return "it was approved by caller " + tx.Approval.By + "; cancel it"
	case tx.Reason == txn.ReasonApprovalDenied && !approved:
		return ""
	case tx.Reason == txn.ReasonApprovalDenied:
		return "it was denied" + created
	case tx.State.Final():
		return "it is final (" + tx.Reason + ")" + created
	}
	return "its approval has expired" + created
}
