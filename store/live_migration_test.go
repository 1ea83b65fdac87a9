package store

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost/internal/dbtest"
)

// TestMigrate_Indexes_BuiltConcurrently runs migration 10 while an owner's commit waits for the
// tables: neither may hold a lock that the other needs.
func TestMigrate_Indexes_BuiltConcurrently(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard()) // which knows the newest schema alone
	s := k.open("a")
	id, lease := k.owned(s, "alice")
	tx := k.queue(s, id, "waits")
	migrate := func(step func(*goose.Provider) error) error {
		return withProvider(k.ctx, k.db.URL, k.db.Schema, true, step)
	}
	k.must(migrate(func(p *goose.Provider) error { _, err := p.DownTo(k.ctx, 9); return err }))
	// Steps 13, 16, 18, 19 and 43 add these; the commit of this program uses them.
	_, err := k.db.Pool.Exec(k.ctx, "ALTER TABLE submitter_command ADD COLUMN chain_nonce BIGINT")
	k.must(err)
	_, err = k.db.Pool.Exec(k.ctx,
		"ALTER TABLE managed_tx ADD COLUMN last_error_base TEXT NOT NULL DEFAULT ''")
	k.must(err)
	for _, table := range []string{"managed_tx", "tx_event"} {
		_, err = k.db.Pool.Exec(k.ctx, "ALTER TABLE "+table+" ADD COLUMN receipt_more BYTEA")
		k.must(err)
	}
	_, err = k.db.Pool.Exec(k.ctx, "ALTER TABLE managed_tx ADD COLUMN last_submit_at TIMESTAMPTZ")
	k.must(err)
	_, err = k.db.Pool.Exec(k.ctx,
		"ALTER TABLE managed_tx ADD COLUMN approval TEXT NOT NULL DEFAULT ''")
	k.must(err)
	for _, table := range []string{"submitter", "ledger"} {
		_, err = k.db.Pool.Exec(k.ctx, "ALTER TABLE "+table+" ADD COLUMN timeline INT")
		k.must(err)
	}
	_, err = k.db.Pool.Exec(k.ctx, "CREATE FUNCTION commits_may_be_lost(INT) RETURNS BOOLEAN "+
		"LANGUAGE sql AS 'SELECT FALSE'")
	k.must(err)
	waiting := func(what string, most int64) {
		t.Helper()
		k.eventually(what, func() bool {
			return value[int64](k,
				"SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IN "+
					"('managed_tx'::regclass, 'tx_event'::regclass)") == most
		})
	}
	writer, err := k.db.Pool.Begin(
		k.ctx) // keeps the step from its end until the commit waits as well
	k.must(err)
	defer func() { _ = writer.Rollback(k.ctx) }()
	_, err = writer.Exec(k.ctx, "LOCK TABLE tx_event IN ROW EXCLUSIVE MODE")
	k.must(err)
	migrated, committed := make(chan error, 1), make(chan Outcome, 1)
	go func() {
		migrated <- migrate(func(p *goose.Provider) error {
			_, err := p.UpTo(k.ctx, 10)
			return err
		})
	}()
	waiting("the step waits", 1)
	go func() {
		outcome, _ := s.Commit(lease, take(tx, 0))
		committed <- outcome
	}()
	waiting("the commit waits too", 2)
	k.must(writer.Rollback(k.ctx))
	if err := <-migrated; err != nil {
		t.Errorf("the step: %v", err)
	}
	if outcome := <-committed; outcome != Done {
		t.Errorf("the commit is %v", outcome)
	}
}

// TestMigrate_NodeHoldsLock_Repeated: a statement of a running node has one table and needs
// another. Migration 30 locks them in the opposite order. It gives up its locks, and is repeated.
func TestMigrate_NodeHoldsLock_Repeated(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	k.must(withProvider(k.ctx, k.db.URL, k.db.Schema, true, func(p *goose.Provider) error {
		_, err := p.DownTo(k.ctx, 28)
		return err
	}))
	statement, err := k.session().Begin(k.ctx)
	k.must(err)
	defer func() { _ = statement.Rollback(k.ctx) }()
	_, err = statement.Exec(k.ctx, "LOCK TABLE managed_tx IN ROW EXCLUSIVE MODE")
	k.must(err)
	type result struct {
		done []Migration
		err  error
	}
	migrated := make(chan result, 1)
	go func() {
		done, err := Migrate(k.ctx, k.db.URL, k.db.Schema)
		migrated <- result{done, err}
	}()
	needed := func() bool {
		part, err := statement.Begin(k.ctx)
		k.must(err)
		// as a foreign key does, but without a wait: the server would undo one of the two
		_, err = part.Exec(k.ctx, "LOCK TABLE submitter IN ROW SHARE MODE NOWAIT")
		if err == nil {
			k.must(part.Commit(k.ctx))
			return true
		}
		k.must(part.Rollback(k.ctx))
		return false
	}
	k.eventually("the migration has submitter and waits", func() bool {
		return value[bool](k, `SELECT EXISTS (SELECT FROM pg_locks waits
			  JOIN pg_locks has USING (pid)
			WHERE NOT waits.granted AND waits.relation = 'managed_tx'::regclass
			  AND has.granted AND has.relation = 'submitter'::regclass
			  AND has.mode = 'AccessExclusiveLock')`)
	})
	k.eventually("it gives up its locks", needed)
	k.must(statement.Commit(k.ctx))
	if m := <-migrated; m.err != nil || len(m.done) < 2 || m.done[0].Version != 29 ||
		m.done[len(m.done)-1].Version != latest() {
		t.Errorf("%+v", m)
	}
}

// TestMigrate_InterruptedInPause_Reported: a command that was stopped between two tries does not
// claim that it waited in vain.
func TestMigrate_InterruptedInPause_Reported(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ctx, interrupt := context.WithCancelCause(k.ctx)
	stopped := errors.New("stopped")
	tries := 0
	err := withProvider(ctx, k.db.URL, k.db.Schema, false, func(*goose.Provider) error {
		tries++
		interrupt(stopped)
		return &pgconn.PgError{Code: lockNotAvailable}
	})
	if !errors.Is(err, stopped) || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
}
