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

// Gap is a range of nonces that no transaction of the ledger uses: another program did, and an
// operator decided to proceed.
type Gap struct {
	First, Last txn.Nonce
	Tx          *txn.TxID // that gave it up; nil: the cursor was moved past it
	Reason      string
	At          time.Time
}

const maxGaps = 100

// Waiting returns the reasons why a submitter waits, all in one snapshot: the transaction with the
// lowest nonce in flight that is in no block, and the head of the queue, either of them nil if
// there is none; and the oldest gaps, at most 100. The transactions have no attempts.
func (s *Store) Waiting(ctx context.Context,
	submitter txn.SubmitterID) (blocking, head *txn.Tx, gaps []Gap, err error) {
	err = s.snapshot(ctx, func(q *db.Queries) (err error) {
		if blocking, err = optionalTx(q.Blocking(ctx, int32(submitter))); err != nil {
			return err
		}
		if head, err = optionalTx(q.QueueHead(ctx, int32(submitter))); err != nil {
			return err
		}
		rows, err := q.Gaps(ctx, db.GapsParams{SubmitterID: int32(submitter), MaxRows: maxGaps})
		for _, r := range rows {
			gaps = append(
				gaps,
				Gap{
					First:  txn.Nonce(r.FirstNonce),
					Last:   txn.Nonce(r.LastNonce),
					Tx:     (*txn.TxID)(r.TxID),
					Reason: r.Reason,
					At:     r.CreatedAt,
				},
			)
		}
		return err
	})
	if err != nil {
		return nil, nil, nil, s.failed(ctx,
			fmt.Sprintf("read the waiting transactions of submitter %d", submitter), err)
	}
	return blocking, head, gaps, nil
}

// snapshot reads several things of one moment.
func (s *Store) snapshot(ctx context.Context, read func(*db.Queries) error) error {
	conn, err := s.api.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return pgx.BeginTxFunc(ctx, conn,
		pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error { return read(db.New(tx)) })
}

func optionalTx(row db.ManagedTx, err error) (*txn.Tx, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tx, err := toTx(row)
	return &tx, err
}

// QueueCounts are numbers of submitters and their transactions, by condition. Protected and
// UndecidedNonces count all submitters, with or without an owner.
type QueueCounts struct {
	Queued, InFlight, Stuck int64 // transactions; STUCK ones are in flight as well
	Paused, Owned           int64 // submitters; owned: some node has a live lease
	Unfunded                int64 // submitters that cannot afford their next transaction
	Protected               int64 // submitters of the whole ledger
	UndecidedNonces         int64 // nonces of clients that need an operator, of the whole ledger
	OldestQueued            time.Duration
}

// QueueCounts counts over these submitters with one query, for metrics.
func (s *Store) QueueCounts(ctx context.Context, ids []txn.SubmitterID) (QueueCounts, error) {
	r, err := s.own().QueueCounts(ctx, plain(ids))
	if err != nil {
		return QueueCounts{}, s.failed(ctx, fmt.Sprintf("count over %d submitters", len(ids)), err)
	}
	return QueueCounts{
		Queued: r.Queued, InFlight: r.InFlight, Stuck: r.Stuck, Protected: r.Protected,
		Paused: r.Paused, Owned: r.Owned, Unfunded: r.Unfunded, UndecidedNonces: r.UndecidedNonces,
		OldestQueued: time.Duration(r.OldestMs) * time.Millisecond,
	}, nil
}
