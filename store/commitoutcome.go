package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// commitOutcome is the outcome of a statement.
type commitOutcome int

const (
	settled commitOutcome = iota // it ran, and committed
	// nothing of it was done, and trying it again elsewhere or later may help
	nothing
	refused // nothing of it was done, because of its content
	again   // nothing of it was done, because of concurrent statements
	outcomeUnknown
)

// judge returns the outcome of a statement that is its own transaction. sent is whether a byte of
// it left this process. The driver's own opinion on safe retries is not used: it has been wrong.
func judge(err error, sent bool) commitOutcome {
	if err == nil {
		return settled
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok && !sent:
		return nothing
	case !ok, pg.SeverityUnlocalized != "ERROR":
		// FATAL and PANIC end the session, and do not report the outcome of its statement
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
	dataCorrupted        = "XX001"
	indexCorrupted       = "XX002"
	noSchema             = "3F000"
	wrongPassword        = "28P01"
	mayNotLogIn          = "28000"
	noDatabase           = "3D000"
	protocolViolation    = "08P01" // by PgBouncer, of a startup parameter that it does not know
	undefinedColumn      = "42703"
	objectInUse          = "55006" // raised by a migration that refuses a step back
	notInThisState       = "55000" // raised by one that refuses it by force, too
)

// failed returns the error of a caller's operation in our own words: texts of a driver or server
// may hold data and addresses. verb names the operation.
func (s *Store) failed(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("store: %s: %w", verb, context.Cause(ctx))
	}
	why := err
	if !errors.Is(err, ErrDirectory) {
		why = describeError(err)
	}
	s.log.Debug("database error", "while", verb, "cause", why)
	return fmt.Errorf("store: %s: %w", verb, why)
}

// rowError is a failure that the content of a row causes.
type rowError struct{ error }

func (e rowError) Unwrap() error { return e.error }

// IsRowError reports whether the content of a row may have made a statement fail, so that it may
// succeed for other rows.
func IsRowError(err error) bool {
	_, is := errors.AsType[rowError](err)
	return is
}

// unreadable is why a row that the database returned cannot be decoded.
type unreadable string

func (u unreadable) Error() string        { return string(u) }
func (u unreadable) Is(target error) bool { return target == ErrUnavailable }

// describeError names the cause of a database error, without a word of the driver's.
func describeError(err error) error {
	if _, is := errors.AsType[unreadable](err); is {
		return rowError{err}
	}
	if scan, is := errors.AsType[pgx.ScanArgError](err); is {
		return rowError{unreadable(fmt.Sprintf("unreadable column %q", scan.FieldName))}
	}
	why := describeCause(err)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch class := pg.Code[:min(2, len(pg.Code))]; {
		case class == "22", pg.Code == dataCorrupted, pg.Code == indexCorrupted:
			return rowError{why}
		}
	}
	return why
}

func describeCause(err error) error {
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
	case pg.ConstraintName == hasMoved:
		return &MovedError{Ledger: pg.Detail}
	case pg.Code == undefinedTable, class == "3F":
		return fmt.Errorf("%w: run \"fencepost migrate up\"", ErrSchema)
	case pg.Code == notPermitted:
		return fmt.Errorf("%w: the role in database.url lacks a right; %s", ErrSchema,
			Keys{}.grants("ROLE"))
	case class == "22", class == "23", class == "54", class == "P0":
		return fmt.Errorf("the database rejects the data (SQLSTATE %s%s)", pg.Code, constraint(pg))
	}
	switch pg.Code {
	case wrongPassword, mayNotLogIn, noDatabase:
		return fmt.Errorf("%w: %w", ErrUnavailable, accessDenied(serverReason(pg)))
	case protocolViolation:
		return fmt.Errorf("%w: %w", ErrUnavailable, accessDenied("a connection pooler such as "+
			"PgBouncer refuses a startup parameter; connect to PostgreSQL itself"))
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, serverReason(pg))
}

// accessDenied is a reason why the database rejects the login.
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
		noDatabase: "the database does not exist",
		"53300":    "no connection is left", "53100": "the disk is full",
		"57P01": "it is shutting down", "57P03": "it is starting up or shutting down",
		"25006": "it is read-only, a standby perhaps", lockNotAvailable: "a lock was not " +
			"available in time", queryCanceled: "it took too long",
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
		return "the socket does not exist"
	case errors.As(err, &dns):
		return "the host name is not found"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no reply in time"
	}
	return "the connection is lost"
}
