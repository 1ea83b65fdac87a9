package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/txn"
)

// TestNodes_NoHeartbeats_WorkDone loses every heartbeat of one node, so that two nodes do not know
// each other. All work is done, once.
func TestNodes_NoHeartbeats_WorkDone(t *testing.T) {
	t.Parallel()
	const submitters, each = 8, 3
	c := newCluster(t, submitters, time.Second)
	c.mine(20 * time.Millisecond)
	proxy, err := pgproxy.Start(c.db.NodeURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	for range 1000 { // more than the test needs
		proxy.On(pgproxy.Running("Heartbeat"), pgproxy.CutMidway)
	}
	nodes := []*testNode{c.startOn(c.open("unheard", proxy.URL()), nil), c.start("b", nil)}
	var ids []txn.TxID
	for i := range each {
		for s := range submitters {
			ids = append(ids, c.createOn(nodes[(s+i)%2], s, fmt.Sprint(i)))
		}
	}
	for _, id := range ids {
		if tx := c.awaitFinal(id); tx.State != txn.Confirmed {
			t.Fatalf("%s: %s", tx.State, tx.LastError)
		}
	}
	if n := c.number("SELECT count(*) FROM node"); n != 1 {
		t.Errorf("%d nodes in the list, want 1", n)
	}
	c.checkLedger()
}

// TestNotify_NoNodeCanAcquire_SentOnce creates a transaction for a submitter that no node can
// acquire: one node notifies the other, which does not forward it.
func TestNotify_NoNodeCanAcquire_SentOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Basic, WorkerQueue} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 2, 5*time.Second)
			in := func(o *Options) { o.Mode = mode }
			a, atA := c.startWithProxy("a", in)
			b, atB := c.startWithProxy("b", in)
			c.eventually("both know of both", func() error {
				if len(a.engine.members.now(time.Now()).candidates)+len(
					b.engine.members.now(time.Now()).candidates) != 4 {
					return errors.New("not yet")
				}
				return nil
			})
			if lease, err := c.admin.AcquireOne(t.Context(), c.submitters[0]); err != nil ||
				lease == nil {
				t.Fatal("the lease could not be taken", err)
			}
			notified := [2]atomic.Int32{}
			for i, proxy := range []*pgproxy.Proxy{atA, atB} {
				watch := proxy.On(func(m pgproxy.Message) bool {
					if m.Runs() && strings.Contains(m.SQL, "pg_notify") &&
						bytes.HasSuffix(m.Params[len(m.Params)-1],
							fmt.Appendf(nil, "\n%d", c.submitters[0])) {
						notified[i].Add(1)
					}
					return false
				}, pgproxy.CutMidway)
				defer proxy.Withdraw(watch)
			}
			c.createOn(a, 0, "one")
			c.eventually("it is notified", func() error {
				if notified[0].Load() == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			for i := range 3 { // time for further notifications
				id := c.createOn(b, 1, fmt.Sprint(i))
				c.eventually("sent", c.sent(id))
				c.chain.Mine(4)
				c.awaitFinal(id)
			}
			if a, b := notified[0].Load(), notified[1].Load(); a != 1 || b != 0 {
				t.Errorf("%d and %d notifications, want 1 and 0", a, b)
			}
		})
	}
}

// sent requires that a transaction was broadcast.
func (c *cluster) sent(id txn.TxID) func() error {
	return func() error {
		if tx, err := c.admin.Tx(context.Background(), id); err != nil || tx.State == txn.Queued ||
			tx.State == txn.Allocated {
			return fmt.Errorf("not yet (%v)", err)
		}
		return nil
	}
}
