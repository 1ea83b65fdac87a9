package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// maxCreateBytes bounds a grouped insert.
const maxCreateBytes = 1 << 20

// CreateTx queues a transaction, or finds the one that was queued under its request id: created tells which. It shares a statement with whatever else is
// created on this node at the moment.
//
// Errors: ErrKeyReused when the request id stands for another payload, ErrPaused and ErrProtected when the submitter takes no new transactions,
// ErrSubmitterNotFound, and ErrUnavailable, after which a call with the same request id is safe.
func (s *Store) CreateTx(ctx context.Context, intent Intent) (info TxInfo, created bool, err error) {
	verb := fmt.Sprintf("create transaction %q of submitter %d", intent.RequestID, intent.Submitter)
	if !storable(intent.Payload.GasLimit) {
		return TxInfo{}, false, fmt.Errorf("store: %s: its gas limit is beyond 2^63-1", verb)
	}
	id, err := txn.NewTxID(s.clock.Now(), intent.Submitter)
	if err != nil {
		return TxInfo{}, false, fmt.Errorf("store: %s: %w", verb, err)
	}
	job := &createJob{intent: intent, id: id, hash: txn.RequestHash(intent.Payload, intent.Terms), ended: make(chan struct{})}
	if err := s.creates.put(job); err != nil {
		return TxInfo{}, false, s.failed(ctx, verb, err)
	}
	select {
	case <-job.ended:
	case <-ctx.Done(): // it may well be created: its request id tells
		return TxInfo{}, false, fmt.Errorf("store: %s: %w", verb, context.Cause(ctx))
	}
	if job.err != nil {
		return TxInfo{}, false, fmt.Errorf("store: %s: %w", verb, job.err)
	}
	if job.created {
		s.wakes.queue(intent.Submitter)
		s.wakes.told()
	}
	return job.info, job.created, nil
}

// createJob is an intent on its way.
type createJob struct {
	intent Intent
	id     txn.TxID
	hash   [32]byte

	info    TxInfo
	created bool
	err     error
	ended   chan struct{}
}

func (j *createJob) size() int  { return 200 + len(j.intent.RequestID) + len(j.intent.Payload.Data) }
func (j *createJob) key() int64 { return 0 }

func (j *createJob) fail(err error) {
	j.err = err
	close(j.ended)
}

// won answers with the transaction that this job inserted.
func (j *createJob) won(r db.InsertTxsRow) {
	j.info = TxInfo{
		Tx: txn.Tx{
			ID: j.id, Submitter: j.intent.Submitter, RequestID: j.intent.RequestID, RequestHash: j.hash, QueueSeq: r.QueueSeq, Payload: j.intent.Payload, Terms: j.intent.Terms,
			Status:    txn.Status{State: txn.Queued, Version: 1, Executed: txn.Unknown},
			CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		},
		SubmitterName: r.SubmitterName,
	}
	j.created = true
	close(j.ended)
}

// found answers with the transaction that has this request id.
func (j *createJob) found(winner TxInfo) {
	if winner.RequestHash != j.hash {
		j.fail(fmt.Errorf("%w: it stands for transaction %s; use a request_id of its own for each transaction", ErrKeyReused, winner.ID))
		return
	}
	j.info = winner
	j.created = winner.ID == j.id // its own statement had been carried out when the answer was lost
	close(j.ended)
}

// sendCreates inserts a group with one statement. Whatever did not go in is then looked for by a new one, which sees who won.
func (s *Store) sendCreates(_ bool, group []*createJob) *refusal {
	ctx, cancel := context.WithTimeout(context.Background(), 2*readLimit)
	defer cancel()
	rows, err := s.read().InsertTxs(ctx, insertParams(group))
	fate := judge(err, true)
	if fate == nothing || fate == nobodyKnows { // a connection that broke while idle, mostly; the keys make a second time safe
		rows, err = s.read().InsertTxs(ctx, insertParams(group))
		fate = judge(err, true)
	}
	if fate == refused || fate == again {
		return &refusal{err: err, again: fate == again}
	}
	if err != nil {
		s.log.Debug("transactions could not be inserted", "transactions", len(group), "cause", sayWhy(err))
		failAll(group, sayWhy(err))
		return nil
	}
	inserted := make(map[txn.TxID]db.InsertTxsRow, len(rows))
	for _, r := range rows {
		inserted[txn.TxID(r.TxID)] = r
	}
	var left []*createJob
	for _, job := range group {
		if row, ok := inserted[job.id]; ok {
			job.won(row)
			continue
		}
		left = append(left, job)
	}
	if len(left) > 0 {
		s.findCreated(ctx, left)
	}
	return nil
}

