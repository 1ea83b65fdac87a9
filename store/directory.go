package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

var (
	// ErrDirectory is returned when the directory of ledgers cannot be asked, or does not have this
	// ledger. Only registration depends on it.
	ErrDirectory = errors.New("directory of ledgers")
	// ErrCannotJoin is returned when a ledger cannot join a directory.
	ErrCannotJoin = errors.New("the ledger cannot join the directory")
)

// numberBits is the part of a submitter's number that its ledger gives out. The rest is the number
// of the ledger in the directory.
const numberBits = 24

// DirectoryLedger is a ledger in a directory. Its submitters have the numbers First to Last.
type DirectoryLedger struct {
	Name        string
	ID          uuid.UUID
	First, Last txn.SubmitterID
	Accounts    int64 // claimed for it
	JoinedAt    time.Time
}

// numbersOf returns the first and the last number of the submitters of a ledger.
func numbersOf(no int32) (first, last txn.SubmitterID) {
	first = txn.SubmitterID(no) << numberBits
	return max(1, first), first + 1<<numberBits - 1
}

// claim asks the directory for an account, before it is registered here. It returns the number of
// this ledger in the directory. A claim stays: nothing else may register the account later.
func (s *Store) claim(ctx context.Context, r Registration) (no *int32, err error) {
	self, err := s.read().LedgerIdentity(ctx)
	if err != nil {
		return nil, describeError(err)
	}
	if self.DirectoryNo == nil {
		return nil, fmt.Errorf("%w: this ledger is not in it; run \"fencepost ledger join\"",
			ErrDirectory)
	}
	directory := s.cfg.Directory.read()
	claimed, err := directory.ClaimAccount(ctx, db.ClaimAccountParams{
		Name: r.Name, ChainID: int64(r.Chain), Address: r.Address[:], LedgerID: self.LedgerID,
	})
	if err == nil {
		return &claimed, nil
	}
	if why := s.cfg.Directory.explainTables(err); errors.Is(why, ErrSchema) {
		return nil, why
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%w: %w", ErrDirectory, describeError(err))
	}
	there, err := directory.ClaimsLike(ctx, db.ClaimsLikeParams{
		Name: r.Name, ChainID: int64(r.Chain), Address: r.Address[:],
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDirectory, describeError(err))
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("%w: it does not have this ledger; run \"fencepost ledger join\" "+
			"again", ErrDirectory)
	}
	for _, c := range there {
		if c.LedgerID == self.LedgerID && c.Name == r.Name &&
			txn.ChainID(c.ChainID) == r.Chain && txn.Address(c.Address) == r.Address {
			return &c.No, nil
		}
	}
	return nil, claimedElsewhere(r, there[0])
}

// poolClaim is the claim of the name of a pool, which is that of an account that cannot exist: its
// name is no name of a submitter.
func poolClaim(name string, chain txn.ChainID) Registration {
	digest := sha256.Sum256([]byte("pool:" + name))
	r := Registration{Name: "pool:" + name, Chain: chain}
	copy(r.Address[:], digest[:])
	return r
}

// claimPool asks the directory for the name of a pool. Two ledgers with a pool of one name would
// execute its requests twice.
func (s *Store) claimPool(ctx context.Context, name string, chain txn.ChainID) error {
	_, err := s.LookupPool(ctx, name)
	if s.cfg.Directory == nil || !errors.Is(err, ErrPoolNotFound) {
		return nil // a failed read is that of the caller too
	}
	if _, err = s.claim(ctx, poolClaim(name, chain)); errors.Is(err, ErrSubmitterExists) {
		return fmt.Errorf("%w: the directory has it for another ledger or chain", ErrPoolExists)
	}
	return err
}

// DirectoryNumber returns the number of the ledger in the directory, where it has this name. A
// ledger that is in none, as the only one of a node, has the number of the first.
func (s *Store) DirectoryNumber(ctx context.Context, name string) (int32, error) {
	self, err := s.read().LedgerIdentity(ctx)
	switch {
	case err != nil:
		return 0, s.failed(ctx, "read the number of the ledger", err)
	case self.DirectoryNo != nil && self.LedgerName != name:
		return 0, fmt.Errorf("store: %w: this ledger is %q there; correct its name or its url in "+
			"the configuration", ErrDirectory, self.LedgerName)
	case self.DirectoryNo != nil:
		return *self.DirectoryNo, nil
	case s.cfg.Directory != nil:
		return 0, fmt.Errorf("store: %w: this ledger is not in it; run \"fencepost ledger join\"",
			ErrDirectory)
	}
	return 0, nil
}

