package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// SavePoolRules records the requirements of a chain's nodes. It is a hint for other nodes of the
// ledger and for later starts, so it needs no lease: the last writer counts.
func (s *Store) SavePoolRules(ctx context.Context, chain txn.ChainID, r txn.PoolRules) error {
	var typeAge *float64
	if seconds := r.TypeAge.Seconds(); r.Typed {
		typeAge = &seconds
	}
	err := s.own().SavePoolRules(ctx, db.SavePoolRulesParams{
		ChainID: int64(chain), MinTip: r.MinTip.Dec(), MinPrice: r.MinPrice.Dec(),
		GuessedTip: r.GuessedTip.Dec(), FeesAge: r.FeesAge.Seconds(), TypeAge: typeAge,
	})
	return s.failed(ctx, fmt.Sprintf("record the pool rules of chain %d", chain), err)
}

// poolRules reads the rules of a submitter's chain; zero if there are none.
func poolRules(ctx context.Context, q *db.Queries,
	id txn.SubmitterID) (r txn.PoolRules, err error) {
	row, err := q.PoolRules(ctx, int32(id))
	if errors.Is(err, pgx.ErrNoRows) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	for _, fee := range []struct {
		to   *txn.Wei
		text string
	}{{&r.MinTip, row.MinTip}, {&r.MinPrice, row.MinPrice}, {&r.GuessedTip, row.GuessedTip}} {
		if *fee.to, err = toWei(fee.text); err != nil {
			return r, err
		}
	}
	r.FeesAge = time.Duration(row.FeesAgeMs) * time.Millisecond
	r.Typed, r.TypeAge = row.Typed, time.Duration(row.TypeAgeMs)*time.Millisecond
	return r, nil
}
