package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// Errors of sinks.
var (
	ErrSinkNotFound = errors.New("no such sink")
	ErrNotParked    = errors.New("no such undelivered event")
)

// EnsureSinks creates the rows of the configured sinks. A new sink begins at the end of the feed.
func (s *Store) EnsureSinks(ctx context.Context, names []string) error {
	return s.failed(ctx, "create sinks", s.own().EnsureSinks(ctx, names))
}

// AcquireSinks takes the leases of these sinks that are free, lapsed or this node's own, each under
// a new token. A locked lease is skipped.
func (s *Store) AcquireSinks(ctx context.Context, names []string) ([]txn.SinkLease, error) {
	rows, err := s.own().AcquireSinks(ctx, db.AcquireSinksParams{OwnerNode: s.cfg.Node,
		Seconds: s.cfg.LeaseDuration.Seconds(), Sinks: names})
	if err != nil {
		return nil, s.failed(ctx, "acquire sinks", err)
	}
	leases := make([]txn.SinkLease, len(rows))
	for i, r := range rows {
		leases[i] = txn.SinkLease{Sink: r.Sink, Token: txn.Token(r.FencingToken)}
	}
	return leases, nil
}

// RenewSinks extends the leases that this node still holds, and returns those.
func (s *Store) RenewSinks(ctx context.Context,
	leases []txn.SinkLease) (renewed []txn.SinkLease, err error) {
	names, tokens := sinkColumns(leases)
	rows, err := s.own().RenewSinks(ctx, db.RenewSinksParams{
		Seconds: s.cfg.LeaseDuration.Seconds(), Sinks: names, FencingTokens: tokens,
		OwnerNode: s.cfg.Node,
	})
	if err != nil {
		return nil, s.failed(ctx, "renew sinks", err)
	}
	for _, r := range rows {
		renewed = append(renewed, txn.SinkLease{Sink: r.Sink, Token: txn.Token(r.FencingToken),
			Revision: r.Revision})
	}
	return renewed, nil
}

// ReleaseSinks ends leases at once.
func (s *Store) ReleaseSinks(ctx context.Context, leases []txn.SinkLease) error {
	names, tokens := sinkColumns(leases)
	return s.failed(ctx, "release sinks", s.own().ReleaseSinks(ctx, db.ReleaseSinksParams{
		Sinks: names, FencingTokens: tokens, OwnerNode: s.cfg.Node}))
}

func sinkColumns(leases []txn.SinkLease) (names []string, tokens []int64) {
	for _, l := range leases {
		names, tokens = append(names, l.Sink), append(tokens, int64(l.Token))
	}
	return names, tokens
}

// CommitSink moves a cursor under a lease, and parks the events that were not delivered. Conflict
// means that the cursor must be read again. A call with an unknown outcome may be repeated
// unchanged.
func (s *Store) CommitSink(ctx context.Context, l txn.SinkLease,
	p txn.SinkProgress) (Outcome, error) {
	verb := fmt.Sprintf("move the cursor of sink %q", l.Sink)
	var at Position
	if p.Position != "" {
		var err error
		if at, err = ParsePosition(p.Position); err != nil {
			return Refused, fmt.Errorf("store: %s: %w", verb, err)
		}
	}
	params := db.CommitSinkParams{
		Sink: l.Sink, OwnerNode: s.cfg.Node, FencingToken: int64(l.Token), Position: p.Position,
		Delivered: p.Delivered, Announced: p.Announced, Reason: p.Reason, Disable: p.Disable,
		Revision: p.Revision, Epoch: at.Epoch, Timeline: at.Timeline,
	}
	if !p.EventAt.IsZero() {
		params.EventAt = &p.EventAt
	}
	for _, f := range p.Failures {
		params.TxIds = append(params.TxIds, uuid.UUID(f.Tx))
		params.SubmitterIds = append(params.SubmitterIds, int32(f.Submitter))
		params.FirstSeqs = append(params.FirstSeqs, f.First)
		params.LastSeqs = append(params.LastSeqs, f.Last)
		params.Attempts = append(params.Attempts, int32(f.Attempts))
		params.DelaysMs = append(params.DelaysMs, delayMillis(f.Delay))
		params.Reasons = append(params.Reasons, f.Reason)
	}
	outcome, err := s.own().CommitSink(ctx, params)
	if err != nil {
		return Unsettled, s.failed(ctx, verb, err)
	}
	return toOutcome(outcome), nil
}

