package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ErrCommandNotFound is returned for an unknown command number.
var ErrCommandNotFound = errors.New("no such command")

// CancelQueued cancels a transaction that never had a nonce, and reports whether it did. If not,
// the transaction is in a later state, or final, or was requeued: then it may have been executed,
// and only its owner can find out.
func (s *Store) CancelQueued(ctx context.Context, id txn.TxID) (cancelled bool, err error) {
	return s.CancelQueuedFor(ctx, id, Ask{})
}

// CancelQueuedFor is CancelQueued with an operator, a reason or a caller, recorded with the
// commands.
func (s *Store) CancelQueuedFor(ctx context.Context, id txn.TxID,
	ask Ask) (cancelled bool, err error) {
	verb := fmt.Sprintf("cancel transaction %s", id)
	_, err = s.read().CancelQueued(ctx, db.CancelQueuedParams{
		SubmitterID: int32(id.Submitter()), TxID: uuid.UUID(id), Reason: txn.ReasonCancelled,
		RestoredReason: txn.ReasonRestored,
		RestoredError:  txn.RestoredMayHaveExecuted(txn.ReasonCancelled, ""), Why: ask.Reason,
		Operator: ask.Operator, Caller: ask.Caller,
	})
	switch {
	case err == nil:
		s.wakes.wake(id.Submitter())
		s.wakes.signalEvents()
		return true, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return false, s.failed(ctx, verb, err)
	}
	_, err = s.Tx(ctx, id) // not there at all is an answer of its own
	return false, err
}

// Ask is a request to the owner of a submitter.
type Ask struct {
	Kind     txn.CommandKind
	Tx       *txn.TxID // of CANCEL and RESOLVE alone
	Action   txn.Action
	Expect   int64
	Reason   string // of PROTECT it is cut where it is too long: that is no reason not to protect
	Operator string // as the caller claims
	Caller   string // the authenticated identity; empty where callers have no names
	// ChainNonce is the account's next nonce on chain, of PROTECT alone; nil: unknown.
	ChainNonce *txn.Nonce
	// Violations are the keys of the violations that a PROTECT is for; nil: none.
	Violations []string
}

const (
	addTries  = 5    // bounds how often AddCommand meets a command that ends between two looks
	maxReason = 4096 // characters, as the table has it
)

// AddCommand asks something of the owner of a submitter. Asking for the same cancel or for a
// protection again, before it is carried out, returns the number of the first.
func (s *Store) AddCommand(ctx context.Context, submitter txn.SubmitterID,
	ask Ask) (id int64, err error) {
	verb := fmt.Sprintf("add a %s command for submitter %d", ask.Kind, submitter)
	if ask.Kind == txn.CommandProtect {
		ask.Reason = cut(ask.Reason, maxReason)
	}
	p := db.InsertCommandParams{
		SubmitterID: int32(submitter), Kind: string(ask.Kind), TxID: (*uuid.UUID)(ask.Tx),
		Action: string(ask.Action), Expect: ask.Expect, Reason: ask.Reason,
		Operator: ask.Operator, Caller: ask.Caller, Violations: ask.Violations,
	}
	if seen := ask.ChainNonce; seen != nil {
		p.ChainNonce = new(int64(*seen))
	}
	for range addTries {
		id, err = s.read().InsertCommand(ctx, p)
		if errors.Is(err, pgx.ErrNoRows) {
			id, err = s.read().PendingCommand(
				ctx,
				db.PendingCommandParams{
					SubmitterID: int32(submitter),
					Kind:        string(ask.Kind),
					TxID:        p.TxID,
				},
			)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			break
		}
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == foreignKeyViolation {
		return 0, fmt.Errorf("store: %s: %w", verb, ErrSubmitterNotFound)
	}
	if err != nil {
		return 0, s.failed(ctx, verb, err)
	}
	s.wakes.wake(submitter)
	return id, nil
}

// cut leaves the first n characters.
func cut(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// CommandInfo is a command as operators read it.
type CommandInfo struct {
	txn.Command
	Submitter string // name
	Sink      string // name, of a decision about a sink
	Caller    string // the authenticated identity; Operator is the claimed one
	CreatedAt time.Time
	AppliedAt time.Time // zero: not yet
	Result    string
}

// Commands lists the commands to the owner of a submitter, newest first. For the next page pass the
// last number as before; 0 begins with the newest.
func (s *Store) Commands(ctx context.Context, submitter txn.SubmitterID, before int64,
	limit int) ([]CommandInfo, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := s.read().Commands(ctx,
		db.CommandsParams{SubmitterID: int32(submitter), Before: before, MaxRows: rowLimit(limit)})
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("list the commands of submitter %d", submitter), err)
	}
	return toCommandInfos(rows), nil
}

