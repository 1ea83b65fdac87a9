package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// SinkDecision is the decision of an operator about a sink.
type SinkDecision struct {
	Sink     string
	Operator string // as the caller claims
	Caller   string // the authenticated identity
	Reason   string
	From     string // of a replay: where it begins, as the operator gave it
}

// SetSinkStatus pauses or resumes a sink. One that has no position yet begins at the end of the
// feed now, so that it delivers the events of a pause.
func (s *Store) SetSinkStatus(ctx context.Context, d SinkDecision, status txn.SinkStatus) error {
	verb := fmt.Sprintf("set the status of sink %q", d.Sink)
	for {
		head, err := s.Head(ctx)
		if err != nil {
			return err
		}
		end := Position{Epoch: head.Epoch, Timeline: head.Timeline, Seen: head.Snapshot}
		row, err := s.read().SetSinkStatus(ctx, db.SetSinkStatusParams{Sink: d.Sink,
			Status: string(status), Reason: d.Reason, Operator: d.Operator, Caller: d.Caller,
			Position: end.String(), Epoch: end.Epoch, Timeline: end.Timeline})
		switch {
		case err != nil:
			return s.failed(ctx, verb, err)
		case !row.Found:
			return s.ofOneSink(ctx, verb, 0, nil)
		case row.Done:
			return nil
		}
		// the ledger failed over or was restored in between
	}
}

// ReplaySink makes a sink continue at a position of this feed, or further back: at no event that it
// has not passed yet.
func (s *Store) ReplaySink(ctx context.Context, d SinkDecision, at Position) error {
	verb := fmt.Sprintf("replay sink %q", d.Sink)
	for {
		cursors, err := s.read().SinkCursors(ctx, d.Sink)
		if err != nil || d.Sink == "" || len(cursors) == 0 { // an empty name lists all
			return s.ofOneSink(ctx, verb, 0, err)
		}
		to := at
		if now, err := ParsePosition(cursors[0].Position); err == nil && now.Epoch == at.Epoch {
			to = at.before(now)
		}
		done, err := s.read().ReplaySink(ctx, db.ReplaySinkParams{
			Sink: d.Sink, Position: to.String(), Operator: d.Operator, Reason: d.Reason,
			Caller: d.Caller, Action: d.From, Revision: cursors[0].Revision})
		if err != nil || done > 0 {
			return s.failed(ctx, verb, err)
		}
		// another operator decided in between
	}
}

func (s *Store) ofOneSink(ctx context.Context, verb string, done int64, err error) error {
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	if done == 0 {
		return fmt.Errorf("store: %s: %w", verb, ErrSinkNotFound)
	}
	return nil
}

// clockDisorder is how much older than an event before it an event may be: as long as a statement
// runs at most, with room for corrections of the clock.
const clockDisorder = time.Minute

// PositionFrom returns a position of the feed before all events since a time, and after most of the
// earlier ones. Events are almost in the order of time, so it is found by halving. ErrTrimmed if
// some of them were archived.
func (s *Store) PositionFrom(ctx context.Context, at time.Time) (Position, error) {
	head, err := s.Head(ctx)
	if err != nil {
		return Position{}, err
	}
	from := at.Add(-clockDisorder)
	low, high := uint64(3), head.Next // the first event since from is in low..high
	for low < high {
		middle := low + (high-low)/2
		e, err := s.read().FirstEventFrom(ctx, strconv.FormatUint(middle, 10))
		switch {
		case isNoRows(err):
			high = middle
			continue
		case err != nil:
			return Position{}, s.failed(ctx, "find a time in the feed", err)
		}
		// An adopted ledger has all its older events under one number, in no order of time.
		if e.CreatedAt.Before(from) && e.Xid != agedXid {
			if low, err = strconv.ParseUint(e.Xid, 10, 64); err != nil {
				return Position{}, s.failed(ctx, "find a time in the feed", err)
			}
			low++
		} else {
			high = middle
		}
	}
	if uint32(low) < 3 { // PostgreSQL does not use these numbers, and reads no such snapshot
		low += 3 - uint64(uint32(low))
	}
	if head, err = s.Head(ctx); err != nil { // an archive may have begun meanwhile
		return Position{}, err
	}
	if low <= head.Trimmed {
		trimmed, err := s.read().TrimmedSince(ctx, from)
		if err != nil {
			return Position{}, s.failed(ctx, "find a time in the feed", err)
		}
		if trimmed {
			return Position{}, fmt.Errorf("store: find a time in the feed: %w", ErrTrimmed)
		}
	}
	seen := fmt.Sprintf("%d:%d:", low, low)
	return Position{Epoch: head.Epoch, Timeline: head.Timeline, Seen: seen}, nil
}

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// ParkedFilter selects and pages the parked transactions of a sink, by id.
type ParkedFilter struct {
	Sink     string
	DeadOnly bool
	After    txn.TxID
	Limit    int
}

