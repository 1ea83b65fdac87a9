package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// TestCommands_MoreThanOneRead_AllDecided verifies that the owner reads commands again, without a
// wake-up, when one read may not have returned all.
func TestCommands_MoreThanOneRead_AllDecided(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 5*time.Minute)
	if _, err := c.db.Pool.Exec(t.Context(), `
		INSERT INTO submitter_command (submitter_id, kind)
		SELECT $1, CASE i % 2 WHEN 0 THEN 'RESUME' ELSE 'PAUSE' END
		  FROM generate_series(1, 250) i`, int32(c.submitters[0])); err != nil {
		t.Fatal(err)
	}
	c.start("a", func(o *Options) { o.PollInterval = time.Hour })
	c.eventually("all are decided", func() error {
		if n := c.number("SELECT count(*) FROM submitter_command WHERE applied_at IS NULL"); n > 0 {
			return fmt.Errorf("%d are not", n)
		}
		return nil
	})
}

// TestQueue_GrowsWhileBusy_NoWakeUps verifies that transactions queued behind one in flight are
// read when a slot is free, and not before.
func TestQueue_GrowsWhileBusy_NoWakeUps(t *testing.T) {
	t.Parallel()
	const others = 5
	c := newCluster(t, 1+others, 5*time.Minute)
	var steps atomic.Int32
	n := c.start("a", func(o *Options) {
		o.PollInterval = time.Hour
		o.Gate = func(_ context.Context, at Point, id txn.SubmitterID) error {
			if at == BeforeStep && id == c.submitters[0] {
				steps.Add(1)
			}
			return nil
		}
	})
	c.eventually("the first is sent", c.is(c.createOn(n, 0, "first"), txn.Pending))
	var last txn.TxID
	for i := range others {
		last = c.createOn(n, 0, fmt.Sprint("more ", i))
		if i == 0 {
			steps.Store(0)
		}
		c.eventually("the other submitter sends",
			// so the earlier notification was handled
			c.is(c.createOn(n, 1+i, "other"), txn.Pending))
	}
	if got := steps.Load(); got > 2 {
		t.Errorf("%d steps without a free slot", got)
	}
	c.mine(20 * time.Millisecond)
	c.eventually("the last is included", c.is(last, txn.Included))
}

// TestQueue_ArrivesBeforeRest_Seen verifies that the owner does not rest after a transaction was
// queued since its last read.
func TestQueue_ArrivesBeforeRest_Seen(t *testing.T) {
	t.Parallel()
	a := &actor{
		e:     &Engine{Options: Options{Clock: clock.Real{}, IdleAfter: time.Hour}},
		wakes: make(chan struct{}, 1),
	}
	a.ledger.Submitter.Limit = 1
	a.ledger.Open = []txn.Tx{{Status: txn.Status{Released: true}}}
	a.queue()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := a.rest(ctx, &resting{now: a.e.Clock.Now()}); err != nil {
		t.Errorf("rested: %v", err)
	}
	a.more.Store(false)
	time.AfterFunc(time.Millisecond, a.queue)
	if err := a.rest(ctx, &resting{now: a.e.Clock.Now()}); err != nil {
		t.Errorf("not woken: %v", err)
	}
}
