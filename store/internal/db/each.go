package db

import (
	"context"
	"reflect"

	"github.com/jackc/pgx/v5"
)

// What sqlc writes makes a row, and a list of pointers to its fields, for every row of an answer, and a list of rows that is copied whenever it has to grow. Where an
// answer is long and each row is made into something else anyway, it is read here instead: every row into the same place.

// EachEventSince is EventsSince, one row after the other. A row is gone once take returns; what its fields point to is not.
func (q *Queries) EachEventSince(ctx context.Context, p EventsSinceParams, take func(*EventsSinceRow) error) error {
	rows, err := q.db.Query(ctx, eventsSince, p.Since, p.Until, p.AfterXid, p.AfterSubmitter, p.AfterTx, p.AfterSeq, p.SubmitterID, p.MaxRows)
	return each(rows, err, take)
}

// EachInboxTx is InboxTxs, one row after the other. A row is gone once take returns; what its fields point to is not.
func (q *Queries) EachInboxTx(ctx context.Context, p InboxTxsParams, take func(*InboxTxsRow) error) error {
	rows, err := q.db.Query(ctx, inboxTxs, p.SubmitterIds, p.Heads)
	return each(rows, err, take)
}

func each[R any](rows pgx.Rows, err error, take func(*R) error) error {
	if err != nil {
		return err
	}
	row := new(R)
	_, err = pgx.ForEachRow(rows, columns(nil, reflect.ValueOf(row).Elem()), func() error { return take(row) })
	return err
}

// columns adds where the columns of an answer are read to: sqlc makes a field of each, in their order, and of those of a whole table one that has them as its own.
func columns(to []any, row reflect.Value) []any {
	for i := range row.NumField() {
		if field := row.Field(i); field.Type() == reflect.TypeFor[ManagedTx]() {
			to = columns(to, field)
		} else {
			to = append(to, field.Addr().Interface())
		}
	}
	return to
}
