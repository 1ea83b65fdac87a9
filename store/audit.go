package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// Violation is a law that the ledger or the chain contradicts.
type Violation struct {
	Law    string    // as docs/invariants.md numbers them
	Check  string    // which check of that law failed, such as "nonce_gap"
	Tx     *txn.TxID // nil: the submitter as a whole
	What   string    // for people; its words may change
	Values []any     // the values in the text, in the order of the check
}

// Key identifies a violation: two have the same key only if the same check failed for the same
// transaction with the same values. Keys are stored, so the name of a check never changes.
func (v Violation) Key() string {
	parts := []string{v.Law, v.Check, "-"}
	if v.Tx != nil {
		parts[2] = v.Tx.String()
	}
	for _, value := range v.Values {
		parts = append(parts, fmt.Sprint(value))
	}
	return strings.Join(parts, "/")
}

const (
	auditLimit    = 10 * time.Minute // of each statement; the context bounds all of them
	maxViolations = 100              // of each kind; the first ones are enough
	// transactions at the head of the queue that an audit of a part looks at
	auditedQueue = 200
)

// Audit checks one submitter's ledger against the laws in one snapshot, so that it may run while an
// owner works. It leaves out transactions with a nonce below from, and those without a nonce except
// for the head of the queue, so that a partial audit costs only its part. next is the nonce of the
// cursor, where the next part may begin once everything below is final.
func (s *Store) Audit(ctx context.Context, submitter txn.SubmitterID,
	from txn.Nonce) (violations []Violation, next txn.Nonce, err error) {
	return s.audit(ctx, submitter, from, false)
}

// AuditWhole is Audit of everything that the ledger holds of a submitter.
func (s *Store) AuditWhole(ctx context.Context,
	submitter txn.SubmitterID) (violations []Violation, next txn.Nonce, err error) {
	return s.audit(ctx, submitter, 0, true)
}

func (s *Store) audit(ctx context.Context, submitter txn.SubmitterID, from txn.Nonce,
	whole bool) ([]Violation, txn.Nonce, error) {
	verb := fmt.Sprintf("audit submitter %d", submitter)
	if !storable(uint64(from)) {
		return nil, 0, fmt.Errorf("store: %s: nonce %d is beyond 2^63-1", verb, from)
	}
	a := &audit{id: int32(submitter), from: int64(from), whole: whole}
	err := s.snapshot(ctx, func(q *db.Queries) error { return a.run(ctx, q) })
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, 0, fmt.Errorf("store: %s: %w", verb, ErrSubmitterNotFound)
	}
	if err != nil {
		return nil, 0, s.failed(ctx, verb, err)
	}
	return a.found, txn.Nonce(a.of.NextNonce), nil
}

// audit is one audit of one submitter.
type audit struct {
	id    int32
	from  int64
	whole bool // transactions without a nonce too, and not the head of the queue alone
	of    db.AuditSubmitterRow
	found []Violation
}

