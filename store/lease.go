package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// Acquire takes the leases of all these submitters that are free, lapsed, or this node's own, each
// under a new token, in one statement. A lease whose row is locked at the moment, by a commit or by
// another taker, is skipped.
func (s *Store) Acquire(ctx context.Context, ids []txn.SubmitterID) ([]*Lease, error) {
	verb := fmt.Sprintf("acquire %d leases", len(ids))
	conn, err := s.taker.Acquire(ctx)
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	defer conn.Release()
	at := s.clock.Now()
	rows, err := db.New(conn).AcquireLeases(
		ctx,
		db.AcquireLeasesParams{
			OwnerNode:     s.cfg.Node,
			Seconds:       s.cfg.LeaseDuration.Seconds(),
			SubmitterIds:  plain(ids),
			WithDirectory: s.cfg.Directory != nil,
		},
	)
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	leases := make([]*Lease, len(rows))
	for i, r := range rows {
		leases[i] = taken(db.AcquireLeaseRow(r), at)
	}
	return leases, nil
}

// AcquireOne takes one lease as Acquire does, but waits for a commit that is under way. It returns
// nil when another node holds the lease. A session that keeps it waiting for longer than any
// statement of ours lasts is ended.
func (s *Store) AcquireOne(ctx context.Context, id txn.SubmitterID) (*Lease, error) {
	verb := fmt.Sprintf("acquire the lease of submitter %d", id)
	conn, err := s.taker.Acquire(ctx)
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	defer conn.Release()
	at := s.clock.Now()
	stop := s.endBlockers(ctx, conn.Conn().PgConn().PID())
	row, err := db.New(conn).AcquireLease(ctx, db.AcquireLeaseParams{
		OwnerNode: s.cfg.Node, Seconds: s.cfg.LeaseDuration.Seconds(), SubmitterID: int32(id),
		WithDirectory: s.cfg.Directory != nil,
	})
	stop()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	return taken(row, at), nil
}

func taken(r db.AcquireLeaseRow, at time.Time) *Lease {
	return &Lease{
		submitter: txn.SubmitterID(r.SubmitterID), token: txn.Token(r.FencingToken), takenAt: at,
		expiresAt: r.ExpiresAt,
		before: Before{
			Owner:    r.BeforeOwner,
			Released: r.BeforeReleased,
			Gap:      time.Duration(r.GapMs) * time.Millisecond,
		},
	}
}

// endBlockers terminates the sessions that block a session for longer than a third of a lease,
// until stop is called. A terminated session was stopped in the middle of a statement, or is one of
// ours with an unknown outcome: the termination completes or undoes its statement, and both are
// right.
func (s *Store) endBlockers(ctx context.Context, waiting uint32) (stop func()) {
	patience := s.cfg.LeaseDuration / 3
	ctx, cancel := context.WithCancel(ctx)
	timer := s.clock.NewTimer(patience)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			ended, err := s.own().TerminateBlockers(ctx,
				db.TerminateBlockersParams{WaitingPid: int32(waiting), Seconds: patience.Seconds()})
			if err != nil && ctx.Err() == nil {
				s.log.Warn("ending a session that blocks a takeover failed", "error",
					describeError(err))
			}
			for _, e := range ended {
				s.log.Warn("ended a session that blocked a takeover",
					"pid", e.Pid, "signalled", e.Signalled)
			}
			timer.Reset(patience / 4)
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// Renew extends leases that this node still holds, all in one statement on a connection of its own,
// and returns those. The others are lost.
func (s *Store) Renew(ctx context.Context, leases []*Lease) (renewed []*Lease, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	ids, tokens := columns(leases)
	var rows []int32
	_, err = s.renew.run(ctx, s.cfg.LeaseDuration, func(_ *pgx.Conn, q *db.Queries) (err error) {
		rows, err = q.RenewLeases(ctx, db.RenewLeasesParams{
			Seconds: s.cfg.LeaseDuration.Seconds(), SubmitterIds: ids, FencingTokens: tokens,
			OwnerNode: s.cfg.Node, WithDirectory: s.cfg.Directory != nil,
		})
		return err
	})
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("renew %d leases", len(leases)), err)
	}
	return among(leases, rows), nil
}

// Release ends leases at once, so that another node need not wait for their expiry, and wakes the
// others. The rows and tokens stay. It uses the connection of renewals, which the work of owners
// never blocks.
func (s *Store) Release(ctx context.Context, leases []*Lease) error {
	ids, tokens := columns(leases)
	for _, l := range leases {
		l.spent.Store(true)
	}
	_, err := s.renew.run(ctx, s.cfg.LeaseDuration, func(_ *pgx.Conn, q *db.Queries) error {
		_, err := q.ReleaseLeases(ctx,
			db.ReleaseLeasesParams{SubmitterIds: ids, FencingTokens: tokens, OwnerNode: s.cfg.Node})
		return err
	})
	if err == nil {
		s.Notify()
	}
	return s.failed(ctx, fmt.Sprintf("release %d leases", len(leases)), err)
}

// fewFree is how many free leases are asked one by one whether they have work, at least.
const fewFree = 256

