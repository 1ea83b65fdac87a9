package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// maxCommands bounds the commands of one submitter in one look into the inboxes; the rest come with
// the next look.
const maxCommands = 100

// Load reads everything that the owner of a submitter keeps in memory. The lease, acquired before,
// makes the parts consistent: no other node writes them.
func (s *Store) Load(ctx context.Context, lease *Lease) (Ledger, error) {
	verb := fmt.Sprintf("load submitter %d", lease.submitter)
	conn, err := s.owner.Acquire(ctx)
	if err != nil {
		return Ledger{}, s.failed(ctx, verb, err)
	}
	defer conn.Release()
	var ledger Ledger
	// One snapshot for all of it: rows of two moments, between which a successor wrote, would fit
	// nothing that ever was.
	err = pgx.BeginTxFunc(
		ctx,
		conn,
		pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) (err error) {
			ledger, err = s.load(ctx, db.New(tx), lease.submitter)
			return err
		},
	)
	if errors.Is(err, pgx.ErrNoRows) {
		return Ledger{}, fmt.Errorf("store: %s: %w", verb, ErrSubmitterNotFound)
	}
	return ledger, s.failed(ctx, verb, err)
}

func (s *Store) load(ctx context.Context, q *db.Queries, id txn.SubmitterID) (Ledger, error) {
	var l Ledger
	submitter, err := q.OwnedSubmitter(ctx, int32(id))
	if err != nil {
		return l, err
	}
	if l.Submitter, err = toSubmitter(submitter); err != nil {
		return l, err
	}
	doubt, err := q.FailedOver(ctx, int32(id))
	if err != nil {
		return l, err
	}
	l.FailedOver, l.MayHaveLost = doubt.FailedOver, doubt.MayHaveLost
	if l.PoolRules, err = poolRules(ctx, q, id); err != nil {
		return l, err
	}
	switch c, err := q.Cursor(ctx, int32(id)); {
	case err == nil:
		l.Cursor = toCursor(&c.NextNonce, &c.InitNonce, &c.Protections, c.ProtectReason,
			c.ProtectEvidence, c.ProtectAt)
		l.Cursor.LastBlock = uint64(c.LastBlock)
	case !errors.Is(err, pgx.ErrNoRows):
		return l, err
	}
	if l.Submitter.Mode == txn.External {
		if l.Nonces, err = s.loadNonces(ctx, q, id); err != nil {
			return l, err
		}
	}
	rows, err := q.OpenTxs(ctx, int32(id))
	if err != nil {
		return l, err
	}
	attempts, err := q.OpenAttempts(ctx, int32(id))
	if err != nil {
		return l, err
	}
	of, err := s.attemptsByTx(attempts)
	if err != nil {
		return l, err
	}
	for _, r := range rows {
		tx, err := s.toDueTx(r.ManagedTx, r.DueMs, r.LateMs, r.WaitedMs)
		if err != nil {
			return l, err
		}
		tx.Attempts = of[tx.ID]
		l.Open = append(l.Open, tx)
	}
	return l, nil
}

// ProtectedTx returns which of these transactions the protection in force is about, as in
// txn.Protected; zero: none of them.
func (s *Store) ProtectedTx(ctx context.Context, lease *Lease, txs []txn.TxID) (txn.TxID, error) {
	ids := make([]uuid.UUID, len(txs))
	for i, id := range txs {
		ids[i] = uuid.UUID(id)
	}
	id, err := s.own().ProtectedTx(ctx,
		db.ProtectedTxParams{SubmitterID: int32(lease.submitter), TxIds: ids})
	if errors.Is(err, pgx.ErrNoRows) {
		return txn.TxID{}, nil
	}
	return txn.TxID(id), s.failed(ctx,
		fmt.Sprintf("read the protection of submitter %d", lease.submitter), err)
}

// LossDecided reports whether an operator has decided on a loss of commits: a protection for that,
// with a higher number than this one, has ended.
func (s *Store) LossDecided(ctx context.Context, lease *Lease, protections int64) (bool, error) {
	decided, err := s.own().LossDecided(ctx, db.LossDecidedParams{
		SubmitterID: int32(lease.submitter), Protections: protections})
	return decided, s.failed(ctx,
		fmt.Sprintf("read the decisions on submitter %d", lease.submitter), err)
}

