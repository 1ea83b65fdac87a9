package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Ledger is the part of the store that an archive uses.
type Ledger interface {
	AcquireArchive(ctx context.Context) (*store.ArchiveLease, error)
	RenewArchive(ctx context.Context, l *store.ArchiveLease) error
	ReleaseArchive(ctx context.Context, l *store.ArchiveLease)
	ArchiveSubmitters(ctx context.Context) ([]txn.SubmitterID, error)
	ArchivePage(ctx context.Context, l *store.ArchiveLease, q store.ArchiveQuery) (
		lines []store.ArchiveLine, upto txn.TxID, done bool, err error)
	CheckReaders(ctx context.Context, xid uint64) error
	TrimFeed(ctx context.Context, l *store.ArchiveLease, xid uint64) error
	RemoveArchived(ctx context.Context, l *store.ArchiveLease, txs []store.ArchiveTx,
		whole bool) (store.Removed, error)
	ArchiveRequests(ctx context.Context, q store.RequestQuery) (lines []string, upto int64,
		done bool, err error)
	RemoveRequests(ctx context.Context, l *store.ArchiveLease,
		requests []store.ArchiveRequest) (int64, error)
}

// Options configure a run.
type Options struct {
	Ledger Ledger
	Dir    string // of the files; it exists
	// Ages since a transaction was final, by the database's clock. Its events are archived from the
	// first one on, its call data and labels from the second; 0: never. Not both are 0. Answered
	// requests about reserved nonces are archived from the shorter one on.
	Events, Transactions time.Duration
	Before               time.Time // only transactions that were final by then; zero: all

	FileTxs int // transactions, or requests, per file; 0: 100,000
	// FileBytes of lines, before compression, after which a file is completed; 0: 1 GiB. It bounds
	// the time to read a file back.
	FileBytes int64
	Batch     int           // transactions, or requests, per removal; 0: 100
	Rest      float64       // pause after each statement, as a multiple of its time; 0: 1
	Grace     time.Duration // between trimming the feed and a removal; 0: 10 s, negative: none
	Renew     time.Duration // interval of renewals of the lease; 0: 3 s

	Progress func(Report) // called after each statement; may be nil
	Clock    clock.Clock  // nil: the machine's
	Logger   *slog.Logger // nil: none
	Gate     func(Point) error
}

// Point names a moment at which a test stops a run, as a crash would.
type Point string

// The moments of Options.Gate.
const (
	AfterPart    Point = "part written"
	AfterPlan    Point = "plan written"
	AfterRename  Point = "file renamed"
	AfterTrim    Point = "feed trimmed"
	AfterRemoval Point = "batch removed"
	BeforeDone   Point = "all removed"
)

// Report counts the work of a run.
type Report struct {
	Files        int    // written
	Resumed      int    // files of an earlier run whose removal was completed
	Transactions int64  // removed from the ledger
	Events       int64  // removed from the ledger
	Requests     int64  // removed from the ledger
	Written      int64  // transactions and requests in the files
	HeldBy       string // a sink that keeps younger events from being archived; empty: none
}

