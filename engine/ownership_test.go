package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestOwnership_NodesChange_OnlyTheirShareMoves distributes 2,000 submitters over three nodes, cuts
// one off, and adds another. Only the share of that node moves. The number of periodic statements
// does not depend on the number of submitters.
func TestOwnership_NodesChange_OnlyTheirShareMoves(t *testing.T) {
	t.Parallel()
	const submitters, lease = 2000, 6 * time.Second
	c := newCluster(t, submitters, lease)
	c.together(
		submitters,
		func(i int) error { // paused below: each has an owner, and no owner works
			_, _, err := c.admin.CreateTx(t.Context(),
				store.Intent{Submitter: c.submitters[i], RequestID: "one", Payload: transfer()})
			return err
		},
	)
	if _, err := c.db.Pool.Exec(t.Context(), "UPDATE submitter SET status = 'PAUSED'"); err != nil {
		t.Fatal(err)
	}
	a, proxy := c.startWithProxy("a", nil)
	b := c.start("b", nil)
	lost, line := c.startWithProxy("c", nil)
	first := c.awaitPlacement("three nodes", a, b, lost)
	count := map[string]int{}
	for _, h := range first {
		count[h.node]++
	}
	for node, n := range count {
		if share := float64(3*n) / submitters; share < 0.85 || share > 1.15 {
			t.Errorf("%s has %d of %d", node, n, submitters)
		}
	}
	c.checkTicks(proxy, a)

	line.Refuse()
	line.CutAll()
	began := time.Now()
	second := c.awaitPlacement("two nodes", a, b)
	t.Logf("all %d of the lost node were taken over after %s", count[lost.store.Node()],
		time.Since(began).Round(time.Millisecond))
	c.checkMoved(first, second, func(from, _ string) bool { return from == lost.store.Node() })

	d := c.start("d", nil)
	third := c.awaitPlacement("a third node", a, b, d)
	c.checkMoved(second, third, func(_, to string) bool { return to == d.store.Node() })

	began = time.Now()
	a.stop()
	fourth := c.awaitPlacement("one node stopped", b, d)
	t.Logf("all of the node that stopped were taken over after %s",
		time.Since(began).Round(time.Millisecond))
	c.checkMoved(third, fourth, func(from, _ string) bool { return from == a.store.Node() })
	lost.stop()
}

// checkMoved verifies that only allowed submitters have another owner or token.
func (c *cluster) checkMoved(before, after map[txn.SubmitterID]holder,
	may func(from, to string) bool) {
	c.t.Helper()
	moved := 0
	for id, was := range before {
		is := after[id]
		if was == is {
			continue
		}
		moved++
		if !may(was.node, is.node) {
			c.t.Errorf("submitter %d moved from %s under %d to %s under %d", id, was.node,
				was.token, is.node, is.token)
		}
	}
	c.t.Logf("%d of %d moved", moved, len(before))
}

// checkTicks counts the statements of renewals and heartbeats.
func (c *cluster) checkTicks(proxy *pgproxy.Proxy, n *testNode) {
	c.t.Helper()
	var renewals, beats atomic.Int32
	seen := make(chan struct{}, 1)
	watch := proxy.On(func(m pgproxy.Message) bool {
		switch {
		case !m.Runs():
		case strings.Contains(m.SQL, "RenewLeases"):
			renewals.Add(1)
		case strings.Contains(m.SQL, "Heartbeat"):
			beats.Add(1)
			signal(seen)
		}
		return false
	}, pgproxy.CutMidway)
	defer proxy.Withdraw(watch)
	began := time.Now()
	const ticks = 4
	for beats.Load() < ticks {
		select {
		case <-seen:
		case <-time.After(time.Minute):
			c.t.Fatal("no ticks")
		}
	}
	most := int32(
		// one may be late from the tick before; the last one counts when it begins
		time.Since(began)/n.engine.RenewInterval) + 2
	if r, b := renewals.Load(), beats.Load(); r > most || b > most || r < ticks-1 {
		c.t.Errorf("%d renewals and %d heartbeats for %d leases in %d ticks", r, b,
			n.engine.router.count(), most)
	}
}