// mostFree is how many free leases are too many for that.
func mostFree(owned int) int64 { return int64(max(fewFree, 4*owned)) }

// Orphans returns submitters of these chains that have work and no live lease, longest neglected
// first. It reads either the free leases or all submitters with work, including those with an
// owner: there are about as many of these as owned, and one costs as much as a few free ones.
func (s *Store) Orphans(ctx context.Context, chains []txn.ChainID,
	owned, limit int) ([]txn.SubmitterID, error) {
	if err := s.capLeases(ctx); err != nil {
		return nil, s.failed(ctx, "look for orphans", err)
	}
	ids, err := s.own().Orphans(
		ctx,
		db.OrphansParams{
			ChainIds: plainChains(chains),
			MaxRows:  rowLimit(limit),
			Crowd:    mostFree(owned),
		},
	)
	if err != nil {
		return nil, s.failed(ctx, "look for orphans", err)
	}
	return submitters(ids), nil
}

// capLeases bounds the rest of every lease by its duration, once per lease duration. The database's
// clock may have been set back: without this, the leases of nodes that died before would last by as
// much longer.
func (s *Store) capLeases(ctx context.Context) error {
	now := s.clock.Now().UnixNano()
	last := s.cappedAt.Load()
	if last != 0 && now-last < s.cfg.LeaseDuration.Nanoseconds() ||
		!s.cappedAt.CompareAndSwap(last, now) {
		return nil
	}
	capped, err := s.own().CapLeases(ctx)
	if err != nil {
		s.cappedAt.Store(last)
		return err
	}
	if capped > 0 {
		s.log.Warn("database clock was set back; leases shortened to their duration", "leases",
			capped)
	}
	return nil
}

// Unowned is a submitter without a live lease, and the token of who had it last.
type Unowned struct {
	ID    txn.SubmitterID
	Token txn.Token
	// it has had none for so long that no commit under that token can still be running: while the
	// token stays, so do the submitter's data
	Settled bool
}

// Unowned lists up to limit submitters of a chain that have no live lease, by id, starting after
// the given id. next is the start of the following page, and 0 at the end.
func (s *Store) Unowned(ctx context.Context, chain txn.ChainID, after txn.SubmitterID,
	limit int) (found []Unowned, next txn.SubmitterID, err error) {
	p := db.UnownedParams{
		ChainID: int64(chain),
		After:   int32(after),
		MaxRows: rowLimit(limit),
		Seconds: s.cfg.LeaseDuration.Seconds(),
	}
	rows, err := s.own().Unowned(ctx, p)
	if err != nil {
		return nil, after, s.failed(ctx, "list submitters without an owner", err)
	}
	for _, r := range rows {
		found = append(
			found,
			Unowned{
				ID:      txn.SubmitterID(r.SubmitterID),
				Token:   txn.Token(r.FencingToken),
				Settled: r.Settled,
			},
		)
	}
	if len(rows) == int(p.MaxRows) {
		next = found[len(found)-1].ID
	}
	return found, next, nil
}

// Unwatched returns those of these submitters that need an owner only because of final transactions
// in blocks above the given one, which a reorg could reach: without an owner no node would notice
// it. Submitters with work have open transactions, and may need an owner for final ones later.
func (s *Store) Unwatched(ctx context.Context, ids []txn.SubmitterID,
	above uint64) (needed, work []txn.SubmitterID, err error) {
	if len(ids) == 0 || above >= txn.UnreachableBlock {
		return nil, nil, nil
	}
	rows, err := s.own().Unwatched(ctx,
		db.UnwatchedParams{SubmitterIds: plain(ids), Above: int64(above)})
	if err != nil {
		return nil, nil, s.failed(ctx, "find unwatched final transactions", err)
	}
	for _, r := range rows {
		if id := txn.SubmitterID(r.SubmitterID); r.Reached {
			needed = append(needed, id)
		} else {
			work = append(work, id)
		}
	}
	return needed, work, nil
}

func submitters(rows []int32) []txn.SubmitterID {
	ids := make([]txn.SubmitterID, len(rows))
	for i, id := range rows {
		ids[i] = txn.SubmitterID(id)
	}
	return ids
}

func columns(leases []*Lease) (ids []int32, tokens []int64) {
	for _, l := range leases {
		ids, tokens = append(ids, int32(l.submitter)), append(tokens, int64(l.token))
	}
	return ids, tokens
}

// among picks the leases of these submitters.
func among(leases []*Lease, ids []int32) []*Lease {
	named := make(map[txn.SubmitterID]bool, len(ids))
	for _, id := range ids {
		named[txn.SubmitterID(id)] = true
	}
	var picked []*Lease
	for _, l := range leases {
		if named[l.submitter] {
			picked = append(picked, l)
		}
	}
	return picked
}

func plain(ids []txn.SubmitterID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

func plainChains(chains []txn.ChainID) []int64 {
	out := make([]int64, len(chains))
	for i, c := range chains {
		out[i] = int64(c)
	}
	return out
}

// maxRows bounds every list, independent of the request.
const maxRows = 10_000

func rowLimit(n int) int32 { return int32(max(1, min(n, maxRows))) }
