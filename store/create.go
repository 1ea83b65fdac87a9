package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// maxCreateBytes bounds a grouped insert: the largest batch that the API takes goes as one.
const maxCreateBytes = 5 << 20

// maxHeldCreates bounds the bytes of new transactions that a node holds in memory: a slow database
// must not fill it.
const maxHeldCreates = 64 << 20

// createsPerChange is how many transactions a grouped insert holds for each change that a fenced
// statement may hold: it is far lighter.
const createsPerChange = 4

// CreateTx queues a transaction, or finds the one that was queued under its request id; created
// reports which. An intent with a pool gets one of its accounts. It shares a statement with the
// other transactions that are created on this node at the moment.
//
// Errors: ErrKeyReused when the request id belongs to another payload, ErrPaused and ErrProtected
// when the submitter accepts no new transactions, ErrPoolEmpty and ErrPoolStopped when no account
// of the pool does, ErrSubmitterNotFound, a QueueFullError, ErrBusy when the node has too many
// pending creates, and ErrUnavailable. After the last three a call with the same request id is
// safe, and finds the queued transaction.
func (s *Store) CreateTx(ctx context.Context,
	intent Intent) (info TxInfo, created bool, err error) {
	result := s.CreateTxs(ctx, []Intent{intent})[0]
	return result.Info, result.Created, result.Err
}

// Created is the outcome of an intent; see CreateTx.
type Created struct {
	Info    TxInfo
	Created bool
	Err     error
}

// CreateTxs is CreateTx for many at once: they have a result each, in their order, share their
// statements, and are queued in their order. Of two with the same request id the first is queued.
func (s *Store) CreateTxs(ctx context.Context, intents []Intent) []Created {
	results, jobs := make([]Created, len(intents)), make([]createJob, len(intents))
	call := &createCall{ended: make(chan struct{})}
	put := make([]*createJob, 0, len(intents))
	for i := range intents {
		job := &jobs[i]
		job.intent, job.call = intents[i], call
		job.info = &results[i].Info
		if results[i].Err = s.begin(job); results[i].Err == nil {
			put = append(put, job)
		}
	}
	if len(put) == 0 {
		return results
	}
	call.left.Store(int64(len(put)))
	if refused := s.creates.put(put...); refused != nil {
		for i := range results {
			if results[i].Err == nil {
				results[i].Err = s.notPut(ctx, &jobs[i], refused)
			}
		}
		return results
	}
	select {
	case <-call.ended:
	case <-ctx.Done():
		results = leave(ctx, results, jobs)
	}
	s.settleCreates(results, jobs)
	return results
}

// notPut returns the reason why a job was not accepted.
func (s *Store) notPut(ctx context.Context, job *createJob, refused error) error {
	if errors.Is(refused, errFull) {
		return fmt.Errorf("store: %s: %w", job.intent.verb(), ErrBusy)
	}
	return s.failed(ctx, job.intent.verb(), refused)
}

// leave returns a copy of the results that are certain by now, for a caller that does not wait
// longer: the other jobs continue and write theirs. Their transactions may be created; the request
// id shows it.
func leave(ctx context.Context, results []Created, jobs []createJob) []Created {
	left := make([]Created, len(results))
	for i := range jobs {
		if results[i].Err != nil || jobs[i].over.Load() {
			left[i] = results[i]
			continue
		}
		left[i].Err = fmt.Errorf("store: %s: %w", jobs[i].intent.verb(), context.Cause(ctx))
	}
	return left
}

// settleCreates completes the results of jobs that have ended, and wakes the owners and readers of
// their transactions.
func (s *Store) settleCreates(results []Created, jobs []createJob) {
	woken := map[txn.SubmitterID]bool{}
	for i := range jobs {
		job := &jobs[i]
		switch {
		case results[i].Err != nil:
		case job.err != nil:
			results[i].Err = fmt.Errorf("store: %s: %w", job.intent.verb(), job.err)
		default:
			if results[i].Created = job.created; job.created {
				woken[job.intent.Submitter] = true
			}
		}
	}
	for submitter := range woken {
		s.wakes.queue(submitter)
		s.wakes.signalEvents()
	}
}

// begin gives a job its hash, and its id without the time.
func (s *Store) begin(job *createJob) (err error) {
	if !storable(job.intent.Payload.GasLimit) {
		return fmt.Errorf("store: %s: its gas limit is beyond 2^63-1", job.intent.verb())
	}
	if job.intent.Pool.ID == 0 {
		if err = job.name(); err != nil {
			return fmt.Errorf("store: %s: %w", job.intent.verb(), err)
		}
	}
	job.hash = txn.RequestHash(job.intent.Payload, job.intent.Terms)
	return nil
}

// name gives a job an id for its submitter; the database adds its time.
func (j *createJob) name() (err error) {
	if j.id != (txn.TxID{}) {
		j.earlier = append(j.earlier, j.id)
	}
	j.id, err = txn.NewTxID(time.Unix(0, 0), j.intent.Submitter)
	return err
}