func (a *audit) run(ctx context.Context, q *db.Queries) (err error) {
	if err := q.SetStatementTimeout(ctx, millis(auditLimit)); err != nil {
		return err
	}
	if a.of, err = q.AuditSubmitter(ctx, a.id); err != nil {
		return err
	}
	a.from = min(a.from, a.of.NextNonce)
	a.submitter()
	checks := []func(context.Context, *db.Queries) error{a.numbers, a.events, a.attempts}
	for _, check := range checks {
		if err := check(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) report(law, check string, tx *uuid.UUID, format string, values ...any) {
	a.found = append(a.found, Violation{
		Law: law, Check: check, Tx: (*txn.TxID)(tx),
		What: fmt.Sprintf(format, values...), Values: values,
	})
}

// submitter checks the submitter as a whole.
func (a *audit) submitter() {
	of := a.of
	if of.UsedUnstarted {
		a.report("L4", "no_cursor", nil, "nonces are in use, but there is no cursor")
	}
	if of.InFlight > int64(of.MaxInFlight) && of.TakenSinceLimit {
		a.report("L5", "in_flight", nil,
			"%d transactions are in flight and not released; the limit is %d",
			of.InFlight, of.MaxInFlight)
	}
	if of.CursorToken > of.LeaseToken {
		a.report("L1", "cursor_token", nil,
			"the cursor was written under token %d; the newest token is %d",
			of.CursorToken, of.LeaseToken)
	}
	if of.Protected && of.Protections < 1 {
		a.report("L10", "protection_count", nil,
			"a protection is in force, but none was counted")
	}
}

// numbers checks that each nonce from the first to the cursor is used once, by a transaction or a
// recorded gap.
func (a *audit) numbers(ctx context.Context, q *db.Queries) error {
	rows, err := q.AuditNumbers(ctx, db.AuditNumbersParams{
		SubmitterID: a.id, FromNonce: a.from, InitNonce: a.of.InitNonce, MaxRows: maxViolations,
	})
	for _, r := range rows {
		tx := &r.TxID
		if r.TxID == (uuid.UUID{}) {
			tx = nil
		}
		switch {
		case r.AtCursor && r.FirstNonce < r.Due:
			a.report("L4", "cursor_behind", nil, "the cursor is at nonce %d, but nonce %d is used",
				r.FirstNonce, r.Due-1)
		case r.AtCursor:
			a.report("L4", "cursor_ahead", nil,
				"the cursor is at nonce %d, but nonces %d to %d are neither used nor recorded as "+
					"a gap",
				r.FirstNonce, r.Due, r.FirstNonce-1)
		case r.FirstNonce < r.Due:
			a.report("L4", "nonce_reused", tx,
				"nonce %d is used twice, or is below the first nonce (%d)",
				r.FirstNonce, a.of.InitNonce)
		default:
			a.report("L4", "nonce_gap", tx,
				"nonces %d to %d are neither used nor recorded as a gap", r.Due, r.FirstNonce-1)
		}
	}
	return err
}

// events checks each transaction against its events.
func (a *audit) events(ctx context.Context, q *db.Queries) error {
	rows, err := q.AuditEvents(ctx, db.AuditEventsParams{
		SubmitterID: a.id, FromNonce: a.from, Whole: a.whole, QueueHead: auditedQueue,
		LeaseToken: a.of.LeaseToken, MaxRows: maxViolations,
	})
	for _, r := range rows {
		if r.EventCount != r.Version || r.FirstSeq != 1 || r.LastSeq != r.Version {
			a.report("L8", "event_numbers", &r.TxID,
				"it has version %d and %d events, numbered %d to %d", r.Version, r.EventCount,
				r.FirstSeq, r.LastSeq)
		}
		if r.LastState != r.State || r.LastExecuted != r.Executed {
			a.report("L8", "last_event", &r.TxID,
				"it is %s (executed: %s), but its last event has %s (%s)", r.State, r.Executed,
				r.LastState, r.LastExecuted)
		}
		if r.TokenFalls > 0 {
			a.report("L2", "event_token_falls", &r.TxID,
				"%d of its events were written under a lower fencing token than an earlier event",
				r.TokenFalls)
		}
		if r.NewestToken > a.of.LeaseToken {
			a.report("L1", "event_token", &r.TxID,
				"it was written under token %d; the newest token is %d", r.NewestToken,
				a.of.LeaseToken)
		}
		if r.Requeues != int64(r.Requeued) {
			a.report("L10", "requeue_events", &r.TxID,
				"its events record %d requeues; the transaction counts %d", r.Requeues, r.Requeued)
		}
	}
	return err
}

// attempts checks each transaction against its attempts.
func (a *audit) attempts(ctx context.Context, q *db.Queries) error {
	rows, err := q.AuditAttempts(ctx, db.AuditAttemptsParams{
		SubmitterID: a.id, FromNonce: a.from, Whole: a.whole, QueueHead: auditedQueue,
		LeaseToken: a.of.LeaseToken, MaxRows: maxViolations,
	})
	for _, r := range rows {
		if r.Nonce >= 0 && r.ForNonce == 0 {
			a.report("L3", "no_attempt", &r.TxID,
				"it has nonce %d, but no attempt is recorded for that nonce", r.Nonce)
		}
		if r.Unexpected > 0 {
			a.report("L4", "attempt_nonce", &r.TxID,
				"%d of its attempts are for nonces that it neither has nor gave up", r.Unexpected)
		}
		if r.ForeignReceipt {
			a.report("L6", "receipt_hash", &r.TxID,
				"its receipt is for a transaction that is not one of its attempts for its nonce")
		}
		if r.ForeignHash {
			a.report("L3", "tx_hash", &r.TxID,
				"its hash is not the hash of one of its attempts for its nonce")
		}
		if r.NewestToken > a.of.LeaseToken {
			a.report("L1", "attempt_token", &r.TxID,
				"an attempt was recorded under token %d; the newest token is %d", r.NewestToken,
				a.of.LeaseToken)
		}
		if r.GivenUp != int64(r.Requeued) {
			a.report("L10", "requeue_gaps", &r.TxID,
				"it was requeued %d times, but gave up %d nonces", r.Requeued, r.GivenUp)
		}
	}
	return err
}
