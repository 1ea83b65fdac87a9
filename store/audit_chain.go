package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// FinalTx is a transaction whose attempts are compared with the chain: a final one with a nonce, or
// one that gave up its nonce.
type FinalTx struct {
	ID       txn.TxID
	Nonce    txn.Nonce // 0 if it was given up
	State    txn.State
	Executed txn.Executed
	Receipt  *txn.Receipt // nil: none of its attempts was included
	Attempts []AttemptHash
}

// AttemptHash identifies an attempt of a transaction.
type AttemptHash struct {
	Kind  txn.AttemptKind
	Nonce txn.Nonce
	Hash  txn.Hash
}

// FinalTxs reads final transactions that have a nonce, by nonce, from a nonce upwards.
func (s *Store) FinalTxs(ctx context.Context, submitter txn.SubmitterID, from txn.Nonce,
	limit int) (list []FinalTx, err error) {
	verb := fmt.Sprintf("read the final transactions of submitter %d", submitter)
	if !storable(uint64(from)) {
		return nil, fmt.Errorf("store: %s: nonce %d is beyond 2^63-1", verb, from)
	}
	err = s.snapshot(ctx, func(q *db.Queries) error {
		list, err = finalTxs(ctx, q, db.FinalTxsParams{
			SubmitterID: int32(submitter), FromNonce: int64(from), MaxRows: rowLimit(limit),
		})
		return err
	})
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	return list, nil
}

func finalTxs(ctx context.Context, q *db.Queries, p db.FinalTxsParams) ([]FinalTx, error) {
	rows, err := q.FinalTxs(ctx, p)
	if err != nil {
		return nil, err
	}
	list := make([]FinalTx, len(rows))
	for i, r := range rows {
		list[i] = FinalTx{
			ID:       txn.TxID(r.TxID),
			Nonce:    txn.Nonce(r.Nonce),
			State:    txn.State(r.State),
			Executed: txn.Executed(r.Executed),
		}
		list[i].Receipt, err = toReceipt(r.ReceiptTxHash, r.ReceiptBlock, r.ReceiptBlockHash,
			r.ReceiptSuccess, r.ReceiptGasUsed, r.ReceiptGasPrice, nil)
		if err != nil {
			return nil, err
		}
	}
	return list, withHashes(ctx, q, p.SubmitterID, list)
}

// RequeuedTxs reads requeued transactions without a nonce, cancelled or still queued, by id,
// starting after the given id; the zero id begins. None of their attempts may ever be on chain.
func (s *Store) RequeuedTxs(ctx context.Context, submitter txn.SubmitterID, after txn.TxID,
	limit int) (list []FinalTx, err error) {
	err = s.snapshot(ctx, func(q *db.Queries) error {
		rows, err := q.RequeuedTxs(ctx, db.RequeuedTxsParams{
			SubmitterID: int32(submitter), After: uuid.UUID(after), MaxRows: rowLimit(limit),
		})
		if err != nil {
			return err
		}
		list = make([]FinalTx, len(rows))
		for i, r := range rows {
			list[i] = FinalTx{
				ID:       txn.TxID(r.TxID),
				State:    txn.State(r.State),
				Executed: txn.Executed(r.Executed),
			}
		}
		return withHashes(ctx, q, int32(submitter), list)
	})
	if err != nil {
		return nil, s.failed(ctx,
			fmt.Sprintf("read the requeued transactions of submitter %d", submitter), err)
	}
	return list, nil
}

// withHashes fills in the attempts.
func withHashes(ctx context.Context, q *db.Queries, submitter int32, list []FinalTx) error {
	ids, index := make([]uuid.UUID, len(list)), make(map[uuid.UUID]int, len(list))
	for i, tx := range list {
		ids[i], index[uuid.UUID(tx.ID)] = uuid.UUID(tx.ID), i
	}
	hashes, err := q.AttemptHashes(ctx, db.AttemptHashesParams{SubmitterID: submitter, TxIds: ids})
	for _, h := range hashes {
		tx := &list[index[h.TxID]]
		tx.Attempts = append(tx.Attempts, AttemptHash{
			Kind:  txn.AttemptKind(h.Kind),
			Nonce: txn.Nonce(h.Nonce),
			Hash:  toHash(h.TxHash),
		})
	}
	return err
}
