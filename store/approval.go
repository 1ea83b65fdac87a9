package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ErrNotAwaiting is returned for a decision about a transaction that awaits no approval, or whose
// approval the caller must not give.
var ErrNotAwaiting = errors.New("the transaction does not await an approval of this caller")

// approval returns the approval of an intent that is accepted.
func (i *Intent) approval() txn.Approval {
	if i.ApprovalTime <= 0 {
		return txn.Approval{}
	}
	return txn.Approval{State: txn.ApprovalWaiting}
}

// Decision is the decision of a caller about a transaction that awaits an approval.
type Decision struct {
	Approved bool
	Caller   string // the authenticated identity; never the one that created the transaction
	Operator string // as the caller claims
	Reason   string
}

// DecideApproval approves or denies a transaction. Of several decisions the first is valid, and the
// others return ErrNotAwaiting, as does one after the approval has expired.
func (s *Store) DecideApproval(ctx context.Context, tx *txn.Tx, d Decision) error {
	verb := fmt.Sprintf("decide on the approval of transaction %s", tx.ID)
	message := "approved by caller " + d.Caller
	if !d.Approved {
		message = "denied by caller " + d.Caller
	}
	p := db.DecideApprovalParams{
		SubmitterID: int32(tx.Submitter), TxID: uuid.UUID(tx.ID), Approved: d.Approved,
		Caller: d.Caller, Operator: d.Operator, Why: d.Reason, Message: message, Mac: []byte{},
		DeniedReason: txn.ReasonApprovalDenied, RestoredReason: txn.ReasonRestored,
		RestoredError: txn.RestoredMayHaveExecuted(txn.ReasonApprovalDenied, message),
	}
	if key := s.cfg.IntentKey; d.Approved && len(key) > 0 {
		p.Mac = txn.ApprovalMAC(key, tx.Submitter, tx.RequestID, tx.RequestHash, tx.Caller,
			d.Caller)
	}
	_, err := s.read().DecideApproval(ctx, p)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("store: %s: %w", verb, ErrNotAwaiting)
	}
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	s.wakes.queue(tx.Submitter)
	s.wakes.signalEvents()
	return nil
}

// maxExpired bounds the transactions that one statement fails.
const maxExpired = 1000

// ExpireApprovals fails the transactions that were not approved in time, and returns their number.
// Any node may call it at any time; those that are decided at the moment are left for the next
// call.
func (s *Store) ExpireApprovals(ctx context.Context) (expired int64, err error) {
	const message = "no caller approved it in time"
	expired, err = s.read().ExpireApprovals(ctx, db.ExpireApprovalsParams{
		ExpiredReason: txn.ReasonApprovalExpired, LateReason: txn.ReasonDeadline, Message: message,
		RestoredReason: txn.ReasonRestored,
		RestoredError:  txn.RestoredMayHaveExecuted(txn.ReasonApprovalExpired, message),
		MaxRows:        maxExpired,
	})
	if err != nil {
		return 0, s.failed(ctx, "expire approvals", err)
	}
	if expired > 0 {
		s.wakes.signalEvents()
	}
	return expired, nil
}

// maxAwaiting bounds the count of Awaiting.
const maxAwaiting = 10_000

// Awaiting counts the transactions of the ledger that await an approval, up to 10,000.
func (s *Store) Awaiting(ctx context.Context) (int64, error) {
	n, err := s.read().Awaiting(ctx, maxAwaiting)
	return n, s.failed(ctx, "count the transactions that await an approval", err)
}
