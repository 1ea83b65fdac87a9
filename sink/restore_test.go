package sink_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
)

// dump writes the ledger to a file by PostgreSQL's own program.
func (l *ledger) dump(pg *pgembed.Server) (file string) {
	l.t.Helper()
	file = filepath.Join(l.t.TempDir(), "dump")
	l.program(pg, "pg_dump", "--format=custom", "--file", file, l.db.URL)
	return file
}

// restore continues on a new database of the server with the content of a dump.
func (l *ledger) restore(pg *pgembed.Server, file string) {
	l.t.Helper()
	const name = "restored"
	l.exec("CREATE DATABASE " + name)
	url := pg.URL(name)
	l.program(pg, "pg_restore", "--exit-on-error", "--dbname", url, file)
	l.db = &dbtest.DB{URL: url, NodeURL: url, Schema: l.db.Schema}
	pool, err := pgxpool.New(l.ctx, l.db.ScopedURL())
	l.must(err)
	l.t.Cleanup(pool.Close)
	l.db.Pool = pool
}

func (l *ledger) program(pg *pgembed.Server, name string, args ...string) {
	l.t.Helper()
	path := filepath.Join(pg.Programs().Dir, name)
	if out, err := exec.CommandContext(l.ctx, path, args...).CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// operator opens the ledger as the commands that adopt it do.
func (l *ledger) operator() *store.Store {
	l.t.Helper()
	s, err := store.Open(l.ctx, store.Config{URL: l.db.URL, Schema: l.db.Schema,
		Node: "operator/boot", LeaseDuration: testLease, Adopts: true})
	l.must(err)
	l.t.Cleanup(s.Close)
	return s
}

// TestRunner_DumpRestored_EveryEventDelivered: a ledger that pg_restore put into another database
// delivers each event that the old one had not, and tells each receiver once. Events that were
// accepted before are not repeated, and new events follow.
func TestRunner_DumpRestored_EveryEventDelivered(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"complete": false, "commits lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, pg := privateServer(t)
			r, away := newReceiver(t), newReceiver(t)
			sinks := []sink.Settings{r.settings("hook"), away.settings("away")}
			a := l.run("a", sinks...)
			for _, s := range sinks {
				l.await(a.Store, s.Name)
			}
			l.create(a.Store, 4)
			l.awaitAll(r)
			l.awaitAll(away)
			// One transaction is parked for one receiver, and the other receives nothing.
			poison := l.txs[0]
			r.set(func(e *sink.Event) sink.Result {
				if e.Tx == poison {
					return sink.Result{Verdict: sink.Retry, Cause: "no"}
				}
				return sink.Result{}
			})
			away.set(func(*sink.Event) sink.Result {
				return sink.Result{Verdict: sink.Unavailable, Cause: "down"}
			})
			l.grow(2)
			l.eventually("the others flow, and are recorded", func() bool {
				all, err := a.SinkCursors(l.ctx, "hook")
				return err == nil && r.count() == 4+3 && all[0].Delivered == 4+3
			})
			a.stop()
			l.grow(3)
			file := l.dump(pg)
			once := r.times()
			if lost { // accepted by one receiver, and not in the dump
				b := l.run("b", sinks...)
				l.grow(4)
				l.eventually("lost events were delivered",
					func() bool { return r.count() == 4+3*3 })
				b.stop()
			}
			l.restore(pg, file)
			operator := l.operator()
			var err error
			if lost {
				_, err = operator.Recover(l.ctx)
			} else {
				_, err = operator.Move(l.ctx)
			}
			l.must(err)
			// Recover pauses an account that has no cursor.
			l.exec("UPDATE submitter SET status = 'ACTIVE'")
			r.set(nil)
			away.set(nil)
			c := l.run("c", sinks...)
			l.grow(4)
			l.grow(5)
			l.create(c.Store, 2)
			for _, one := range []*receiver{r, away} {
				l.awaitAll(one)
				if one.restored != 1 {
					t.Errorf("a receiver was told %d times", one.restored)
				}
			}
			for id, n := range r.times() {
				if before := once[id]; before > 0 && n != before && !lost {
					t.Errorf("event %s was accepted before the dump, and %d times since", id,
						n-before)
				}
			}
			l.eventually("nothing is parked", func() bool {
				parked, dead, err := operator.CountParked(l.ctx, "hook")
				return err == nil && parked+dead == 0
			})
		})
	}
}

// times copies how often each event was accepted.
func (r *receiver) times() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]int, len(r.got))
	for id, n := range r.got {
		all[id] = n
	}
	return all
}
