package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// Errors of the nonces of clients.
var (
	ErrNonceNotFound = errors.New("no such nonce or reservation")
	ErrMode          = errors.New("the mode of the submitter does not allow it")
	ErrModeBusy      = errors.New("the mode cannot change while anything is queued or reserved")
)

const (
	// maxNonceRequests bounds the requests of one submitter in one look into the inboxes.
	maxNonceRequests = 512
	// staleAllocation is the age after which nobody waits for an allocation: calls give up before.
	staleAllocation = 11 * time.Minute
	// requestBytes is the approximate size of a request in a statement.
	requestBytes = 200
)

// NonceAsk is a request to the owner of a submitter in mode EXTERNAL.
type NonceAsk struct {
	Submitter   txn.SubmitterID
	Kind        txn.NonceRequestKind
	Reservation txn.ReservationID // of ALLOCATE: made by AskNonce
	RequestID   string            // of ALLOCATE alone: its key, for ever
	Holder      string
	TTL         time.Duration
	Hash        txn.Hash // zero: none
	Action      string
	Reason      string
	Operator    string
	Caller      string
}

// NonceAsked is a request that was recorded.
type NonceAsked struct {
	No          int64
	Reservation txn.ReservationID // of the first request with the same key
	Holder      string            // likewise
	Result      string            // of a repeated ALLOCATE that was applied; empty: not yet
	Nonce       txn.Nonce         // with Result
	Created     bool              // of an ALLOCATE: no earlier request has its key
	wait        chan NonceOutcome // without Result
}

// NonceOutcome is the result of a request.
type NonceOutcome struct {
	Result string
	Nonce  txn.Nonce // of an ALLOCATE that was applied
}

// askJob is a request on its way.
type askJob struct {
	ask   NonceAsk
	asked NonceAsked
	err   error
	ended chan struct{}
}

func (j *askJob) size() int {
	return requestBytes + len(j.ask.RequestID) + len(j.ask.Holder) + len(j.ask.Reason)
}

// key keeps two requests with the same key, or for the same reservation, out of one statement.
func (j *askJob) key() int64 {
	h := fnv.New64a()
	if j.ask.Kind == txn.RequestAllocate {
		fmt.Fprintf(h, "%d/%s", j.ask.Submitter, j.ask.RequestID)
	} else {
		_, _ = h.Write(j.ask.Reservation[:])
	}
	return max(1, int64(h.Sum64()&math.MaxInt64))
}

func (j *askJob) end(err error) {
	j.err = err
	close(j.ended)
}

// AskNonce records a request for the owner of a submitter. It shares a statement with the requests
// of other calls on this node. ErrMode: the submitter is not in mode EXTERNAL, or unknown.
func (s *Store) AskNonce(ctx context.Context, ask NonceAsk) (NonceAsked, error) {
	verb := fmt.Sprintf("record %s for submitter %d", ask.Kind, ask.Submitter)
	if ask.Kind == txn.RequestAllocate {
		id, err := txn.NewTxID(s.clock.Now(), ask.Submitter)
		if err != nil {
			return NonceAsked{}, fmt.Errorf("store: %s: %w", verb, err)
		}
		ask.Reservation = id
	}
	job := &askJob{ask: ask, ended: make(chan struct{})}
	if err := s.asks.put(job); err != nil {
		return NonceAsked{}, fmt.Errorf("store: %s: %w: %w", verb, ErrBusy, err)
	}
	select {
	case <-job.ended:
	case <-ctx.Done():
		go func() { // its place among those that wait is given up
			if <-job.ended; job.err == nil && job.asked.wait != nil {
				s.waits.leave(job.asked)
			}
		}()
		return NonceAsked{}, fmt.Errorf("store: %s: %w", verb, context.Cause(ctx))
	}
	if job.err != nil {
		return NonceAsked{}, fmt.Errorf("store: %s: %w", verb, job.err)
	}
	s.wakes.wake(ask.Submitter)
	return job.asked, nil
}

// sendAsks inserts the requests of a group with one statement.
func (s *Store) sendAsks(_ bool, group []*askJob) *refusal {
	ctx, cancel := context.WithTimeout(context.Background(), 2*readLimit)
	defer cancel()
	rows, err := s.read().InsertNonceRequests(ctx, askParams(group))
	if why := refusalOf(err); why != nil {
		return why
	}
	if err != nil {
		for _, job := range group {
			job.end(describeError(err))
		}
		return nil
	}
	byKey := make(map[RequestKey]db.InsertNonceRequestsRow, len(rows))
	byID := make(map[uuid.UUID]db.InsertNonceRequestsRow, len(rows))
	for _, r := range rows {
		if r.RequestID != "" {
			byKey[RequestKey{txn.SubmitterID(r.SubmitterID), r.RequestID}] = r
		} else {
			byID[r.ReservationID] = r
		}
	}
	for _, job := range group {
		row, found := byKey[RequestKey{job.ask.Submitter, job.ask.RequestID}]
		if job.ask.Kind != txn.RequestAllocate {
			row, found = byID[uuid.UUID(job.ask.Reservation)]
		}
		if !found {
			job.end(ErrMode)
			continue
		}
		job.asked = NonceAsked{
			No: row.RequestNo, Reservation: txn.ReservationID(row.ReservationID),
			Holder: row.Holder, Result: row.Result, Nonce: txn.Nonce(max(0, row.Nonce)),
			Created: row.ReservationID == uuid.UUID(job.ask.Reservation),
		}
		if job.asked.Result == "" {
			job.asked.wait = s.await(NonceKey{job.ask.Submitter, row.RequestNo})
		}
		job.end(nil)
	}
	return nil
}

func (s *Store) refuseAsk(job *askJob, why *refusal) { job.end(describeError(why.err)) }

func askParams(group []*askJob) (p db.InsertNonceRequestsParams) {
	for _, job := range group {
		a := &job.ask
		hash := []byte{}
		if a.Hash != (txn.Hash{}) {
			hash = a.Hash[:]
		}
		p.SubmitterIds = append(p.SubmitterIds, int32(a.Submitter))
		p.Kinds = append(p.Kinds, string(a.Kind))
		p.Reservations = append(p.Reservations, uuid.UUID(a.Reservation))
		p.RequestIds = append(p.RequestIds, a.RequestID)
		p.Holders = append(p.Holders, a.Holder)
		p.TtlsMs = append(p.TtlsMs, a.TTL.Milliseconds())
		p.TxHashes = append(p.TxHashes, hash)
		p.Actions = append(p.Actions, a.Action)
		p.Reasons = append(p.Reasons, a.Reason)
		p.Operators = append(p.Operators, a.Operator)
		p.Callers = append(p.Callers, a.Caller)
	}
	return p
}

// NonceKey names a request.
type NonceKey struct {
	Submitter txn.SubmitterID
	No        int64
}

// NonceOutcomes returns the results of those requests that were applied.
func (s *Store) NonceOutcomes(ctx context.Context,
	keys []NonceKey) (map[int64]NonceOutcome, error) {
	var p db.NonceResultsParams
	for _, k := range keys {
		p.SubmitterIds = append(p.SubmitterIds, int32(k.Submitter))
		p.RequestNos = append(p.RequestNos, k.No)
	}
	rows, err := s.read().NonceResults(ctx, p)
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("read %d nonce requests", len(keys)), err)
	}
	of := make(map[int64]NonceOutcome, len(rows))
	for _, r := range rows {
		of[r.RequestNo] = NonceOutcome{r.Result, txn.Nonce(max(0, r.Nonce))}
	}
	return of, nil
}
