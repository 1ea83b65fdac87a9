package store

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/txn"
)

// fenced matches a step of a fenced statement: B hands it its changes, E runs it.
func fenced(step byte) pgproxy.Match {
	return func(m pgproxy.Message) bool {
		return m.Type == step &&
			strings.Contains(m.SQL, "name: Commit ")
	}
}

// TestCommit_ConnectionFails_GroupUnsettled breaks the connection at each point of a statement.
func TestCommit_ConnectionFails_GroupUnsettled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		match  pgproxy.Match
		action pgproxy.Action
		cut    bool // once the action is done
		done   bool // the server did it
	}{
		{"torn after the first byte", fenced('B'), pgproxy.CutMidway, false, false},
		{"cut between Execute and Sync", fenced('E'), pgproxy.HoldAfter, true, false},
		{"the reply is lost", fenced('E'), pgproxy.LoseReply, false, true},
		{"no reply comes", fenced('E'), pgproxy.HoldAfter, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			p := k.proxy()
			s := k.open("a",
				func(cfg *Config) { cfg.URL, cfg.LeaseDuration = p.URL(), 1200*time.Millisecond })
			f := newFleet(k, s, 6)
			var cut sync.WaitGroup
			f.armed = func() {
				rule := p.On(c.match, c.action)
				if c.cut {
					cut.Go(func() { <-rule.Fired(); p.CutAll() })
				}
			}
			answers := f.together(f.takes())
			cut.Wait()
			for i, a := range answers {
				if a.Outcome != Unsettled {
					t.Errorf("change %d: outcome %v (%v), want unknown", i, a.Outcome, a.err)
				}
				if o, _ := s.Commit(f.leases[i], take(f.txs[i], 0)); o != Fenced {
					t.Errorf("change %d: the lease of an unsettled change still commits: %v", i, o)
				}
			}
			f.settle(c.done)
		})
	}
}

// settle acquires every lease again, as an owner does after an unknown outcome, and checks the
// ledger that it then reads.
func (f *fleet) settle(done bool) {
	f.t.Helper()
	for i, id := range f.ids {
		var l *Lease
		f.eventually("the new acquisition", func() bool { // whose connection may be broken, too
			var err error
			l, err = f.s.AcquireOne(f.ctx, id)
			return err == nil && l != nil
		})
		if l.Token() < 2 {
			f.t.Errorf("submitter %d: token %d after the new acquisition, want another", id,
				l.Token())
		}
		f.whole(i, done)
		ledger, err := f.s.Load(f.ctx, l)
		f.must(err)
		if want := map[bool]txn.Nonce{true: 1}[done]; ledger.Cursor.Next != want {
			f.t.Errorf("submitter %d: the cursor stands at %d", id, ledger.Cursor.Next)
		}
		if !done {
			f.done(f.s, l, take(f.txs[i], 0))
			f.whole(i, true)
		}
	}
}

// TestCommit_ClientStopsBeforeSync_Settles: the server has written everything and waits for the
// word to commit, with all locks. Another node ends it.
func TestCommit_ClientStopsBeforeSync_Settles(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.proxy()
	s := k.open("a", func(c *Config) { c.URL, c.LeaseDuration = p.URL(), 9*time.Second })
	successor := k.open("successor", func(c *Config) { c.LeaseDuration = 900 * time.Millisecond })
	f := newFleet(k, s, 6)
	rule := p.On(fenced('E'), pgproxy.HoldAfter)
	answers := f.commitAll(f.takes()[:1], func() {
		<-rule.Fired()
		k.lapse(f.ids[0])
		l, err := successor.AcquireOne(k.ctx, f.ids[0])
		k.must(err)
		if l == nil || l.Token() != 2 {
			t.Errorf("the successor got %+v", l)
		}
	})
	if answers[0].Outcome != Unsettled {
		t.Fatalf("outcome %v (%v)", answers[0].Outcome, answers[0].err)
	}
	f.whole(0, false)
	rest := f.takes()
	rest[0] = txn.Change{}
	for i, a := range f.commitAll(rest, func() {}) {
		f.want(a.Outcome, Done)
		f.whole(i, i != 0)
	}
}

// TestCommit_NoDatabase_Unreached: nothing can have been written when nothing was sent.
func TestCommit_NoDatabase_Unreached(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.proxy()
	s := k.open("a", func(c *Config) { c.URL = p.URL() })
	f := newFleet(k, s, 3)
	p.Refuse()
	p.CutAll()
	// The connections are dead, which is not known before they are used.
	s.lanes[0].conn.mu.Lock()
	s.lanes[0].conn.used = time.Time{}
	s.lanes[0].conn.mu.Unlock()
	f.check(f.commitAll(f.takes(), func() {}), all(Unreached))
	_, _, err := s.CreateTx(k.ctx, Intent{Submitter: f.ids[0], RequestID: "new"})
	if !isUnavailable(err) {
		t.Fatalf("CreateTx says %v", err)
	}
	if _, err := s.Renew(k.ctx, f.leases); !isUnavailable(err) {
		t.Fatalf("Renew says %v", err)
	}
	if err := s.CheckSchema(k.ctx); !isUnavailable(err) {
		t.Fatalf("CheckSchema says %v", err)
	}
	p.Heal()
	f.check(f.commitAll(f.takes(), func() {}), all(Done)) // the same leases: nothing was in doubt
	if renewed, err := s.Renew(k.ctx, f.leases); err != nil || len(renewed) != 3 {
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	k.must(s.CheckSchema(k.ctx))
}

// TestCommit_SessionTerminated_Unsettled: SQLSTATE 57P01 reports the end of the session, but not
// the outcome of its statement.
func TestCommit_SessionTerminated_Unsettled(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	f := newFleet(k, k.open("a"), 4)
	release := k.lockTx(f.txs[1])
	answers := f.commitAll(f.takes(), func() {
		f.waiting(f.s, "commit")
		k.exec(
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			  WHERE application_name = 'fencepost/commit/a' AND wait_event_type = 'Lock'
			    AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'managed_tx'::REGCLASS)`,
		)
		release()
	})
	unsettled := 0
	for i, a := range answers {
		switch a.Outcome {
		case Unsettled:
			unsettled++
			f.whole(i, false)
		case Done:
			f.whole(i, true)
		default:
			t.Errorf("change %d: %v (%v)", i, a.Outcome, a.err)
		}
	}
	if unsettled == 0 {
		t.Fatal("no change was unsettled")
	}
}
