package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// settledHead is the newest head of the feed whose snapshot outlives a crash of the database.
type settledHead struct {
	mu turn
	Head
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

// FeedHead returns epoch and snapshot of [Feed.Head] of [Store.Feed].
func (s *Store) FeedHead(ctx context.Context) (epoch int64, snapshot string, err error) {
	head, err := s.Head(ctx)
	return head.Epoch, head.Snapshot, err
}

// Head is [Feed.Head] of [Store.Feed].
func (s *Store) Head(ctx context.Context) (Head, error) { return s.Feed().Head(ctx) }

// EventsSince is [Feed.EventsSince] over connections for readers that are behind.
func (s *Store) EventsSince(ctx context.Context, page []EventInfo, since, until string,
	after EventKey, submitter txn.SubmitterID, limit int) ([]EventInfo, error) {
	return Feed{s, s.pages}.EventsSince(ctx, page, since, until, after, submitter, limit)
}

// EventsSinceOf is [Feed.EventsSinceOf] of [Store.Feed].
func (s *Store) EventsSinceOf(ctx context.Context, since, until string, after EventKey,
	ids []txn.TxID, limit int) ([]EventInfo, error) {
	return s.Feed().EventsSinceOf(ctx, since, until, after, ids, limit)
}

func (f Feed) queries() *db.Queries { return db.New(f.pool) }

// Head returns the current end of the feed. It stays the same while there are no newer events. A
// new one is returned only once everything in it survives a crash: see Settle in
// queries/open/event.sql.
func (f Feed) Head(ctx context.Context) (Head, error) {
	const verb = "read the head of the feed"
	last := &f.store.settled
	if err := last.mu.LockUntil(ctx); err != nil { // others may wait for the database
		return Head{}, f.store.failed(ctx, verb, err)
	}
	defer last.mu.Unlock()
	before := last.Snapshot
	if before == "" {
		before = "1:1:" // sees nothing
	}
	row, err := f.queries().FeedHead(ctx, before)
	if err != nil {
		return Head{}, f.store.failed(ctx, verb, err)
	}
	now := Head{
		Epoch: row.FeedEpoch, Timeline: row.Timeline, Snapshot: row.Snapshot,
		Next:   snapshotEnd(row.Snapshot),
		Before: row.TimelineBefore, Begin: uint64(row.TimelineXid),
		Trimmed: uint64(row.TrimmedXid),
	}
	if last.Snapshot != "" && !row.News && now.Timeline == last.Timeline &&
		now.Holds(Position{Epoch: last.Epoch, Timeline: last.Timeline, Seen: last.Snapshot}) {
		now.Snapshot = last.Snapshot
		return now, nil
	}
	if !row.Settled {
		if err := f.queries().Settle(ctx); err != nil {
			return Head{}, f.store.failed(ctx, verb, err)
		}
	}
	last.Head = now
	return now, nil
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
	accounts := map[txn.SubmitterID]account{}
	for i := range events {
		accounts[events[i].Submitter] = account{}
	}
	err := f.store.accounts(ctx, f.queries(), accounts)
	for i := range events {
		events[i].SubmitterName = accounts[events[i].Submitter].name
	}
	return err
}

// EventsSinceOf is EventsSince of the given transactions, without labels. A page costs only their
// events, not the rest of the feed.
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
