package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// maxCreateBytes bounds a grouped insert: the largest batch that the API takes goes as one.
const maxCreateBytes = 5 << 20

// maxHeldCreates bounds what a node holds of new transactions that are on their way, in bytes: a
// database that is slow must not fill its memory.
const maxHeldCreates = 64 << 20

// createsPerChange is how many transactions a grouped insert holds for each change that a fenced
// statement may hold: it is far lighter.
const createsPerChange = 4

// CreateTx queues a transaction, or finds the one that was queued under its request id: created
// tells which. It shares a statement with whatever else is created on this node at the moment.
//
// Errors: ErrKeyReused when the request id stands for another payload, ErrPaused and ErrProtected
// when the submitter takes no new transactions, ErrSubmitterNotFound, a QueueFullError, ErrBusy
// when the node holds as much on its way as it may, and ErrUnavailable; after the last three a call
// with the same request id is safe, and finds what was queued.
func (s *Store) CreateTx(ctx context.Context,
	intent Intent) (info TxInfo, created bool, err error) {
	fate := s.CreateTxs(ctx, []Intent{intent})[0]
	return fate.Info, fate.Created, fate.Err
}

// Created is what became of an intent; see CreateTx.
type Created struct {
	Info    TxInfo
	Created bool
	Err     error
}

// CreateTxs is CreateTx for many at once: they have a fate each, in their order, share their
// statements, and are queued in their order. Of two with the same request id the first is queued.
func (s *Store) CreateTxs(ctx context.Context, intents []Intent) []Created {
	fates, jobs := make([]Created, len(intents)), make([]createJob, len(intents))
	call := &createCall{ended: make(chan struct{})}
	put := make([]*createJob, 0, len(intents))
	for i := range intents {
		job := &jobs[i]
		job.intent, job.info, job.call = intents[i], &fates[i].Info, call
		if fates[i].Err = s.begin(job); fates[i].Err == nil {
			put = append(put, job)
		}
	}
	if len(put) == 0 {
		return fates
	}
	call.left.Store(int64(len(put)))
	if refused := s.creates.put(put...); refused != nil {
		for i := range fates {
			if fates[i].Err == nil {
				fates[i].Err = s.notPut(ctx, &jobs[i], refused)
			}
		}
		return fates
	}
	select {
	case <-call.ended:
	case <-ctx.Done():
		fates = leave(ctx, fates, jobs)
	}
	s.settleCreates(fates, jobs)
	return fates
}

// notPut says why a job was not put.
func (s *Store) notPut(ctx context.Context, job *createJob, refused error) error {
	if errors.Is(refused, errFull) {
		return fmt.Errorf("store: %s: %w", job.intent.verb(), ErrBusy)
	}
	return s.failed(ctx, job.intent.verb(), refused)
}

// leave is for a caller who does not wait longer: a copy of the fates that are certain by now, as
// the jobs that are left go on and write theirs. Such a transaction may well be created: its
// request id tells.
func leave(ctx context.Context, fates []Created, jobs []createJob) []Created {
	left := make([]Created, len(fates))
	for i := range jobs {
		if fates[i].Err != nil || jobs[i].over.Load() {
			left[i] = fates[i]
			continue
		}
		left[i].Err = fmt.Errorf("store: %s: %w", jobs[i].intent.verb(), context.Cause(ctx))
	}
	return left
}

// settleCreates completes the fates of jobs that have ended, and wakes who is to see what they
// queued.
func (s *Store) settleCreates(fates []Created, jobs []createJob) {
	woken := map[txn.SubmitterID]bool{}
	for i := range jobs {
		job := &jobs[i]
		switch {
		case fates[i].Err != nil:
		case job.err != nil:
			fates[i].Err = fmt.Errorf("store: %s: %w", job.intent.verb(), job.err)
		default:
			if fates[i].Created = job.created; job.created {
				woken[job.intent.Submitter] = true
			}
		}
	}
	for submitter := range woken {
		s.wakes.queue(submitter)
		s.wakes.signalEvents()
	}
}

