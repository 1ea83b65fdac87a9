package store

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// clockSlack is how far the time of an id may be from the database's, for a list of a range of time
// to look for it there. Earlier versions took it from the clock of a node.
const clockSlack = 24 * time.Hour

// endOfTime is after all times that the ledger has.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Txs lists transactions, newest first, without their attempts. For the next page pass the last id
// as Before; the filter reports which page is the last. A page costs the rows that it holds, and
// the rows of its range in other states: ids are in the order of their time, also within one label.
// Without a final state or label in the filter, no final transaction is read.
func (s *Store) Txs(ctx context.Context, filter TxFilter) ([]TxInfo, error) {
	rows, err := s.listRows(ctx, filter)
	if err != nil {
		return nil, s.failed(ctx, "list transactions", err)
	}
	infos := make([]TxInfo, len(rows))
	for i, r := range rows {
		if infos[i], err = toInfo(db.TxByIDRow(r)); err != nil {
			return nil, s.failed(ctx, "list transactions", err)
		}
	}
	return infos, nil
}

// Ends reports whether a page is the last of this filter. Another page has the second row beyond
// MaxBytes, or as many rows as requested.
func (f TxFilter) Ends(page []TxInfo) bool {
	if len(page) >= int(rowLimit(f.Limit)) {
		return false
	}
	bytes := 0
	for i := range len(page) - 1 {
		bytes += len(page[i].Payload.Data)
	}
	return f.MaxBytes == 0 || bytes < f.MaxBytes
}

func (s *Store) listRows(ctx context.Context, filter TxFilter) ([]db.ListTxsRow, error) {
	p := listParams(filter)
	if len(filter.IDs) > 0 {
		return s.listNamed(ctx, filter.IDs, p)
	}
	if filter.Awaiting {
		return s.listAwaiting(ctx, filter, p)
	}
	if filter.open() {
		return s.listOpen(ctx, filter, p)
	}
	if len(filter.Labels) == 0 {
		return s.read().ListTxs(ctx, p)
	}
	key := slices.Min(
		slices.Collect(maps.Keys(filter.Labels))) // any would do; the same for each page
	rows, err := s.read().ListTxsByLabel(ctx, db.ListTxsByLabelParams{
		Key: key, Value: filter.Labels[key], LabelSet: labelSet(filter.Labels),
		SubmitterID: p.SubmitterID, AnyName: p.AnyName, Names: p.Names, Before: p.Before,
		Lowest: p.Lowest, CreatedFrom: p.CreatedFrom, CreatedBefore: p.CreatedBefore,
		States: p.States, MaxRows: p.MaxRows, MaxBytes: p.MaxBytes,
	})
	plain := make([]db.ListTxsRow, len(rows))
	for i, r := range rows {
		plain[i] = db.ListTxsRow(r)
	}
	return plain, err
}

// listNamed goes by the ids.
func (s *Store) listNamed(ctx context.Context, ids []txn.TxID,
	p db.ListTxsParams) ([]db.ListTxsRow, error) {
	of, named := keys(ids)
	rows, err := s.read().ListTxsByID(ctx, db.ListTxsByIDParams{
		SubmitterIds: of, TxIds: named, Before: p.Before, States: p.States, MaxRows: p.MaxRows,
		MaxBytes: p.MaxBytes,
	})
	plain := make([]db.ListTxsRow, len(rows))
	for i, r := range rows {
		plain[i] = db.ListTxsRow(r)
	}
	return plain, err
}

// keys are the keys of transactions in their table, each split in two.
func keys(ids []txn.TxID) (submitters []int32, txs []uuid.UUID) {
	submitters, txs = make([]int32, len(ids)), make([]uuid.UUID, len(ids))
	for i, id := range ids {
		submitters[i], txs[i] = int32(id.Submitter()), uuid.UUID(id)
	}
	return submitters, txs
}

// open reports whether the filter has no final state, so that final transactions need not be read.
func (f TxFilter) open() bool {
	return len(f.Labels) == 0 && len(f.States) > 0 &&
		!slices.ContainsFunc(f.States, txn.State.Final)
}

