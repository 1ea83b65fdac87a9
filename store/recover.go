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

// ErrLedgerLive is returned while nodes still work on a ledger that is to be recovered.
var ErrLedgerLive = errors.New("the ledger is in use")

// tokenRaise is more tokens than the lost part of a ledger can have given: each takes a commit.
const tokenRaise = 1 << 40

// protectionRaise is more protections of one submitter than the lost part can have counted: an
// operator decides on each. Milliseconds of the database's time are more still, and differ each
// time.
const protectionRaise = 1_000_000

// Texts that Recover leaves for operators.
const (
	restoredEvidence = "the database was restored from a backup, or failed over and lost " +
		"commits: transactions accepted or signed afterwards are missing, and queued ones may " +
		"have been executed, and would execute again. Wait until the account's next nonce is " +
		"the same in the newest block, in the pool and when settled; check on chain which " +
		"transactions it sent after the backup; cancel the queued ones that were executed " +
		"(fencepost tx cancel; they end as UNKNOWN), and let callers repeat only the others; " +
		"then leave with RESUME if the chain is at the cursor, or with ALIGN_FORWARD if it is " +
		"ahead. If transactions stay queued, all compared and not executed, leave with " +
		"RESUME_KEEP_QUEUE or ALIGN_FORWARD_KEEP_QUEUE"
	unstartedReason = "the database was restored from a backup, or failed over and lost commits: " +
		"in it this account has never sent, but it may have since. Queued transactions may " +
		"have been executed, and would execute again: check on chain which transactions the " +
		"account sent, cancel the queued ones that were executed (fencepost tx cancel), then " +
		"resume it"
	restoredResult = "VOID: the ledger was restored"
)

// recoverPatience is how long Recover waits for one lock. No node works on the ledger by then; a
// last commit finishes sooner.
const recoverPatience = time.Second

// RecoverReport is the result of Recover.
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

// Recover makes a ledger safe after a restore, or after a fail-over that lost commits. The
// signatures of the lost part are unknown. So, in one transaction: every fencing token is raised
// beyond all that can have been issued, every cursor is protected (DATABASE_RESTORED), submitters
// without a cursor are paused, open transactions are marked (txn.Tx.Restored), commands that were
// not applied are finished, and resume tokens and decisions on earlier protections become invalid.
// Nodes must be stopped: it returns ErrLedgerLive while a node or a lease is live. It checks this
// before it locks anything, so that a refused call does not disturb running nodes. Accounts that
// left the ledger after the backup get their tombstones again, from the directory.
func (s *Store) Recover(ctx context.Context) (RecoverReport, error) {
	var report RecoverReport
	const verb = "recover the ledger"
	_, away, err := s.mustSeal(ctx)
	if err != nil {
		return RecoverReport{}, s.failed(ctx, verb, err)
	}
	err = s.onStopped(ctx, verb, func(tx pgx.Tx) (err error) {
		if err = sealAll(ctx, tx, away); err != nil {
			return err
		}
		if err = parkUndelivered(ctx, tx); err != nil {
			return err
		}
		if report, err = recoverAll(ctx, db.New(tx)); err != nil {
			return err
		}
		_, err = adopt(ctx, tx, adoption{asked: s.cfg.Directory != nil, compared: true})
		if err != nil {
			return err
		}
		if err = keepNumbers(ctx, tx, away); err != nil {
			return err
		}
		return restartSinks(ctx, tx)
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
	const verb = "move the ledger"
	_, away, err := s.mustSeal(ctx)
	if err != nil {
		return MoveReport{}, s.failed(ctx, verb, err)
	}
	err = s.onStopped(ctx, verb, func(tx pgx.Tx) (err error) {
		if err = sealAll(ctx, tx, away); err != nil {
			return err
		}
		if err = parkUndelivered(ctx, tx); err != nil {
			return err
		}
		if report.FeedEpoch, err = db.New(tx).RaiseFeedEpoch(ctx); err != nil {
			return err
		}
		report.Events, err = adopt(ctx, tx, adoption{asked: s.cfg.Directory != nil})
		if err != nil {
			return err
		}
		if err = keepNumbers(ctx, tx, away); err != nil {
			return err
		}
		return restartSinks(ctx, tx)
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

// inUse returns an error that names a live node or lease.
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

// stopped locks all leases, so that no node writes or acquires until the end, and checks again.
func stopped(ctx context.Context, q *db.Queries) (live, err error) {
	if err := q.SetLockTimeout(ctx, millis(recoverPatience)); err != nil {
		return nil, err
	}
	err = q.LockLeases(ctx)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable {
		return fmt.Errorf(
			"%w: a session of a frozen node, or of a lost host, locks a lease; stop all nodes, "+
				"also "+
				"frozen ones; if the session remains, end it with pg_terminate_backend",
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
	if _, err := q.EndCommands(ctx, db.EndCommandsParams{Ended: restoredResult}); err != nil {
		return r, err
	}
	if _, err := q.MarkRestored(ctx, 0); err != nil {
		return r, err
	}
	if _, err := q.VoidTopUps(ctx); err != nil {
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
