package e2e

import (
	"context"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/pgembed"
)

// TestDatabaseFailover_SynchronousStandby loses the primary under load. The standby is promoted,
// the nodes find it by the two hosts of their URL, and nothing is lost or duplicated.
func TestDatabaseFailover_SynchronousStandby(t *testing.T) {
	t.Parallel()
	const submitters = 20
	primary, standby := pair(t)
	both := bothHosts(t, primary, standby)
	c := embedded(t, 250*time.Millisecond, submitters+1)
	cl := prepareCluster(t, c, 3, nodeOptions{confirmations: 3, poll: 100 * time.Millisecond}, both)
	for _, m := range cl.members {
		m.edit(t, m.url, both) // past the proxies: a proxy stands for one server
	}
	becomesSynchronous(t, primary)
	cl.startAll(t)
	contract := cl.members[0].deploy(t, c)
	w := watchAll(t, func() *node { return cl.any().node })
	calls := cl.call(t, contract, submitters, 500*time.Millisecond,
		rand.New(rand.NewPCG(rand.Uint64(), 0)))
	calls.more(t, 5*submitters)
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	lost := time.Now()
	pool := openPool(t, standby.URL("postgres"))
	if _, err := pool.Exec(t.Context(), "SELECT pg_promote(TRUE, 60)"); err != nil {
		t.Fatal(err)
	}
	promoted := time.Now()
	calls.more(t, 1)
	t.Logf("promoted %s after the loss of the primary; the first call was accepted %s later",
		promoted.Sub(lost), time.Since(promoted))
	calls.more(t, 5*submitters)
	cl.drain(t, contract, calls, []*watcher{w}, 0, 2*time.Minute)
	var here bool
	if err := pool.QueryRow(
		t.Context(), "SELECT count(*) > 0 FROM managed_tx WHERE terminal_at > $1", promoted,
	).Scan(&here); err != nil ||
		!here {
		t.Errorf("nothing was done on the new primary (%v)", err)
	}
	cl.stopAll(t)
}

// pair is a server and one that follows it.
func pair(t *testing.T) (primary, standby *pgembed.Server) {
	t.Helper()
	var err error
	if primary, err = pgembed.Start(
		t.Context(), pgembed.Options{Settings: pgembed.Disposable()},
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Stop(context.Background()) })
	if standby, err = primary.Standby(
		t.Context(), "second", pgembed.Options{Settings: pgembed.Disposable()},
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop(context.Background()) })
	return primary, standby
}

// bothHosts is the URL of whichever of two servers accepts writes.
func bothHosts(t *testing.T, primary, standby *pgembed.Server) string {
	t.Helper()
	first, err := url.Parse(primary.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(standby.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	q := first.Query()
	q.Set("host", q.Get("host")+","+second.Query().Get("host"))
	q.Set("port", q.Get("port")+","+second.Query().Get("port"))
	q.Set("target_session_attrs", "read-write")
	first.RawQuery = q.Encode()
	return first.String()
}

// becomesSynchronous has commits wait for the standby from now on.
func becomesSynchronous(t *testing.T, primary *pgembed.Server) {
	t.Helper()
	pool := openPool(t, primary.URL("postgres"))
	for _, sql := range []string{
		"ALTER SYSTEM SET synchronous_standby_names = 'second'", "SELECT pg_reload_conf()",
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 30*time.Second, "the standby is synchronous", func() error {
		var yes bool
		err := pool.QueryRow(context.Background(),
			"SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(
			&yes,
		)
		if err == nil && !yes {
			err = errNotYet
		}
		return err
	})
	pool.Close()
}