// listOpen lists in the order of acceptance, which is the order of the index of open transactions.
// The times in ids, which may be off, do not matter there.
func (s *Store) listOpen(ctx context.Context, filter TxFilter,
	p db.ListTxsParams) ([]db.ListTxsRow, error) {
	before, err := s.queueSeq(ctx, filter.Before)
	if err != nil || before == 0 {
		return nil, err
	}
	rows, err := s.read().ListOpenTxs(ctx, db.ListOpenTxsParams{
		SubmitterID: p.SubmitterID, AnyName: p.AnyName, Names: p.Names, Before: before,
		CreatedFrom: p.CreatedFrom, CreatedBefore: p.CreatedBefore, States: p.States,
		MaxRows: p.MaxRows, MaxBytes: p.MaxBytes,
	})
	plain := make([]db.ListTxsRow, len(rows))
	for i, r := range rows {
		plain[i] = db.ListTxsRow(r)
	}
	return plain, err
}

// queueSeq returns the position of a transaction in the order of acceptance; 0: it is unknown. The
// zero id is after all others.
func (s *Store) queueSeq(ctx context.Context, id txn.TxID) (int64, error) {
	if id == (txn.TxID{}) {
		return math.MaxInt64, nil
	}
	seq, err := s.read().QueueSeq(ctx, db.QueueSeqParams{
		SubmitterID: int32(id.Submitter()), TxID: uuid.UUID(id),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

// listAwaiting lists transactions that await an approval, in the order of acceptance.
func (s *Store) listAwaiting(ctx context.Context, filter TxFilter,
	p db.ListTxsParams) ([]db.ListTxsRow, error) {
	if len(p.States) > 0 && !slices.Contains(filter.States, txn.Queued) {
		return nil, nil
	}
	before, err := s.queueSeq(ctx, filter.Before)
	if err != nil || before == 0 {
		return nil, err
	}
	rows, err := s.read().ListAwaitingTxs(ctx, db.ListAwaitingTxsParams{
		SubmitterID: p.SubmitterID, AnyName: p.AnyName, Names: p.Names, Before: before,
		LabelSet: labelSet(filter.Labels), CreatedFrom: p.CreatedFrom,
		CreatedBefore: p.CreatedBefore, MaxRows: p.MaxRows, MaxBytes: p.MaxBytes,
	})
	plain := make([]db.ListTxsRow, len(rows))
	for i, r := range rows {
		plain[i] = db.ListTxsRow(r)
	}
	return plain, err
}

func listParams(filter TxFilter) db.ListTxsParams {
	p := db.ListTxsParams{
		SubmitterID: int32(filter.Submitter), AnyName: filter.Names == nil, Names: filter.Names,
		Before: uuid.UUID(filter.Before), States: []string{},
		MaxRows:     rowLimit(filter.Limit),
		CreatedFrom: time.Unix(0, 0), CreatedBefore: endOfTime, MaxBytes: math.MaxInt64,
	}
	if filter.MaxBytes > 0 {
		p.MaxBytes = int64(filter.MaxBytes)
	}
	if filter.Before == (txn.TxID{}) {
		p.Before = uuid.Max
	}
	if !filter.CreatedFrom.IsZero() {
		p.CreatedFrom, p.Lowest = filter.CreatedFrom, firstID(filter.CreatedFrom.Add(-clockSlack))
	}
	if !filter.CreatedBefore.IsZero() {
		p.CreatedBefore = filter.CreatedBefore
		if end := firstID(filter.CreatedBefore.Add(clockSlack)); slices.Compare(end[:],
			p.Before[:]) < 0 {
			p.Before = end
		}
	}
	for _, state := range filter.States {
		p.States = append(p.States, string(state))
	}
	return p
}

// firstID is at or below all ids of that time and later ones.
func firstID(at time.Time) (id uuid.UUID) {
	millis := min(max(at.UnixMilli(), 0), 1<<48-1)
	for i := range 6 {
		id[i] = byte(millis >> (40 - 8*i))
	}
	return id
}

// labelSet writes labels as the ledger has them. Map and strings can always be encoded.
func labelSet(labels map[string]string) string {
	if len(labels) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(labels)
	return string(text)
}

func toLabels(text []byte) (labels map[string]string, err error) {
	if len(text) == 0 || string(text) == "{}" {
		return nil, nil
	}
	return labels, json.Unmarshal(text, &labels)
}
