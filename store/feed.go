package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// head is the newest head of the feed whose snapshot outlives a crash of the database.
type head struct {
	mu       turn
	epoch    int64
	snapshot string // empty: none yet
}

// Feed reads the events of the ledger over one pool of connections.
type Feed struct {
	store *Store
	pool  *pgxpool.Pool
}

// Feed returns the feed over the connections of API calls.
func (s *Store) Feed() Feed { return Feed{s, s.api} }

// TailFeed returns the feed over a connection of its own, for the tailer of a node: all watchers
// wait for it, so it must not queue for a connection behind API calls.
func (s *Store) TailFeed() Feed { return Feed{s, s.tail} }

// FeedHead is [Feed.FeedHead] of [Store.Feed].
func (s *Store) FeedHead(ctx context.Context) (epoch int64, snapshot string, err error) {
	return s.Feed().FeedHead(ctx)
}

// EventsSince is [Feed.EventsSince] of [Store.Feed].
func (s *Store) EventsSince(ctx context.Context, page []EventInfo, since, until string,
	after EventKey, submitter txn.SubmitterID, limit int) ([]EventInfo, error) {
	return s.Feed().EventsSince(ctx, page, since, until, after, submitter, limit)
}

// EventsSinceOf is [Feed.EventsSinceOf] of [Store.Feed].
func (s *Store) EventsSinceOf(ctx context.Context, since, until string, after EventKey,
	ids []txn.TxID, limit int) ([]EventInfo, error) {
	return s.Feed().EventsSinceOf(ctx, since, until, after, ids, limit)
}

func (f Feed) queries() *db.Queries { return db.New(f.pool) }

// FeedHead is where the feed ends now: the epoch of the ledger, and a snapshot that says of every
// event whether it is within. It stays where it was while there are no events above it. A new one
// is given out only once all that it sees has outlived the next crash: see Settle in
// queries/open/event.sql.
func (f Feed) FeedHead(ctx context.Context) (epoch int64, snapshot string, err error) {
	const verb = "read the head of the feed"
	if err := f.store.settled.mu.LockUntil(ctx); err != nil { // others may wait for the database
		return 0, "", f.store.failed(ctx, verb, err)
	}
	defer f.store.settled.mu.Unlock()
	before := f.store.settled.snapshot
	if before == "" {
		before = "1:1:" // sees nothing
	}
	now, err := f.queries().FeedHead(ctx, before)
	if err != nil {
		return 0, "", f.store.failed(ctx, verb, err)
	}
	if f.store.settled.snapshot != "" && now.FeedEpoch == f.store.settled.epoch && !now.News {
		return f.store.settled.epoch, f.store.settled.snapshot, nil
	}
	if !now.Settled {
		if err := f.queries().Settle(ctx); err != nil {
			return 0, "", f.store.failed(ctx, verb, err)
		}
	}
	f.store.settled.epoch, f.store.settled.snapshot = now.FeedEpoch, now.Snapshot
	return now.FeedEpoch, now.Snapshot, nil
}

// EventsSince reads the events that snapshot until sees and snapshot since does not, in an order
// that is the order of seq within each transaction, those after a key of that order, and appends
// them to a page, which may be nil. submitter 0 means all of them. Fewer than limit means that
// there are no more.
func (f Feed) EventsSince(ctx context.Context, page []EventInfo, since, until string,
	after EventKey, submitter txn.SubmitterID, limit int) ([]EventInfo, error) {
	if after.Xid == "" {
		after.Xid = "0"
	}
	before := len(page)
	err := f.queries().EachEventSince(ctx, db.EventsSinceParams{
		Since: since, Until: until, AfterXid: after.Xid, AfterSubmitter: int32(after.Submitter),
		AfterTx: uuid.UUID(after.Tx), AfterSeq: after.Seq,
		SubmitterID: int32(submitter), MaxRows: rowLimit(limit),
	}, func(r *db.EventsSinceRow) error {
		event, err := toEvent(*r)
		page = append(page, event)
		return err
	})
	if err != nil {
		return nil, f.store.failed(ctx, "read the feed", err)
	}
	if err := f.name(ctx, page[before:]); err != nil {
		return nil, f.store.failed(ctx, "read whose the events are", err)
	}
	return page, nil
}

// name fills in whose the events are.
func (f Feed) name(ctx context.Context, events []EventInfo) error {
	names := map[txn.SubmitterID]string{}
	for i := range events {
		names[events[i].Submitter] = ""
	}
	err := f.store.names(ctx, f.queries(), names)
	for i := range events {
		events[i].SubmitterName = names[events[i].Submitter]
	}
	return err
}

// EventsSinceOf is EventsSince of some transactions, without labels. A page costs what these have,
// and nothing of what else is in the feed.
func (f Feed) EventsSinceOf(ctx context.Context, since, until string, after EventKey,
	ids []txn.TxID, limit int) ([]EventInfo, error) {
	if after.Xid == "" {
		after.Xid = "0"
	}
	of, named := keys(ids)
	rows, err := f.queries().EventsSinceOf(ctx, db.EventsSinceOfParams{
		SubmitterIds: of, TxIds: named, Since: since, Until: until, AfterXid: after.Xid,
		AfterSubmitter: int32(after.Submitter), AfterTx: uuid.UUID(after.Tx),
		AfterSeq: after.Seq, MaxRows: rowLimit(limit),
	})
	if err != nil {
		return nil, f.store.failed(ctx, fmt.Sprintf("read the feed of %d transactions", len(ids)),
			err)
	}
	events := make([]EventInfo, len(rows))
	for i, r := range rows {
		if events[i], err = toEvent(db.EventsSinceRow(r)); err != nil {
			return nil, f.store.failed(ctx, "read the feed of some transactions", err)
		}
	}
	return events, nil
}

// EventsOfTx reads the events of one transaction after a number, in order.
func (s *Store) EventsOfTx(ctx context.Context, id txn.TxID, afterSeq int64,
	limit int) ([]EventInfo, error) {
	verb := fmt.Sprintf("read the events of transaction %s", id)
	rows, err := s.read().EventsOfTx(ctx, db.EventsOfTxParams{
		SubmitterID: int32(
			id.Submitter()), TxID: uuid.UUID(id), AfterSeq: afterSeq, MaxRows: rowLimit(limit),
	})
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	events := make([]EventInfo, len(rows))
	for i, r := range rows {
		if events[i], err = toEvent(db.EventsSinceRow(r)); err != nil {
			return nil, s.failed(ctx, verb, err)
		}
	}
	return events, nil
}
