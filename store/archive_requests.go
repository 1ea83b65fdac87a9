package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ArchiveRequest names an answered request about a reserved nonce in an archive.
type ArchiveRequest struct {
	No          int64
	Reservation txn.ReservationID
	AppliedAt   time.Time
}

// RequestQuery selects answered requests of a submitter by age.
type RequestQuery struct {
	Submitter txn.SubmitterID
	After     int64     // a request's number, exclusive
	Before    time.Time // those that were answered, and their nonce ACCEPTED, by then
	Limit     int       // rows to look at
}

// ArchiveRequests reads the requests to archive among the next ones of a submitter, each as a line
// of a file, and the number up to which it looked; done when there are no more.
func (s *Store) ArchiveRequests(ctx context.Context,
	q RequestQuery) (lines []string, upto int64, done bool, err error) {
	verb := fmt.Sprintf("read nonce requests of submitter %d", q.Submitter)
	window, err := s.own().ArchiveRequestWindow(ctx, db.ArchiveRequestWindowParams{
		SubmitterID: int32(q.Submitter), After: q.After, MaxRows: rowLimit(q.Limit)})
	if err != nil {
		return nil, q.After, false, s.failed(ctx, verb, err)
	}
	if window.Requests == 0 {
		return nil, q.After, true, nil
	}
	lines, err = s.own().ArchiveRequestPage(ctx, db.ArchiveRequestPageParams{
		SubmitterID: int32(q.Submitter), After: q.After, Upto: window.Upto, Before: q.Before})
	if err != nil {
		return nil, q.After, false, s.failed(ctx, verb, err)
	}
	return lines, window.Upto, false, nil
}

// RemoveRequests removes requests that a complete archive holds, and returns how many. One that is
// not as it was archived, or is needed, is left as it is. It may be repeated.
func (s *Store) RemoveRequests(ctx context.Context, l *ArchiveLease,
	requests []ArchiveRequest) (int64, error) {
	verb := fmt.Sprintf("remove %d archived nonce requests", len(requests))
	p := db.RemoveRequestsParams{Holder: s.cfg.Node, FencingToken: l.token}
	for _, r := range requests {
		p.SubmitterIds = append(p.SubmitterIds, int32(r.Reservation.Submitter()))
		p.RequestNos = append(p.RequestNos, r.No)
		p.Reservations = append(p.Reservations, uuid.UUID(r.Reservation))
		p.AppliedAts = append(p.AppliedAts, r.AppliedAt)
	}
	row, err := s.own().RemoveRequests(ctx, p)
	if err != nil {
		return 0, s.failed(ctx, verb, err)
	}
	if !row.Held {
		return 0, fmt.Errorf("store: %s: %w", verb, ErrArchiveLost)
	}
	return row.Requests, nil
}
