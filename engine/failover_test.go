package engine

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// asynchronousPair is a primary with a ledger, and a standby for which commits do not wait. The
// ledger is at whichever takes writes.
func asynchronousPair(t *testing.T) (primary, standby *pgembed.Server, ledger *dbtest.DB) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	stop := func(s *pgembed.Server) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	o := pgembed.Options{Settings: pgembed.Disposable()}
	primary, err := pgembed.Start(t.Context(), o)
	must(err)
	t.Cleanup(func() { stop(primary) })
	ledger = &dbtest.DB{Schema: "ledger"}
	_, err = store.Migrate(t.Context(), primary.URL("postgres"), ledger.Schema)
	must(err)
	standby, err = primary.Standby(t.Context(), "second", o)
	must(err)
	t.Cleanup(func() { stop(standby) })
	both, err := url.Parse(primary.URL("postgres"))
	must(err)
	other, err := url.Parse(standby.URL("postgres"))
	must(err)
	q := both.Query()
	q.Set("host", q.Get("host")+","+other.Query().Get("host"))
	q.Set("port", q.Get("port")+","+other.Query().Get("port"))
	q.Set("target_session_attrs", "read-write")
	both.RawQuery = q.Encode()
	ledger.URL, ledger.NodeURL = both.String(), both.String()
	ledger.Pool, err = pgxpool.New(context.Background(), ledger.ScopedURL())
	must(err)
	t.Cleanup(ledger.Pool.Close)
	return primary, standby, ledger
}

// TestFailover_AsynchronousStandby_Protects loses the first use of an account: by the new primary
// it has never sent. Clients repeat their requests, which the ledger lost too.
func TestFailover_AsynchronousStandby_Protects(t *testing.T) {
	t.Parallel()
	for name, survives := range map[string]bool{"the node survives": true, "a new node": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, standby, ledger := asynchronousPair(t)
			w := newSharedKeyHarnessIn(t, ledger)
			n := w.node()
			w.eventually("the standby has the account", func() error {
				if w.number(`SELECT count(*) FROM pg_stat_replication
				              WHERE replay_lsn = pg_current_wal_lsn()`) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			if err := standby.Kill(); err != nil {
				t.Fatal(err)
			}
			requests := []string{"one", "two"}
			for _, request := range requests {
				w.finish(w.create(0, request, transfer()))
			}
			if !survives {
				n.stop()
			}
			if err := errors.Join(primary.Kill(), standby.Restart(t.Context())); err != nil {
				t.Fatal(err)
			}
			successor, err := pgxpool.New(t.Context(), standby.URL("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer successor.Close()
			if _, err := successor.Exec(t.Context(), "SELECT pg_promote()"); err != nil {
				t.Fatal(err)
			}
			ledger.Pool.Reset()
			w.eventually("the new primary is found", func() error {
				_, err := w.admin.Submitter(t.Context(), w.submitters[0])
				return err
			})
			var repeated []txn.TxID
			for _, request := range requests {
				repeated = append(repeated, w.create(0, request, transfer()))
			}
			if !survives {
				w.node()
			}
			w.awaitProtected(txn.ProtectRestored)
			for _, id := range repeated {
				w.await(id, "it is marked", func(tx txn.Tx) bool { return tx.Restored })
			}
			if ran := w.executions(); !slices.Equal(ran, []txn.Nonce{0, 1}) {
				t.Errorf("ran under %v", ran)
			}
		})
	}
}