// Accounts returns the submitters with higher numbers, in order, without their settings.
func (s *Store) Accounts(ctx context.Context, after txn.SubmitterID,
	limit int) ([]txn.Submitter, error) {
	rows, err := s.read().AccountsAfter(ctx,
		db.AccountsAfterParams{After: int32(after), MaxRows: int32(limit)})
	if err != nil {
		return nil, s.failed(ctx, "list the accounts", err)
	}
	all := make([]txn.Submitter, len(rows))
	for i, r := range rows {
		all[i] = txn.Submitter{ID: txn.SubmitterID(r.SubmitterID), Name: r.Name,
			Chain: txn.ChainID(r.ChainID), Address: txn.Address(r.Address)}
	}
	return all, nil
}

// claimedElsewhere explains a claim that is in the way.
func claimedElsewhere(r Registration, c db.ClaimsLikeRow) error {
	if c.Name == r.Name {
		return fmt.Errorf("%w: the directory has the name for %s in ledger %q; choose another",
			ErrSubmitterExists, txn.AccountID(txn.ChainID(c.ChainID), txn.Address(c.Address)),
			c.Ledger)
	}
	return fmt.Errorf("%w: the directory has the account as %q in ledger %q", ErrSubmitterExists,
		c.Name, c.Ledger)
}

// isUnclaimed reports whether the ledger refused a submitter that its directory did not allow.
func isUnclaimed(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55000" && pg.ConstraintName == "submitter_is_claimed"
}

// JoinDirectory adds the ledger to the directory of its configuration under a name, and claims its
// accounts. A ledger that joins first keeps the numbers of its submitters; any other must have none
// yet. Nodes may run meanwhile. A repeated call makes missing claims, as after a restore of the
// directory. The role must own both databases.
func (s *Store) JoinDirectory(ctx context.Context, name string) (DirectoryLedger, error) {
	var joined DirectoryLedger
	err := pgx.BeginFunc(ctx, s.taker, func(tx pgx.Tx) error {
		return pgx.BeginFunc(ctx, s.cfg.Directory.taker, func(directory pgx.Tx) (err error) {
			joined, err = join(ctx, tx, db.New(directory), name)
			return err
		})
	})
	switch pg, _ := errors.AsType[*pgconn.PgError](err); {
	case err == nil:
		return joined, nil
	case errors.Is(err, ErrCannotJoin):
		return joined, fmt.Errorf("store: %w", err)
	case pg != nil && pg.Code == notPermitted:
		return joined, fmt.Errorf("store: join the directory: a role in database.url or " +
			"directory.url does not own its tables; run this as the owner")
	}
	return joined, s.failed(ctx, "join the directory", err)
}

// join claims the accounts in the directory, which commits first: a crash between the two commits
// leaves claims that a repeated call finds.
func join(ctx context.Context, tx pgx.Tx, directory *db.Queries,
	name string) (joined DirectoryLedger, err error) {
	q := db.New(tx)
	if err := q.LockSubmitters(ctx); err != nil {
		return joined, err
	}
	self, err := q.LedgerIdentity(ctx)
	if err != nil {
		return joined, err
	}
	if self.DirectoryNo != nil && self.LedgerName != name {
		return joined, fmt.Errorf("%w: it is in one as %q; give that name", ErrCannotJoin,
			self.LedgerName)
	}
	no, err := numberIn(ctx, directory, self, name)
	if err != nil {
		return joined, err
	}
	accounts, err := q.AccountsOfLedger(ctx)
	if err != nil {
		return joined, err
	}
	pools, err := q.PoolsOfLedger(ctx)
	if err != nil {
		return joined, err
	}
	first, last := numbersOf(no)
	if err := claimMoves(ctx, q, directory, no); err != nil {
		return joined, err
	}
	moved, err := q.Arrivals(ctx)
	if err != nil {
		return joined, err
	}
	if err := claimAll(ctx, directory, no, accounts, moved, pools); err != nil {
		return joined, err
	}
	away, err := directory.MovedAway(ctx, no)
	if err != nil {
		return joined, err
	}
	if err := q.SetDirectory(ctx, db.SetDirectoryParams{No: no, Name: name}); err != nil {
		return joined, err
	}
	used, err := q.HasSubmitters(ctx)
	if err != nil {
		return joined, err
	}
	limits := fmt.Sprintf("ALTER TABLE submitter ALTER COLUMN submitter_id "+
		"SET MINVALUE %d SET MAXVALUE %d", first, last)
	if !used {
		limits += fmt.Sprintf(" SET START WITH %d RESTART", first)
	}
	if _, err := tx.Exec(ctx, limits); err != nil {
		return joined, err
	}
	if err := keepNumbers(ctx, tx, away); err != nil {
		return joined, err
	}
	return DirectoryLedger{Name: name, ID: self.LedgerID, First: first, Last: last,
		Accounts: int64(len(accounts))}, nil
}

