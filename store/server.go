package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/store/internal/db"
)

// ErrOtherServer is returned for a ledger that was copied from another server or database, and for
// a connection that ends at another one than those before. It comes with [ErrUnavailable].
var ErrOtherServer = errors.New("the database is not the one that the ledger is on")

// serverID identifies the database that a connection ends at.
type serverID struct {
	system   int64 // made by initdb; copies of the files keep it
	database int64 // oid
	timeline int64 // rises with each promotion and each recovery to a point in time
}

// serverQuery reads it. min_recovery_end_timeline counts until the first checkpoint after a
// promotion.
const serverQuery = `SELECT s.system_identifier, d.oid::BIGINT,
       greatest(c.timeline_id, r.min_recovery_end_timeline)
  FROM pg_control_system() s, pg_control_checkpoint() c, pg_control_recovery() r, pg_database d
 WHERE d.datname = current_database()`

// recordedQuery reads the server that the ledger was on last. NULL reads as 0.
const recordedQuery = `SELECT coalesce(l.system_id, 0), coalesce(l.database_oid, 0),
       coalesce(l.timeline, 0) FROM ledger l`

// recordServer records where the ledger is, the first time, and the timeline after a fail-over. The
// feed needs to know where the events of the new timeline begin: the lost part of the old one gave
// out some of the same numbers.
const recordServer = `UPDATE ledger l
   SET system_id = $1, database_oid = $2, timeline = $3,
       timeline_before = CASE WHEN l.system_id IS NOT NULL THEN l.timeline END,
       timeline_xid = CASE WHEN l.system_id IS NOT NULL
                           THEN pg_snapshot_xmax(pg_current_snapshot()) END
 WHERE (l.system_id IS NULL OR l.system_id = $1 AND l.database_oid = $2) AND
       coalesce(l.timeline, 0) < $3`

// agedXid is the number of events that another server numbered. It is lower than any that
// PostgreSQL gives to a client.
const agedXid = "3"

// feedQuery reports whether the newest event has the number under which this server stored it, and
// that its snapshots cover. A layer that spreads tables over servers counts in each of them. A tool
// that writes tables anew (pg_repack) stores rows under other numbers, so that only a new event
// counts.
const feedQuery = `SELECT coalesce((
    SELECT n.xid < pg_snapshot_xmax(pg_current_snapshot()) AND
           (n.xid::TEXT::BIGINT & 4294967295 = n.stored OR n.xid <= '` + agedXid + `' OR
            n.created_at < clock_timestamp() - INTERVAL '10 s')
      FROM (SELECT e.xid, e.xmin::TEXT::BIGINT AS stored, e.created_at
              FROM tx_event e ORDER BY e.xid DESC LIMIT 1) n), TRUE)`

// adoptServer records this server in place of any other; $4: the directory was asked before.
const adoptServer = `UPDATE ledger
   SET system_id = $1, database_oid = $2, timeline = $3,
       moves_timeline = CASE WHEN $4 THEN $3::INT END,
       timeline_before = NULL, timeline_xid = NULL`

// compareAccounts sets whether accounts count as compared with the chain.
const compareAccounts = `UPDATE submitter SET timeline = CASE WHEN $1 THEN $2::INT ELSE 0 END
 WHERE moved_to IS NULL`

// foreignQuery reports whether events have numbers of another server: it is recorded as another
// one, or they are to come here.
const foreignQuery = `SELECT (l.system_id, l.database_oid) IS DISTINCT FROM ($1::BIGINT, $2::BIGINT)
       OR EXISTS (SELECT FROM tx_event e
                   WHERE e.xid >= pg_snapshot_xmax(pg_current_snapshot()))
  FROM ledger l`

// ageEvents makes events older than any that this server numbers.
const ageEvents = `UPDATE tx_event SET xid = '` + agedXid + `' WHERE xid > '` + agedXid + `'`

// forgetTrimmed forgets the newest archived number, which is of another server.
const forgetTrimmed = `UPDATE ledger SET trimmed_xid = 0`

// raiseSequences raises the sequences above all rows: logical replication copies the rows only. A
// new transaction would precede the queue, and a new command or submitter get an id that is taken.
const raiseSequences = `SELECT setval('queue_seq', greatest(
           (SELECT last_value FROM queue_seq), (SELECT max(queue_seq) FROM managed_tx))),
       setval('command_id', greatest(
           (SELECT last_value FROM command_id), (SELECT max(command_id) FROM submitter_command),
           (SELECT max(command_id) FROM sink_command))),
       setval('submitter_submitter_id_seq', greatest(
           (SELECT last_value FROM submitter_submitter_id_seq),
           (SELECT max(s.submitter_id) FROM submitter s
             WHERE NOT EXISTS (SELECT FROM account_arrival a
                                WHERE a.submitter_id = s.submitter_id))))`

// adoptLimit bounds each statement of an adoption; ageEvents writes every event.
const adoptLimit = time.Hour

