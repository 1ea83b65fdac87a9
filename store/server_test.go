package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/txn"
)

// copyTo copies the rows of this ledger to an empty schema elsewhere, and no sequence, as logical
// replication does.
func (k *kit) copyTo(other *kit) {
	k.t.Helper()
	rows, err := k.db.Pool.Query(k.ctx, `SELECT tablename FROM pg_tables
		WHERE schemaname = $1 AND tablename NOT IN ('goose_db_version', 'spent')`, k.db.Schema)
	k.must(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	k.must(err)
	from, to := k.session().PgConn(), other.session().PgConn()
	run := func(sql string) {
		_, err := to.Exec(k.ctx, sql).ReadAll()
		k.must(err)
	}
	run("SET session_replication_role = replica")
	for _, table := range tables {
		run("DELETE FROM " + table)
		var data bytes.Buffer
		_, err := from.CopyTo(k.ctx, &data, "COPY "+table+" TO STDOUT")
		k.must(err)
		_, err = to.CopyFrom(k.ctx, io.Reader(&data), "COPY "+table+" FROM STDIN")
		k.must(err)
	}
}

// spendXids uses up numbers of transactions until the next one is above n.
func (k *kit) spendXids(n int64) {
	k.t.Helper()
	k.exec("CREATE TABLE IF NOT EXISTS spent (n INT)")
	for k.nextXid() <= n {
		k.exec(`DO $$ BEGIN FOR i IN 1..500 LOOP
			BEGIN INSERT INTO spent VALUES (i); EXCEPTION WHEN OTHERS THEN NULL; END;
		END LOOP; DELETE FROM spent; END $$`)
	}
}

func (k *kit) nextXid() int64 {
	k.t.Helper()
	return value[int64](k, "SELECT pg_snapshot_xmax(pg_current_snapshot())::TEXT::BIGINT")
}

// copied is a ledger with events, and a copy of it on another server that has given out far fewer
// numbers of transactions.
func copied(t *testing.T, events int) (old, moved *kit, id txn.SubmitterID) {
	t.Helper()
	old = privateKit(t, startServer(t, "", nil).URL("postgres"))
	moved = privateKit(t, startServer(t, "", nil).URL("postgres"))
	for _, k := range []*kit{old, moved} {
		_, err := Migrate(k.ctx, k.db.URL, k.db.Schema)
		k.must(err)
	}
	old.spendXids(moved.nextXid() + 2000)
	s := old.open("a")
	id = old.submitter(s, "alice")
	for n := range events {
		old.queue(s, id, fmt.Sprint("old ", n))
	}
	old.copyTo(moved)
	return old, moved, id
}

// TestServer_CopiedLedger_RefusedUntilMoved dumps a ledger and restores it on another server. A
// watcher there gets each new event once and no old one, also when the numbers of transactions
// reach the highest of the old server.
func TestServer_CopiedLedger_RefusedUntilMoved(t *testing.T) {
	t.Parallel()
	old, k, id := copied(t, 25)
	before := old.follow(old.open("b"), 10)
	s := k.open("a")
	if err := s.CheckSchema(k.ctx); !errors.Is(err, ErrOtherServer) ||
		!errors.Is(err, ErrAccessDenied) || !containsText(err, "recover --moved") {
		t.Fatalf("a node on the copy: %v", err)
	}
	if _, err := s.Acquire(k.ctx, []txn.SubmitterID{id}); !errors.Is(err, ErrOtherServer) {
		t.Fatalf("a lease of the copy: %v", err)
	}
	report, err := k.open("operator", k.asOwner, adopts).Move(k.ctx)
	k.must(err)
	if report.Events != 25 {
		t.Errorf("%d events are from the old server, want 25", report.Events)
	}
	k.submitter(s, "bob") // under a new id
	k.must(s.CheckSchema(k.ctx))
	if p, err := ParsePosition(before.token); err != nil || p.Epoch == report.FeedEpoch {
		t.Errorf("position %+v, %v; the feed has epoch %d", p, err, report.FeedEpoch)
	}
	idle, err := s.Head(k.ctx)
	k.must(err)
	k.spendXids(k.nextXid() + 10)
	if now, err := s.Head(k.ctx); err != nil || now.Snapshot != idle.Snapshot {
		t.Errorf("an idle feed goes from %s to %s and reads events (%v)", idle.Snapshot,
			now.Snapshot, err)
	}
	f := k.follow(s, 10)
	f.read()
	slow := k.begin(id, "slow") // keeps a hole below the numbers of the old server
	top := old.nextXid()
	for n := range 5 {
		k.queue(s, id, fmt.Sprint("new ", n))
		f.read()
		k.spendXids(top * int64(n+1) / 4)
	}
	k.must(slow.Commit(k.ctx))
	f.read()
	behind := value[int64](k, `SELECT count(*) FROM managed_tx t
		 WHERE t.request_id LIKE 'old %' AND t.queue_seq >
		       (SELECT min(queue_seq) FROM managed_tx WHERE request_id LIKE 'new %')`)
	if behind > 0 {
		t.Errorf("%d old transactions are behind a new one in the queue", behind)
	}
	if len(f.seen) != 6 {
		t.Fatalf("%d events, want the 6 new ones", len(f.seen))
	}
	for _, e := range f.seen {
		if e.Seq != 1 || strings.HasPrefix(string(e.Kind), "old") {
			t.Errorf("event %+v", e)
		}
	}
	k.lawful(s, id)
}

func adopts(c *Config) { c.Adopts = true }

// TestServer_OtherDatabase_Refused copies a ledger to another database of the same server, and
// directs a running node to it.
func TestServer_OtherDatabase_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.submitter(k.open("a"), "alice")
	k.exec("UPDATE ledger SET database_oid = database_oid + 1")
	if _, err := k.open("b").Load(k.ctx, &Lease{submitter: id}); !errors.Is(err, ErrOtherServer) {
		t.Errorf("a ledger of another database: %v", err)
	}
	_, err := k.open("operator", k.asOwner, adopts).Recover(k.ctx)
	k.must(err)
	k.must(k.open("b").CheckSchema(k.ctx))
}

