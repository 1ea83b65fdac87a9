package store

import (
	"fmt"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// burn draws numbers of transactions (xid) that leave nothing behind: some are rolled back, others
// only notify.
func (k *kit) burn() {
	k.t.Helper()
	for range 20 {
		tx, err := k.db.Pool.Begin(k.ctx)
		k.must(err)
		_, err = tx.Exec(k.ctx, "SELECT pg_current_xact_id()")
		k.must(err)
		k.must(tx.Rollback(k.ctx))
		k.exec("NOTIFY nobody")
	}
}

// crash ends the server without a goodbye and starts it again.
func (k *kit) crash(restart func() error) {
	k.t.Helper()
	k.must(restart())
	k.db.Pool.Reset()
	k.eventually("the server answers", func() bool { return k.db.Pool.Ping(k.ctx) == nil })
}

// since counts the events of one transaction that a reader gets after a snapshot.
func (k *kit) since(s *Store, snapshot string, tx txn.TxID) (n int) {
	k.t.Helper()
	_, head, err := s.FeedHead(k.ctx)
	k.must(err)
	events, err := s.EventsSince(k.ctx, nil, snapshot, head, EventKey{}, tx.Submitter(), 1000)
	k.must(err)
	for _, e := range events {
		if e.Tx == tx {
			n++
		}
	}
	return n
}

// TestFeed_DatabaseCrash_NoEventLost: after a crash PostgreSQL reuses the numbers of transactions
// whose end was not on disk. Events under these numbers are new to a reader that resumes from an
// older head, and would be old to a snapshot that was not settled.
func TestFeed_DatabaseCrash_NoEventLost(t *testing.T) {
	t.Parallel()
	// Only a commit or Settle writes to the disk: the server's own WAL writer sleeps.
	pg := startServer(
		t,
		"",
		map[string]string{
			"wal_writer_delay":   "10s",
			"checkpoint_timeout": "1h",
			"autovacuum":         "off",
		},
	)
	k := privateKit(t, pg.URL("postgres"))
	_, err := Migrate(k.ctx, k.db.URL, k.db.Schema)
	k.must(err)
	restart := func() error { return pg.Restart(k.ctx) }
	id := k.submitter(k.open("first"), "alice")

	const rounds = 5 // the server's writer may wake at the wrong moment
	again := false
	for round := 0; round < rounds && !again; round++ {
		k.burn()
		s := k.open("a") // one that has given out no head yet
		_, settled, err := s.FeedHead(k.ctx)
		k.must(err)
		k.crash(restart)
		tx := k.queue(k.open("b"), id, fmt.Sprint("settled ", round))
		if n := k.since(k.open("c"), settled, tx.ID); n != 1 {
			t.Fatalf(
				"round %d: after the crash a reader that resumes from %s gets the event %d times",
				round, settled, n)
		}

		// Nothing is needed to settle a snapshot that the last transaction with an event has
		// settled.
		k.burn()
		k.queue(k.open("d"), id, fmt.Sprint("last ", round))
		const next = "SELECT pg_snapshot_xmax(pg_current_snapshot())::TEXT"
		before := value[string](k, next)
		_, settled, err = k.open("e").FeedHead(k.ctx)
		k.must(err)
		if after := value[string](k, next); after != before {
			t.Errorf("round %d: a head behind an event took transaction %s", round, before)
		}
		k.crash(restart)
		tx = k.queue(k.open("f"), id, fmt.Sprint("settled by an event ", round))
		if n := k.since(k.open("g"), settled, tx.ID); n != 1 {
			t.Fatalf(
				"round %d: after the crash a reader that resumes from %s, which an event had "+
					"settled, gets the event %d times",
				round, settled, n)
		}

		// This is the failure that Settle prevents.
		k.burn()
		unsettled := value[string](k, "SELECT pg_current_snapshot()::TEXT")
		k.crash(restart)
		tx = k.queue(k.open("b"), id, fmt.Sprint("unsettled ", round))
		again = k.since(k.open("c"), unsettled, tx.ID) == 0
	}
	if !again {
		t.Errorf("in %d crashes no number was given out again: this server shows nothing", rounds)
	}
}