// TestCreateTx_OwnerElsewhere_Woken creates transactions through the owner of the submitter, and
// through another node. Every periodic check takes a minute or more, so only a wake-up can be
// faster.
func TestCreateTx_OwnerElsewhere_Woken(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Basic, WorkerQueue} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, 5*time.Minute)
			c.mine(10 * time.Millisecond)
			awake := make(chan time.Time, 1) // the owner begins with the new transaction
			in := func(o *Options) {
				o.Mode, o.SweepInterval = mode, time.Minute
				o.Gate = func(_ context.Context, at Point, _ txn.SubmitterID) error {
					if at == BeforeQuote {
						select {
						case awake <- time.Now():
						default: // a repeated quote
						}
					}
					return nil
				}
			}
			owner := c.start("owner", in)
			first := c.createOn(owner, 0, "first")
			<-awake
			c.awaitFinal(first)
			other := c.start("other", in)
			c.eventually("both nodes are known", func() error {
				if live := other.engine.members.now(time.Now()); len(live.candidates) != 2 {
					return errors.New("not yet")
				}
				return nil
			})
			for _, from := range []*testNode{owner, other} {
				var took []time.Duration
				for i := range 8 {
					select {
					case <-awake:
					default:
					}
					id := c.createOn(from, 0, fmt.Sprint(from.store.Node(), i))
					began := time.Now()
					select {
					case at := <-awake:
						took = append(took, at.Sub(began))
					case <-time.After(time.Minute):
						t.Fatal("the owner was not woken")
					}
					c.awaitFinal(id)
				}
				slices.Sort(took)
				t.Logf(
					"from CreateTx on %s until its owner begins: fastest %s, median %s, longest %s",
					from.store.Node(), took[0], took[len(took)/2], took[len(took)-1])
				tick := owner.engine.RenewInterval
				if took[len(took)/2] > tick/4 {
					t.Errorf("wake-ups from %s took %s; periodic checks take %s", from.store.Node(),
						took, tick)
				}
			}
			c.checkLedger()
		})
	}
}

// TestStop_Submitters_TakenOverAtOnce replaces each node of three under load. A stopped node
// releases its leases, and the others acquire them before they would have expired.
func TestStop_Submitters_TakenOverAtOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Basic, WorkerQueue} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			const (
				submitters = 12
				each       = 40
				lease      = 6 * time.Second
			)
			c := newCluster(t, submitters, lease)
			in := func(o *Options) {
				o.Mode = mode
				o.RenewInterval = lease / 3
				o.IdleAfter = time.Hour
			}
			nodes := []*testNode{c.start("a", in), c.start("b", in), c.start("c", in)}
			ids := make([][]txn.TxID, submitters)
			for s := range submitters {
				for i := range each {
					ids[s] = append(ids[s], c.createOn(nodes[(s+i)%3], s, fmt.Sprint(i)))
				}
			}
			c.eventually("all are owned", func() error {
				if n := len(c.holders()); n < submitters {
					return fmt.Errorf("%d are", n)
				}
				return nil
			})
			// Not before: nobody acquires a submitter whose transactions are final.
			c.mine(20 * time.Millisecond)
			for i := range nodes {
				fresh := c.start(fmt.Sprint("new-", i), in)
				began := time.Now()
				nodes[i].stop()
				stopped := time.Since(began)
				if nodes[i].err != nil {
					t.Errorf("the stop: %v", nodes[i].err)
				}
				if n := c.number("SELECT count(*) FROM submitter_lease "+
					"WHERE owner_node = $1 AND NOT released", nodes[i].store.Node()); n > 0 {
					t.Errorf("%d leases of the stopped node are not released", n)
				}
				longest := c.longestWithoutOwner()
				t.Logf("the stop took %s; longest without an owner after it: %s",
					stopped.Round(time.Millisecond), longest.Round(time.Millisecond))
				if longest > lease || stopped > lease {
					t.Errorf("the stop took %s, and a submitter was without an owner for %s; "+
						"the lease is %s", stopped, longest, lease)
				}
				nodes[i] = fresh
			}
			for s := range ids {
				for _, id := range ids[s] {
					if tx := c.awaitFinal(id); tx.State != txn.Confirmed {
						t.Fatalf("%s: %s", tx.State, tx.LastError)
					}
				}
			}
			c.checkLedger()
		})
	}
}

