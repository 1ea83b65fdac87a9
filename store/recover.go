package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ErrLedgerLive says that nodes still work on a ledger that is to be recovered.
var ErrLedgerLive = errors.New("the ledger is in use")

// tokenRaise is more tokens than the lost part of a ledger can have given: each takes a commit.
const tokenRaise = 1 << 40

// protectionRaise is more protections of one submitter than the lost part can have counted: an
// operator decides on each. Milliseconds of the database's time are more still, and differ each
// time.
const protectionRaise = 1_000_000

// What Recover leaves for operators to read.
const (
	restoredEvidence = "the database was restored from a backup, or failed over and lost " +
		"commits: transactions that were accepted or signed after what it holds " +
		"are not in it, and what it holds as queued may have run since, and would run again. " +
		"Wait until the account stands still (its next nonce the same by the newest " +
		"block, by the pool and when settled); see on chain what it sent after the backup; " +
		"cancel what is queued here and ran (fencepost tx cancel; it ends as UNKNOWN), and let " +
		"callers " +
		"repeat only what did not run; then leave with RESUME if the chain stands where the " +
		"cursor does, and with ALIGN_FORWARD if it is ahead; while some are still queued, " +
		"all of which were compared and did not run, with RESUME_KEEP_QUEUE or " +
		"ALIGN_FORWARD_KEEP_QUEUE"
	unstartedReason = "the database was restored from a backup, or failed over and lost commits: " +
		"by it this account has never sent, and it may have since. What is " +
		"queued may have run, and would run again: see on chain what the account sent, cancel " +
		"what is queued here and ran (fencepost tx cancel), then resume it"
	restoredResult = "VOID: the ledger was restored"
)

// recoverPatience is how long Recover waits for one lock. Nobody works on the ledger by then; a
// commit of the last moment ends sooner.
const recoverPatience = time.Second

// RecoverReport tells what Recover did.
type RecoverReport struct {
	Submitters int // that are protected by it
	Paused     int // that are paused by it: they have no cursor to protect
	FeedEpoch  int64
}

// MoveReport is the result of [Store.Move].
type MoveReport struct {
	Events    int64 // that lost the numbers of the old server
	FeedEpoch int64
}

// Recover makes a ledger safe to go on with after a restore, or after a fail-over that lost
// commits. What the lost part signed is not known any more. So, in one transaction: every fencing
// token is raised beyond all that can have been given, every cursor is protected
// (DATABASE_RESTORED), who has no cursor is paused, what is not final is marked (txn.Tx.Restored),
// commands that nobody carried out are ended, and resume tokens and decisions on protections of
// before are void. Nodes must be stopped: ErrLedgerLive while a node or a lease is live. It looks
// before it locks anything, so that to be refused costs those who work nothing.
func (s *Store) Recover(ctx context.Context) (RecoverReport, error) {
	var report RecoverReport
	err := s.onStopped(ctx, "recover the ledger", func(tx pgx.Tx) (err error) {
		if report, err = recoverAll(ctx, db.New(tx)); err != nil {
			return err
		}
		_, err = adopt(ctx, tx, true)
		return err
	})
	if err != nil {
		return RecoverReport{}, err
	}
	return report, nil
}

// Move makes a complete copy of a ledger work on this server and database, such as one by pg_dump
// and pg_restore. In one transaction it makes all events older than those to come, raises the epoch
// of the feed, and records the server. Each account is compared with the chain before it takes its
// next nonce. Nodes must be stopped, as for [Store.Recover].
func (s *Store) Move(ctx context.Context) (MoveReport, error) {
	var report MoveReport
	err := s.onStopped(ctx, "move the ledger", func(tx pgx.Tx) (err error) {
		if report.FeedEpoch, err = db.New(tx).RaiseFeedEpoch(ctx); err != nil {
			return err
		}
		report.Events, err = adopt(ctx, tx, false)
		return err
	})
	if err != nil {
		return MoveReport{}, err
	}
	return report, nil
}

// onStopped runs a transaction on a ledger that no node works on: ErrLedgerLive otherwise.
func (s *Store) onStopped(ctx context.Context, verb string, do func(pgx.Tx) error) error {
	conn, err := s.taker.Acquire(ctx)
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	defer conn.Release()
	live, err := inUse(ctx, db.New(conn))
	if live == nil && err == nil {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if live, err = stopped(ctx, db.New(tx)); live != nil || err != nil {
				return errors.Join(live, err)
			}
			return do(tx)
		})
	}
	if live != nil {
		return fmt.Errorf("store: %s: %w", verb, live)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == notPermitted {
		return fmt.Errorf("store: %s: the role in database.url does not own the ledger; run this "+
			"as the owner", verb)
	}
	return s.failed(ctx, verb, err)
}

// inUse tells what still lives.
func inUse(ctx context.Context, q *db.Queries) (live, err error) {
	leases, err := q.LiveLease(ctx)
	if err != nil {
		return nil, err
	}
	if len(leases) > 0 {
		l := leases[0]
		return fmt.Errorf(
			"%w: node %q holds the lease of submitter %d; stop all nodes, and wait for a lease "+
				"duration",
			ErrLedgerLive, l.OwnerNode, l.SubmitterID), nil
	}
	nodes, err := q.LiveNodes(ctx, 1)
	if len(nodes) > 0 {
		return fmt.Errorf("%w: node %q is live; stop all nodes, and wait for a lease duration",
			ErrLedgerLive, nodes[0].NodeID), nil
	}
	return nil, err
}

// stopped locks all leases, so that nobody writes or acquires until the end, and looks again.
func stopped(ctx context.Context, q *db.Queries) (live, err error) {
	if err := q.SetLockTimeout(ctx, millis(recoverPatience)); err != nil {
		return nil, err
	}
	err = q.LockLeases(ctx)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable {
		return fmt.Errorf(
			"%w: a session holds a lease locked, though no node and no lease is live: that of a "+
				"node which is frozen, or whose host is gone. Stop all nodes, those "+
				"that are frozen too; when it is still there after that, end it in the database "+
				"(pg_terminate_backend)",
			ErrLedgerLive,
		), nil
	}
	if err != nil {
		return nil, err
	}
	return inUse(ctx, q)
}

func recoverAll(ctx context.Context, q *db.Queries) (r RecoverReport, err error) {
	if r.FeedEpoch, err = q.RaiseFeedEpoch(ctx); err != nil {
		return r, err
	}
	if _, err := q.RevokeLeases(ctx, tokenRaise); err != nil {
		return r, err
	}
	if _, err := q.EndCommands(ctx, restoredResult); err != nil {
		return r, err
	}
	if _, err := q.MarkRestored(ctx); err != nil {
		return r, err
	}
	paused, err := q.PauseUnstarted(ctx, unstartedReason)
	if err != nil {
		return r, err
	}
	protected, err := q.ProtectRestored(
		ctx,
		db.ProtectRestoredParams{
			Evidence: restoredEvidence,
			Reason:   txn.ProtectRestored,
			Raise:    protectionRaise,
		},
	)
	r.Submitters, r.Paused = int(protected), int(paused)
	return r, err
}
