package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// PoolID is the number of a pool in the ledger.
type PoolID int32

// PoolRef names a pool; the zero value is none.
type PoolRef struct {
	ID    PoolID
	Name  string
	Chain txn.ChainID
}

// PoolLabel is the key of the label that names the pool of a transaction. Callers cannot set it.
const PoolLabel = "@pool"

// MemberStatus is the state of a member of a pool.
type MemberStatus string

// A draining member gets no new transactions. A removed one is not listed either; its transactions
// stay in the pool.
const (
	MemberActive   MemberStatus = "ACTIVE"
	MemberDraining MemberStatus = "DRAINING"
	MemberRemoved  MemberStatus = "REMOVED"
)

// Pool is a set of submitters of one chain.
type Pool struct {
	PoolRef
	CreatedAt time.Time
	Members   []PoolMember // by name, without removed ones
}

// PoolMember is a submitter in a pool.
type PoolMember struct {
	Submitter txn.SubmitterID
	Name      string
	Status    MemberStatus
	ChangedAt time.Time // of the status
	Paused    bool
	Protected bool
	External  bool // its mode: clients sign its transactions
	Unfunded  bool
	Queued    int64 // counted up to CountedQueue
	InFlight  int64
}

// Accepts reports whether it may get new transactions.
func (m PoolMember) Accepts() bool {
	return m.Status == MemberActive && !m.Paused && !m.Protected && !m.External
}

// maxMembers bounds the members that are read at once, of all pools together.
const maxMembers = 1 << 16

// CreatePool creates an empty pool, or finds the one with this name; created reports which.
func (s *Store) CreatePool(ctx context.Context, name string,
	chain txn.ChainID) (p Pool, created bool, err error) {
	verb := fmt.Sprintf("create pool %q", name)
	if err := s.claimPool(ctx, name, chain); err != nil {
		return p, false, fmt.Errorf("store: %s: %w", verb, err)
	}
	n, err := s.read().InsertPool(ctx, db.InsertPoolParams{Name: name, ChainID: int64(chain)})
	if err != nil {
		return p, false, s.failed(ctx, verb, err)
	}
	if p, err = s.Pool(ctx, name); err == nil && p.Chain != chain {
		err = fmt.Errorf("store: %s: %w", verb, ErrPoolExists)
	}
	return p, n > 0, err
}

// SetPoolMember adds a member to a pool, or changes its status. It records a command of the
// submitter with the reason, operator and caller. Repeating it changes nothing. Errors:
// ErrPoolChain, ErrPoolMode for one to be added in mode EXTERNAL, and ErrPoolMember for one that
// was never added and is not to be.
func (s *Store) SetPoolMember(ctx context.Context, pool PoolRef, submitter txn.SubmitterID,
	status MemberStatus, ask Ask) error {
	verb := fmt.Sprintf("set the status of submitter %d in pool %q", submitter, pool.Name)
	row, err := s.read().SetPoolMember(ctx, db.SetPoolMemberParams{
		PoolID: int32(pool.ID), SubmitterID: int32(submitter), Status: string(status),
		Reason: ask.Reason, Operator: ask.Operator, Caller: ask.Caller,
	})
	switch {
	case err != nil:
		return s.failed(ctx, verb, err)
	case row.OnChain == 0:
		return fmt.Errorf("store: %s: %w", verb, ErrPoolChain)
	case status == MemberActive && row.External > 0:
		return fmt.Errorf("store: %s: %w", verb, ErrPoolMode)
	case row.Changed > 0:
		s.pools.expire(pool.ID)
		return nil
	case status == MemberActive:
		return nil
	}
	// nothing has changed: it has the status, or was never a member
	member, err := s.read().IsPoolMember(ctx,
		db.IsPoolMemberParams{PoolID: int32(pool.ID), SubmitterID: int32(submitter)})
	if err == nil && !member {
		return fmt.Errorf("store: %s: %w", verb, ErrPoolMember)
	}
	return s.failed(ctx, verb, err)
}

// LookupPool finds a pool by its name. The reference never changes.
func (s *Store) LookupPool(ctx context.Context, name string) (PoolRef, error) {
	if ref, known := s.pools.ref(name); known {
		return ref, nil
	}
	p, err := s.poolRows(ctx, []string{name}, "", 1)
	if err != nil {
		return PoolRef{}, err
	}
	if len(p) == 0 {
		return PoolRef{}, fmt.Errorf("store: look up pool %q: %w", name, ErrPoolNotFound)
	}
	s.pools.keep(p[0].PoolRef)
	return p[0].PoolRef, nil
}

// Pool reads a pool with its members.
func (s *Store) Pool(ctx context.Context, name string) (Pool, error) {
	all, err := s.Pools(ctx, []string{name}, "", 1)
	if err != nil {
		return Pool{}, err
	}
	if len(all) == 0 {
		return Pool{}, fmt.Errorf("store: read pool %q: %w", name, ErrPoolNotFound)
	}
	return all[0], nil
}

// Pools lists the pools with these names (nil: all) after a name, with their members.
func (s *Store) Pools(ctx context.Context, names []string, afterName string,
	limit int) ([]Pool, error) {
	all, err := s.poolRows(ctx, names, afterName, limit)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	ids := make([]int32, len(all))
	for i, p := range all {
		ids[i] = int32(p.ID)
	}
	members, err := s.poolMembers(ctx, ids, CountedQueue)
	if err != nil {
		return nil, s.failed(ctx, "read the members of pools", err)
	}
	for i := range all {
		all[i].Members = members[all[i].ID]
	}
	return all, nil
}

