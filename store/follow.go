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

// Former is an account that has moved to another ledger.
type Former struct {
	txn.Submitter // number, name, chain and address

	Ledger string // that it has moved to
}

// MovedNames returns the accounts with these names that have moved to another ledger.
func (s *Store) MovedNames(ctx context.Context, names []string) ([]Former, error) {
	rows, err := s.read().MovedNames(ctx, names)
	if err != nil {
		return nil, s.failed(ctx, "list moved accounts", err)
	}
	all := make([]Former, len(rows))
	for i, r := range rows {
		all[i] = Former{txn.Submitter{ID: txn.SubmitterID(r.SubmitterID), Name: r.Name,
			Chain: txn.ChainID(r.ChainID), Address: txn.Address(r.Address)}, r.MovedTo}
	}
	return all, nil
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