// TestAcquire_MaxSubmitters_Kept has more submitters with work than one node may own. It leaves the
// rest to another node.
func TestAcquire_MaxSubmitters_Kept(t *testing.T) {
	t.Parallel()
	const submitters, most = 7, 3
	for _, mode := range []Mode{Basic, WorkerQueue} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, submitters, 2*time.Second)
			var counts reading
			a := c.start("a", func(o *Options) {
				o.Mode, o.MaxSubmitters = mode, most
				counts = measure(t, o)
			})
			ids := make([]txn.TxID, submitters)
			for i := range submitters { // nothing is mined, so they stay owned
				ids[i] = c.createOn(a, i, "one")
			}
			owns := func(n int) func() error {
				return func() error {
					if got := len(c.holders()); got != n {
						return fmt.Errorf("%d are owned", got)
					}
					return nil
				}
			}
			c.eventually("it owns its maximum", owns(most))
			c.eventually(
				"several sweeps, two for each renewal",
				func() error {
					if n := len(c.holders()); n > most {
						t.Fatalf("it owns %d, limit %d", n, most)
					}
					if n := counts.sum("fencepost_lease_renew", "result", "ok"); n < 3*most {
						return fmt.Errorf("%v leases were renewed", n)
					}
					return nil
				},
			)
			b := c.start("b", func(o *Options) { o.Mode = mode })
			c.eventually("the other node takes the rest", owns(submitters))
			count := map[string]int{}
			for _, h := range c.holders() {
				count[h.node]++
			}
			if count[a.store.Node()] > most || count[b.store.Node()] < submitters-most {
				t.Errorf("owned: %v", count)
			}
		})
	}
}

// TestStop_ReleaseDelayed_AnnouncedFirst delays the release of a stopping node: the others must
// already know that it accepts nothing, or they would leave its submitters to it.
func TestStop_ReleaseDelayed_AnnouncedFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 6*time.Second)
	var log jsonLog
	a, proxy := c.startWithProxy("a", func(o *Options) { o.Logger = log.logger() })
	c.eventually("sent", c.sent(c.createOn(a, 0, "one")))
	rule := proxy.On(pgproxy.Running("ReleaseLeases"), pgproxy.HoldBefore)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.stop()
	}()
	<-rule.Fired()
	if n := c.number("SELECT count(*) FROM node WHERE NOT accepting"); n != 1 {
		t.Errorf("%d nodes accept nothing, want 1", n)
	}
	rule.Release()
	<-stopped
	if n := c.number("SELECT count(*) FROM node"); n != 0 {
		t.Errorf("%d nodes in the list, want none", n)
	}
	if lines := log.find(t, "submitter released"); len(lines) != 1 ||
		lines[0]["why"] != errStopped.Error() {
		t.Errorf("the owner did not end between two steps: %v", lines)
	}
}