// CommitSinkRetries records retries of parked transactions under a lease, and returns how many of
// them are dead now: those that failed for longer than keep.
func (s *Store) CommitSinkRetries(ctx context.Context, l txn.SinkLease, retries []txn.SinkRetry,
	keep time.Duration) (o Outcome, dead int64, err error) {
	params := db.CommitParkedParams{Sink: l.Sink, OwnerNode: s.cfg.Node,
		FencingToken: int64(l.Token), KeepSeconds: keep.Seconds()}
	for _, r := range retries {
		params.TxIds = append(params.TxIds, uuid.UUID(r.Tx))
		params.BeforeSeqs = append(params.BeforeSeqs, r.Next)
		params.NextSeqs = append(params.NextSeqs, r.NextSeq)
		params.DelaysMs = append(params.DelaysMs, delayMillis(r.Delay))
		params.Failed = append(params.Failed, r.Failed)
		params.Reasons = append(params.Reasons, r.Reason)
	}
	row, err := s.own().CommitParked(ctx, params)
	if err != nil {
		return Unsettled, 0, s.failed(ctx, fmt.Sprintf("record retries of sink %q", l.Sink), err)
	}
	return toOutcome(row.Outcome), row.Dead, nil
}

// delayMillis is -1 for no further attempt.
func delayMillis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

func toOutcome(text string) Outcome {
	switch text {
	case "DONE":
		return Done
	case "CONFLICT":
		return Conflict
	}
	return Fenced
}

// SinkCursors reads all sinks by name, or the named one, without counts.
func (s *Store) SinkCursors(ctx context.Context, name string) ([]txn.SinkCursor, error) {
	rows, err := s.read().SinkCursors(ctx, name)
	if err != nil {
		return nil, s.failed(ctx, "read sinks", err)
	}
	cursors := make([]txn.SinkCursor, len(rows))
	for i, r := range rows {
		cursors[i] = txn.SinkCursor{
			Sink: r.Sink, Status: txn.SinkStatus(r.Status), Reason: r.Reason, Operator: r.Operator,
			Position: r.Position, Revision: r.Revision, Restored: r.Restored,
			Delivered: r.Delivered, EventAt: r.EventAt, UpdatedAt: r.UpdatedAt, Owner: r.Owner,
			Token: txn.Token(r.FencingToken),
		}
		if at, err := ParsePosition(r.Position); err == nil {
			cursors[i].Epoch = at.Epoch
		}
	}
	return cursors, nil
}

// CountParked counts the parked and the dead transactions of a sink, each up to
// txn.CountedParked.
func (s *Store) CountParked(ctx context.Context, name string) (parked, dead int64, err error) {
	row, err := s.own().CountParked(ctx,
		db.CountParkedParams{Sink: name, Most: txn.CountedParked})
	return row.Parked, row.Dead, s.failed(ctx, "count parked transactions", err)
}

// SinkFacts reads what a sink needs to know of transactions beside their events.
func (s *Store) SinkFacts(ctx context.Context, name string,
	ids []txn.TxID) (map[txn.TxID]txn.SinkFact, error) {
	of, named := keys(ids)
	rows, err := s.own().SinkFacts(ctx,
		db.SinkFactsParams{Sink: name, SubmitterIds: of, TxIds: named})
	verb := fmt.Sprintf("read %d transactions of events", len(ids))
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	facts := make(map[txn.TxID]txn.SinkFact, len(rows))
	for _, r := range rows {
		labels, err := toLabels(r.Labels)
		if err != nil {
			return nil, s.failed(ctx, verb, err)
		}
		if r.RequestID == "" && !txn.TxID(r.TxID).IsAccount() {
			continue // no such transaction
		}
		facts[txn.TxID(r.TxID)] = txn.SinkFact{RequestID: r.RequestID, Labels: labels,
			Parked: r.Parked}
	}
	return facts, nil
}

// DueParked reads the parked transactions of a sink whose retry is due.
func (s *Store) DueParked(ctx context.Context, name string, limit int) ([]txn.SinkParked, error) {
	rows, err := s.own().DueParked(ctx,
		db.DueParkedParams{Sink: name, MaxRows: rowLimit(limit)})
	if err != nil {
		return nil, s.failed(ctx, "read parked transactions", err)
	}
	parked := make([]txn.SinkParked, len(rows))
	for i, r := range rows {
		parked[i] = toParked(r)
	}
	return parked, nil
}

func toParked(r db.DueParkedRow) txn.SinkParked {
	return txn.SinkParked{
		Sink: r.Sink, Submitter: txn.SubmitterID(r.SubmitterID), Tx: txn.TxID(r.TxID),
		Next: r.NextSeq, Last: r.LastSeq, Attempts: int(r.Attempts), ParkedAt: r.ParkedAt,
		DueAt: r.DueAt, Reason: r.Reason,
	}
}