// numberIn returns the number of a ledger in the directory, which it joins if it is not there.
func numberIn(ctx context.Context, directory *db.Queries, self db.LedgerIdentityRow,
	name string) (no int32, err error) {
	if err := directory.LockDirectory(ctx); err != nil {
		return 0, err
	}
	no, err = directory.AddLedger(ctx,
		db.AddLedgerParams{Name: name, LedgerID: self.LedgerID})
	if err == nil {
		if self.DirectoryNo != nil && *self.DirectoryNo != no {
			return 0, fmt.Errorf("%w: it has number %d in another directory; restore that one",
				ErrCannotJoin, *self.DirectoryNo)
		}
		return no, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return 0, err
	}
	all, err := directory.DirectoryLedgers(ctx)
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		switch {
		case d.LedgerID == self.LedgerID && d.Name == name:
			return d.No, nil
		case d.LedgerID == self.LedgerID:
			return 0, fmt.Errorf("%w: it is there as %q; give that name", ErrCannotJoin, d.Name)
		case d.Name == name:
			return 0, fmt.Errorf("%w: another ledger has the name %q; choose another",
				ErrCannotJoin, name)
		}
	}
	return 0, fmt.Errorf("%w: a directory holds 128 ledgers", ErrCannotJoin)
}

// claimAll claims the accounts and the names of pools that a ledger has. Accounts that moved to it
// keep their numbers.
func claimAll(ctx context.Context, directory *db.Queries, no int32,
	accounts []db.AccountsOfLedgerRow, moved []db.ArrivalsRow,
	pools []db.PoolsOfLedgerRow) error {
	first, last := numbersOf(no)
	claims := db.ClaimAccountsParams{No: no}
	arrived := make(map[int32]bool, len(moved))
	for _, m := range moved {
		arrived[m.SubmitterID] = true
		if err := directory.ClaimArrival(ctx, db.ClaimArrivalParams{MoveID: m.MoveID,
			SubmitterID: m.SubmitterID, Name: m.Name, FromNo: m.FromNo, ToNo: no}); err != nil {
			return err
		}
	}
	for _, a := range accounts {
		if arrived[a.SubmitterID] {
			// it keeps its number
		} else if id := txn.SubmitterID(a.SubmitterID); id < first || id > last {
			return fmt.Errorf("%w: submitter %q has number %d, which belongs to another ledger; "+
				"only the first ledger may have submitters when it joins", ErrCannotJoin, a.Name,
				a.SubmitterID)
		}
		claims.Names = append(claims.Names, a.Name)
		claims.ChainIds = append(claims.ChainIds, a.ChainID)
		claims.Addresses = append(claims.Addresses, a.Address)
	}
	for _, p := range pools {
		r := poolClaim(p.Name, txn.ChainID(p.ChainID))
		claims.Names = append(claims.Names, r.Name)
		claims.ChainIds = append(claims.ChainIds, p.ChainID)
		claims.Addresses = append(claims.Addresses, r.Address[:])
	}
	if err := directory.ClaimAccounts(ctx, claims); err != nil {
		return err
	}
	others, err := directory.Unclaimed(ctx, db.UnclaimedParams{Names: claims.Names,
		ChainIds: claims.ChainIds, Addresses: claims.Addresses, No: no, MaxRows: 1})
	if err != nil {
		return err
	}
	if len(others) > 0 {
		if name, isPool := strings.CutPrefix(others[0].Name, "pool:"); isPool {
			return fmt.Errorf("%w: ledger %q has a pool of the name %q", ErrCannotJoin,
				others[0].Ledger, name)
		}
		return fmt.Errorf("%w: ledger %q has the name or the account of submitter %q; one account "+
			"in two ledgers would use the same nonces twice", ErrCannotJoin, others[0].Ledger,
			others[0].Name)
	}
	return nil
}

// DirectoryLedgers lists the ledgers of the directory in this database.
func (s *Store) DirectoryLedgers(ctx context.Context) ([]DirectoryLedger, error) {
	rows, err := s.read().DirectoryLedgers(ctx)
	if err != nil {
		return nil, s.failed(ctx, "list the ledgers of the directory", err)
	}
	all := make([]DirectoryLedger, len(rows))
	for i, r := range rows {
		all[i] = DirectoryLedger{Name: r.Name, ID: r.LedgerID, Accounts: r.Accounts,
			JoinedAt: r.JoinedAt}
		all[i].First, all[i].Last = numbersOf(r.No)
	}
	return all, nil
}

// LedgerOf names the ledger that has the submitter of this name, according to the directory in this
// database.
func (s *Store) LedgerOf(ctx context.Context, name string) (string, error) {
	ledger, err := s.read().LedgerOfAccount(ctx, name)
	verb := fmt.Sprintf("look for submitter %q in the directory", name)
	if isNoRows(err) {
		return "", fmt.Errorf("store: %s: %w", verb, ErrSubmitterNotFound)
	}
	return ledger, s.failed(ctx, verb, err)
}
