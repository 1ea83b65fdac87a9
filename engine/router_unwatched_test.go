package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestUnwatched_PreferredElsewhere_TakenAfterGrace leaves submitters without watchers to their
// preferred node, and claims them after the grace, although not every sweep reads them.
func TestUnwatched_PreferredElsewhere_TakenAfterGrace(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 0)
	see := func() placement {
		tb.setLive(tb.node("self", true), tb.node("other", true))
		return tb.e.members.now(tb.clock.Now())
	}
	ids := numbers(100)
	for _, id := range ids {
		tb.chainOf[id] = tb.chain
	}
	first := tb.claimUnwatched(see(), ids, tb.clock.Now())
	if len(first) < 30 || len(first) > 70 {
		t.Fatalf("%d of 100 are ours at once, want about half", len(first))
	}
	rest := slices.DeleteFunc(slices.Clone(ids),
		func(id txn.SubmitterID) bool { return slices.Contains(first, id) })
	for range 10 { // sweeps that read others
		tb.clock.Advance(time.Second)
		if got := tb.claimUnwatched(see(), nil, tb.clock.Now()); len(got) > 0 {
			t.Fatalf("%v claimed although not read", got)
		}
	}
	if got := tb.claimUnwatched(see(), rest, tb.clock.Now()); !slices.Equal(got, rest) {
		t.Errorf("%d of %d are claimed after the grace", len(got), len(rest))
	}
	tb.clock.Advance(unwatchedKeep * tb.grace())
	if tb.claimUnwatched(see(), nil, tb.clock.Now()); len(tb.unwatched) > 0 {
		t.Errorf("%d are kept forever", len(tb.unwatched))
	}
}

// TestUnwatched_Leftovers_SearchRepeatedOnce verifies that an incomplete read is repeated once, and
// then the search continues.
func TestUnwatched_Leftovers_SearchRepeatedOnce(t *testing.T) {
	t.Parallel()
	tb := newRouterHarness(t, 0)
	for i, c := range []struct {
		left bool
		want txn.SubmitterID
	}{{false, 1}, {true, 1}, {true, 3}, {true, 3}, {false, 5}, {true, 5}, {true, 7}} {
		tb.turnOn(
			unwatched{next: map[txn.ChainID]txn.SubmitterID{tb.chain: txn.SubmitterID(i + 1)}},
			c.left)
		if got := tb.turn[tb.chain]; got != c.want {
			t.Errorf("read %d: the next begins at %d, want %d", i+1, got, c.want)
		}
	}
}

// TestUnwatched_Calm_ReadOnce verifies that a submitter without an owner is read again only if it
// had an owner since, needs one, or may still get a commit; all are read again when the audited
// block moves back.
func TestUnwatched_Calm_ReadOnce(t *testing.T) {
	t.Parallel()
	const chain, other = txn.ChainID(1), txn.ChainID(2)
	c := calm{}
	idle := []store.Unowned{
		{ID: 1, Token: 1, Settled: true},
		{ID: 2, Token: 1, Settled: true},
		{ID: 3, Token: 1},
	}
	look := func(what string, chain txn.ChainID, above uint64, needed []txn.SubmitterID,
		want ...txn.SubmitterID) {
		t.Helper()
		if got := c.unknown(chain, above, idle); !slices.Equal(got, want) {
			t.Errorf("%s: %v are read, want %v", what, got, want)
		}
		c.learn(chain, idle, needed)
	}
	look("at first", chain, 10, []txn.SubmitterID{2}, 1, 2, 3)
	look("again", chain, 11, nil, 2, 3)
	look("once 2 has ended", chain, 11, nil, 3)
	idle[0].Token = 2
	look("after an owner", chain, 12, nil, 1, 3)
	look("on another chain", other, 12, nil, 1, 2, 3)
	look("as before", chain, 12, nil, 3)
	look("after blocks went away", chain, 11, nil, 1, 2, 3)
}