// adoption lists the steps of a command before it adopts a ledger.
type adoption struct {
	asked    bool // the directory, for accounts that have left
	compared bool // every account is stopped anyway
}

// adopt makes the database of a transaction the one that the ledger is on, and returns the number
// of events that were numbered elsewhere.
func adopt(ctx context.Context, tx pgx.Tx, done adoption) (events int64, err error) {
	if err := db.New(tx).SetStatementTimeout(ctx, millis(adoptLimit)); err != nil {
		return 0, err
	}
	is, err := readServer(ctx, tx.Conn().PgConn(), serverQuery)
	if err != nil {
		return 0, err
	}
	var foreign bool
	if err := tx.QueryRow(ctx, foreignQuery, is.system, is.database).Scan(&foreign); err != nil {
		return 0, err
	}
	if foreign {
		done, err := tx.Exec(ctx, ageEvents)
		if err != nil {
			return 0, err
		}
		events = done.RowsAffected()
		if _, err := tx.Exec(ctx, forgetTrimmed); err != nil {
			return 0, err
		}
		if err := beginSeries(ctx, db.New(tx)); err != nil {
			return 0, err
		}
	}
	if _, err := tx.Exec(ctx, raiseSequences); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, adoptServer, is.system, is.database, is.timeline, done.asked)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, compareAccounts, done.compared, is.timeline)
	return events, err
}

// sameServer keeps a node at the server where it began: its leases, caches and positions are about
// that ledger.
type sameServer struct {
	mu    sync.Mutex
	first serverID // zero: no connection yet
}

// refusedServer is why a connection is not used.
type refusedServer string

func (r refusedServer) Error() string { return string(r) }

func (r refusedServer) Is(target error) bool {
	return target == ErrOtherServer || target == ErrAccessDenied
}

// verifyServer refuses a connection to a database that is not the ledger's, and records a
// fail-over before the first use of the connection.
func (s *Store) verifyServer(ctx context.Context, conn *pgconn.PgConn) error {
	is, err := readServer(ctx, conn, serverQuery)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == notPermitted {
		return refusedSession("the role may not read the identity of the server; GRANT EXECUTE " +
			"ON FUNCTION pg_control_system(), pg_control_checkpoint(), pg_control_recovery() TO it")
	}
	if err != nil {
		return err
	}
	if err := s.same.judge(is); err != nil || s.cfg.Adopts {
		return err
	}
	on, err := readServer(ctx, conn, recordedQuery)
	if isMissing(err) {
		return nil // CheckSchema reports it
	}
	if err != nil {
		return err
	}
	if err := judgeServer(is, on); err != nil || on.timeline >= is.timeline {
		return err
	}
	_, err = conn.ExecParams(ctx, recordServer, is.text(), nil, nil, nil).Close()
	if err == nil && on.system != 0 {
		s.log.Warn("database failed over or was restored; accounts are compared with the chain",
			"timeline", is.timeline, "before", on.timeline)
	}
	return err
}

// proveFeed refuses a server whose snapshots and numbers of transactions cannot order the feed.
func proveFeed(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx, feedQuery, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if string(result.Rows[0][0]) != "t" {
		return refusedSession("events are numbered by another server than the one that takes " +
			"snapshots: a sharding layer is in between; connect to PostgreSQL itself")
	}
	return nil
}

// judgeServer compares a server with the recorded one.
func judgeServer(is, recorded serverID) error {
	if recorded.system == 0 ||
		is.system == recorded.system && is.database == recorded.database {
		return nil
	}
	return refusedServer(fmt.Sprintf("the ledger was copied from another server or database "+
		"(system %d, database %d); see docs/operations.md, then run \"fencepost recover --moved\"",
		recorded.system, recorded.database))
}

// judge compares a server with the first one.
func (m *sameServer) judge(is serverID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch first := m.first; {
	case first == (serverID{}):
	case is.system != first.system || is.database != first.database:
		return refusedServer("database.url leads to another server or database than when the " +
			"node started; correct it, or restart the node")
	case is.timeline < first.timeline:
		return refusedServer(fmt.Sprintf("the server is an old primary (timeline %d; the newest "+
			"is %d); stop it, and name the new primary", is.timeline, first.timeline))
	}
	m.first = is
	return nil
}

func readServer(ctx context.Context, conn *pgconn.PgConn, query string) (serverID, error) {
	result := conn.ExecParams(ctx, query, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return serverID{}, result.Err
	}
	if len(result.Rows) != 1 {
		return serverID{}, refusedServer("the ledger has no identity; restore the table \"ledger\"")
	}
	var numbers [3]int64
	for i, text := range result.Rows[0] {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return serverID{}, err
		}
		numbers[i] = n
	}
	return serverID{system: numbers[0], database: numbers[1], timeline: numbers[2]}, nil
}

// text is the server as parameters of a statement.
func (s serverID) text() [][]byte {
	var all [][]byte
	for _, n := range []int64{s.system, s.database, s.timeline} {
		all = append(all, strconv.AppendInt(nil, n, 10))
	}
	return all
}
