package store

import (
	"testing"

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
	// Steps 13, 16, 18 and 19 add these; the commit of this program uses them.
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
