package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// Errors of an archive.
var (
	ErrArchiveRuns = errors.New("another process archives")
	ErrArchiveLost = errors.New("the lease of the archive is gone")
	ErrSinkBehind  = errors.New("a sink has yet to deliver these events")
	ErrOlderNodes  = errors.New("older nodes are live")
)

// ArchiveLease is the right to archive. One process holds it at a time.
type ArchiveLease struct {
	token int64

	Before time.Time // the database's clock when it was acquired
	System int64     // identifies the database server; 0: unknown
	// Ledger identifies the ledger among all others: server, database and schema. It changes when
	// the ledger is moved to another one of these.
	Ledger string
	// the sink that keeps the most events; empty: none keeps any
	Sink  string
	floor uint64 // events from this number on are kept
}

// Name identifies the ledger's server in names of files.
func (l *ArchiveLease) Name() string { return strconv.FormatUint(uint64(l.System), 16) }

// ArchiveTx names a transaction in an archive, at the version that the archive has.
type ArchiveTx struct {
	ID      txn.TxID
	Version int64
	Xid     uint64 // the number of its newest event in the feed
}

// ArchiveLine is a transaction to archive, with its line of the file.
type ArchiveLine struct {
	ArchiveTx
	Line string // one JSON object
}

// ArchiveQuery selects final transactions of a submitter by age.
type ArchiveQuery struct {
	Submitter txn.SubmitterID
	After     txn.TxID  // exclusive
	Before    time.Time // those that were final by then
	Whole     bool      // also call data and labels; otherwise only events
	Limit     int       // rows to look at
}

// AcquireArchive takes the right to archive. ErrArchiveRuns while another process has it, and
// ErrOlderNodes while a node is live whose program does not know archived transactions; such a
// program cannot start afterwards.
func (s *Store) AcquireArchive(ctx context.Context) (*ArchiveLease, error) {
	const verb = "begin an archive"
	if err := s.noOlderNodes(ctx, verb); err != nil {
		return nil, err
	}
	token, err := s.own().AcquireArchive(ctx, db.AcquireArchiveParams{
		Holder: s.cfg.Node, Seconds: s.cfg.LeaseDuration.Seconds()})
	if isNoRows(err) {
		return nil, fmt.Errorf("store: %s: %w", verb, ErrArchiveRuns)
	}
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	l := &ArchiveLease{token: token}
	err = s.failed(ctx, verb, s.measureArchive(ctx, l))
	if err == nil { // one may have started before older programs were kept from it
		err = s.noOlderNodes(ctx, verb)
	}
	if err != nil {
		s.ReleaseArchive(ctx, l)
		return nil, err
	}
	return l, nil
}

// noOlderNodes returns ErrOlderNodes, which names them, if there are any.
func (s *Store) noOlderNodes(ctx context.Context, verb string) error {
	older, err := s.own().OlderNodes(ctx, retentionSchema)
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	if len(older) > 0 {
		return fmt.Errorf("store: %s: %w: %s", verb, ErrOlderNodes, strings.Join(older, ", "))
	}
	return nil
}

// retentionSchema is the migration that added archived transactions.
const retentionSchema = 27

// measureArchive reads the end of the events that every node and sink has passed.
func (s *Store) measureArchive(ctx context.Context, l *ArchiveLease) error {
	start, err := s.own().ArchiveStart(ctx, retentionSchema)
	if err != nil {
		return err
	}
	l.Before, l.System = start.Now, start.SystemID
	l.Ledger = fmt.Sprintf("%s/%d/%s", l.Name(), start.DatabaseOid, start.SchemaName)
	l.floor = uint64(start.BeginXid)
	sinks, err := s.own().SinkPositions(ctx)
	if err != nil {
		return err
	}
	for _, c := range sinks {
		at, err := ParsePosition(c.Position)
		if err != nil {
			return fmt.Errorf("position of sink %q: %w", c.Sink, err)
		}
		if passed := snapshotBegin(at.Seen); passed < l.floor {
			l.floor, l.Sink = passed, c.Sink
		}
	}
	return nil
}

// CheckReaders returns ErrSinkBehind if a sink has not passed all events up to a number: an
// operator may have moved it back since they were written to a file. It returns ErrOlderNodes if a
// node is live that had checked the schema before older programs were kept from starting.
func (s *Store) CheckReaders(ctx context.Context, xid uint64) error {
	const verb = "read the positions of sinks"
	if err := s.noOlderNodes(ctx, verb); err != nil {
		return err
	}
	sinks, err := s.own().SinkPositions(ctx)
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	for _, c := range sinks {
		at, err := ParsePosition(c.Position)
		if err != nil {
			return fmt.Errorf("store: %s: position of sink %q: %w", verb, c.Sink, err)
		}
		if snapshotBegin(at.Seen) <= xid {
			return fmt.Errorf("store: %s: %w: %s", verb, ErrSinkBehind, c.Sink)
		}
	}
	return nil
}

