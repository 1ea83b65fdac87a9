package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/txn"
)

// TestAcquire_LateStatement_LeaseUsed runs an old acquisition of the same node after it was given
// up: it takes the lease from the current owner. A commit or a renewal detects it, and the
// submitter has an owner again before the lease expires.
func TestAcquire_LateStatement_LeaseUsed(t *testing.T) {
	t.Parallel()
	for name, mine := range map[string]int{"found by a commit": 1, "found by a renewal": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, 5*time.Minute) // longer than the test
			renewing := func(o *Options) {
				if o.RenewInterval = time.Minute; mine == 0 {
					o.RenewInterval = 100 * time.Millisecond
				}
			}
			c.createOn(c.start("a", renewing), 0, "one")
			c.start("b", renewing)
			c.eventually("it is recorded as sent", func() error {
				n := c.number("SELECT count(*) FROM managed_tx WHERE state = 'TRACKING'")
				if n != 1 {
					return fmt.Errorf("%d are sent", n)
				}
				return nil
			})
			owner := c.holders()[c.submitters[0]].node
			late := c.openAs(owner, c.db.NodeURL)
			if got, err := late.Acquire(t.Context(), c.submitters); err != nil || len(got) != 1 ||
				got[0].Token() != 2 {
				t.Fatalf("%v, %v", got, err)
			}
			c.chain.Mine(mine)
			c.eventually("the owner proceeds", func() error {
				h := c.holders()[c.submitters[0]]
				n := c.number("SELECT count(*) FROM managed_tx WHERE sub_state = 'INCLUDED'")
				if h.node != owner ||
					h.token != 3 || n != mine {
					return fmt.Errorf("%d are included, the owner is %+v", n, h)
				}
				return nil
			})
			c.chain.Mine(1 - mine)
			c.eventually("its inclusion is recorded", func() error {
				n := c.number("SELECT count(*) FROM managed_tx WHERE sub_state = 'INCLUDED'")
				if n != 1 {
					return fmt.Errorf("%d", n)
				}
				return nil
			})
			c.checkLedger()
		})
	}
}

// TestAcquire_LostReply_LeaseUsed loses the reply to the first acquisition of a submitter: the
// database has the lease, the node does not know.
func TestAcquire_LostReply_LeaseUsed(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"AcquireLeases", "AcquireLease"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, 5*time.Minute)
			release := func() {}
			if statement == "AcquireLease" { // used while the lease is locked
				release = c.lockLease(c.submitters[0])
			}
			c.create(0, "one", transfer())
			proxy := c.newProxy()
			lost := proxy.On(pgproxy.Running("name: "+statement+" "), pgproxy.LoseReply)
			c.startOn(c.open("a", proxy.URL()),
				func(o *Options) { o.SweepInterval = 200 * time.Millisecond })
			if statement == "AcquireLease" {
				c.eventually("it waits for the lock", func() error {
					if n := c.number("SELECT count(*) FROM pg_stat_activity WHERE " +
						"wait_event_type = 'Lock' AND query LIKE '%name: AcquireLease %'"); n == 0 {
						return fmt.Errorf("no session waits")
					}
					return nil
				})
			}
			release()
			<-lost.Fired()
			c.eventually("it has an owner", func() error {
				if h := c.holders()[c.submitters[0]]; h.token != 2 {
					return fmt.Errorf("%+v", h)
				}
				n := c.number("SELECT count(*) FROM managed_tx WHERE state = 'TRACKING'")
				if n != 1 {
					return fmt.Errorf("%d are sent", n)
				}
				return nil
			})
			c.checkLedger()
		})
	}
}

// TestReacquire_LostReply_LeaseUsed ends an owner whose reacquisition lost its reply: the database
// has the lease, and no owner is left.
func TestReacquire_LostReply_LeaseUsed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 5*time.Minute)
	a, proxy := c.startWithProxy("a", func(o *Options) { o.SweepInterval = 200 * time.Millisecond })
	c.eventually("sent", c.sent(c.createOn(a, 0, "one")))
	held := proxy.On(pgproxy.Running("name: AcquireLeases "), pgproxy.HoldReply)
	lost := proxy.On(pgproxy.Running("tx_moved"), pgproxy.LoseReply)
	c.chain.Mine(1)
	<-lost.Fired()
	<-held.Fired()
	k := a.engine.keeper
	k.mu.Lock()
	for _, h := range k.held {
		k.lose(h, whyExpired)
	}
	k.mu.Unlock()
	proxy.CutAll()
	c.eventually("it has an owner", func() error {
		if h := c.holders()[c.submitters[0]]; h.token < 3 {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
}

// lockLease locks a lease as a running commit does.
func (c *cluster) lockLease(id txn.SubmitterID) (release func()) {
	c.t.Helper()
	tx, err := c.db.Pool.Begin(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := tx.Exec(c.t.Context(), "SELECT FROM submitter_lease WHERE submitter_id = $1 FOR "+
		"KEY SHARE", int32(id)); err != nil {
		c.t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}
