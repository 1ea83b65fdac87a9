package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// commitOutcome is the outcome of a statement.
type commitOutcome int

const (
	settled commitOutcome = iota // it ran, and committed
	// nothing of it was done, and trying it again elsewhere or later may help
	nothing
	refused // nothing of it was done, because of what it says
	again   // nothing of it was done, because of what ran beside it
	outcomeUnknown
)

// judge tells what became of a statement that is its own transaction. sent says whether a byte of
// it left this process. The driver's own opinion on what is safe to retry is not asked: it has been
// wrong.
func judge(err error, sent bool) commitOutcome {
	if err == nil {
		return settled
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok && !sent:
		return nothing
	case !ok, pg.SeverityUnlocalized != "ERROR":
		// FATAL and PANIC end the session, and say nothing of what it was doing
		return outcomeUnknown
	}
	switch class := pg.Code[:min(2, len(pg.Code))]; {
	case class == "08", class == "57" && pg.Code != queryCanceled, pg.Code == completionUnknown:
		return outcomeUnknown
	case pg.Code == serializationFailure,
		pg.Code == deadlockDetected,
		pg.Code == lockNotAvailable,
		pg.Code == queryCanceled:
		return again
	case class == "22", class == "23", class == "54", class == "P0", class == "XX":
		return refused
	}
	return nothing // no room, read-only, no such table, ...: not this statement's fault
}

// SQLSTATEs that mean something to us.
const (
	serializationFailure = "40001"
	completionUnknown    = "40003"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	foreignKeyViolation  = "23503"
	uniqueViolation      = "23505"
	undefinedTable       = "42P01"
	notPermitted         = "42501"
	noSchema             = "3F000"
	wrongPassword        = "28P01"
	mayNotLogIn          = "28000"
	noDatabase           = "3D000"
	undefinedColumn      = "42703"
	objectInUse          = "55006" // raised by a migration that refuses a step back
	notInThisState       = "55000" // raised by one that refuses it by force, too
)

// failed is the error of a caller's operation, in words of our own: what a driver or server says
// may hold data and addresses. verb says what was tried.
func (s *Store) failed(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("store: %s: %w", verb, context.Cause(ctx))
	}
	why := describeError(err)
	s.log.Debug("database error", "while", verb, "cause", why)
	return fmt.Errorf("store: %s: %w", verb, why)
}

// describeError names the cause of a database error, without a word of the driver's.
func describeError(err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if refused, is := errors.AsType[refusedSession](err); is {
		return fmt.Errorf("%w: %w", ErrUnavailable, accessDenied(refused))
	}
	if other, is := errors.AsType[refusedServer](err); is {
		return fmt.Errorf("%w: %w", ErrUnavailable, other)
	}
	if !ok {
		return fmt.Errorf("%w: %s", ErrUnavailable, netReason(err))
	}
	switch class := pg.Code[:min(2, len(pg.Code))]; {
	case pg.Code == undefinedTable, class == "3F":
		return fmt.Errorf("%w: run \"fencepost migrate up\"", ErrSchema)
	case pg.Code == notPermitted:
		return fmt.Errorf("%w: the role in database.url lacks a right; %s", ErrSchema,
			grantsRemedy("ROLE"))
	case class == "22", class == "23", class == "54", class == "P0":
		return fmt.Errorf("the database refuses it (SQLSTATE %s%s)", pg.Code, constraint(pg))
	}
	switch pg.Code {
	case wrongPassword, mayNotLogIn, noDatabase:
		return fmt.Errorf("%w: %w", ErrUnavailable, accessDenied(serverReason(pg)))
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, serverReason(pg))
}

// accessDenied is a reason to let nobody in.
type accessDenied string

func (t accessDenied) Error() string        { return string(t) }
func (t accessDenied) Is(target error) bool { return target == ErrAccessDenied }

func constraint(pg *pgconn.PgError) string {
	if pg.ConstraintName == "" {
		return ""
	}
	return ", constraint " + pg.ConstraintName
}

func serverReason(pg *pgconn.PgError) string {
	reasons := map[string]string{
		wrongPassword: "the password is wrong", mayNotLogIn: "the user may not log in",
		noDatabase: "there is no such database",
		"53300":    "it has no connection left", "53100": "its disk is full",
		"57P01": "it is shutting down", "57P03": "it is starting up or shutting down",
		"25006": "it is read-only, a standby perhaps", lockNotAvailable: "a lock was not to be " +
			"had in time", queryCanceled: "it took too long",
	}
	if reason := reasons[pg.Code]; reason != "" {
		return reason + " (SQLSTATE " + pg.Code + ")"
	}
	return "SQLSTATE " + pg.Code
}

func netReason(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, errClosed), errors.Is(err, errFull):
		return err.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such socket"
	case errors.As(err, &dns):
		return "its host name is not found"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "it does not answer in time"
	}
	return "the connection is lost"
}
