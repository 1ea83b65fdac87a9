package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ErrCommandNotFound says that no command has this number.
var ErrCommandNotFound = errors.New("no such command")

// CancelQueued cancels a transaction that has no nonce yet, and tells whether it did. When it did not, the transaction is in a later state, or final.
func (s *Store) CancelQueued(ctx context.Context, id txn.TxID) (cancelled bool, err error) {
	verb := fmt.Sprintf("cancel transaction %s", id)
	_, err = s.read().CancelQueued(ctx, db.CancelQueuedParams{SubmitterID: int32(id.Submitter()), TxID: uuid.UUID(id), Reason: txn.ReasonCancelled})
	switch {
	case err == nil:
		s.wakes.wake(id.Submitter())
		s.wakes.told()
		return true, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return false, s.failed(ctx, verb, err)
	}
	_, err = s.Tx(ctx, id) // not there at all is an answer of its own
	return false, err
}

// addTries bounds how often AddCommand meets a cancel that ends between two looks.
const addTries = 5

// AddCommand asks something of the owner of a submitter. tx is for CANCEL alone; asking for the same cancel again, before it is carried out, returns the same
// number.
func (s *Store) AddCommand(ctx context.Context, submitter txn.SubmitterID, kind txn.CommandKind, tx *txn.TxID, reason string) (id int64, err error) {
	verb := fmt.Sprintf("add a %s command for submitter %d", kind, submitter)
	p := db.InsertCommandParams{SubmitterID: int32(submitter), Kind: string(kind), TxID: (*uuid.UUID)(tx), Reason: reason}
	for range addTries {
		id, err = s.read().InsertCommand(ctx, p)
		if errors.Is(err, pgx.ErrNoRows) && tx != nil {
			id, err = s.read().PendingCancel(ctx, db.PendingCancelParams{SubmitterID: int32(submitter), TxID: uuid.UUID(*tx)})
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			break
		}
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == foreignKeyViolation {
		return 0, fmt.Errorf("store: %s: %w", verb, ErrSubmitterNotFound)
	}
	if err != nil {
		return 0, s.failed(ctx, verb, err)
	}
	s.wakes.wake(submitter)
	return id, nil
}

// CommandResult tells whether a command was carried out, and with which result.
func (s *Store) CommandResult(ctx context.Context, submitter txn.SubmitterID, id int64) (result string, done bool, err error) {
	verb := fmt.Sprintf("read command %d of submitter %d", id, submitter)
	result, err = s.read().CommandResult(ctx, db.CommandResultParams{SubmitterID: int32(submitter), CommandID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, fmt.Errorf("store: %s: %w", verb, ErrCommandNotFound)
	}
	return result, result != "", s.failed(ctx, verb, err)
}