// fewNames is the largest number of submitters whose commands are read one by one and merged.
const fewNames = 100

// AllCommands lists the commands of the submitters with these names, otherwise as Commands; nil: of
// all.
func (s *Store) AllCommands(ctx context.Context, names []string, before int64,
	limit int) ([]CommandInfo, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	if names != nil && len(names) <= fewNames {
		rows, err := s.read().CommandsOf(ctx, db.CommandsOfParams{
			Names: names, Before: before, MaxRows: rowLimit(limit),
		})
		if err != nil {
			return nil, s.failed(ctx, "list the commands of some submitters", err)
		}
		same := make([]db.CommandsRow, len(rows))
		for i, r := range rows {
			same[i] = db.CommandsRow(r)
		}
		return toCommandInfos(same), nil
	}
	rows, err := s.read().AllCommands(ctx, db.AllCommandsParams{
		AnyName: names == nil, Names: names, Before: before, MaxRows: rowLimit(limit),
	})
	if err != nil {
		return nil, s.failed(ctx, "list the commands of all submitters", err)
	}
	same := make([]db.CommandsRow, len(rows))
	for i, r := range rows {
		same[i] = db.CommandsRow(r)
	}
	return toCommandInfos(same), nil
}

func toCommandInfos(rows []db.CommandsRow) []CommandInfo {
	infos := make([]CommandInfo, len(rows))
	for i, r := range rows {
		infos[i] = CommandInfo{
			Command: toCommand(db.InboxCommandsRow{
				CommandID: r.CommandID, Kind: r.Kind, TxID: r.TxID, Action: r.Action,
				Expect: r.Expect, Reason: r.Reason, Operator: r.Operator,
			}),
			Submitter: r.Submitter, Caller: r.Caller, CreatedAt: r.CreatedAt, Result: r.Result,
		}
		if r.AppliedAt != nil {
			infos[i].AppliedAt = *r.AppliedAt
		}
	}
	return infos
}

// CommandResult returns whether a command was applied, and its result.
func (s *Store) CommandResult(ctx context.Context, submitter txn.SubmitterID,
	id int64) (result string, done bool, err error) {
	verb := fmt.Sprintf("read command %d of submitter %d", id, submitter)
	result, err = s.read().CommandResult(ctx,
		db.CommandResultParams{SubmitterID: int32(submitter), CommandID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, fmt.Errorf("store: %s: %w", verb, ErrCommandNotFound)
	}
	return result, result != "", s.failed(ctx, verb, err)
}

// PastProtection is a protection that was asked for and began, whether it is still in force or not.
type PastProtection struct {
	Evidence   string
	Violations []string // keys; nil: none, or a release that recorded none asked for it
}

// ProtectionsFor lists the newest protections of a submitter that were asked for with a reason.
func (s *Store) ProtectionsFor(ctx context.Context, submitter txn.SubmitterID, reason string,
	limit int) ([]PastProtection, error) {
	rows, err := s.read().ProtectionsFor(
		ctx,
		db.ProtectionsForParams{
			SubmitterID: int32(submitter),
			Action:      reason,
			MaxRows:     rowLimit(limit),
		},
	)
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("list the protections of submitter %d", submitter),
			err)
	}
	list := make([]PastProtection, len(rows))
	for i, r := range rows {
		list[i] = PastProtection{Evidence: r.Reason, Violations: r.Violations}
	}
	return list, nil
}
