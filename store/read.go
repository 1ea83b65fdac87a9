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

// Tx reads one transaction, without its attempts. ErrTxNotFound when there is none of that id.
func (s *Store) Tx(ctx context.Context, id txn.TxID) (TxInfo, error) {
	verb := fmt.Sprintf("read transaction %s", id)
	row, err := s.read().TxByID(ctx,
		db.TxByIDParams{SubmitterID: int32(id.Submitter()), TxID: uuid.UUID(id)})
	if errors.Is(err, pgx.ErrNoRows) {
		return TxInfo{}, s.noTx(ctx, verb, id.Submitter())
	}
	if err != nil {
		return TxInfo{}, s.failed(ctx, verb, err)
	}
	return toInfo(row)
}

// TxIDByHash returns the transaction with an attempt of this hash, or ErrTxNotFound.
func (s *Store) TxIDByHash(ctx context.Context, hash txn.Hash) (txn.TxID, error) {
	verb := fmt.Sprintf("read the transaction with attempt %s", hash)
	row, err := s.read().TxIDByHash(ctx, hash[:])
	if errors.Is(err, pgx.ErrNoRows) {
		return txn.TxID{}, fmt.Errorf("store: %s: %w", verb, ErrTxNotFound)
	}
	if err != nil {
		return txn.TxID{}, s.failed(ctx, verb, err)
	}
	return txn.TxID(row.TxID), nil
}

// TxVersions reads the versions and states of transactions in one snapshot. The result omits
// transactions that do not exist.
func (s *Store) TxVersions(ctx context.Context, ids []txn.TxID) (map[txn.TxID]TxVersion, error) {
	of, named := keys(ids)
	rows, err := s.read().TxVersions(ctx, db.TxVersionsParams{SubmitterIds: of, TxIds: named})
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("read how far %d transactions have come", len(ids)),
			err)
	}
	versions := make(map[txn.TxID]TxVersion, len(rows))
	for _, r := range rows {
		versions[txn.TxID(r.TxID)] = TxVersion{Version: r.Version, State: txn.State(r.State)}
	}
	return versions, nil
}

// TxByRequest reads the transaction that a request id stands for. ErrTxNotFound when there is none.
func (s *Store) TxByRequest(ctx context.Context, submitter txn.SubmitterID,
	requestID string) (TxInfo, error) {
	verb := fmt.Sprintf("read transaction %q of submitter %d", requestID, submitter)
	rows, err := s.read().TxsByRequest(
		ctx,
		db.TxsByRequestParams{
			SubmitterIds: []int32{int32(submitter)},
			RequestIds:   []string{requestID},
		},
	)
	if err != nil {
		return TxInfo{}, s.failed(ctx, verb, err)
	}
	if len(rows) == 0 {
		return TxInfo{}, s.noTx(ctx, verb, submitter)
	}
	return toInfo(db.TxByIDRow(rows[0]))
}

// noTx returns why there is no transaction: the account may have moved before it was created.
func (s *Store) noTx(ctx context.Context, verb string, submitter txn.SubmitterID) error {
	rows, err := s.read().AcceptanceOf(ctx, []int32{int32(submitter)})
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	if len(rows) > 0 && rows[0].MovedTo != "" {
		return fmt.Errorf("store: %s: %w", verb, &MovedError{rows[0].Name, rows[0].MovedTo})
	}
	return fmt.Errorf("store: %s: %w", verb, ErrTxNotFound)
}

// Attempts reads the attempts of a transaction, oldest first, without their bytes: a reader of the
// bytes can broadcast them.
func (s *Store) Attempts(ctx context.Context, id txn.TxID) ([]txn.Attempt, error) {
	verb := fmt.Sprintf("read the attempts of transaction %s", id)
	rows, err := s.read().AttemptsOf(ctx,
		db.AttemptsOfParams{SubmitterID: int32(id.Submitter()), TxID: uuid.UUID(id)})
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	attempts := make([]txn.Attempt, len(rows))
	for i, r := range rows {
		attempts[i], err = toAttempt(db.OpenAttemptsRow{
			AttemptNo: r.AttemptNo, Kind: r.Kind, Nonce: r.Nonce, TxHash: r.TxHash,
			GasLimit: r.GasLimit, FeeCap: r.FeeCap, Tip: r.Tip, Legacy: r.Legacy,
		}, r.CreatedAt)
		if err != nil {
			return nil, s.failed(ctx, verb, err)
		}
	}
	return attempts, nil
}

func toInfo(row db.TxByIDRow) (TxInfo, error) {
	if row.MovedTo != "" {
		return TxInfo{}, &MovedError{row.SubmitterName, row.MovedTo}
	}
	tx, err := toTx(row.ManagedTx)
	if err != nil {
		return TxInfo{}, fmt.Errorf("store: read transaction %s: %w", row.ManagedTx.TxID, err)
	}
	labels, err := toLabels(row.ManagedTx.Labels)
	if err != nil {
		return TxInfo{}, fmt.Errorf("store: read the labels of transaction %s: %w",
			row.ManagedTx.TxID, err)
	}
	pool := labels[PoolLabel]
	if delete(labels, PoolLabel); len(labels) == 0 {
		labels = nil
	}
	return TxInfo{
		Tx:            tx,
		SubmitterName: row.SubmitterName,
		Pool:          pool,
		Labels:        labels,
		Included:      txn.AttemptKind(row.ReceiptKind),
		LastSubmit:    row.ManagedTx.LastSubmitAt,
	}, nil
}

// TxByPoolRequest is TxByRequest for a transaction that was created with a pool.
func (s *Store) TxByPoolRequest(ctx context.Context, pool PoolID,
	requestID string) (TxInfo, error) {
	verb := fmt.Sprintf("read transaction %q of pool %d", requestID, pool)
	rows, err := s.read().TxsByPoolRequest(ctx,
		db.TxsByPoolRequestParams{PoolIds: []int32{int32(pool)}, RequestIds: []string{requestID}})
	if err != nil {
		return TxInfo{}, s.failed(ctx, verb, err)
	}
	if len(rows) == 0 {
		return TxInfo{}, fmt.Errorf("store: %s: %w", verb, ErrTxNotFound)
	}
	return toInfo(db.TxByIDRow(rows[0]))
}