// RenewArchive extends the lease; ErrArchiveLost when another process may have it.
func (s *Store) RenewArchive(ctx context.Context, l *ArchiveLease) error {
	const verb = "renew the lease of an archive"
	rows, err := s.own().RenewArchive(ctx, db.RenewArchiveParams{
		Seconds: s.cfg.LeaseDuration.Seconds(), Holder: s.cfg.Node, FencingToken: l.token})
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	if rows == 0 {
		return fmt.Errorf("store: %s: %w", verb, ErrArchiveLost)
	}
	return nil
}

// ReleaseArchive ends the lease at once. A failure only means that it lapses.
func (s *Store) ReleaseArchive(ctx context.Context, l *ArchiveLease) {
	err := s.own().ReleaseArchive(ctx,
		db.ReleaseArchiveParams{Holder: s.cfg.Node, FencingToken: l.token})
	if err != nil {
		s.log.Debug("archive lease release failed; it will expire", "cause", describeError(err))
	}
}

// ArchiveSubmitters lists all submitters by id.
func (s *Store) ArchiveSubmitters(ctx context.Context) ([]txn.SubmitterID, error) {
	rows, err := s.own().ArchivedSubmitters(ctx)
	if err != nil {
		return nil, s.failed(ctx, "list submitters", err)
	}
	ids := make([]txn.SubmitterID, len(rows))
	for i, r := range rows {
		ids[i] = txn.SubmitterID(r)
	}
	return ids, nil
}

// maxArchivePageBytes bounds the call data of one page.
const maxArchivePageBytes = 8 << 20

// ArchivePage reads the transactions to archive among the next ones of a submitter, and the id up
// to which it looked; done when there are no more.
func (s *Store) ArchivePage(ctx context.Context, l *ArchiveLease,
	q ArchiveQuery) (lines []ArchiveLine, upto txn.TxID, done bool, err error) {
	verb := fmt.Sprintf("read final transactions of submitter %d", q.Submitter)
	window := db.ArchiveWindowParams{SubmitterID: int32(q.Submitter), After: uuid.UUID(q.After),
		BeforeID: firstID(q.Before), MaxRows: rowLimit(q.Limit)}
	bounds, err := s.own().ArchiveWindow(ctx, window)
	for err == nil && bounds.Bytes > maxArchivePageBytes && window.MaxRows > 1 {
		window.MaxRows = max(1, window.MaxRows/4)
		bounds, err = s.own().ArchiveWindow(ctx, window)
	}
	if err != nil {
		return nil, q.After, false, s.failed(ctx, verb, err)
	}
	if bounds.Transactions == 0 {
		return nil, q.After, true, nil
	}
	rows, err := s.own().ArchivePage(ctx, db.ArchivePageParams{
		SubmitterID: window.SubmitterID, After: window.After, Upto: bounds.Upto,
		Before: q.Before, Whole: q.Whole, FloorXid: int64(l.floor),
	})
	if err != nil {
		return nil, q.After, false, s.failed(ctx, verb, err)
	}
	lines = make([]ArchiveLine, len(rows))
	for i, r := range rows {
		lines[i] = ArchiveLine{
			ArchiveTx{ID: txn.TxID(r.TxID), Version: r.Version, Xid: uint64(r.NewestXid)}, r.Line,
		}
	}
	return lines, txn.TxID(bounds.Upto), false, nil
}

// TrimFeed makes resume tokens invalid that may not have seen events up to a number. It comes
// before the removal of these events, by longer than a reader holds a position that it has checked.
func (s *Store) TrimFeed(ctx context.Context, l *ArchiveLease, xid uint64) error {
	const verb = "trim the feed"
	ok, err := s.own().RaiseTrimmed(ctx, db.RaiseTrimmedParams{
		Holder: s.cfg.Node, FencingToken: l.token, Xid: int64(xid)})
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	if !ok {
		return fmt.Errorf("store: %s: %w", verb, ErrArchiveLost)
	}
	return nil
}

// Removed counts removed rows.
type Removed struct{ Transactions, Events int64 }

// RemoveArchived removes the events of transactions that a complete archive holds, and if whole
// their call data and labels. One that changed since, or that a sink has yet to deliver, is left as
// it is. It may be repeated.
func (s *Store) RemoveArchived(ctx context.Context, l *ArchiveLease, txs []ArchiveTx,
	whole bool) (Removed, error) {
	verb := fmt.Sprintf("remove %d archived transactions", len(txs))
	p := db.RemoveArchivedParams{Holder: s.cfg.Node, FencingToken: l.token, Whole: whole}
	for _, tx := range txs {
		p.SubmitterIds = append(p.SubmitterIds, int32(tx.ID.Submitter()))
		p.TxIds = append(p.TxIds, uuid.UUID(tx.ID))
		p.Versions = append(p.Versions, tx.Version)
	}
	row, err := s.own().RemoveArchived(ctx, p)
	if err != nil {
		return Removed{}, s.failed(ctx, verb, err)
	}
	if !row.Held {
		return Removed{}, fmt.Errorf("store: %s: %w", verb, ErrArchiveLost)
	}
	return Removed{row.Transactions, row.Events}, nil
}
