package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// emptyNonces is the approximate wire size of CommitNonces without changes.
const emptyNonces = 2 << 10

// sendNonces sends a group of changes about nonces of clients as one statement, as sendCommits
// does.
func (s *Store) sendNonces(on *dedicatedConn, group []*commitJob) *refusal {
	var rows []db.CommitNoncesRow
	result, err := on.run(context.Background(), s.watchdog(),
		func(conn *pgx.Conn, q *db.Queries) (err error) {
			expect(conn, emptyNonces+sizeOf(group))
			rows, err = q.CommitNonces(context.Background(), nonceParams(s.cfg.Node, group))
			return err
		})
	switch result {
	case settled:
		answers := make([]db.CommitRow, len(rows))
		for i, r := range rows {
			answers[i] = db.CommitRow(r)
		}
		answerAll(group, answers)
		return nil
	case refused, again:
		s.log.Debug("fenced statement refused", "changes", len(group), "cause",
			describeError(err))
		return &refusal{err: err, again: result == again}
	}
	outcome := Unsettled
	if result == nothing {
		outcome = Unreached
	}
	why := describeError(err)
	s.log.Debug("fenced statement failed", "changes", len(group), "outcome", outcome.String(),
		"cause", why)
	for _, job := range group {
		job.end(outcome, why)
	}
	return nil
}

// nonceParams lays the changes of a group out as columns.
func nonceParams(node string, group []*commitJob) db.CommitNoncesParams {
	p := db.CommitNoncesParams{OwnerNode: node}
	for no, job := range group {
		c, existing := job.change.Nonces, 0
		for i := range c.Writes {
			if c.Writes[i].Version > 0 {
				existing++
			}
			addNonceWrite(&p, int32(no), job.lease, &c.Writes[i])
		}
		for _, r := range c.Results {
			addNonceResult(&p, int32(no), job.lease, r)
		}
		from, to := int64(-1), int64(-1)
		if c.Reserves {
			from, to = int64(c.From), int64(c.To)
		}
		p.ChangeNo = append(p.ChangeNo, int32(no))
		p.SubmitterID = append(p.SubmitterID, int32(job.lease.submitter))
		p.FencingToken = append(p.FencingToken, int64(job.lease.token))
		p.WriteCount = append(p.WriteCount, int32(existing))
		p.ResultCount = append(p.ResultCount, int32(len(c.Results)))
		p.CursorFrom = append(p.CursorFrom, from)
		p.CursorTo = append(p.CursorTo, to)
	}
	return p
}

func addNonceWrite(p *db.CommitNoncesParams, no int32, l *Lease, w *txn.NonceWrite) {
	n := &w.Next
	p.WChangeNo = append(p.WChangeNo, no)
	p.WSubmitterID = append(p.WSubmitterID, int32(l.submitter))
	p.WFencingToken = append(p.WFencingToken, int64(l.token))
	p.WNonce = append(p.WNonce, int64(n.Nonce))
	p.WVersion = append(p.WVersion, w.Version)
	p.WFromState = append(p.WFromState, string(w.From))
	p.WState = append(p.WState, string(n.State))
	p.WReservation = append(p.WReservation, uuid.UUID(n.Reservation))
	p.WHolder = append(p.WHolder, n.Holder)
	p.WCaller = append(p.WCaller, n.Caller)
	p.WReason = append(p.WReason, n.Reason)
	p.WMessage = append(p.WMessage, n.Message)
	p.WOperator = append(p.WOperator, n.NeedsOperator)
	p.WTtlMs = append(p.WTtlMs, w.TTL.Milliseconds())
	p.WExpired = append(p.WExpired, w.Expired)
	if w.Hash == (txn.Hash{}) {
		return
	}
	p.HChangeNo = append(p.HChangeNo, no)
	p.HSubmitterID = append(p.HSubmitterID, int32(l.submitter))
	p.HFencingToken = append(p.HFencingToken, int64(l.token))
	p.HNonce = append(p.HNonce, int64(n.Nonce))
	p.HTxHash = append(p.HTxHash, w.Hash[:])
	signer := n.Reservation
	if w.Former != (txn.ReservationID{}) {
		signer = w.Former
	}
	p.HReservation = append(p.HReservation, uuid.UUID(signer))
}

func addNonceResult(p *db.CommitNoncesParams, no int32, l *Lease, r txn.NonceResult) {
	nonce := int64(-1)
	if r.Nonce != nil {
		nonce = int64(*r.Nonce)
	}
	p.RChangeNo = append(p.RChangeNo, no)
	p.RSubmitterID = append(p.RSubmitterID, int32(l.submitter))
	p.RFencingToken = append(p.RFencingToken, int64(l.token))
	p.RRequestNo = append(p.RRequestNo, r.No)
	p.RResult = append(p.RResult, r.Result)
	p.RNonce = append(p.RNonce, nonce)
}

// nonceSize is the approximate wire size of a change about nonces.
func nonceSize(c *txn.NonceChange) int {
	const (
		perChange = 60
		perWrite  = 220
		perResult = 60
	)
	n := perChange
	for i := range c.Writes {
		next := &c.Writes[i].Next
		n += perWrite + len(next.Holder) + len(next.Caller) + len(next.Message)
	}
	for _, r := range c.Results {
		n += perResult + len(r.Result)
	}
	return n
}