// createCall is who waits for jobs, for all of them at once.
type createCall struct {
	left  atomic.Int64
	ended chan struct{}
}

// createJob is an intent on its way.
type createJob struct {
	intent Intent
	id     txn.TxID
	hash   [32]byte
	gauge  *gauge            // of its queue, where there are limits
	full   *QueueFullError   // why it has no slot; nil: it has one
	chain  txn.ChainID       // of its submitter, as this node remembers it
	quota  int32             // its number in the statement; 0: it has none
	beyond txn.Rule          // the quota that it exceeds; empty: none
	tried  []txn.SubmitterID // accounts of its pool that did not take it

	account *candidate // the choice, until it is known whether it was queued

	earlier []txn.TxID // ids with which it may have been inserted

	info    *TxInfo // of the transaction that has its key; where its caller wants it
	created bool
	err     error
	over    atomic.Bool // nothing above changes any more
	call    *createCall
}

func (j *createJob) size() int {
	size := 200 + len(j.intent.RequestID) + len(j.intent.Payload.Data)
	for key, value := range j.intent.Labels {
		size += 2 * (len(key) + len(value)) // once in the row, once as a row
	}
	return size
}

func (j *createJob) key() int64 { return 0 }

// end signals that nothing changes any more.
func (j *createJob) end() {
	if j.over.Swap(true) {
		// its caller would get another transaction as created
		panic("store: a transaction was created twice")
	}
	if j.call.left.Add(-1) == 0 {
		close(j.call.ended)
	}
}

func (j *createJob) fail(err error) {
	j.err = err
	j.end()
}

// won answers with the transaction that this job inserted.
func (j *createJob) won(r db.InsertTxsRow, submitter string) {
	*j.info = TxInfo{
		Tx: txn.Tx{
			ID: txn.TxID(r.TxID), Submitter: j.intent.Submitter, RequestID: j.intent.RequestID,
			RequestHash: j.hash, QueueSeq: r.QueueSeq, Payload: j.intent.Payload,
			Terms:     j.intent.Terms,
			Status:    txn.Status{State: txn.Queued, Version: 1, Executed: txn.Unknown},
			Approval:  j.intent.approval(),
			CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
			TraceParent: j.intent.TraceParent, Caller: j.intent.Caller,
		},
		SubmitterName: submitter, Labels: j.intent.Labels, Pool: j.intent.Pool.Name,
	}
	if j.info.Approval.Required() {
		j.info.Sub = txn.AwaitingApproval
	}
	j.created = true
	j.end()
}

// found answers with the transaction that has this request id.
func (j *createJob) found(winner TxInfo) {
	if winner.RequestHash != j.hash {
		j.fail(
			fmt.Errorf(
				"%w: it belongs to transaction %s; use a new request_id for each transaction",
				ErrKeyReused, winner.ID),
		)
		return
	}
	*j.info = winner
	// its own statement had been carried out when the answer was lost
	j.created = winner.ID.SameButTime(j.id) || slices.ContainsFunc(j.earlier, winner.ID.SameButTime)
	j.end()
}

// sendCreates inserts the jobs of a group that have a slot in their queues, with one statement. A
// new statement, which sees the winners, then looks up the jobs that were not inserted, also those
// without a slot.
func (s *Store) sendCreates(_ bool, group []*createJob) *refusal {
	ctx, cancel := context.WithTimeout(context.Background(), 2*readLimit)
	defer cancel()
	for {
		// some were found before the rest was refused, or have tried another account of their pool
		group = slices.DeleteFunc(slices.Clone(group),
			func(job *createJob) bool { return job.over.Load() })
		if len(group) == 0 {
			return nil
		}
		if why := s.sendOnce(ctx, group); why != nil {
			return why
		}
	}
}

// sendOnce ends all jobs of a group but those that need another account of their pool.
func (s *Store) sendOnce(ctx context.Context, group []*createJob) *refusal {
	group, why := s.findDenied(ctx, group)
	if why != nil || len(group) == 0 {
		return why
	}
	group, err := s.choose(ctx, group)
	var reserved []*createJob
	if err == nil && len(group) > 0 {
		reserved, err = s.reserve(ctx, group)
	}
	if err == nil && 0 < len(reserved) && len(reserved) < len(group) {
		reserved, group, err = s.reserveNew(ctx, group, reserved)
	}
	if why := refusalOf(err); why != nil {
		return why
	}
	if err != nil {
		failAll(group, describeError(err))
		return nil
	}
	if len(group) == 0 {
		return nil
	}
	why = s.insertCreates(ctx, group, reserved)
	s.pools.settle(group)
	s.quota.settle(reserved,
		func(job *createJob) bool {
			return why == nil &&
				(job.created || errors.Is(job.err, ErrUnavailable))
		})
	return why
}

