package sim

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest"
)

// database is the real PostgreSQL schema. Nodes connect to it, its clock follows the simulated
// clock, and the oracles query it on a connection that no fault reaches.
type database struct {
	schema  string
	name    string // of the ledger in its directory
	mark    string // of its steps; empty: the first ledger
	url     string // with the schema's clock shadowing the server's
	network string
	address string
	conn    *pgx.Conn
	base    time.Time        // database time at the start of the run
	began   time.Time        // bubble time at the start of the run
	clock   time.Time        // bubble time when the database clock was last set
	step    time.Duration    // sum of the clock's jumps
	ends    [2]time.Duration // smallest and largest step so far
	away    time.Duration    // connections are refused until then
	hosts   *hosts           // servers of this run alone; nil: the one of all tests
	ctx     context.Context
}

// clockSQL replaces the server's clock within the schema. The replacement reads a sequence, because
// sequences are read and changed outside transactions. With pg_catalog last in the search_path,
// every unqualified clock_timestamp() resolves to the replacement. Column defaults were bound when
// the tables were created, so they are bound again.
const clockSQL = `
CREATE FUNCTION sim_time() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED AS $$
BEGIN
    RETURN pg_catalog.timestamptz 'epoch'
        + (SELECT last_value FROM sim_clock) * interval '1 microsecond';
END $$;
CREATE FUNCTION clock_timestamp() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED AS $$
BEGIN
    RETURN sim_time() + (SELECT last_value FROM sim_step) * interval '1 microsecond';
END $$;
DO $$
DECLARE d RECORD;
BEGIN
    -- Select our tables first: pg_get_expr locks the table of a default, and tables of other
    -- schemas may be about to be dropped.
    FOR d IN WITH ours AS MATERIALIZED (
                 SELECT c.oid FROM pg_class c
                  WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r')
             SELECT o.oid::regclass AS t, a.attname AS col
               FROM ours o
               JOIN pg_attrdef f ON f.adrelid = o.oid
               JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum = f.adnum
              WHERE pg_get_expr(f.adbin, f.adrelid) LIKE '%clock_timestamp()%' LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT clock_timestamp()',
                       d.t, d.col);
    END LOOP;
END $$;`

const clockValuesSQL = `
CREATE SEQUENCE sim_clock MINVALUE 0 START 0; -- the clock of the run; never goes back
CREATE SEQUENCE sim_step MINVALUE -1000000000000 START 0;`

// watchSQL logs every write to the ledger: the token it used, and the token that was live at the
// commit. It replaces the guard of dbtest, which would reject the writes that the oracles must
// detect.
const watchSQL = `
CREATE TABLE sim_write (
    no BIGINT GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL DEFAULT sim_time(),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    what TEXT NOT NULL, submitter_id INT NOT NULL, token BIGINT NOT NULL, live BIGINT NOT NULL,
    owner TEXT NOT NULL, lapsed BOOLEAN NOT NULL, guarded BOOLEAN NOT NULL
);
-- every state of every nonce of clients
CREATE TABLE sim_nonce (
    no BIGINT GENERATED ALWAYS AS IDENTITY, nonce BIGINT NOT NULL, state TEXT NOT NULL,
    reservation_id UUID NOT NULL, reason TEXT NOT NULL
);
CREATE FUNCTION sim_watch_nonce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sim_nonce (nonce, state, reservation_id, reason)
    VALUES (NEW.nonce, NEW.state, NEW.reservation_id, NEW.reason);
    RETURN NULL;
END $$;
CREATE TRIGGER sim_watch_nonce AFTER INSERT OR UPDATE ON external_nonce
    FOR EACH ROW EXECUTE FUNCTION sim_watch_nonce();
CREATE TABLE sim_xid ( -- of events before the ledger was moved
    tx_id UUID, seq BIGINT, xid BIGINT NOT NULL, PRIMARY KEY (tx_id, seq)
);
-- An account that arrives from another ledger brings what was written there.
CREATE FUNCTION sim_arrives(id INT) RETURNS BOOLEAN LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM account_arrival a
                    WHERE a.submitter_id = id AND a.xmin = pg_current_xact_id()::xid)
$$;
CREATE FUNCTION sim_left(id INT) RETURNS BOOLEAN LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM submitter s WHERE s.submitter_id = id AND s.moved_to IS NOT NULL)
$$;
CREATE FUNCTION sim_copied(xid xid8) RETURNS BOOLEAN LANGUAGE sql AS $$ SELECT xid <= '3' $$;
CREATE FUNCTION sim_watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF sim_arrives(NEW.submitter_id) THEN
        RETURN NULL;
    END IF;
    INSERT INTO sim_write (what, submitter_id, token, live, owner, lapsed, guarded)
    SELECT TG_TABLE_NAME, NEW.submitter_id, NEW.fencing_token, l.fencing_token, l.owner_node,
           l.expires_at <= clock_timestamp(), n.protect_reason IS NOT NULL
      FROM submitter_lease l
      LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = l.submitter_id
     WHERE l.submitter_id = NEW.submitter_id;
    RETURN NULL;
END $$;
CREATE FUNCTION sim_watch_tx() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A client cancels a queued transaction without a lease; that write has no token of its own.
    IF OLD.state = 'QUEUED' AND NEW.state = 'CANCELLED'
        AND NEW.fencing_token = OLD.fencing_token AND NEW.nonce IS NULL THEN
        RETURN NULL;
    END IF;
    -- So do the decision about an approval, and its expiry.
    IF OLD.state = 'QUEUED' AND OLD.approval = 'WAITING'
        AND (NEW.approval = 'APPROVED' OR NEW.state = 'FAILED_FINAL')
        AND NEW.fencing_token = OLD.fencing_token AND NEW.nonce IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO sim_write (what, submitter_id, token, live, owner, lapsed, guarded)
    SELECT TG_TABLE_NAME, NEW.submitter_id, NEW.fencing_token, l.fencing_token, l.owner_node,
           l.expires_at <= clock_timestamp(), n.protect_reason IS NOT NULL
      FROM submitter_lease l
      LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = l.submitter_id
     WHERE l.submitter_id = NEW.submitter_id;
    RETURN NULL;
END $$;
CREATE FUNCTION sim_watch_cursor() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE past BOOLEAN := FALSE;
BEGIN
    IF sim_arrives(NEW.submitter_id) THEN
        RETURN NULL;
    END IF;
    -- One write may take a nonce and end the protection, so the old row decides. A decision moves
    -- the cursor as well, and leaves a gap.
    IF TG_OP = 'UPDATE' THEN
        past := OLD.protect_reason IS NOT NULL AND NEW.next_nonce > OLD.next_nonce
            AND NOT EXISTS (
                SELECT FROM nonce_gap g
                 WHERE g.submitter_id = OLD.submitter_id
                   AND OLD.next_nonce BETWEEN g.first_nonce AND g.last_nonce);
    END IF;
    INSERT INTO sim_write (what, submitter_id, token, live, owner, lapsed, guarded)
    SELECT TG_TABLE_NAME, NEW.submitter_id, NEW.fencing_token, l.fencing_token, l.owner_node,
           l.expires_at <= clock_timestamp(), past
      FROM submitter_lease l WHERE l.submitter_id = NEW.submitter_id;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER sim_watch AFTER UPDATE ON managed_tx
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sim_watch_tx();
CREATE CONSTRAINT TRIGGER sim_watch AFTER INSERT ON tx_attempt -- updates erase bytes: see below
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sim_watch();
CREATE CONSTRAINT TRIGGER sim_watch AFTER INSERT OR UPDATE ON external_nonce
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sim_watch();
CREATE CONSTRAINT TRIGGER sim_watch AFTER INSERT OR UPDATE ON submitter_settled
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sim_watch();
CREATE CONSTRAINT TRIGGER sim_watch AFTER INSERT OR UPDATE ON submitter_nonce_cursor
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sim_watch_cursor();
`

