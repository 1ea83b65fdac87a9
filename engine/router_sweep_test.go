package engine

import (
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// routerHarness is a router without a database: the test reads only its decisions.
type routerHarness struct {
	*router
	clock *clock.Fake
	chain txn.ChainID
}

func newRouterHarness(t *testing.T, most int) *routerHarness {
	t.Helper()
	s, err := store.Open(t.Context(),
		store.Config{URL: "postgres:///none", Node: "self", LeaseDuration: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	book, err := sign.NewBook(sign.Entry{Name: "keys", Holder: sign.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	c := chaintest.New(chaintest.Options{})
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	e, err := New(Options{
		Store: s, Signer: book, Clock: now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Chains:        []ChainOptions{{Chain: c, Policy: testPolicy}},
		LeaseDuration: 10 * time.Second, RenewInterval: 3 * time.Second, Mode: WorkerQueue,
		MaxSubmitters: most,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &routerHarness{e.router, now, c.ID()}
}

// own gives the router owners that do nothing.
func (tb *routerHarness) own(ids ...txn.SubmitterID) {
	for _, id := range ids {
		tb.actors[id] = &actor{e: tb.e, id: id, wakes: make(chan struct{}, 1)}
		tb.chainOf[id] = tb.chain
	}
}

// setLive sets the live nodes.
func (tb *routerHarness) setLive(nodes ...store.NodeInfo) {
	tb.e.members.saw(nodes, tb.clock.Now())
}

func (tb *routerHarness) node(id string, accepting bool) store.NodeInfo {
	return store.NodeInfo{ID: id, Chains: []txn.ChainID{tb.chain}, Accepting: accepting}
}

// leaving rebalances once and lists the owners asked to leave.
func (tb *routerHarness) leaving() (ids []txn.SubmitterID) {
	now := tb.clock.Now()
	tb.rebalance(tb.e.members.now(now), now)
	for id, a := range tb.actors {
		if a.leaving.Load() != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func numbers(n int) []txn.SubmitterID {
	ids := make([]txn.SubmitterID, n)
	for i := range ids {
		ids[i] = txn.SubmitterID(i + 1)
	}
	return ids
}

// TestSweep_StartedTogether_Spread verifies that nodes that started together sweep at different
// times, each once per interval, within a quarter.
func TestSweep_StartedTogether_Spread(t *testing.T) {
	t.Parallel()
	a, b := newRouterHarness(t, 1), newRouterHarness(t, 1)
	b.e.members.self = "other"
	const interval, sweeps = 1024 * time.Millisecond, 200
	var at [2]time.Duration
	far := 0
	for range sweeps {
		for i, tb := range []*routerHarness{a, b} {
			d := tb.jittered(interval)
			if d < interval*3/4 || d > interval*5/4 {
				t.Fatalf("interval %s", d)
			}
			at[i] += d
		}
		if apart := (at[0] - at[1]).Abs() % interval; apart > interval/8 && apart < interval*7/8 {
			far++
		}
	}
	for _, all := range at {
		if all < interval*sweeps*9/10 || all > interval*sweeps*11/10 {
			t.Errorf("%d sweeps took %s", sweeps, all)
		}
	}
	if far < sweeps/2 {
		t.Errorf("of %d sweeps only %d were spread", sweeps, far)
	}
}

// TestRebalance covers when submitters are released to another node.
func TestRebalance(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	for name, c := range map[string]struct {
		other func(tb *routerHarness) store.NodeInfo
		wait  time.Duration // since it was first seen
		want  bool
	}{
		"a node that has been there for a " +
			"while": {func(tb *routerHarness) store.NodeInfo { return tb.node("other", true) },
			lease,
			true},
		"a node that has just come": {func(tb *routerHarness) store.NodeInfo {
			return tb.node("other", true)
		}, lease - 1, false},
		"a node that accepts nothing": {func(tb *routerHarness) store.NodeInfo {
			return tb.node("other", false)
		}, lease, false},
		"a node that works on other chains alone": {func(*routerHarness) store.NodeInfo {
			return store.NodeInfo{ID: "other", Chains: []txn.ChainID{1}, Accepting: true}
		}, lease, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := newRouterHarness(t, 0)
			tb.own(numbers(100)...)
			tb.setLive(tb.node("self", true), c.other(tb))
			tb.clock.Advance(c.wait)
			tb.setLive(tb.node("self", true), c.other(tb))
			got := tb.leaving()
			if c.want != (len(got) > 0) {
				t.Errorf("%d are released", len(got))
			}
			for _, id := range got {
				if tb.should(tb.e.members.now(tb.clock.Now()), id) {
					t.Errorf("submitter %d is released and should stay", id)
				}
			}
		})
	}
}

// TestRebalance_ManySubmitters_Limited adds a node next to one with many submitters: a limited
// number leaves at a time.
func TestRebalance_ManySubmitters_Limited(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 0)
	tb.own(numbers(1000)...)
	both := []store.NodeInfo{tb.node("self", true), tb.node("other", true)}
	tb.setLive(both...)
	tb.clock.Advance(10 * time.Second)
	tb.setLive(both...)
	for range 2 {
		if got := tb.leaving(); len(got) != moveLimit {
			t.Fatalf("%d are leaving, want %d", len(got), moveLimit)
		}
	}
	for _, id := range tb.leaving()[:10] {
		delete(tb.actors, id)
	}
	if got := tb.leaving(); len(got) != moveLimit {
		t.Fatalf("%d are leaving after ten have left, want %d", len(got), moveLimit)
	}
}

// TestPlacement_StaleView_NothingMoves verifies that a node without a heartbeat for a lease
// releases nothing, and claims submitters of others only after the grace.
func TestPlacement_StaleView_NothingMoves(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 0)
	tb.own(numbers(100)...)
	both := []store.NodeInfo{tb.node("self", true), tb.node("other", true)}
	tb.setLive(both...)
	tb.clock.Advance(10 * time.Second)
	tb.setLive(both...)
	tb.clock.Advance(10*time.Second + 1)
	if got := tb.leaving(); len(got) > 0 {
		t.Errorf("%d are released", len(got))
	}
	nodes := tb.e.members.now(tb.clock.Now())
	if got := tb.claim(nodes, numbers(100), tb.clock.Now()); len(got) > 0 {
		t.Errorf("%d are claimed at once", len(got))
	}
	tb.clock.Advance(10 * time.Second)
	if got := tb.claim(nodes, numbers(100), tb.clock.Now()); len(got) != 100 {
		t.Errorf("%d are claimed after the grace", len(got))
	}
}

// TestOrphan_PreferredElsewhere_TakenAfterGrace leaves an orphan to its preferred node, claims it
// after the grace, and does not release it to that node again soon; but to a third node.
func TestOrphan_PreferredElsewhere_TakenAfterGrace(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 0)
	both := []store.NodeInfo{tb.node("self", true), tb.node("other", true)}
	see := func(nodes ...store.NodeInfo) placement {
		tb.setLive(nodes...)
		return tb.e.members.now(tb.clock.Now())
	}
	ids := numbers(100)
	for _, id := range ids {
		tb.chainOf[id] = tb.chain
	}
	nodes := see(both...)
	first := tb.claim(nodes, ids, tb.clock.Now())
	if len(first) < 30 || len(first) > 70 {
		t.Fatalf("%d of 100 are ours at once, want about half", len(first))
	}
	tb.own(first...)
	rest := slices.DeleteFunc(slices.Clone(ids),
		func(id txn.SubmitterID) bool { return slices.Contains(first, id) })
	for range 9 {
		tb.clock.Advance(time.Second)
		if got := tb.claim(see(both...), rest, tb.clock.Now()); len(got) > 0 {
			t.Fatalf("%d are claimed within the grace", len(got))
		}
	}
	tb.clock.Advance(time.Second)
	if got := tb.claim(see(both...), rest, tb.clock.Now()); !slices.Equal(got, rest) {
		t.Fatalf("%d of %d are claimed after the grace", len(got), len(rest))
	}
	tb.claim(see(both...), nil, tb.clock.Now()) // now they have owners
	tb.own(rest...)
	// each failed release doubles the wait
	for _, graces := range []int{3, 6, 12, 24, 48, 96, 96} {
		for range graces {
			if got := tb.leaving(); len(got) > 0 {
				t.Fatalf("%d are released again too early", len(got))
			}
			tb.clock.Advance(10 * time.Second)
			see(both...)
		}
		tb.clock.Advance(1)
		see(both...)
		if got := tb.leaving(); !slices.Equal(got, rest[:min(len(rest), moveLimit)]) {
			t.Fatalf("%d of %d are released after %d graces", len(got), len(rest), graces)
		}
		tb.claim(see(both...), rest, tb.clock.Now())
		tb.clock.Advance(10 * time.Second)
		if got := tb.claim(see(both...), rest, tb.clock.Now()); !slices.Equal(got, rest) {
			t.Fatalf("%d of %d are claimed after another grace", len(got), len(rest))
		}
		tb.claim(see(both...), nil, tb.clock.Now()) // now they have owners
		tb.own(rest...)
	}
	three := append(both, tb.node("third", true))
	see(three...)
	tb.clock.Advance(10 * time.Second)
	nodes = see(three...)
	for _, id := range tb.leaving() {
		if nodes.preferred(id, tb.chain, "") == "third" {
			return
		}
	}
	t.Error("nothing is released to a third node")
}

// TestOrphan_Again_NewGrace verifies that the grace begins when a submitter is found without an
// owner, each time.
func TestOrphan_Again_NewGrace(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 0)
	ids := numbers(50)
	tb.claim(placement{}, ids, tb.clock.Now())
	tb.clock.Advance(6 * time.Second)
	tb.claim(placement{}, nil, tb.clock.Now()) // now they have owners
	tb.clock.Advance(6 * time.Second)
	if got := tb.claim(placement{}, ids, tb.clock.Now()); len(got) > 0 {
		t.Errorf("%d are claimed", len(got))
	}
}

// TestAccepts_FullNode_NeedsRoom verifies that a full node accepts submitters again only with room
// for several, which avoids moves back and forth.
func TestAccepts_FullNode_NeedsRoom(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 80)
	for _, c := range []struct {
		owned int
		want  bool
	}{{79, true}, {80, false}, {79, false}, {71, false}, {70, true}, {79, true}} {
		clear(tb.actors)
		tb.own(numbers(c.owned)...)
		if got := tb.e.keeper.accepts(); got != c.want {
			t.Errorf("accepts more with %d of 80: %v", c.owned, got)
		}
	}
	tb.e.keeper.stopping.Store(true)
	if tb.e.keeper.accepts() {
		t.Error("accepts more while it stops")
	}
}

// TestMail_OwnerLostLease_Forwarded verifies that a notification for an owner without a lease goes
// to the other nodes.
func TestMail_OwnerLostLease_Forwarded(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 0)
	tb.own(1, 2)
	tb.actors[2].over.Store(true)
	others := tb.deliver([]txn.SubmitterID{1, 2, 3})
	free, not := tb.unowned(others)
	if !slices.Equal(others, []txn.SubmitterID{2, 3}) ||
		!slices.Equal(free, []txn.SubmitterID{3}) ||
		!slices.Equal(not, []txn.SubmitterID{2}) || !tb.actors[1].mail.Load() {
		t.Errorf("not delivered: %v; to acquire: %v, for others: %v", others,
			free, not)
	}
}
