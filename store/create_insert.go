package store

import (
	"context"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

func (s *Store) insertCreates(ctx context.Context, group, reserved []*createJob) *refusal {
	if len(reserved) == 0 {
		return s.findCreated(ctx, group)
	}
	accounts := map[txn.SubmitterID]account{}
	for _, job := range reserved {
		accounts[job.intent.Submitter] = account{}
	}
	rows, err := s.insertKnown(ctx, accounts, reserved)
	if result := judge(err, true); result == nothing ||
		// a connection that broke while idle, mostly; the keys make a second time safe
		result == outcomeUnknown {
		rows, err = s.insertKnown(ctx, accounts, reserved)
	}
	if why := refusalOf(err); why != nil {
		return why
	}
	if err != nil {
		s.log.Debug("insert of transactions failed", "transactions", len(group), "cause",
			describeError(err))
		failAll(group, describeError(err))
		return nil
	}
	inserted := make(map[RequestKey]db.InsertTxsRow, len(rows))
	for _, r := range rows {
		if r.Exceeded == 0 {
			inserted[RequestKey{txn.TxID(r.TxID).Submitter(), r.RequestID}] = r
		}
	}
	reportQuotas(reserved, rows)
	var left []*createJob
	for _, job := range group {
		if row := inserted[job.intent.Key()]; txn.TxID(row.TxID).SameButTime(job.id) {
			job.won(row, accounts[job.intent.Submitter].name)
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

// insertKnown also reads the names and chains of the submitters, before anything is inserted.
func (s *Store) insertKnown(ctx context.Context, accounts map[txn.SubmitterID]account,
	reserved []*createJob) ([]db.InsertTxsRow, error) {
	if err := s.accounts(ctx, s.read(), accounts); err != nil {
		return nil, err
	}
	for _, job := range reserved {
		job.chain = accounts[job.intent.Submitter].chain
	}
	uses := useQuotas(reserved)
	if err := s.openUsage(ctx, uses); err != nil {
		return nil, err
	}
	return s.insert(ctx, reserved, uses)
}

// emptyInsert is the approximate wire size of the statement without rows: the headers of its lists.
const emptyInsert = 512

// insert sends the statement, with room for all that its callers want queued.
func (s *Store) insert(ctx context.Context, reserved []*createJob,
	uses []*quotaUse) ([]db.InsertTxsRow, error) {
	conn, err := s.api.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	expect(conn.Conn(), emptyInsert+sizeOf(reserved))
	params := insertParams(reserved)
	addQuotas(&params, uses)
	s.addMACs(&params, reserved)
	return db.New(conn).InsertTxs(ctx, params)
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
		TraceParents:  make([]string, n),
		ChainIds:      make([]int64, n),
		Quotas:        make([]int32, n),
		PoolIds:       make([]int32, n),
		ApprovalMs:    make([]int64, n),
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
		p.LabelSets[i] = labelSet(job.intent.labels())
		p.PoolIds[i] = int32(job.intent.Pool.ID)
		p.Callers[i] = job.intent.Caller
		p.TraceParents[i] = job.intent.TraceParent
		p.ApprovalMs[i] = job.intent.ApprovalTime.Milliseconds()
		p.ChainIds[i] = int64(job.chain)
		p.Quotas[i] = job.quota
	}
	return p
}