// openDatabase creates the schema of one run.
func openDatabase(t testing.TB) *database {
	t.Helper()
	db := dbtest.New(t, dbtest.WithoutGuard())
	// The server records transaction start times in real time. The base is an hour ahead, so every
	// transaction is old enough to be terminated when a takeover waits too long for it.
	d := &database{
		schema: db.Schema,
		ctx:    context.Background(),
		base:   time.Now().Add(time.Hour).Truncate(time.Second),
	}
	if err := d.at(db.URL); err != nil {
		t.Fatal(err)
	}
	d.install(t, clockValuesSQL)
	return d
}

// scoped returns the URL with the schema's clock shadowing the server's.
func scoped(text, schema string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("search_path", schema+",pg_catalog")
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// at sets where the database is.
func (d *database) at(text string) (err error) {
	if d.url, err = scoped(text, d.schema); err != nil {
		return err
	}
	cfg, err := pgx.ParseConfig(d.url)
	if err != nil {
		return err
	}
	d.network, d.address = "tcp", net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port))
	if strings.HasPrefix(cfg.Host, "/") {
		d.network, d.address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", cfg.Host, cfg.Port)
	}
	return nil
}

// install adds the clock and the log of writes to the schema.
func (d *database) install(t testing.TB, clockValues string) {
	t.Helper()
	conn, err := d.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(d.ctx)
	if _, err := conn.Exec(d.ctx, clockValues+clockSQL+watchSQL); err != nil {
		t.Fatal(err)
	}
}

// open connects the scheduler. It must be called inside the bubble of the run.
func (d *database) open() (err error) {
	d.conn, err = d.connect()
	d.began = time.Now()
	return err
}

func (d *database) connect() (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(d.ctx, cfg)
}

// blocked reports whether a session waits for a lock held by one of the given sessions. Locks of
// other sessions (a vacuum, a test that drops its schema) are released without our help.
func (d *database) blocked(pid int32, by []int32) bool {
	n, err := d.number("SELECT count(*) FROM unnest(pg_blocking_pids($1)) AS b WHERE b = ANY($2)",
		pid, by)
	return err == nil && n > 0
}

// lives reports whether a session still exists.
func (d *database) lives(pid int32) bool {
	n, err := d.number("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)
	return err == nil && n > 0
}

func (d *database) close() { _ = d.conn.Close(d.ctx) }

// tick sets the clock of the database to the time of the bubble.
func (d *database) tick() error {
	now := time.Now()
	if now.Equal(d.clock) {
		return nil
	}
	d.clock = now
	_, err := d.conn.Exec(d.ctx, "SELECT setval('sim_clock', $1)",
		d.base.Add(now.Sub(d.began)).UnixMicro())
	return err
}

// jump moves the clock of the database forward or back.
func (d *database) jump(by time.Duration) error {
	d.step += by
	d.ends = [2]time.Duration{min(d.ends[0], d.step), max(d.ends[1], d.step)}
	_, err := d.conn.Exec(d.ctx, "SELECT setval('sim_step', $1)", d.step.Microseconds())
	return err
}

func (d *database) dial() (net.Conn, error) { return net.Dial(d.network, d.address) }

// number runs a query that returns one number.
func (d *database) number(query string, args ...any) (n int64, err error) {
	err = d.conn.QueryRow(d.ctx, query, args...).Scan(&n)
	return n, err
}
