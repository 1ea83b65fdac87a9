package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// sessionQuery reads the settings of a session from the server that executes its statements.
const sessionQuery = `SELECT pg_backend_pid(), pg_is_in_recovery(),
       (SELECT json_object_agg(s.name, s.setting) FROM pg_settings s WHERE s.name = ANY ($1))`

// refusedSession is the reason why a connection cannot carry the work of a node.
type refusedSession string

func (r refusedSession) Error() string { return string(r) }

// verifySession refuses a connection whose server is not the one that was asked, or does not have
// the settings that safety and liveness rest on. A pooler between the node and PostgreSQL can drop
// settings of the connection, and moves statements between sessions; a standby lacks commits.
func verifySession(ctx context.Context, conn *pgconn.PgConn, want map[string]string) error {
	names := "{" + strings.Join(slices.Sorted(maps.Keys(want)), ",") + "}"
	result := conn.ExecParams(ctx, sessionQuery, [][]byte{[]byte(names)}, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	row := result.Rows[0]
	var settings map[string]string
	if err := json.Unmarshal(row[2], &settings); err != nil {
		return err
	}
	return judgeSession(conn, string(row[0]), string(row[1]) == "t", settings, want)
}

func judgeSession(conn *pgconn.PgConn, pid string, standby bool, has,
	want map[string]string) error {
	if standby {
		return refusedSession("the server is a standby (in recovery); name the primary")
	}
	if pid != strconv.FormatUint(uint64(conn.PID()), 10) {
		return refusedSession("a connection pooler such as PgBouncer answers in place of " +
			"PostgreSQL; " +
			"connect to PostgreSQL itself")
	}
	local := conn.Conn().RemoteAddr().Network() == "unix"
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if has[name] == want[name] || local && strings.HasPrefix(name, "tcp_") {
			continue
		}
		return refusedSession(fmt.Sprintf("setting %s is %q instead of %q; connect to PostgreSQL "+
			"itself, not to a pooler that ignores startup parameters", name, has[name], want[name]))
	}
	return nil
}