// SignedAttempts reads all attempts of a transaction with their bytes, oldest first, only for its
// owner. A requeued transaction has earlier attempts, under other nonces.
func (s *Store) SignedAttempts(ctx context.Context, lease *Lease,
	tx txn.TxID) ([]txn.Attempt, error) {
	verb := fmt.Sprintf("read the signed attempts of transaction %s", tx)
	if tx.Submitter() != lease.submitter {
		return nil, fmt.Errorf("store: %s: it is of submitter %d, the lease of submitter %d", verb,
			tx.Submitter(), lease.submitter)
	}
	rows, err := s.own().SignedAttempts(ctx,
		db.SignedAttemptsParams{SubmitterID: int32(tx.Submitter()), TxID: uuid.UUID(tx)})
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	attempts := make([]txn.Attempt, len(rows))
	for i, r := range rows {
		if attempts[i], err = s.toAgedAttempt(db.OpenAttemptsRow(r)); err != nil {
			return nil, s.failed(ctx, verb, err)
		}
	}
	return attempts, nil
}

// Inboxes reads the intents of these submitters: up to heads transactions of the queues, and the
// oldest commands that are not applied. A submitter with neither has an empty inbox.
func (s *Store) Inboxes(ctx context.Context, ids []txn.SubmitterID,
	heads ...int) (map[txn.SubmitterID]Inbox, error) {
	verb := fmt.Sprintf("read the inboxes of %d submitters", len(ids))
	boxes := make(map[txn.SubmitterID]Inbox, len(ids))
	for _, id := range ids {
		boxes[id] = Inbox{}
	}
	anyCommands := true // unless the rows of the queues report none
	err := s.own().EachInboxTx(
		ctx,
		db.InboxTxsParams{SubmitterIds: plain(ids), Heads: rowLimits(len(ids), heads)},
		func(r *db.InboxTxsRow) error {
			tx, err := s.toDueTx(r.ManagedTx, r.DueMs, r.LateMs, r.WaitedMs)
			if err != nil {
				return err
			}
			box := boxes[tx.Submitter]
			box.Queue = append(box.Queue, tx)
			boxes[tx.Submitter], anyCommands = box, r.AnyCommands
			return nil
		},
	)
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	var commands []db.InboxCommandsRow
	if anyCommands {
		if commands, err = s.own().InboxCommands(ctx,
			db.InboxCommandsParams{SubmitterIds: plain(ids), Most: maxCommands}); err != nil {
			return nil, s.failed(ctx, verb, err)
		}
	}
	for _, k := range commands {
		box := boxes[txn.SubmitterID(k.SubmitterID)]
		box.Commands = append(box.Commands, toCommand(k))
		box.More = len(box.Commands) == maxCommands
		boxes[txn.SubmitterID(k.SubmitterID)] = box
	}
	return boxes, nil
}

// rowLimits is a limit for each of n queues; the last one given is for all that follow.
func rowLimits(n int, limits []int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = rowLimit(limits[min(i, len(limits)-1)])
	}
	return rows
}

// WithCommands returns the submitters that have a command that is not applied.
func (s *Store) WithCommands(ctx context.Context,
	ids []txn.SubmitterID) ([]txn.SubmitterID, error) {
	rows, err := s.own().WithCommands(ctx, plain(ids))
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("read the commands of %d submitters", len(ids)), err)
	}
	commanded := make([]txn.SubmitterID, len(rows))
	for i, id := range rows {
		commanded[i] = txn.SubmitterID(id)
	}
	return commanded, nil
}

// The number of transactions to search for the final ones that an owner compares with the chain. Of
// those that waited for the block of the one before, there are no more than blocks. Of those that
// did not, because several were in flight at some time, a block may have any number: the search
// goes on while it finds them, up to the last number.
const (
	leastRecent = 512
	mostRecent  = 4096
	allRecent   = 1 << 16
)

// RecentFinals reads the final transactions that a reorg could reach: their block is less than
// depth below the newest one, or they became final as not executed within that depth although they
// have attempts. open is the number of transactions in flight. It reads no attempts.
func (s *Store) RecentFinals(ctx context.Context, lease *Lease, depth uint64,
	open int) ([]txn.Tx, error) {
	verb := fmt.Sprintf("read the newest final transactions of submitter %d", lease.submitter)
	p := db.RecentFinalsParams{
		SubmitterID: int32(lease.submitter), Depth: int64(min(depth, math.MaxInt64/2)),
		MaxRows: int32(min(max(depth, leastRecent), mostRecent)) + int32(open),
	}
	rows, err := s.own().RecentFinals(ctx, p)
	for err == nil && len(rows) > 0 && rows[0].Cut && p.MaxRows < allRecent {
		p.MaxRows *= 4
		rows, err = s.own().RecentFinals(ctx, p)
	}
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	txs := make([]txn.Tx, len(rows))
	for i, r := range rows {
		if txs[i], err = toTx(r.ManagedTx); err != nil {
			return nil, s.failed(ctx, verb, err)
		}
	}
	return txs, nil
}
