package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// running counts the executions of a statement, by its name.
func running(proxy *pgproxy.Proxy, name string) *atomic.Int32 {
	var n atomic.Int32
	runs := pgproxy.Running("name: " + name + " ")
	proxy.On(func(m pgproxy.Message) bool {
		if runs(m) {
			n.Add(1)
		}
		return false
	}, pgproxy.CutMidway)
	return &n
}

// isLargeCommit matches a fenced statement of many changes.
func isLargeCommit(m pgproxy.Message) bool {
	size := 0
	for _, p := range m.Params {
		size += len(p)
	}
	return m.Runs() && strings.Contains(m.SQL, "tx_moved") && size > 10_000
}

// TestReacquire_ManyUnknownOutcomes_FewStatements loses the replies of fenced statements of
// hundreds of submitters. All leases are reacquired with a few statements, each under a new token
// and by the same node.
func TestReacquire_ManyUnknownOutcomes_FewStatements(t *testing.T) {
	t.Parallel()
	const submitters, lost = 300, 2
	c := newCluster(t, submitters, 6*time.Second)
	c.together(submitters, func(i int) error {
		_, _, err := c.admin.CreateTx(t.Context(),
			store.Intent{Submitter: c.submitters[i], RequestID: "one", Payload: transfer()})
		return err
	})
	var log jsonLog
	var signed atomic.Int32
	gather := make(chan struct{})
	a, proxy := c.startWithProxy("a", func(o *Options) {
		o.Logger = log.logger()
		o.Gate = func(ctx context.Context, at Point, _ txn.SubmitterID) error {
			if at == BeforeAllocate {
				signed.Add(1)
				select {
				case <-gather:
				case <-ctx.Done():
				}
			}
			return nil
		}
	})
	c.eventually("all have signed", func() error {
		if n := signed.Load(); n < submitters {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	oneByOne, together := running(proxy, "AcquireLease"), running(proxy, "AcquireLeases")
	var rules []*pgproxy.Rule
	for range lost {
		rules = append(rules, proxy.On(isLargeCommit, pgproxy.LoseReply))
	}
	close(gather)
	for _, r := range rules {
		<-r.Fired()
	}
	began := time.Now()
	c.eventually("all are sent", func() error {
		n := c.number("SELECT count(*) FROM managed_tx WHERE state IN ('QUEUED', 'ALLOCATED')")
		if n > 0 {
			return fmt.Errorf("%d are not", n)
		}
		return nil
	})
	unknown := len(
		log.find(t, "commit outcome unknown; reacquiring lease"))
	t.Logf(
		"%d commits of unknown outcome; all was sent %s later, after %d bulk and %d single "+
			"acquisitions",
		unknown, time.Since(began).Round(time.Millisecond), together.Load(), oneByOne.Load())
	if unknown < 100 {
		t.Errorf("only %d commits were lost", unknown)
	}
	if one, all := oneByOne.Load(), together.Load(); one > 20 || all > 20 {
		t.Errorf("%d single acquisitions and %d in bulk for %d submitters", one, all, unknown)
	}
	if n := c.number("SELECT count(*) FROM submitter_lease WHERE fencing_token > 1"); n != unknown {
		t.Errorf("%d leases have a new token, want %d", n, unknown)
	}
	for id, h := range c.holders() {
		if h.node != a.store.Node() || h.token > 2 {
			t.Errorf("submitter %d is owned by %s under token %d", id, h.node, h.token)
		}
	}
	if n := c.number("SELECT count(*) FROM tx_attempt"); n != submitters {
		t.Errorf("%d attempts for %d transactions", n, submitters)
	}
	lines := append(log.find(t, "submitter lost"), log.leaseLost(t, whyFenced)...)
	if len(lines) > 0 {
		t.Errorf("%d owners were lost: %v", len(lines), lines[0])
	}
	c.checkLedger()
}

// TestReacquire_RenewalMeanwhile_OwnerKept delays the reply of a reacquisition while a renewal uses
// the old token. That does not lose the lease.
func TestReacquire_RenewalMeanwhile_OwnerKept(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 6*time.Second)
	var log jsonLog
	a, proxy := c.startWithProxy("a",
		func(o *Options) { o.Logger, o.RenewInterval = log.logger(), 100*time.Millisecond })
	c.eventually("sent", c.sent(c.createOn(a, 0, "one")))
	held := proxy.On(pgproxy.Running("name: AcquireLeases "), pgproxy.HoldReply)
	lost := proxy.On(pgproxy.Running("tx_moved"), pgproxy.LoseReply)
	c.chain.Mine(1)
	<-lost.Fired()
	<-held.Fired()
	c.eventually("the lease has its new token", func() error {
		if n := c.number("SELECT fencing_token FROM submitter_lease"); n != 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	renewals := running(proxy, "RenewLeases")
	c.eventually("a renewal with the old token", func() error {
		if renewals.Load() < 2 { // the first one is complete
			return errors.New("not yet")
		}
		return nil
	})
	held.Release()
	c.eventually("the owner proceeds", func() error {
		if n := c.number("SELECT count(*) FROM managed_tx WHERE sub_state = 'INCLUDED'"); n != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	lines := append(log.find(t, "submitter lost"), log.leaseLost(t, whyFenced)...)
	if len(lines) > 0 {
		t.Errorf("%v", lines)
	}
	c.eventually("it is renewed under the new token", func() error {
		if n := c.number("SELECT count(*) FROM submitter_lease WHERE fencing_token = 2 AND " +
			"expires_at > acquired_at + INTERVAL '6 seconds'"); n != 1 {
			return errors.New("not yet")
		}
		return nil
	})
}

// TestReacquire_LeaseLocked_Waits locks the lease, as a running old statement does, while an owner
// reacquires it. The owner waits and reads nothing before.
func TestReacquire_LeaseLocked_Waits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 20*time.Second)
	a, proxy := c.startWithProxy("a", nil)
	c.eventually("sent", c.sent(c.createOn(a, 0, "one")))
	tx, err := c.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM submitter_lease FOR KEY SHARE"); err != nil {
		t.Fatal(err)
	}
	oneByOne, loads := running(proxy, "AcquireLease"), running(proxy, "OpenTxs")
	lost := proxy.On(pgproxy.Running("tx_moved"), pgproxy.LoseReply)
	c.chain.Mine(1)
	<-lost.Fired()
	c.eventually("it waits for the lock", func() error {
		if oneByOne.Load() != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	if n := loads.Load(); n != 0 {
		t.Errorf("the ledger was read %d times before the reacquisition", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.eventually("the owner proceeds", func() error {
		if n := c.number("SELECT fencing_token FROM submitter_lease"); n != 2 || loads.Load() != 1 {
			return fmt.Errorf("token %d, read %d times", n, loads.Load())
		}
		return nil
	})
}

// TestReacquire_OwnerLeft_LeaseReleased stops a node during a reacquisition: the lease must be
// released.
func TestReacquire_OwnerLeft_LeaseReleased(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 20*time.Second)
	a, proxy := c.startWithProxy("a", nil)
	c.eventually("sent", c.sent(c.createOn(a, 0, "one")))
	held := proxy.On(pgproxy.Running("name: AcquireLeases "), pgproxy.HoldReply)
	lost := proxy.On(pgproxy.Running("tx_moved"), pgproxy.LoseReply)
	c.chain.Mine(1)
	<-lost.Fired()
	<-held.Fired()
	left := running(proxy, "Leave")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.stop()
	}()
	c.eventually("the node has left", func() error {
		if left.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	held.Release()
	<-stopped
	n := c.number("SELECT count(*) FROM submitter_lease WHERE fencing_token = 2 AND released")
	if n != 1 {
		t.Error("the lease was not released")
	}
}

// TestAcquire_StopMeanwhile_LeaseReleased stops a node before it receives the reply to an
// acquisition: the leases are released.
func TestAcquire_StopMeanwhile_LeaseReleased(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 20*time.Second)
	a, proxy := c.startWithProxy("a", nil)
	held := proxy.On(pgproxy.Running("name: AcquireLeases "), pgproxy.HoldReply)
	c.createOn(a, 0, "one")
	<-held.Fired()
	c.eventually("the lease is acquired", func() error {
		if len(c.holders()) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	beats := running(proxy, "Heartbeat")
	a.kill()
	// a node that stopped without the reply would announce it
	for began := time.Now(); beats.Load() == 0 && time.Since(began) < 300*time.Millisecond; {
		<-time.After(time.Millisecond)
	}
	held.Release()
	a.stop()
	if n := c.number("SELECT count(*) FROM submitter_lease WHERE released"); a.err != nil ||
		n != 1 {
		t.Errorf("the lease was not released (%v)", a.err)
	}
}