// ListParked lists parked transactions.
func (s *Store) ListParked(ctx context.Context, f ParkedFilter) ([]txn.SinkParked, error) {
	rows, err := s.read().ListParked(ctx, db.ListParkedParams{Sink: f.Sink, DeadOnly: f.DeadOnly,
		After: uuid.UUID(f.After), MaxRows: rowLimit(f.Limit)})
	if err != nil {
		return nil, s.failed(ctx, "list parked transactions", err)
	}
	parked := make([]txn.SinkParked, len(rows))
	for i, r := range rows {
		parked[i] = toParked(db.DueParkedRow(r))
	}
	return parked, nil
}

// retriesPerStatement bounds how many dead transactions one statement revives.
const retriesPerStatement = 5000

// RetryParked makes a parked transaction due, or all dead ones for a zero id, and returns how many.
func (s *Store) RetryParked(ctx context.Context, d SinkDecision, id txn.TxID) (done int64,
	err error) {
	params := db.RetryParkedParams{Sink: d.Sink, MaxRows: retriesPerStatement, Reason: d.Reason,
		Operator: d.Operator, Caller: d.Caller}
	if id != (txn.TxID{}) {
		params.TxID = new(uuid.UUID(id))
	}
	for {
		params.Record = done == 0
		n, err := s.read().RetryParked(ctx, params)
		if done += n; err != nil {
			return done, s.failed(ctx, "retry parked transactions", err)
		}
		if n < retriesPerStatement || params.TxID != nil {
			break
		}
	}
	if done == 0 && params.TxID != nil {
		return 0, fmt.Errorf("store: retry transaction %s: %w", id, ErrNotParked)
	}
	return done, nil
}

// SkipParked gives up the first undelivered event of a transaction, which the caller names.
func (s *Store) SkipParked(ctx context.Context, d SinkDecision, id txn.TxID, seq int64) error {
	n, err := s.read().SkipParked(ctx, db.SkipParkedParams{Sink: d.Sink, TxID: uuid.UUID(id),
		Seq: seq, Reason: d.Reason, Operator: d.Operator, Caller: d.Caller})
	if err != nil {
		return s.failed(ctx, "skip an event", err)
	}
	if n == 0 {
		return fmt.Errorf("store: skip event %d of transaction %s: %w", seq, id, ErrNotParked)
	}
	return nil
}

// SinkCommands lists the decisions about all sinks, newest first, as AllCommands does for
// submitters. Both have numbers of one sequence.
func (s *Store) SinkCommands(ctx context.Context, before int64, limit int) ([]CommandInfo, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := s.read().SinkCommands(ctx,
		db.SinkCommandsParams{Before: before, MaxRows: rowLimit(limit)})
	if err != nil {
		return nil, s.failed(ctx, "list the commands of sinks", err)
	}
	infos := make([]CommandInfo, len(rows))
	for i, r := range rows {
		infos[i] = CommandInfo{
			Command: txn.Command{ID: r.CommandID, Kind: txn.CommandKind(r.Kind),
				Action: txn.Action(r.Action), Reason: r.Reason, Operator: r.Operator},
			Sink: r.Sink, Caller: r.Caller, CreatedAt: r.CreatedAt, AppliedAt: r.CreatedAt,
			Result: txn.Applied,
		}
		if r.TxID != nil {
			infos[i].Tx = txn.TxID(*r.TxID)
		}
	}
	return infos, nil
}

// parkUndelivered parks events that sinks have not passed, before the events of a restored or moved
// ledger get other numbers. The cursors are of the same backup as the events.
func parkUndelivered(ctx context.Context, tx pgx.Tx) error {
	q := db.New(tx)
	if err := q.SetStatementTimeout(ctx, millis(adoptLimit)); err != nil {
		return err
	}
	if _, err := q.RevokeSinks(ctx, tokenRaise); err != nil {
		return err
	}
	cursors, err := q.SinkCursors(ctx, "")
	if err != nil {
		return err
	}
	for _, c := range cursors {
		if c.Position == "" {
			continue
		}
		at, err := ParsePosition(c.Position)
		if err != nil {
			return err
		}
		if at.After.Xid == "" {
			at.After.Xid = "0"
		}
		_, err = q.ParkUndelivered(ctx, db.ParkUndeliveredParams{
			Sink: c.Sink, Seen: at.Seen, Until: at.Until, AfterXid: at.After.Xid,
			AfterSubmitter: int32(at.After.Submitter), AfterTx: uuid.UUID(at.After.Tx),
			AfterSeq: at.After.Seq})
		if err != nil {
			return err
		}
	}
	return nil
}

// restartSinks continues all sinks at the end of the feed.
func restartSinks(ctx context.Context, tx pgx.Tx) error {
	end, err := db.New(tx).FeedEnd(ctx)
	if err != nil {
		return err
	}
	at := Position{Epoch: end.FeedEpoch, Timeline: end.Timeline, Seen: end.Snapshot}
	_, err = db.New(tx).RestartSinks(ctx, at.String())
	return err
}