// begin gives a job its id and its hash.
func (s *Store) begin(job *createJob) (err error) {
	if !storable(job.intent.Payload.GasLimit) {
		return fmt.Errorf("store: %s: its gas limit is beyond 2^63-1", job.intent.verb())
	}
	if job.id, err = txn.NewTxID(s.clock.Now(), job.intent.Submitter); err != nil {
		return fmt.Errorf("store: %s: %w", job.intent.verb(), err)
	}
	job.hash = txn.RequestHash(job.intent.Payload, job.intent.Terms)
	return nil
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
	gauge  *gauge          // of its queue, where there are limits
	full   *QueueFullError // why it has no place; nil: it has one

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

// end tells who waits that nothing changes any more.
func (j *createJob) end() {
	if j.over.Swap(true) {
		panic(
			// its caller would be told of another one as created
			"store: a transaction was created twice")
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
			ID: j.id, Submitter: j.intent.Submitter, RequestID: j.intent.RequestID,
			RequestHash: j.hash, QueueSeq: r.QueueSeq, Payload: j.intent.Payload,
			Terms:     j.intent.Terms,
			Status:    txn.Status{State: txn.Queued, Version: 1, Executed: txn.Unknown},
			CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		},
		SubmitterName: submitter, Labels: j.intent.Labels, Caller: j.intent.Caller,
	}
	j.created = true
	j.end()
}

// found answers with the transaction that has this request id.
func (j *createJob) found(winner TxInfo) {
	if winner.RequestHash != j.hash {
		j.fail(
			fmt.Errorf(
				"%w: it stands for transaction %s; use a request_id of its own for each "+
					"transaction",
				ErrKeyReused, winner.ID),
		)
		return
	}
	*j.info = winner
	j.created = winner.ID == j.id // its own statement had been carried out when the answer was lost
	j.end()
}

// sendCreates inserts those of a group that have a place in their queues, with one statement.
// Whatever did not go in, for want of a place too, is then looked for by a new one, which sees who
// won.
func (s *Store) sendCreates(_ bool, group []*createJob) *refusal {
	ctx, cancel := context.WithTimeout(context.Background(), 2*readLimit)
	defer cancel()
	group = slices.DeleteFunc(slices.Clone(group),
		func(job *createJob) bool { return job.over.Load() }) // found before the rest was refused
	if len(group) == 0 {
		return nil
	}
	seated, err := s.seat(ctx, group)
	if err == nil && 0 < len(seated) && len(seated) < len(group) {
		seated, group, err = s.seatNew(ctx, group, seated)
	}
	if why := refusalOf(err); why != nil {
		return why
	}
	if err != nil {
		failAll(group, describeError(err))
		return nil
	}
	why := s.insertCreates(ctx, group, seated)
	s.quota.settle(seated,
		func(job *createJob) bool {
			return why == nil &&
				(job.created || errors.Is(job.err, ErrUnavailable))
		})
	return why
}

// seatNew answers those of a group who repeat what is in the ledger: they need no place, and there
// is none for everybody. The rest are seated anew.
func (s *Store) seatNew(ctx context.Context,
	group, seated []*createJob) (again, left []*createJob, err error) {
	s.quota.settle(seated, func(*createJob) bool { return false })
	if left, err = s.findRepeats(ctx, group); err != nil {
		return nil, group, err
	}
	again, err = s.seat(ctx, left)
	return again, left, err
}

func (s *Store) insertCreates(ctx context.Context, group, seated []*createJob) *refusal {
	if len(seated) == 0 {
		return s.findCreated(ctx, group)
	}
	names := map[txn.SubmitterID]string{}
	for _, job := range seated {
		names[job.intent.Submitter] = ""
	}
	rows, err := s.insertNamed(ctx, names, seated)
	if fate := judge(err, true); fate == nothing ||
		// a connection that broke while idle, mostly; the keys make a second time safe
		fate == outcomeUnknown {
		rows, err = s.insertNamed(ctx, names, seated)
	}
	if why := refusalOf(err); why != nil {
		return why
	}
	if err != nil {
		s.log.Debug("transactions could not be inserted", "transactions", len(group), "cause",
			describeError(err))
		failAll(group, describeError(err))
		return nil
	}
	inserted := make(map[txn.TxID]db.InsertTxsRow, len(rows))
	for _, r := range rows {
		inserted[txn.TxID(r.TxID)] = r
	}
	var left []*createJob
	for _, job := range group {
		if row, ok := inserted[job.id]; ok {
			job.won(row, names[job.intent.Submitter])
			continue
		}
		left = append(left, job)
	}
	if len(left) > 0 {
		if why := s.findCreated(ctx, left); why != nil {
			failAll(left, describeError(why.err))
		}
	}
	return nil
}

