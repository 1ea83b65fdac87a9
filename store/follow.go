package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/txn"
)

// MovedOf returns those of these submitters that have moved to another ledger. Every later snapshot
// sees all events that they have here.
func (f Feed) MovedOf(ctx context.Context,
	ids []txn.SubmitterID) (map[txn.SubmitterID]*MovedError, error) {
	of := make([]int32, len(ids))
	for i, id := range ids {
		of[i] = int32(id)
	}
	rows, err := f.queries().MovedOf(ctx, of)
	if err != nil {
		return nil, f.store.failed(ctx, "read which accounts have moved", err)
	}
	moved := make(map[txn.SubmitterID]*MovedError, len(rows))
	for _, r := range rows {
		moved[txn.SubmitterID(r.SubmitterID)] = &MovedError{r.Name, r.MovedTo}
	}
	return moved, nil
}

// MovedOf is [Feed.MovedOf] of [Store.Feed].
func (s *Store) MovedOf(ctx context.Context,
	ids []txn.SubmitterID) (map[txn.SubmitterID]*MovedError, error) {
	return s.Feed().MovedOf(ctx, ids)
}

// Arrival returns a position before the first event that an account from another ledger has here.
// The copied ones are before it. ErrSubmitterNotFound while the account has not arrived.
func (s *Store) Arrival(ctx context.Context, id txn.SubmitterID) (Position, error) {
	verb := fmt.Sprintf("read when submitter %d arrived", id)
	head, err := s.Head(ctx)
	if err != nil {
		return Position{}, err
	}
	xid, err := s.read().ArrivalXid(ctx, int32(id))
	if errors.Is(err, pgx.ErrNoRows) {
		return Position{}, fmt.Errorf("store: %s: %w", verb, ErrSubmitterNotFound)
	}
	if err != nil {
		return Position{}, s.failed(ctx, verb, err)
	}
	return Position{Epoch: head.Epoch, Timeline: head.Timeline,
		Seen: fmt.Sprintf("%d:%d:", xid, xid)}, nil
}
