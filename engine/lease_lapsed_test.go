package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/txn"
)

// frozenClock is the clock of a process that was frozen: time has passed, but its timers have not
// fired.
type frozenClock struct {
	clock.Real
	frozenFor atomic.Int64
}

func (c *frozenClock) Now() time.Time { return c.Real.Now().Add(time.Duration(c.frozenFor.Load())) }

// callCounter counts the calls that begin after the process was frozen.
type callCounter struct {
	*chaintest.Chain
	Signer
	clock *frozenClock
	calls atomic.Int32
}

func (o *callCounter) count() {
	if o.clock.frozenFor.Load() > 0 {
		o.calls.Add(1)
	}
}

func (o *callCounter) Account(ctx context.Context, a txn.Address, settled uint64) (txn.Account,
	error) {
	o.count()
	return o.Chain.Account(ctx, a, settled)
}

func (o *callCounter) Quote(ctx context.Context, d txn.Draft) (txn.Quote, txn.Outcome) {
	o.count()
	return o.Chain.Quote(ctx, d)
}

func (o *callCounter) Send(ctx context.Context, s txn.Signed) txn.Outcome {
	o.count()
	return o.Chain.Send(ctx, s)
}

func (o *callCounter) Sign(ctx context.Context, name string, u txn.Unsigned) (txn.Signed, error) {
	o.count()
	return o.Signer.Sign(ctx, name, u)
}

// whileReading is the ledger read of a step; no gate point is inside it.
const whileReading Point = "while the ledger is read"

// TestLease_MayHaveLapsed_NoCall freezes a process right before each of its calls, for the whole
// lease. The call must not begin: the owner checks before the keeper does.
func TestLease_MayHaveLapsed_NoCall(t *testing.T) {
	t.Parallel()
	const lease = time.Minute // the keeper checks every six seconds
	for _, at := range []Point{BeforeStep, whileReading, BeforeQuote, BeforeSign, BeforeSend} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, lease)
			now, proxy := &frozenClock{}, c.newProxy()
			freeze := func() { now.frozenFor.CompareAndSwap(0, int64(lease)) }
			proxy.On(func(m pgproxy.Message) bool {
				if at == whileReading && m.Runs() && strings.Contains(m.SQL, "InboxTxs") {
					freeze()
				}
				return false
			}, pgproxy.CutMidway)
			var log jsonLog
			var seen *callCounter
			n := c.startOn(c.open("a", proxy.URL()), func(o *Options) {
				seen = &callCounter{Chain: c.chain, Signer: o.Signer, clock: now}
				o.Clock = now
				o.Signer = seen
				o.Chains[0].Chain = seen
				o.Logger = log.logger()
				o.Gate = func(_ context.Context, p Point, _ txn.SubmitterID) error {
					if p == at {
						freeze()
					}
					return nil
				}
			})
			c.createOn(n, 0, "one")
			c.eventually("the owner has ended", func() error {
				if len(log.leaseLost(t, whyExpired)) == 0 || n.engine.router.running() > 0 {
					return errors.New("not yet")
				}
				return nil
			})
			if calls := seen.calls.Load(); calls > 0 {
				t.Errorf("%d calls began", calls)
			}
		})
	}
}