func (s *Store) poolRows(ctx context.Context, names []string, afterName string,
	limit int) ([]Pool, error) {
	rows, err := s.read().Pools(ctx, db.PoolsParams{
		AnyName: names == nil, Names: names, AfterName: afterName, MaxRows: rowLimit(limit),
	})
	if err != nil {
		return nil, s.failed(ctx, "read pools", err)
	}
	all := make([]Pool, len(rows))
	for i, r := range rows {
		all[i] = Pool{
			PoolRef:   PoolRef{PoolID(r.PoolID), r.Name, txn.ChainID(r.ChainID)},
			CreatedAt: r.CreatedAt,
		}
	}
	return all, nil
}

// poolMembers reads the members of pools, with their queues counted up to most.
func (s *Store) poolMembers(ctx context.Context, ids []int32,
	most int64) (map[PoolID][]PoolMember, error) {
	rows, err := s.read().PoolMembers(ctx,
		db.PoolMembersParams{PoolIds: ids, Most: most, MaxRows: maxMembers})
	if err != nil {
		return nil, err
	}
	of := map[PoolID][]PoolMember{}
	for _, r := range rows {
		of[PoolID(r.PoolID)] = append(of[PoolID(r.PoolID)], PoolMember{
			Submitter: txn.SubmitterID(r.SubmitterID), Name: r.Name,
			Status: MemberStatus(r.Status), ChangedAt: r.ChangedAt, Paused: r.Paused,
			Protected: r.Protected, External: r.External, Unfunded: r.Unfunded, Queued: r.Queued,
			InFlight: r.InFlight,
		})
	}
	return of, nil
}

// choose gives each job with a pool one of its accounts, and returns the jobs that have one. It
// ends the others. With an error it may have ended some.
func (s *Store) choose(ctx context.Context, group []*createJob) ([]*createJob, error) {
	now := s.clock.Now()
	pending := slices.DeleteFunc(slices.Clone(group),
		func(job *createJob) bool { return job.intent.Pool.ID == 0 })
	if len(pending) == 0 {
		return group, nil
	}
	for _, fresh := range []bool{false, true} { // first from memory, then after a read
		if err := s.readPools(ctx, s.pools.stale(pending, now, fresh), now); err != nil {
			return group, err
		}
		var err error
		if pending, err = s.pools.choose(pending); err != nil || len(pending) == 0 {
			return group, err
		}
	}
	left, err := s.findRepeats(ctx, pending)
	if err != nil {
		return group, err
	}
	for _, job := range left {
		job.fail(s.notChosen(ctx, job))
	}
	return slices.DeleteFunc(slices.Clone(group),
		func(job *createJob) bool { return job.over.Load() }), nil
}

// PoolAccount returns the account that a transaction would get if it were created now.
func (s *Store) PoolAccount(ctx context.Context, pool PoolRef,
	stickyKey string) (txn.SubmitterID, error) {
	verb := fmt.Sprintf("choose an account of pool %q", pool.Name)
	now := s.clock.Now()
	job := &createJob{intent: Intent{Pool: pool, StickyKey: stickyKey}}
	if err := s.readPools(ctx, s.pools.stale([]*createJob{job}, now, false), now); err != nil {
		return 0, s.failed(ctx, verb, err)
	}
	if id := s.pools.next(job); id != 0 {
		return id, nil
	}
	return 0, fmt.Errorf("store: %s: %w", verb, s.notChosen(ctx, job))
}

// PoolOf returns the name of the pool that a transaction was created with; empty if there is none.
func (s *Store) PoolOf(ctx context.Context, id txn.TxID) (string, error) {
	name, err := s.read().PoolOf(ctx,
		db.PoolOfParams{SubmitterID: int32(id.Submitter()), TxID: uuid.UUID(id)})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return name, s.failed(ctx, fmt.Sprintf("read the pool of transaction %s", id), err)
}

func (s *Store) readPools(ctx context.Context, ids []int32, now time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	of, err := s.poolMembers(ctx, ids, countedLoad)
	if err != nil {
		return err
	}
	for _, id := range ids {
		s.pools.learn(PoolID(id), of[PoolID(id)], now, s.clock.Now())
	}
	return nil
}

// notChosen returns why no account could be chosen.
func (s *Store) notChosen(ctx context.Context, job *createJob) error {
	if len(job.tried) > 0 {
		submitter := job.tried[len(job.tried)-1]
		if info, err := s.TxByRequest(ctx, submitter, job.intent.RequestID); err == nil {
			return fmt.Errorf("%w: it belongs to transaction %s, created without the pool",
				ErrKeyReused, info.ID)
		}
	}
	switch members, accepting := s.pools.count(job.intent.Pool.ID); {
	case members == 0:
		return ErrPoolEmpty
	case accepting == 0:
		return ErrPoolStopped
	}
	return fmt.Errorf("%w: the pool changed at the same time; try again", ErrUnavailable)
}

// maxPicks bounds the accounts that are tried for one intent.
const maxPicks = 4

// move makes a job try another account, because the one it had accepts nothing any more or has a
// transaction of this request_id from outside the pool.
func (s *Store) move(job *createJob) {
	s.pools.expire(job.intent.Pool.ID)
	if job.tried = append(job.tried, job.intent.Submitter); len(job.tried) >= maxPicks {
		job.fail(fmt.Errorf("%w: the pool changed at the same time; try again", ErrUnavailable))
	}
}

// compare orders members by their load, and members of the same load by the last use.
func (m *candidate) compare(o *candidate) int {
	return cmp.Or(cmp.Compare(m.load, o.load), cmp.Compare(m.turn, o.turn))
}
