package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
// accounts. It returns their names, and records that the directory has answered. A ledger without a
// directory has none.
func (s *Store) SealMoved(ctx context.Context) (sealed []string, err error) {
	const verb = "ask the directory for moved accounts"
	self, away, err := s.mustSeal(ctx)
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	for _, m := range away {
		is, err := s.read().HasLeft(ctx, db.HasLeftParams{SubmitterID: m.SubmitterID, Name: m.Name})
		if err == nil && !is {
			err = pgx.BeginFunc(ctx, s.taker,
				func(tx pgx.Tx) error { return sealAgain(ctx, tx, m) })
			sealed = append(sealed, m.Name)
		}
		if err != nil && !isNoRows(err) {
			return nil, s.failed(ctx, fmt.Sprintf("set the tombstone of submitter %q", m.Name),
				err)
		}
	}
	if !s.mayHaveMoved(self) {
		return sealed, nil
	}
	// of the moment before the directory was asked: a later fail-over is another one
	err = s.read().MovesAsked(ctx, self.Timeline)
	return sealed, s.failed(ctx, "record the answer of the directory", err)
}

// MustAskMoved reports whether this ledger may have lost tombstones: it gives no lease before
// SealMoved has succeeded.
func (s *Store) MustAskMoved(ctx context.Context) (bool, error) {
	self, err := s.read().LedgerOfMove(ctx)
	return self.FailedOver && s.mayHaveMoved(self),
		s.failed(ctx, "read the state of the ledger", err)
}

// mayHaveMoved reports whether accounts of a ledger may have moved. One that has not joined a
// directory may have been restored to before it did.
func (s *Store) mayHaveMoved(self db.LedgerOfMoveRow) bool {
	return self.DirectoryNo != nil || s.cfg.Directory != nil
}

// ErrNoRights is returned when a role may not read the moves in the directory.
var ErrNoRights = fmt.Errorf("%w: the role in directory.url may not read moves; run "+
	"\"fencepost migrate grants --directory\" for it", ErrDirectory)

// movedAway lists the accounts that left a ledger, from the directory in this database.
func (s *Store) movedAway(ctx context.Context, no int32) ([]db.MovedAwayRow, error) {
	all, err := s.read().MovedAway(ctx, no)
	return all, s.explainMoves(err)
}

// explainMoves names the remedy if the moves in the directory cannot be read.
func (s *Store) explainMoves(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == notPermitted {
		return ErrNoRights
	}
	return s.explainTables(err)
}

// mustSeal lists the accounts that must have a tombstone in this ledger. It fails without the
// directory, unless that is in this database: no account leaves such a ledger. A configured one is
// always asked, because tables of it in this database may be what a dump of them left. A ledger
// that does not know its directory may have been restored to before it joined.
func (s *Store) mustSeal(ctx context.Context) (self db.LedgerOfMoveRow, away []db.MovedAwayRow,
	err error) {
	self, err = s.read().LedgerOfMove(ctx)
	switch {
	case err != nil, !s.mayHaveMoved(self), self.HasDirectory && s.cfg.Directory == nil:
		return self, nil, err
	case s.cfg.Directory == nil:
		return self, nil, errDirectoryNeeded
	case self.DirectoryNo != nil:
		away, err = s.cfg.Directory.movedAway(ctx, *self.DirectoryNo)
		return self, away, err
	}
	ledgers, err := s.cfg.Directory.read().DirectoryLedgers(ctx)
	err = s.cfg.Directory.explainMoves(err)
	for _, l := range ledgers {
		if l.LedgerID == self.LedgerID {
			away, err = s.cfg.Directory.movedAway(ctx, l.No)
		}
	}
	return self, away, err
}

// errDirectoryNeeded is returned by a ledger that cannot ask for moved accounts.
var errDirectoryNeeded = fmt.Errorf("%w: accounts may have moved to other ledgers since a "+
	"backup; set directory.url, or give --config with it", ErrDirectory)

// sealAll is sealAgain for several moves.
func sealAll(ctx context.Context, tx pgx.Tx, away []db.MovedAwayRow) error {
	for _, m := range away {
		is, err := db.New(tx).HasLeft(ctx,
			db.HasLeftParams{SubmitterID: m.SubmitterID, Name: m.Name})
		if err == nil && !is {
			err = sealAgain(ctx, tx, m)
		}
		if err != nil && !isNoRows(err) { // no row: the ledger is older than the account
			return err
		}
	}
	return nil
}

// keepNumbers raises the sequence of numbers above those of accounts that have left the ledger. It
// may be older than they are, and must not give their numbers to others.
func keepNumbers(ctx context.Context, tx pgx.Tx, away []db.MovedAwayRow) error {
	ids := make([]int32, len(away))
	for i, m := range away {
		ids[i] = m.SubmitterID
	}
	_, err := tx.Exec(ctx, `SELECT setval('submitter_submitter_id_seq', max(m.id))
  FROM unnest($1::INT[]) AS m(id), submitter_submitter_id_seq q, ledger l
 WHERE m.id >> $2 = l.directory_no
HAVING max(m.id) >= max(q.last_value)`, ids, numberBits)
	return err
}

// sealAgain sets the tombstone of a move that the directory has, whatever the account does here.
// Its requests end: they were made with a later state in view. The token is beyond all that the
// lost part can have given, so that the account arrives protected if it has not arrived yet.
func sealAgain(ctx context.Context, tx pgx.Tx, m db.MovedAwayRow) error {
	q := db.New(tx)
	id := txn.SubmitterID(m.SubmitterID)
	if err := lockAccount(ctx, q, id); err != nil {
		return err
	}
	_, err := q.EndCommands(ctx,
		db.EndCommandsParams{Ended: restoredResult, OneSubmitter: m.SubmitterID})
	if err != nil {
		return err
	}
	return seal(ctx, q, id, tokenRaise, db.SealSubmitterParams{MoveID: m.MoveID, Ledger: m.Ledger})
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

// seal sets a tombstone: no owner, present or future, can write for the account any more.
func seal(ctx context.Context, q *db.Queries, id txn.SubmitterID, raise int64,
	tombstone db.SealSubmitterParams) error {
	_, err := q.SealLease(ctx, db.SealLeaseParams{SubmitterID: int32(id), Raise: raise,
		Ledger: tombstone.Ledger})
	if err != nil {
		return err
	}
	tombstone.SubmitterID = int32(id)
	_, err = q.SealSubmitter(ctx, tombstone)
	return err
}

// claimMoves records in the directory which accounts left a ledger, and to which one, if it was
// restored and does not know.
func claimMoves(ctx context.Context, q, directory *db.Queries, no int32) error {
	left, err := q.Tombstones(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	ledgers, err := directory.DirectoryLedgers(ctx)
	if err != nil {
		return err
	}
	for _, t := range left {
		for _, l := range ledgers {
			if l.Name != t.MovedTo {
				continue
			}
			err := directory.ClaimAccounts(ctx, db.ClaimAccountsParams{No: no,
				Names: []string{t.Name}, ChainIds: []int64{t.ChainID},
				Addresses: [][]byte{t.Address}})
			if err != nil {
				return err
			}
			err = directory.AdoptMove(ctx, db.AdoptMoveParams{MoveID: t.MoveID,
				SubmitterID: t.SubmitterID, Name: t.Name, FromNo: no, ToNo: l.No})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