// reserveNew answers the jobs of a group that repeat a transaction of the ledger: they need no
// slot, and there is not enough room for all. The rest get slots again.
func (s *Store) reserveNew(ctx context.Context,
	group, reserved []*createJob) (again, left []*createJob, err error) {
	s.quota.settle(reserved, func(*createJob) bool { return false })
	if left, err = s.findRepeats(ctx, group); err != nil {
		return nil, group, err
	}
	again, err = s.reserve(ctx, left)
	return again, left, err
}

// refusalOf returns the refusal that an error of the database reports, or nil.
func refusalOf(err error) *refusal {
	if result := judge(err, true); result == refused || result == again {
		return &refusal{err: err, again: result == again}
	}
	return nil
}

// refuseCreate ends a job that the database refuses also alone.
func (s *Store) refuseCreate(job *createJob, why *refusal) { job.fail(describeError(why.err)) }

func failAll(group []*createJob, err error) {
	for _, job := range group {
		job.fail(err)
	}
}

// findCreated ends jobs whose row was not inserted: with the transaction that has their key, or
// with the reason why there is none. If the database refuses the statement, it ends none of them.
func (s *Store) findCreated(ctx context.Context, group []*createJob) *refusal {
	left, err := s.findRepeats(ctx, group)
	if why := refusalOf(err); why != nil {
		return why
	}
	if err != nil {
		failAll(group, describeError(err))
		return nil
	}
	if len(left) > 0 {
		s.explainRefusals(ctx, left)
	}
	return nil
}

// findRepeats ends the jobs whose key a transaction has, and returns the others; with an error of
// the database it ends none.
func (s *Store) findRepeats(ctx context.Context,
	group []*createJob) (left []*createJob, err error) {
	winners, err := s.winners(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, job := range group {
		if winner, ok := winners[job.intent.identity()]; ok {
			job.found(winner)
			continue
		}
		left = append(left, job)
	}
	return left, nil
}

// winners reads the transactions that have the keys of jobs.
func (s *Store) winners(ctx context.Context, group []*createJob) (map[identity]TxInfo, error) {
	var direct db.TxsByRequestParams
	var pooled db.TxsByPoolRequestParams
	for _, job := range group {
		if pool := job.intent.Pool.ID; pool != 0 {
			pooled.PoolIds = append(pooled.PoolIds, int32(pool))
			pooled.RequestIds = append(pooled.RequestIds, job.intent.RequestID)
			continue
		}
		direct.SubmitterIds = append(direct.SubmitterIds, int32(job.intent.Submitter))
		direct.RequestIds = append(direct.RequestIds, job.intent.RequestID)
	}
	winners := make(map[identity]TxInfo, len(group))
	if len(direct.RequestIds) > 0 {
		rows, err := s.read().TxsByRequest(ctx, direct)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			info, err := toInfo(db.TxByIDRow(r))
			if errors.Is(err, ErrMoved) {
				continue // explainRefusals
			}
			if err != nil {
				return nil, err
			}
			winners[identity{submitter: info.Submitter, requestID: info.RequestID}] = info
		}
	}
	if len(pooled.RequestIds) > 0 {
		rows, err := s.read().TxsByPoolRequest(ctx, pooled)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			info, err := toInfo(db.TxByIDRow(r))
			if err != nil {
				return nil, err
			}
			pool := PoolID(*r.ManagedTx.PoolID)
			winners[identity{pool: pool, requestID: info.RequestID}] = info
		}
	}
	return winners, nil
}

func (s *Store) explainRefusals(ctx context.Context, group []*createJob) {
	ids := make([]int32, len(group))
	for i, job := range group {
		ids[i] = int32(job.intent.Submitter)
	}
	rows, err := s.read().AcceptanceOf(ctx, ids)
	if err != nil {
		failAll(group, describeError(err))
		return
	}
	rowOf := make(map[txn.SubmitterID]db.AcceptanceOfRow, len(rows))
	for _, r := range rows {
		rowOf[txn.SubmitterID(r.SubmitterID)] = r
	}
	policy := policyErrors{s, map[usageKey]*db.UsageRow{}}
	for _, job := range group {
		row, ok := rowOf[job.intent.Submitter]
		switch {
		case job.denial() != "":
			job.fail(policy.of(ctx, job))
		case !ok:
			job.fail(ErrSubmitterNotFound)
		case row.MovedTo != "":
			job.fail(&MovedError{row.Name, row.MovedTo})
		case !job.intent.Terms.NotAfter.IsZero() && !job.intent.Terms.NotAfter.After(row.ReadAt):
			job.fail(ErrLate)
		case job.full == nil && job.intent.Pool.ID != 0:
			s.forget(job)
			s.move(job)
		case row.ProtectReason != "":
			job.fail(fmt.Errorf("%w (%s)", ErrProtected, row.ProtectReason))
		case txn.SubmitterStatus(row.Status) == txn.Paused:
			job.fail(ErrPaused)
		case txn.Mode(row.Mode) == txn.External:
			job.fail(ErrMode)
		case job.full != nil:
			job.fail(job.full)
		default:
			s.forget(job)
			job.fail(
				fmt.Errorf("%w: the submitter changed at the same time; try again", ErrUnavailable))
		}
	}
}
