package store

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/dbtest"
)

// TestVerifySession_SettingIgnored_IsRefused covers a pooler that drops the settings of a
// connection: the server answers with its own.
func TestVerifySession_SettingIgnored_IsRefused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for name := range map[string]bool{
		"statement_timeout": true, "lock_timeout": true,
		"idle_in_transaction_session_timeout": true,
		"search_path":                         true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := k.open("a").session("test", patience, patience)
			k.must(err)
			want := maps.Clone(cfg.RuntimeParams)
			delete(want, "application_name")
			delete(cfg.RuntimeParams, name)
			cfg.AfterConnect = nil
			conn, err := pgx.ConnectConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			err = verifySession(t.Context(), conn.PgConn(), want)
			if refused, ok := errors.AsType[refusedSession](err); !ok ||
				!strings.Contains(refused.Error(), name) {
				t.Errorf("verifySession = %v, want a refusal that names %s", err, name)
			}
			delete(want, name)
			if err := verifySession(t.Context(), conn.PgConn(), want); err != nil {
				t.Errorf("the settings that are in force are refused: %v", err)
			}
		})
	}
}

func TestJudgeSession(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	conn, err := pgx.Connect(t.Context(), k.db.URL)
	k.must(err)
	defer conn.Close(t.Context())
	pid := func() string { return value[string](k, "SELECT pg_backend_pid()::TEXT") }
	for name, c := range map[string]struct {
		pid     string
		standby bool
		want    string
	}{
		"a pooler invents the process id": {pid: pid(), want: "pooler"},
		"a standby":                       {pid: pid(), standby: true, want: "standby"},
	} {
		err := judgeSession(conn.PgConn(), c.pid, c.standby, nil, nil)
		_, ok := errors.AsType[refusedSession](err)
		if !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpen_SessionRefused_TurnsAway(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"settings read back":                    refusedSession("x"),
		"startup parameter refused by a pooler": &pgconn.PgError{Code: "08P01"},
	} {
		err := describeError(cause)
		if !errors.Is(err, ErrAccessDenied) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrAccessDenied, so that a node which starts ends", name,
				err)
		}
	}
}

// TestFeed_NumberedElsewhere_Refused: the numbers of events are not those of the server that takes
// snapshots, as behind a layer that spreads tables over servers.
func TestFeed_NumberedElsewhere_Refused(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"+ 1000000", "- 1"} {
		k := newKit(t, dbtest.WithoutGuard())
		s := k.open("a")
		id := k.submitter(s, "alice")
		k.queue(s, id, "r1")
		if _, err := s.Heartbeat(k.ctx, nil, true); err != nil {
			t.Fatal(err)
		}
		k.exec("ALTER TABLE tx_event DISABLE TRIGGER USER")
		k.exec("UPDATE tx_event SET xid = (xid::TEXT::BIGINT " + change + ")::TEXT::XID8, " +
			"created_at = clock_timestamp() + INTERVAL '1 hour'") // just now, on a slow machine too
		_, err := s.Heartbeat(k.ctx, nil, true)
		if !errors.Is(err, ErrAccessDenied) || !containsText(err, "sharding") {
			t.Errorf("xid %s: %v", change, err)
		}
	}
}