// complete sets the defaults.
func (o Options) complete() (Options, error) {
	if o.Events <= 0 && o.Transactions <= 0 {
		return o, errors.New("nothing may be archived; set retention.events or " +
			"retention.transactions")
	}
	if o.FileTxs <= 0 {
		o.FileTxs = 100_000
	}
	if o.FileBytes <= 0 {
		o.FileBytes = 1 << 30
	}
	if o.Batch <= 0 {
		o.Batch = 100
	}
	if o.Rest <= 0 {
		o.Rest = 1
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.Renew <= 0 {
		o.Renew = 3 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Gate == nil {
		o.Gate = func(Point) error { return nil }
	}
	if o.Progress == nil {
		o.Progress = func(Report) {}
	}
	return o, nil
}

// Run archives data by its ages, after it has completed the removals of an earlier run in the
// folder. When ctx ends it stops between two statements, and the next run continues. The report has
// the work that was done, also with an error.
func Run(ctx context.Context, o Options) (Report, error) {
	r := &run{}
	var err error
	if r.Options, err = o.complete(); err == nil {
		err = r.run(ctx)
	}
	if err != nil {
		return r.report, fmt.Errorf("archive: %w", err)
	}
	return r.report, nil
}

// run is one run.
type run struct {
	Options
	lease   *store.ArchiveLease
	renewed time.Time
	report  Report
	files   int // named by this run
}

func (r *run) run(ctx context.Context) (err error) {
	if r.lease, err = r.Ledger.AcquireArchive(ctx); err != nil {
		return err
	}
	r.renewed, r.report.HeldBy = r.Clock.Now(), r.lease.Sink
	defer r.Ledger.ReleaseArchive(context.WithoutCancel(ctx), r.lease)
	if err := claim(r.Dir, r.lease.Ledger); err != nil {
		return err
	}
	if err := r.resume(ctx); err != nil {
		return err
	}
	// Whole transactions first: their events go with them, into the same file.
	if r.Transactions > 0 {
		err = r.archive(ctx, plan{Whole: true}, r.transactions(ctx, r.Transactions, true))
	}
	if err == nil && r.Events > 0 {
		err = r.archive(ctx, plan{}, r.transactions(ctx, r.Events, false))
	}
	if err == nil {
		err = r.archive(ctx, plan{Requests: true}, r.requests(ctx, r.shortest()))
	}
	return err
}

// shortest returns the shorter of the ages that are set.
func (r *run) shortest() time.Duration {
	if r.Events > 0 && (r.Transactions <= 0 || r.Events < r.Transactions) {
		return r.Events
	}
	return r.Transactions
}

// before is the time by which the data of an age was final.
func (r *run) before(age time.Duration) time.Time {
	before := r.lease.Before.Add(-age)
	if !r.Before.IsZero() && r.Before.Before(before) {
		return r.Before
	}
	return before
}

// pages returns the next lines to archive with each call, until it is done.
type pages func() (lines []store.ArchiveLine, done bool, err error)

// source begins to read the lines of a submitter.
type source func(id txn.SubmitterID) pages

// archive writes files of all submitters, and removes their rows once a file is complete.
func (r *run) archive(ctx context.Context, kind plan, from source) error {
	submitters, err := r.Ledger.ArchiveSubmitters(ctx)
	if err != nil {
		return err
	}
	var out *writer
	defer func() {
		if out != nil {
			out.abandon()
		}
	}()
	finish := func() error {
		if out == nil {
			return nil
		}
		done := out
		out = nil
		return r.finish(ctx, done)
	}
	for _, id := range submitters {
		next := from(id)
		for done := false; !done; {
			var lines []store.ArchiveLine
			if lines, done, err = next(); err != nil {
				return err
			}
			for i := range lines {
				if out == nil {
					if out, err = r.newFile(kind); err != nil {
						return err
					}
				}
				if err := out.add(&lines[i]); err != nil {
					return err
				}
			}
			if out != nil && (out.plan.Lines >= r.FileTxs || out.bytes >= r.FileBytes) {
				if err := finish(); err != nil {
					return err
				}
			}
		}
	}
	return finish()
}

// pageTxs is how many rows are read at a time.
const pageTxs = 500

// transactions reads transactions that were final for an age.
func (r *run) transactions(ctx context.Context, age time.Duration, whole bool) source {
	return func(id txn.SubmitterID) pages {
		q := store.ArchiveQuery{Submitter: id, Before: r.before(age), Whole: whole, Limit: pageTxs}
		return func() (lines []store.ArchiveLine, done bool, err error) {
			err = r.paced(ctx, func() error {
				lines, q.After, done, err = r.Ledger.ArchivePage(ctx, r.lease, q)
				return err
			})
			return lines, done, err
		}
	}
}

// paced runs one statement under the lease, and rests for a multiple of its time, so that other
// work on the ledger has the rest.
func (r *run) paced(ctx context.Context, statement func() error) error {
	if err := r.hold(ctx); err != nil {
		return err
	}
	began := r.Clock.Now()
	if err := statement(); err != nil {
		return err
	}
	r.Progress(r.report)
	took := r.Clock.Now().Sub(began)
	return clock.Sleep(ctx, r.Clock, time.Duration(float64(took)*r.Rest))
}

// hold renews the lease if that is due. It fails once the run is to stop.
func (r *run) hold(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("stopped; run it again to continue: %w", context.Cause(ctx))
	}
	now := r.Clock.Now()
	if now.Sub(r.renewed) < r.Renew {
		return nil
	}
	if err := r.Ledger.RenewArchive(ctx, r.lease); err != nil {
		return err
	}
	r.renewed = now
	return nil
}

// finish completes a file, and removes its rows from the ledger.
func (r *run) finish(ctx context.Context, out *writer) error {
	if err := out.complete(r.Gate, func() error { return r.hold(ctx) }); err != nil {
		return err
	}
	r.report.Files++
	r.report.Written += int64(out.plan.Lines)
	r.Logger.Info("archive file written", "file", out.name, "lines", out.plan.Lines)
	return r.remove(ctx, out.name, out.plan)
}

// resume completes the removals of an earlier run in this folder.
func (r *run) resume(ctx context.Context) error {
	plans, err := leftovers(r.Dir, "fencepost-"+r.lease.Name()+"-*")
	if err != nil {
		return err
	}
	for _, left := range plans {
		if err := verify(left.name, left.plan, func() error { return r.hold(ctx) }); err != nil {
			return err
		}
		if err := r.remove(ctx, left.name, left.plan); err != nil {
			return err
		}
		r.report.Resumed++
	}
	return nil
}

// remove removes the rows of a complete file from the ledger.
func (r *run) remove(ctx context.Context, name string, p plan) error {
	removeBatch := r.removeRequests
	if !p.Requests {
		if err := r.trim(ctx, p); err != nil {
			return err
		}
		removeBatch = r.removeTxs
	}
	batch := make([]row, 0, r.Batch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := r.paced(ctx, func() error { return removeBatch(ctx, p, batch) })
		batch = batch[:0]
		if err != nil {
			return err
		}
		return r.Gate(AfterRemoval)
	}
	err := read(name, func(one row) error {
		if batch = append(batch, one); len(batch) < r.Batch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = r.Gate(BeforeDone)
	}
	if err != nil {
		return err
	}
	return forget(name)
}

// trim trims the feed up to the events of a file.
func (r *run) trim(ctx context.Context, p plan) error {
	err := r.paced(ctx, func() error {
		if err := r.Ledger.CheckReaders(ctx, p.MaxXid); err != nil {
			return err
		}
		return r.Ledger.TrimFeed(ctx, r.lease, p.MaxXid)
	})
	if err == nil {
		err = r.Gate(AfterTrim)
	}
	if err != nil || r.Grace <= 0 {
		return err
	}
	return r.wait(ctx, r.Grace) // readers that checked a position before may still read after it
}

func (r *run) removeTxs(ctx context.Context, p plan, rows []row) error {
	// a sink may have been moved back, with a position from before the feed was trimmed
	if err := r.Ledger.CheckReaders(ctx, p.MaxXid); err != nil {
		return err
	}
	txs := make([]store.ArchiveTx, len(rows))
	for i := range rows {
		txs[i] = rows[i].tx
	}
	removed, err := r.Ledger.RemoveArchived(ctx, r.lease, txs, p.Whole)
	r.report.Transactions += removed.Transactions
	r.report.Events += removed.Events
	return err
}

// wait sleeps under the lease.
func (r *run) wait(ctx context.Context, d time.Duration) error {
	for d > 0 {
		step := min(d, r.Renew)
		if err := clock.Sleep(ctx, r.Clock, step); err != nil {
			return err
		}
		if err := r.Ledger.RenewArchive(ctx, r.lease); err != nil {
			return err
		}
		r.renewed, d = r.Clock.Now(), d-step
	}
	return nil
}

// newFile begins a file whose name no other run uses.
func (r *run) newFile(kind plan) (*writer, error) {
	r.files++
	name := fmt.Sprintf("fencepost-%s-%s-%04d", r.lease.Name(),
		r.lease.Before.UTC().Format("20060102T150405.000Z"), r.files)
	return create(r.Dir, name, kind)
}