// checkNonces finds faults of a change about nonces without the database.
func checkNonces(submitter txn.SubmitterID, c txn.Change) error {
	n := c.Nonces
	other := c
	if other.Nonces = nil; !other.Empty() {
		return errors.New("a change about the nonces of clients changes nothing else")
	}
	taken, seen := txn.Nonce(0), map[txn.Nonce]bool{}
	for i := range n.Writes {
		w := &n.Writes[i]
		if err := checkNonce(submitter, n, w); err != nil {
			return fmt.Errorf("nonce %d: %w", w.Next.Nonce, err)
		}
		if seen[w.Next.Nonce] {
			return fmt.Errorf("nonce %d is written twice", w.Next.Nonce)
		}
		seen[w.Next.Nonce] = true
		if w.Version == 0 {
			taken++
		}
	}
	if n.Reserves && n.To != n.From+taken || !n.Reserves && taken > 0 {
		return fmt.Errorf("the cursor moves from %d to %d, and %d nonces are new", n.From, n.To,
			taken)
	}
	for _, r := range n.Results {
		if r.Result == "" || r.Nonce != nil && r.Result != txn.Applied {
			return fmt.Errorf("request %d has result %q and nonce %v", r.No, r.Result, r.Nonce)
		}
	}
	return nil
}

func checkNonce(submitter txn.SubmitterID, c *txn.NonceChange, w *txn.NonceWrite) error {
	next := &w.Next
	switch {
	case next.Reservation.Submitter() != submitter:
		return fmt.Errorf("reservation %s is not of submitter %d", next.Reservation, submitter)
	case next.Version != w.Version+1:
		return fmt.Errorf("a write raises the version by one: %d would become %d", w.Version,
			next.Version)
	case !storable(uint64(next.Nonce)):
		return errors.New("it is beyond 2^63-1")
	case w.Version == 0 && (!c.Reserves || next.State != txn.NonceReserved ||
		next.Nonce < c.From || next.Nonce >= c.To):
		return fmt.Errorf("a new nonce is %s, and must be RESERVED at the cursor", next.State)
	case w.Version > 0 && !txn.LegalNonce(w.From, next.State):
		return fmt.Errorf("no legal move leads from %s to %s", w.From, next.State)
	case next.State == txn.NonceReserved && w.From != txn.NonceReserved &&
		(w.TTL <= 0 || !c.Reserves):
		return errors.New("it is reserved without an end, or without a check of the cursor")
	}
	return nil
}

// loadNonces reads the nonces of clients that the owner keeps in memory.
func (s *Store) loadNonces(ctx context.Context, q *db.Queries,
	id txn.SubmitterID) ([]txn.ExternalNonce, error) {
	rows, err := q.OpenNonces(ctx, int32(id))
	if err != nil {
		return nil, err
	}
	hashes, err := q.OpenNonceHashes(ctx, int32(id))
	if err != nil {
		return nil, err
	}
	of := map[int64][]txn.Hash{}
	for _, h := range hashes {
		of[h.Nonce] = append(of[h.Nonce], toHash(h.TxHash))
	}
	now := s.clock.Now()
	list := make([]txn.ExternalNonce, len(rows))
	for i, r := range rows {
		list[i] = txn.ExternalNonce{
			Nonce: txn.Nonce(r.Nonce), State: txn.NonceState(r.State), Version: r.Version,
			Reservation: txn.ReservationID(r.ReservationID), Holder: r.Holder, Caller: r.Caller,
			Reason: r.Reason, Message: r.Message, NeedsOperator: r.NeedsOperator,
			Since:  now.Add(-time.Duration(r.AgeMs) * time.Millisecond),
			Hashes: of[r.Nonce],
		}
		if list[i].State == txn.NonceReserved {
			list[i].Expires = now.Add(time.Duration(r.LeftMs) * time.Millisecond)
		}
	}
	return list, nil
}

// NonceRequests reads the oldest requests of these submitters that are not applied.
func (s *Store) NonceRequests(ctx context.Context,
	ids []txn.SubmitterID) (map[txn.SubmitterID][]txn.NonceRequest, error) {
	rows, err := s.own().InboxNonces(ctx, db.InboxNoncesParams{
		SubmitterIds: plain(ids), Most: maxNonceRequests, Stale: staleAllocation.Seconds(),
	})
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("read the nonce requests of %d submitters", len(ids)),
			err)
	}
	of := make(map[txn.SubmitterID][]txn.NonceRequest, len(ids))
	for _, id := range ids {
		of[id] = nil
	}
	for _, r := range rows {
		request := txn.NonceRequest{
			No: r.RequestNo, Kind: txn.NonceRequestKind(r.Kind),
			Reservation: txn.ReservationID(r.ReservationID), Holder: r.Holder, Caller: r.Caller,
			TTL: time.Duration(r.TtlMs) * time.Millisecond, Hash: toHash(r.TxHash),
			Action: r.Action, Reason: r.Reason, Operator: r.Operator, Stale: r.Stale,
		}
		if r.Given >= 0 {
			request.Given = new(txn.Nonce(r.Given))
		}
		if r.Accepted >= 0 {
			request.Accepted = &txn.ExternalNonce{
				Nonce: txn.Nonce(r.Accepted), State: txn.NonceAccepted, Version: r.Version,
				Reservation: txn.ReservationID(r.AcceptedReservation),
				Holder:      r.AcceptedHolder, Caller: r.AcceptedCaller,
				Reason: r.AcceptedReason, Message: r.AcceptedMessage,
			}
		}
		id := txn.SubmitterID(r.SubmitterID)
		of[id] = append(of[id], request)
	}
	return of, nil
}
