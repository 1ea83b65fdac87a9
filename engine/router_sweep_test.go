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

// table is a router that is asked for its decisions alone: nothing runs, and there is no database.
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
	c, now := chaintest.New(chaintest.Options{}), clock.NewFake(
		time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
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

// see makes these nodes the live ones.
func (tb *routerHarness) setLive(nodes ...store.NodeInfo) {
	tb.e.members.saw(nodes, tb.clock.Now())
}

func (tb *routerHarness) node(id string, accepting bool) store.NodeInfo {
	return store.NodeInfo{ID: id, Chains: []txn.ChainID{tb.chain}, Accepting: accepting}
}

// going sweeps once, as far as hand-overs go, and lists those that were asked to leave.
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

// TestSweep_StartedTogether_Spread: nodes that started together do not sweep together, and each
// sweeps once in an interval, a quarter more or less.
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
				t.Fatalf("a sweep after %s", d)
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
		t.Errorf("of %d sweeps only %d were apart", sweeps, far)
	}
}

// TestRebalance goes through who gets what, and when.
func TestRebalance(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	for name, c := range map[string]struct {
		other func(tb *routerHarness) store.NodeInfo
		wait  time.Duration // after it was first seen
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
				t.Errorf("%d are handed over", len(got))
			}
			for _, id := range got {
				if tb.should(tb.e.members.now(tb.clock.Now()), id) {
					t.Errorf("submitter %d is handed over and should stay", id)
				}
			}
		})
	}
}

// TestRebalance_ManySubmitters_Limited joins a node where there is much: some at a time go, and
// only when those have gone, more.
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
			t.Fatalf("%d are on their way, want %d", len(got), moveLimit)
		}
	}
	for _, id := range tb.leaving()[:10] {
		delete(tb.actors, id)
	}
	if got := tb.leaving(); len(got) != moveLimit {
		t.Fatalf("%d are on their way after ten have gone, want %d", len(got), moveLimit)
	}
}

// TestPlacement_StaleView_NothingMoves: a node that has not heard for a lease of who lives hands
// nothing over, and takes nothing that may be another's before the grace.
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
		t.Errorf("%d are handed over", len(got))
	}
	nodes := tb.e.members.now(tb.clock.Now())
	if got := tb.claim(nodes, numbers(100), tb.clock.Now()); len(got) > 0 {
		t.Errorf("%d are taken at once", len(got))
	}
	tb.clock.Advance(10 * time.Second)
	if got := tb.claim(nodes, numbers(100), tb.clock.Now()); len(got) != 100 {
		t.Errorf("%d are taken after the grace", len(got))
	}
}

// TestOrphan_PreferredElsewhere_TakenAfterGrace leaves an orphan to its node, takes it after the
// grace, and does not hand it back to the node that did not take it; but to another one.
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
			t.Fatalf("%d are taken within the grace", len(got))
		}
	}
	tb.clock.Advance(time.Second)
	if got := tb.claim(see(both...), rest, tb.clock.Now()); !slices.Equal(got, rest) {
		t.Fatalf("%d of %d are taken after the grace", len(got), len(rest))
	}
	tb.claim(see(both...), nil, tb.clock.Now()) // they are no orphans now
	tb.own(rest...)
	// each time that it does not take them it is tried later
	for _, graces := range []int{3, 6, 12, 24, 48, 96, 96} {
		for range graces {
			if got := tb.leaving(); len(got) > 0 {
				t.Fatalf("%d are handed back to the node that did not take them", len(got))
			}
			tb.clock.Advance(10 * time.Second)
			see(both...)
		}
		tb.clock.Advance(1)
		see(both...)
		if got := tb.leaving(); !slices.Equal(got, rest[:min(len(rest), moveLimit)]) {
			t.Fatalf("%d of %d are handed over after %d graces", len(got), len(rest), graces)
		}
		tb.claim(see(both...), rest, tb.clock.Now())
		tb.clock.Advance(10 * time.Second)
		if got := tb.claim(see(both...), rest, tb.clock.Now()); !slices.Equal(got, rest) {
			t.Fatalf("%d of %d are taken after another grace", len(got), len(rest))
		}
		tb.claim(see(both...), nil, tb.clock.Now()) // they are no orphans now
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
	t.Error("nothing is handed over to a third node")
}

// TestOrphan_Again_NewGrace: the grace begins when a submitter is found without an owner, not when
// that happened for the first time.
func TestOrphan_Again_NewGrace(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 0)
	ids := numbers(50)
	tb.claim(placement{}, ids, tb.clock.Now())
	tb.clock.Advance(6 * time.Second)
	tb.claim(placement{}, nil, tb.clock.Now()) // somebody has them
	tb.clock.Advance(6 * time.Second)
	if got := tb.claim(placement{}, ids, tb.clock.Now()); len(got) > 0 {
		t.Errorf("%d are taken", len(got))
	}
}

// TestAccepts_FullNode_NeedsRoom: not with room for one, which would be given and refused in turn.
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

// TestMail_OwnerLostLease_Forwarded goes to the other nodes, even while the owner has not ended.
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
		t.Errorf("not delivered here: %v; of these to be acquired: %v, for others: %v", others,
			free, not)
	}
}
