package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// head is the newest head of the feed whose snapshot outlives a crash of the database.
type head struct {
	mu       turn
	epoch    int64
	snapshot string // empty: none yet
}

type tailing struct{}

// Tailing marks what the tailer of a node reads of the feed. All watchers wait for it, so it has a connection of its own and does not queue for one behind callers.
func Tailing(ctx context.Context) context.Context { return context.WithValue(ctx, tailing{}, true) }

func (s *Store) feed(ctx context.Context) *db.Queries {
	if ctx.Value(tailing{}) != nil {
		return db.New(s.tail)
	}
	return s.read()
}

// FeedHead is where the feed ends now: the epoch of the ledger, and a snapshot that says of every event whether it is within. It stays where it was while there
// are no events above it. A new one is given out only once all that it sees has outlived the next crash: see Settle in queries/open/event.sql.
func (s *Store) FeedHead(ctx context.Context) (epoch int64, snapshot string, err error) {
	const verb = "read the head of the feed"
	if err := s.settled.mu.LockUntil(ctx); err != nil { // others may wait for the database
		return 0, "", s.failed(ctx, verb, err)
	}
	defer s.settled.mu.Unlock()
	before := s.settled.snapshot
	if before == "" {
		before = "1:1:" // sees nothing
	}
	now, err := s.feed(ctx).FeedHead(ctx, before)
	if err != nil {
		return 0, "", s.failed(ctx, verb, err)
	}
	if s.settled.snapshot != "" && now.FeedEpoch == s.settled.epoch && !now.News {
		return s.settled.epoch, s.settled.snapshot, nil
	}
	if !now.Settled {
		if err := s.feed(ctx).Settle(ctx); err != nil {
			return 0, "", s.failed(ctx, verb, err)
		}
	}
	s.settled.epoch, s.settled.snapshot = now.FeedEpoch, now.Snapshot
	return now.FeedEpoch, now.Snapshot, nil
}

// EventsSince reads the events that snapshot until sees and snapshot since does not, in an order that is the order of seq within each transaction, those after
// a key of that order, and appends them to a page, which may be nil. submitter 0 means all of them. Fewer than limit means that there are no more.
func (s *Store) EventsSince(ctx context.Context, page []EventInfo, since, until string,
	after EventKey, submitter txn.SubmitterID, limit int) ([]EventInfo, error) {
	if after.Xid == "" {
		after.Xid = "0"
	}
	before := len(page)
	err := s.feed(ctx).EachEventSince(ctx, db.EventsSinceParams{
		Since: since, Until: until, AfterXid: after.Xid, AfterSubmitter: int32(after.Submitter), AfterTx: uuid.UUID(after.Tx), AfterSeq: after.Seq,
		SubmitterID: int32(submitter), MaxRows: rowLimit(limit),
	}, func(r *db.EventsSinceRow) error {
		event, err := toEvent(*r)
		page = append(page, event)
		return err
	})
	if err != nil {
		return nil, s.failed(ctx, "read the feed", err)
	}
	if err := s.name(ctx, page[before:]); err != nil {
		return nil, s.failed(ctx, "read whose the events are", err)
	}
	return page, nil
}

// name fills in whose the events are.
func (s *Store) name(ctx context.Context, events []EventInfo) error {
	names := map[txn.SubmitterID]string{}
	for i := range events {
		names[events[i].Submitter] = ""
	}
	err := s.names(ctx, s.feed(ctx), names)
	for i := range events {
		events[i].SubmitterName = names[events[i].Submitter]
	}
	return err
}

// EventsSinceOf is EventsSince of some transactions, without labels. A page costs what these have, and nothing of what else is in the feed.
func (s *Store) EventsSinceOf(ctx context.Context, since, until string, after EventKey,
	ids []txn.TxID, limit int) ([]EventInfo, error) {
	if after.Xid == "" {
		after.Xid = "0"
	}
	of, named := keys(ids)
	rows, err := s.read().EventsSinceOf(ctx, db.EventsSinceOfParams{
		SubmitterIds: of, TxIds: named, Since: since, Until: until, AfterXid: after.Xid, AfterSubmitter: int32(after.Submitter), AfterTx: uuid.UUID(after.Tx),
		AfterSeq: after.Seq, MaxRows: rowLimit(limit),
	})
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("read the feed of %d transactions", len(ids)), err)
	}
	events := make([]EventInfo, len(rows))
	for i, r := range rows {
		if events[i], err = toEvent(db.EventsSinceRow(r)); err != nil {
			return nil, s.failed(ctx, "read the feed of some transactions", err)
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