// TestOwner_Fails_LeaseExpires verifies that an owner that failed does not release its lease, so
// that no other node acquires it early.
func TestOwner_Fails_LeaseExpires(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2*time.Second)
	var log jsonLog
	a := c.start("a", func(o *Options) {
		o.Logger = log.logger()
		o.Gate = func(_ context.Context, at Point, _ txn.SubmitterID) error {
			if at == AfterSend {
				return errors.New("crash")
			}
			return nil
		}
	})
	c.createOn(a, 0, "one")
	c.eventually("it failed", func() error {
		if len(log.find(t, "submitter lost")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	c.eventually("the lease expired", func() error {
		if len(c.holders()) > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if n := c.number("SELECT count(*) FROM submitter_lease WHERE released"); n != 0 {
		t.Error("the lease was released")
	}
}

// longestWithoutOwner waits until every submitter with work has an owner, and returns the longest
// time without one.
func (c *cluster) longestWithoutOwner() (longest time.Duration) {
	c.t.Helper()
	c.eventually("each submitter with work has an owner", func() error {
		var free int
		var seconds float64
		if err := c.db.Pool.QueryRow(context.Background(), `
			SELECT count(*),
			       coalesce(max(extract(EPOCH FROM clock_timestamp() - l.expires_at)), 0)::FLOAT8
			  FROM submitter_lease l
			 WHERE l.expires_at <= clock_timestamp()
			   AND EXISTS (SELECT FROM managed_tx t
			                WHERE t.submitter_id = l.submitter_id AND t.terminal_at IS NULL)`,
		).Scan(&free, &seconds); err != nil {
			return err
		}
		longest = max(longest, time.Duration(seconds*float64(time.Second)))
		if free > 0 {
			return fmt.Errorf("%d have none", free)
		}
		return nil
	})
	return longest
}

// TestOwner_Wedged_Replaced makes an owner hang inside a step and ignore its context, while its
// node renews. It must lose its lease, the stop of its node must not hang, and it must send nothing
// when it resumes.
func TestOwner_Wedged_Replaced(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	c := newCluster(t, 24, lease) // a owns some of them
	wedged, freed := make(chan txn.SubmitterID, 1), make(chan struct{})
	free := sync.OnceFunc(func() { close(freed) })
	t.Cleanup(free)
	var sends atomic.Int32
	a := c.start("a", func(o *Options) {
		o.ProgressTimeout = lease * 3 / 2
		o.Chains[0].Chain = countingChain{c.chain, &sends}
		o.Gate = func(_ context.Context, at Point, id txn.SubmitterID) error {
			if at == BeforeSend {
				select {
				case wedged <- id:
					<-freed
				default:
				}
			}
			return nil
		}
	})
	b := c.start("b", nil)
	c.eventually("both know of both", func() error {
		if len(a.engine.members.now(time.Now()).candidates)+len(
			b.engine.members.now(time.Now()).candidates) != 4 {
			return errors.New("not yet")
		}
		return nil
	})
	i := c.submitterOf(a, a, b)
	id := c.createOn(a, i, "one")
	c.eventually("it hangs", func() error {
		if len(wedged) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	c.mine(20 * time.Millisecond)
	if tx := c.awaitFinal(id); tx.State != txn.Confirmed {
		t.Fatalf("%s: %s", tx.State, tx.LastError)
	}
	if successor := c.holders()[c.submitters[i]]; successor.node != b.store.Node() {
		t.Errorf("owned by %v after the takeover, want %s", successor, b.store.Node())
	}
	a.stop() // returns before the owner does
	if a.err == nil || !strings.Contains(a.err.Error(), "1 owners stuck") {
		t.Errorf("the stop returned %v", a.err)
	}
	before := sends.Load()
	free()
	c.eventually("the stuck owner has ended", func() error {
		if n := a.engine.router.running(); n > 0 {
			return fmt.Errorf("%d running", n)
		}
		return nil
	})
	if sends.Load() != before {
		t.Error("an owner without a lease sent bytes")
	}
	c.checkLedger()
}

// countingChain counts broadcasts.
type countingChain struct {
	*chaintest.Chain
	sends *atomic.Int32
}

func (c countingChain) Send(ctx context.Context, signed txn.Signed) txn.Outcome {
	c.sends.Add(1)
	return c.Chain.Send(ctx, signed)
}
