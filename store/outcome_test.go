package store

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/internal/pgembed"
)

// privateKit is a ledger on a server that a test may do anything to.
func privateKit(t *testing.T, databaseURL string) *kit {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	k := &kit{t: t, ctx: ctx, db: &dbtest.DB{URL: databaseURL, NodeURL: databaseURL,
		Schema: "ledger"}}
	var err error
	k.db.Pool, err = pgxpool.New(ctx, k.db.ScopedURL())
	k.must(err)
	t.Cleanup(k.db.Pool.Close)
	return k
}

func startServer(t *testing.T, dir string, settings map[string]string) *pgembed.Server {
	t.Helper()
	all := pgembed.Disposable()
	for key, value := range settings {
		all[key] = value
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pg, err := pgembed.Start(ctx, pgembed.Options{Dir: dir, Settings: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(t, pg) })
	return pg
}

func stopServer(t *testing.T, pg *pgembed.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := pg.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// reacquire acquires a lease as an owner does after an unknown outcome.
func (f *fleet) reacquire(i int) *Lease {
	f.t.Helper()
	var l *Lease
	f.eventually("the acquisition reacquire", func() (ok bool) {
		l, _ = f.s.AcquireOne(f.ctx, f.ids[i])
		return l != nil
	})
	return l
}

// TestCommit_ServerRestarts_Recovers: PostgreSQL is killed while changes are running: before they
// are done, and when one is done but not answered.
func TestCommit_ServerRestarts_Recovers(t *testing.T) {
	t.Parallel()
	pg := startServer(t, "", nil)
	k := privateKit(t, pg.URL("postgres"))
	_, err := Migrate(k.ctx, k.db.URL, k.db.Schema)
	k.must(err)
	p := k.proxy()
	s := k.open("a", func(c *Config) { c.URL, c.LeaseDuration = p.URL(), time.Minute })
	f := newFleet(k, s, 6)

	const locked = 2
	release := k.lockTx(f.txs[locked])
	answers := f.commitAll(f.takes()[:5], func() {
		f.waiting(s, "commit")
		k.must(pg.Kill())
		release()
	})
	if answers[locked].Outcome == Done {
		t.Error("a change is done whose row was locked")
	}
	if answers := f.commitAll(f.takes()[5:], func() {}); answers[0].Outcome == Done {
		t.Error("a change is done without a server")
	}
	if l, err := s.AcquireOne(k.ctx, f.ids[0]); !isUnavailable(err) {
		t.Errorf("acquired from no server: %v, %v", l, err)
	}
	k.must(pg.Restart(k.ctx))
	k.db.Pool.Reset()
	seen := map[Outcome]int{}
	for i, a := range answers {
		seen[a.Outcome]++
		f.leases[i] = f.reacquire(i)
		done := k.load(s, f.leases[i]).Cursor.Next == 1
		f.whole(i, done)
		switch {
		case a.Outcome != Done && a.Outcome != Unsettled && a.Outcome != Unreached:
			t.Errorf("change %d: %v (%v)", i, a.Outcome, a.err)
		case done && a.Outcome == Unreached, !done && a.Outcome == Done:
			t.Errorf("change %d is done: %v, and the answer was %v", i, done, a.Outcome)
		case !done:
			k.done(s, f.leases[i], take(f.txs[i], 0))
		}
	}
	if seen[Unsettled] == 0 {
		t.Errorf("no change was unsettled: %v", seen)
	}

	f.leases[5] = f.reacquire(5)
	rule := p.On(fenced('E'), pgproxy.HoldReply)
	held := make(chan answer, 1)
	go func() {
		o, err := s.Commit(f.leases[5], take(f.txs[5], 0))
		held <- answer{o, err}
	}()
	<-rule.Fired()
	k.must(pg.Kill())
	p.CutAll()
	if a := <-held; a.Outcome != Unsettled {
		t.Fatalf("the reply is lost: %v (%v)", a.Outcome, a.err)
	}
	k.must(pg.Restart(k.ctx))
	k.db.Pool.Reset()
	f.reacquire(5)
	f.whole(5, true)
}

// TestCommit_StatementTimeout_Settles: a change that lasts too long is found among the others by
// halving, and is not done.
func TestCommit_StatementTimeout_Settles(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", func(c *Config) { c.StatementTimeout = 150 * time.Millisecond })
	f := newFleet(k, s, 6)
	const slow = 3
	k.exec(
		`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$`)
	k.exec(
		fmt.Sprintf(
			"CREATE TRIGGER dawdle BEFORE UPDATE ON managed_tx FOR EACH ROW WHEN (NEW.tx_id = "+
				"'%s') EXECUTE FUNCTION dawdle()",
			f.txs[slow].ID),
	)
	answers := f.together(f.takes())
	f.check(answers, allBut(slow, Conflict))
	if f.leases[slow].spent.Load() {
		t.Error("the lease is spent, although it is known that nothing was done")
	}
	k.exec("DROP TRIGGER dawdle ON managed_tx")
	f.want(f.commit(s, f.leases[slow], take(f.txs[slow], 0)), Done)
}

// pair is a primary and a standby that confirms each commit.
func pair(t *testing.T) (primary, standby *pgembed.Server) {
	t.Helper()
	base, err := os.MkdirTemp(pgembed.ReachableDir(os.TempDir()),
		"fencepost-pair-") // into which the server's account must get
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(base, "a"), filepath.Join(base, "b")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	first := startServer(t, filepath.Join(base, "a"), nil)
	if _, err := Migrate(context.Background(), first.URL("postgres"), "ledger"); err != nil {
		t.Fatal(err)
	}
	stopServer(t, first)
	data := filepath.Join(base, "b", "data")
	if out, err := exec.Command("cp", "-a", filepath.Join(base, "a", "data"),
		data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	primary = startServer(t, filepath.Join(base, "a"), nil)
	u, err := url.Parse(primary.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	upstream := fmt.Sprintf("host=%s port=%s user=%s", u.Query().Get("host"), u.Query().Get("port"),
		u.User.Username())
	standby = startServer(t, filepath.Join(base, "b"),
		map[string]string{"primary_conninfo": upstream})
	k := privateKit(t, primary.URL("postgres"))
	k.exec("ALTER SYSTEM SET synchronous_standby_names = '*'")
	k.exec("SELECT pg_reload_conf()")
	k.eventually("the standby confirms", func() bool {
		return value[int](k,
			"SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
	})
	return primary, standby
}

// either is the URL of whichever of two servers takes writes.
func either(t *testing.T, a, b *pgembed.Server) string {
	t.Helper()
	first, err := url.Parse(a.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(b.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	q, other := first.Query(), second.Query()
	q.Set("host", q.Get("host")+","+other.Get("host"))
	q.Set("port", q.Get("port")+","+other.Get("port"))
	q.Set("target_session_attrs", "read-write")
	first.RawQuery = q.Encode()
	return first.String()
}

// TestCommit_Failover_Settles: the primary dies in the middle of a change, and a synchronous
// standby takes over. Answered changes are there; the others are settled by acquiring the leases
// again. Before its promotion the standby rejects writes, with the reason.
func TestCommit_Failover_Settles(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	k := privateKit(t, either(t, primary, standby))
	s := k.open("a", func(c *Config) { c.LeaseDuration = time.Minute })
	f := newFleet(k, s, 2)
	k.done(s, f.leases[0], take(f.txs[0], 0))

	reader := k.open("a",
		func(c *Config) { c.URL, c.LeaseDuration = standby.URL("postgres"), time.Minute })
	if o, err := reader.Commit(f.leases[1], take(f.txs[1], 0)); o != Unreached ||
		!containsText(err, "standby") {
		t.Errorf("a standby answers %v (%v)", o, err)
	}
	if l, err := reader.AcquireOne(k.ctx, f.ids[1]); !isUnavailable(err) {
		t.Errorf("a standby gives a lease: %v, %v", l, err)
	}
	_, _, err := reader.CreateTx(k.ctx, Intent{Submitter: f.ids[1], RequestID: "new"})
	if !isUnavailable(err) {
		t.Errorf("a standby takes a transaction: %v", err)
	}
	if _, err := reader.Heartbeat(k.ctx, nil, true); !isUnavailable(err) {
		t.Errorf("a standby takes a heartbeat: %v", err)
	}

	release := k.lockTx(f.txs[1])
	answers := make(chan answer, 1)
	go func() {
		o, err := s.Commit(f.leases[1], take(f.txs[1], 0))
		answers <- answer{o, err}
	}()
	f.waiting(s, "commit")
	k.must(primary.Kill())
	release()
	if a := <-answers; a.Outcome != Unsettled {
		t.Fatalf("the primary died: %v (%v)", a.Outcome, a.err)
	}
	successor, err := pgx.Connect(k.ctx, standby.URL("postgres"))
	k.must(err)
	defer successor.Close(k.ctx)
	_, err = successor.Exec(k.ctx, "SELECT pg_promote()")
	k.must(err)
	k.db.Pool.Reset()
	for i := range f.ids {
		f.leases[i] = f.reacquire(i)
		f.whole(i, i == 0)
		if token := f.leases[i].Token(); token != 2 {
			t.Errorf("submitter %d: token %d", f.ids[i], token)
		}
	}
	k.done(s, f.leases[1], take(f.txs[1], 0))
	if !strings.Contains(value[string](k, "SELECT pg_is_in_recovery()::TEXT"), "false") {
		t.Error("the standby is one still")
	}
	is := value[string](k, "SELECT timeline_before || ' ' || timeline FROM ledger")
	if is != "1 2" {
		t.Errorf("timelines before and after the fail-over: %s", is)
	}
}
