package pgembed

import (
	"context"
	"testing"
	"time"
)

// Commits acknowledged by a primary with a synchronous standby survive a failover.
func TestStandby_Promoted_TakesOver(t *testing.T) {
	t.Parallel()
	primary := mustStart(t, Options{Dir: usedDir(t)})
	url := primary.URL("postgres")
	execute(t, url, "create table kept as select 1 as n")
	standby := follow(t, primary, Options{Settings: Disposable()})
	execute(t, url, "alter system set synchronous_standby_names = 'second'")
	execute(t, url, "select pg_reload_conf()")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	const synchronous = "select count(*) from pg_stat_replication " +
		"where application_name = 'second' and sync_state = 'sync'"
	deadline := time.Now().Add(30 * time.Second)
	for ; query[int](t, url, synchronous) != 1; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the standby is not synchronous within 30 s")
		}
	}
	execute(t, url, "insert into kept values (2)")
	if !query[bool](t, standby.URL("postgres"), "select pg_is_in_recovery()") {
		t.Error("the standby does not follow")
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	execute(t, standby.URL("postgres"), "select pg_promote(true, 60)")
	execute(t, standby.URL("postgres"), "insert into kept values (4)")
	if got := query[int](t, standby.URL("postgres"), "select sum(n) from kept"); got != 7 {
		t.Errorf("the sum is %d", got)
	}
}

func follow(t *testing.T, primary *Server, o Options) *Server {
	t.Helper()
	standby, err := primary.Standby(t.Context(), "second", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return standby
}

// A standby over TCP takes the primary's password: its data hold that one.
func TestStandby_KeepsPassword(t *testing.T) {
	t.Parallel()
	primary := mustStart(t, Options{TCP: true})
	standby := follow(t, primary, Options{TCP: true, Settings: Disposable()})
	if !query[bool](t, standby.TCPURL("postgres"), "select pg_is_in_recovery()") {
		t.Error("the standby does not follow")
	}
}

func TestStandby_PrimaryDown_Refused(t *testing.T) {
	t.Parallel()
	primary := mustStart(t, Options{Dir: usedDir(t)})
	if _, err := primary.Standby(t.Context(), "x", Options{Dir: usedDir(t)}); err == nil {
		t.Error("it took a folder that has data")
	}
	if query[int](t, primary.URL("postgres"), "select 1") != 1 {
		t.Error("the primary is down after a standby that failed")
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := primary.Standby(t.Context(), "x", Options{}); err == nil {
		t.Error("it followed a server that is down")
	}
}