func TestSameServer(t *testing.T) {
	t.Parallel()
	first := serverID{system: 1, database: 2, timeline: 3}
	for name, c := range map[string]struct {
		next    serverID
		refused bool
	}{
		"the same":         {next: first},
		"a promotion":      {next: serverID{system: 1, database: 2, timeline: 4}},
		"another server":   {next: serverID{system: 9, database: 2, timeline: 3}, refused: true},
		"another database": {next: serverID{system: 1, database: 9, timeline: 3}, refused: true},
		"an old primary":   {next: serverID{system: 1, database: 2, timeline: 2}, refused: true},
	} {
		var m sameServer
		if err := m.judge(first); err != nil {
			t.Fatal(err)
		}
		if err := m.judge(c.next); errors.Is(err, ErrOtherServer) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestServer_NotRecorded_FirstConnectionRecords covers a migration by a role that could not read
// the identity.
func TestServer_NotRecorded_FirstConnectionRecords(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	is := "SELECT system_id || '/' || database_oid || '/' || timeline FROM ledger"
	want := value[string](k, is)
	k.exec("UPDATE ledger SET system_id = NULL, database_oid = NULL, timeline = NULL")
	k.must(k.open("a").CheckSchema(k.ctx))
	if got := value[string](k, is); got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	if value[bool](k, "SELECT timeline_xid IS NOT NULL FROM ledger") {
		t.Error("the first record counts as a fail-over")
	}
}

// TestHead_AsynchronousPromotion_LostTokenExpires promotes a standby that lacks the newest commits.
// The new primary gives their numbers out again.
func TestHead_AsynchronousPromotion_LostTokenExpires(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	k := privateKit(t, either(t, primary, standby))
	k.exec("ALTER SYSTEM RESET synchronous_standby_names")
	k.exec("SELECT pg_reload_conf()")
	s := k.open("a")
	id := k.submitter(s, "alice")
	k.queue(s, id, "kept")
	kept := k.follow(s, 10)
	k.eventually("the standby has it", func() bool {
		return value[bool](k,
			`SELECT coalesce(bool_and(replay_lsn = pg_current_wal_lsn()), FALSE)
			   FROM pg_stat_replication`)
	})
	k.must(standby.Kill())
	k.spendXids(k.nextXid() + 100)
	k.queue(s, id, "lost")
	lost := k.follow(s, 10)
	k.must(primary.Kill())
	k.must(standby.Restart(k.ctx))
	successor, err := pgx.Connect(k.ctx, standby.URL("postgres"))
	k.must(err)
	defer successor.Close(k.ctx)
	_, err = successor.Exec(k.ctx, "SELECT pg_promote()")
	k.must(err)
	k.db.Pool.Reset()

	holds := func(f *follower) bool {
		t.Helper()
		p, err := ParsePosition(f.token)
		k.must(err)
		head, err := s.Head(k.ctx)
		k.must(err)
		return head.Holds(p)
	}
	k.eventually("the node is at the new primary", func() bool {
		_, err := s.Head(k.ctx)
		return err == nil
	})
	if !holds(kept) || holds(lost) {
		t.Errorf("right after it the token before is held: %v; the lost one: %v", holds(kept),
			holds(lost))
	}
	k.queue(s, id, "new")
	k.spendXids(k.nextXid() + 1000)
	if !holds(kept) || holds(lost) {
		t.Errorf("later the token before is held: %v; the lost one: %v", holds(kept), holds(lost))
	}
	if kept.read(); len(kept.seen) != 1 {
		t.Errorf("a watcher that resumes gets %d events, want the new one", len(kept.seen))
	}
}

// TestServer_IdentityNotReadable_NamesGrant revokes what every role may do by default.
func TestServer_IdentityNotReadable_NamesGrant(t *testing.T) {
	t.Parallel()
	k := privateKit(t, startServer(t, "", nil).URL("postgres"))
	_, err := Migrate(k.ctx, k.db.URL, k.db.Schema)
	k.must(err)
	k.exec("CREATE ROLE plain LOGIN")
	k.exec("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
	u, err := url.Parse(k.db.URL)
	k.must(err)
	u.User = url.User("plain")
	err = k.open("a", func(c *Config) { c.URL = u.String() }).CheckSchema(k.ctx)
	if !errors.Is(err, ErrAccessDenied) || !containsText(err, "pg_control_system()") {
		t.Errorf("without the right: %v", err)
	}
}
