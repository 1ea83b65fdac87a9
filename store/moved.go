package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ErrMoved is what a [MovedError] is.
var ErrMoved = errors.New("the account moved to another ledger")

// hasMoved is the name under which triggers refuse writes for a moved account.
const hasMoved = "account_has_moved"

// movedSchema is the migration that added tombstones.
const movedSchema = 36

// MovedError is returned for an account that moved to another ledger of the directory. This ledger
// did not apply the request, and never applies one for that account again.
type MovedError struct {
	Submitter string // empty: not known here
	Ledger    string // that has the account now, or had it next
}

func (e *MovedError) Error() string { return fmt.Sprintf("%s, %q", ErrMoved.Error(), e.Ledger) }

// Is makes it ErrMoved.
func (e *MovedError) Is(target error) bool { return target == ErrMoved }

// SealMoved sets the tombstones that this ledger lacks: of accounts that left it according to its
// directory. It lacks some after it was restored from an older backup, and must not work on those
// accounts. It returns their names. A ledger without a directory has none.
func (s *Store) SealMoved(ctx context.Context) (sealed []string, err error) {
	const verb = "ask the directory for moved accounts"
	away, err := s.unsealed(ctx)
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	for _, m := range away {
		err := pgx.BeginFunc(ctx, s.taker, func(tx pgx.Tx) error { return sealAgain(ctx, tx, m) })
		if err != nil {
			return sealed, s.failed(ctx, fmt.Sprintf("set the tombstone of submitter %q", m.Name),
				err)
		}
		sealed = append(sealed, m.Name)
	}
	return sealed, nil
}

// unsealed lists the accounts without tombstone that left this ledger according to the directory.
func (s *Store) unsealed(ctx context.Context) ([]db.MovedAwayRow, error) {
	if s.cfg.Directory == nil {
		return nil, nil
	}
	self, err := s.read().LedgerOfMove(ctx)
	if err != nil || self.DirectoryNo == nil {
		return nil, err
	}
	all, err := s.cfg.Directory.read().MovedAway(ctx, *self.DirectoryNo)
	if err != nil {
		return nil, err
	}
	var left []db.MovedAwayRow
	for _, m := range all {
		switch is, err := s.read().MoveState(ctx, m.SubmitterID); {
		case isNoRows(err): // the ledger is older than the account
		case err != nil:
			return nil, err
		case is.MovedTo == nil:
			left = append(left, m)
		}
	}
	return left, nil
}

// mustSeal lists the accounts that need a tombstone when the ledger is recovered. It fails without
// the directory, unless that is in this database: no account leaves such a ledger.
func (s *Store) mustSeal(ctx context.Context) ([]db.MovedAwayRow, error) {
	self, err := s.read().LedgerOfMove(ctx)
	if err != nil || self.DirectoryNo == nil {
		return nil, err
	}
	ledgers, err := s.read().DirectoryLedgers(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range ledgers {
		if l.LedgerID == self.LedgerID {
			return nil, nil
		}
	}
	if s.cfg.Directory == nil {
		return nil, errDirectoryNeeded
	}
	return s.unsealed(ctx)
}

// errDirectoryNeeded is returned by a recovery that cannot ask for moved accounts.
var errDirectoryNeeded = fmt.Errorf("%w: accounts may have moved to other ledgers since the "+
	"backup; give --config with directory.url", ErrDirectory)

// sealAll is sealAgain for several moves.
func sealAll(ctx context.Context, tx pgx.Tx, away []db.MovedAwayRow) error {
	for _, m := range away {
		if err := sealAgain(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}

// sealAgain sets the tombstone of a move that the directory has, whatever the account does here.
func sealAgain(ctx context.Context, tx pgx.Tx, m db.MovedAwayRow) error {
	q := db.New(tx)
	if err := lockAccount(ctx, q, txn.SubmitterID(m.SubmitterID)); err != nil {
		return err
	}
	_, err := seal(ctx, q, txn.SubmitterID(m.SubmitterID), m.MoveID, m.Ledger)
	return err
}

// lockAccount waits for all running writes of transactions, and for running requests to the owner
// of an account, and keeps later ones waiting until the transaction ends. Statements lock the table
// before they read whether the account is here.
func lockAccount(ctx context.Context, q *db.Queries, id txn.SubmitterID) error {
	if err := q.LockWriters(ctx); err != nil {
		return err
	}
	return q.LockSubmitter(ctx, int32(id))
}

// seal sets a tombstone: no owner, present or future, can write for the account any more. It
// returns the last token.
func seal(ctx context.Context, q *db.Queries, id txn.SubmitterID, move uuid.UUID,
	ledger string) (token int64, err error) {
	token, err = q.SealLease(ctx, db.SealLeaseParams{SubmitterID: int32(id), Ledger: ledger})
	if err != nil {
		return 0, err
	}
	_, err = q.SealSubmitter(ctx,
		db.SealSubmitterParams{SubmitterID: int32(id), Ledger: ledger, MoveID: move})
	return token, err
}
