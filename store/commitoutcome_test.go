package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func server(code string) error { return &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code} }

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		sent bool
		want commitOutcome
	}{
		{nil, true, settled},
		{io.ErrUnexpectedEOF, false, nothing},
		{io.ErrUnexpectedEOF, true, outcomeUnknown},
		{context.DeadlineExceeded, true, outcomeUnknown},
		{pgconn.ErrConnClosed, true, outcomeUnknown}, // which the driver has called safe to retry
		{fmt.Errorf("refused: %w", syscall.ECONNREFUSED), false, nothing},
		{server("23505"), true, refused},
		{server("22P02"), true, refused},
		{server("P0001"), true, refused},
		{server("XX000"), true, refused},
		{fmt.Errorf("wrapped: %w", server("23514")), true, refused},
		{server("40P01"), true, again},
		{server("40001"), true, again},
		{server("55P03"), true, again},
		{server("57014"), true, again},
		{server("57P01"), true, outcomeUnknown},
		{server("57P02"), true, outcomeUnknown},
		{server("57P03"), true, outcomeUnknown},
		{server("08006"), true, outcomeUnknown},
		{server("40003"), true, outcomeUnknown}, // of class 40, but of unknown outcome
		{&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "23505"}, true, outcomeUnknown},
		{&pgconn.PgError{SeverityUnlocalized: "PANIC", Code: "40001"}, true, outcomeUnknown},
		{&pgconn.PgError{Code: "40001"}, true, outcomeUnknown},
		{server("25006"), true, nothing},
		{server("53100"), true, nothing},
		{server("42P01"), true, nothing},
		{server("42501"), true, nothing},
		{server(""), true, nothing},
	} {
		if got := judge(c.err, c.sent); got != c.want {
			t.Errorf("%v (sent %v): fate %d, want %d", c.err, c.sent, got, c.want)
		}
	}
}

// TestErrors_HoldNoSecrets: callers never get the text of a driver or a server.
func TestErrors_HoldNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	s := &Store{log: slog.New(slog.DiscardHandler)}
	gone := errors.New("the caller is gone")
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(gone)
	for _, c := range []struct {
		ctx  context.Context
		err  error
		is   error
		text string
	}{
		{context.Background(), fmt.Errorf("dial %s: %w", secret, syscall.ECONNREFUSED),
			ErrUnavailable, "the connection is refused"},
		{context.Background(), &net.DNSError{Name: secret}, ErrUnavailable,
			"host name is not found"},
		{context.Background(), errors.New(secret), ErrUnavailable, "the connection is lost"},
		{context.Background(), errFull, ErrUnavailable, "too many pending"},
		{context.Background(), context.DeadlineExceeded, ErrUnavailable, "no reply in time"},
		{context.Background(), &pgconn.PgError{Code: "42P01", Message: secret}, ErrSchema,
			"fencepost migrate up"},
		{context.Background(), &pgconn.PgError{Code: "23514", Message: secret, Detail: secret,
			ConstraintName: "c1"}, nil, "SQLSTATE 23514, constraint c1"},
		{context.Background(), &pgconn.PgError{Code: "53300", Message: secret}, ErrUnavailable,
			"no connection is left"},
		{context.Background(), &pgconn.PgError{Code: "99999", Message: secret}, ErrUnavailable,
			"SQLSTATE 99999"},
		{ended, errors.New(secret), gone, "the caller is gone"},
	} {
		err := s.failed(c.ctx, "read transaction 1", c.err)
		if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) ||
			!strings.HasPrefix(err.Error(), "store: read transaction 1: ") {
			t.Errorf("%v became %v, want %q", c.err, err, c.text)
		}
		noSecrets(t, err, secret)
	}
	if err := s.failed(context.Background(), "x", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// TestIsRowError: an internal error of the database is not about a row.
func TestIsRowError(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{"22003": true, "XX001": true, "XX002": true,
		"XX000": false, "57014": false} {
		if is := IsRowError(describeError(server(code))); is != want {
			t.Errorf("%s is about a row: %t, want %t", code, is, want)
		}
	}
}