// refuseCreate ends a job that the database refuses also alone.
func (s *Store) refuseCreate(job *createJob, why *refusal) { job.fail(sayWhy(why.err)) }

func failAll(group []*createJob, err error) {
	for _, job := range group {
		job.fail(err)
	}
}

type requestKey struct {
	submitter txn.SubmitterID
	requestID string
}

// findCreated ends jobs whose row was not inserted: with the transaction that has their key, or with the reason why there is none.
func (s *Store) findCreated(ctx context.Context, group []*createJob) {
	ids, requests := make([]int32, len(group)), make([]string, len(group))
	for i, job := range group {
		ids[i], requests[i] = int32(job.intent.Submitter), job.intent.RequestID
	}
	rows, err := s.read().TxsByRequest(ctx, db.TxsByRequestParams{SubmitterIds: ids, RequestIds: requests})
	if err != nil {
		failAll(group, sayWhy(err))
		return
	}
	winners := make(map[requestKey]TxInfo, len(rows))
	for _, r := range rows {
		info, err := toInfo(r.ManagedTx, r.SubmitterName)
		if err != nil {
			failAll(group, err)
			return
		}
		winners[requestKey{info.Submitter, info.RequestID}] = info
	}
	var left []*createJob
	for _, job := range group {
		if winner, ok := winners[requestKey{job.intent.Submitter, job.intent.RequestID}]; ok {
			job.found(winner)
			continue
		}
		left = append(left, job)
	}
	if len(left) > 0 {
		s.explainRefusals(ctx, left)
	}
}

func (s *Store) explainRefusals(ctx context.Context, group []*createJob) {
	ids := make([]int32, len(group))
	for i, job := range group {
		ids[i] = int32(job.intent.Submitter)
	}
	rows, err := s.read().Gate(ctx, ids)
	if err != nil {
		failAll(group, sayWhy(err))
		return
	}
	gates := make(map[txn.SubmitterID]db.GateRow, len(rows))
	for _, r := range rows {
		gates[txn.SubmitterID(r.SubmitterID)] = r
	}
	for _, job := range group {
		gate, ok := gates[job.intent.Submitter]
		switch {
		case !ok:
			job.fail(ErrSubmitterNotFound)
		case !job.intent.Terms.NotAfter.IsZero() && !job.intent.Terms.NotAfter.After(gate.ToldAt):
			job.fail(ErrLate)
		case gate.ProtectReason != "":
			job.fail(fmt.Errorf("%w (%s)", ErrProtected, gate.ProtectReason))
		case txn.SubmitterStatus(gate.Status) == txn.Paused:
			job.fail(ErrPaused)
		default:
			job.fail(fmt.Errorf("%w: the submitter changed at this moment; try again", ErrUnavailable))
		}
	}
}

func insertParams(group []*createJob) db.InsertTxsParams {
	var p db.InsertTxsParams
	for _, job := range group {
		payload := job.intent.Payload
		to, data := []byte{}, payload.Data
		if payload.To != nil {
			to = payload.To[:]
		}
		if data == nil {
			data = []byte{}
		}
		p.SubmitterIds = append(p.SubmitterIds, int32(job.intent.Submitter))
		p.TxIds = append(p.TxIds, uuid.UUID(job.id))
		p.RequestIds = append(p.RequestIds, job.intent.RequestID)
		p.RequestHashes = append(p.RequestHashes, job.hash[:])
		p.ToAddresses = append(p.ToAddresses, to)
		p.ValuesWei = append(p.ValuesWei, payload.Value.Dec())
		p.Datas = append(p.Datas, data)
		p.GasLimits = append(p.GasLimits, int64(payload.GasLimit))
		terms := job.intent.Terms
		var notAfter int64
		if !terms.NotAfter.IsZero() {
			notAfter = terms.NotAfter.UnixMicro()
		}
		p.Speeds = append(p.Speeds, string(terms.Speed))
		p.MaxFees = append(p.MaxFees, terms.MaxFee.Dec())
		p.NotAfterUs = append(p.NotAfterUs, notAfter)
		p.CancelLates = append(p.CancelLates, terms.CancelLate)
	}
	return p
}