// insertNamed also finds out what the submitters are called, before anything is inserted.
func (s *Store) insertNamed(ctx context.Context, names map[txn.SubmitterID]string,
	seated []*createJob) ([]db.InsertTxsRow, error) {
	if err := s.names(ctx, s.read(), names); err != nil {
		return nil, err
	}
	return s.insert(ctx, seated)
}

// emptyInsert is roughly what the statement takes on the wire without any: the heads of its lists.
const emptyInsert = 512

// insert sends the statement, with room for all that its callers want queued.
func (s *Store) insert(ctx context.Context, seated []*createJob) ([]db.InsertTxsRow, error) {
	conn, err := s.api.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	expect(conn.Conn(), emptyInsert+sizeOf(seated))
	return db.New(conn).InsertTxs(ctx, insertParams(seated))
}

// refusalOf is what the database has refused, if that is what an error says.
func refusalOf(err error) *refusal {
	if fate := judge(err, true); fate == refused || fate == again {
		return &refusal{err: err, again: fate == again}
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
// with the reason why there is none. What is refused ends none of them.
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
	ids, requests := make([]int32, len(group)), make([]string, len(group))
	for i, job := range group {
		ids[i], requests[i] = int32(job.intent.Submitter), job.intent.RequestID
	}
	rows, err := s.read().TxsByRequest(ctx,
		db.TxsByRequestParams{SubmitterIds: ids, RequestIds: requests})
	if err != nil {
		return nil, err
	}
	winners := make(map[RequestKey]TxInfo, len(rows))
	for _, r := range rows {
		info, err := toInfo(db.TxByIDRow(r))
		if err != nil {
			failAll(group, err)
			return nil, nil
		}
		winners[RequestKey{info.Submitter, info.RequestID}] = info
	}
	for _, job := range group {
		if winner, ok := winners[job.intent.Key()]; ok {
			job.found(winner)
			continue
		}
		left = append(left, job)
	}
	return left, nil
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
	for _, job := range group {
		row, ok := rowOf[job.intent.Submitter]
		switch {
		case !ok:
			job.fail(ErrSubmitterNotFound)
		case !job.intent.Terms.NotAfter.IsZero() && !job.intent.Terms.NotAfter.After(row.ReadAt):
			job.fail(ErrLate)
		case row.ProtectReason != "":
			job.fail(fmt.Errorf("%w (%s)", ErrProtected, row.ProtectReason))
		case txn.SubmitterStatus(row.Status) == txn.Paused:
			job.fail(ErrPaused)
		case job.full != nil:
			job.fail(job.full)
		default:
			job.fail(
				fmt.Errorf("%w: the submitter changed at this moment; try again", ErrUnavailable))
		}
	}
}

func insertParams(group []*createJob) db.InsertTxsParams {
	n := len(group)
	p := db.InsertTxsParams{
		SubmitterIds:  make([]int32, n),
		TxIds:         make([]uuid.UUID, n),
		RequestIds:    make([]string, n),
		RequestHashes: make([][]byte, n),
		ToAddresses:   make([][]byte, n),
		ValuesWei:     make([]string, n),
		Datas:         make([][]byte, n),
		GasLimits:     make([]int64, n),
		Speeds:        make([]string, n),
		MaxFees:       make([]string, n),
		NotAfterUs:    make([]int64, n),
		CancelLates:   make([]bool, n),
		LabelSets:     make([]string, n),
		Callers:       make([]string, n),
	}
	nothing := []byte{}
	for i, job := range group {
		payload, terms := &job.intent.Payload, &job.intent.Terms
		p.SubmitterIds[i] = int32(job.intent.Submitter)
		p.TxIds[i] = uuid.UUID(job.id)
		p.RequestIds[i] = job.intent.RequestID
		p.RequestHashes[i] = job.hash[:]
		p.ToAddresses[i] = nothing
		if payload.To != nil {
			p.ToAddresses[i] = payload.To[:]
		}
		p.ValuesWei[i] = payload.Value.Dec()
		p.Datas[i] = payload.Data
		if payload.Data == nil {
			p.Datas[i] = nothing
		}
		p.GasLimits[i] = int64(payload.GasLimit)
		p.Speeds[i] = string(terms.Speed)
		p.MaxFees[i] = terms.MaxFee.Dec()
		if !terms.NotAfter.IsZero() {
			p.NotAfterUs[i] = terms.NotAfter.UnixMicro()
		}
		p.CancelLates[i] = terms.CancelLate
		p.LabelSets[i] = labelSet(job.intent.Labels)
		p.Callers[i] = job.intent.Caller
	}
	return p
}
