package track

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// quick finalizes after few blocks.
var quick = txn.Policy{Confirmations: 3, AuditDepth: 12, LagGrace: 300 * time.Millisecond}

func newTracker(c Chain, p txn.Policy, now clock.Clock) *Tracker {
	return New(Options{Chain: c, Policy: p, Clock: now, Logger: slog.New(slog.DiscardHandler)})
}

// Audited blocks below the window are read by number, a few in each update, and again after a gap.
func TestAudit_BelowWindow_ReadByNumber(t *testing.T) {
	t.Parallel()
	c := chaintest.New(chaintest.Options{})
	c.MineEmpty(300)
	tr := newTracker(c, quick, clock.Real{})
	if err := tr.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	woken := 0
	var blocks []uint64
	for n := range uint64(maxWalk + 4) {
		blocks = append(blocks, 10+n)
	}
	tr.Audit(1, blocks, func() { woken++ })
	passed := func(want int, news bool) {
		t.Helper()
		woken = 0
		if err := tr.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		canonical := tr.View().Canonical
		shown := 0
		for _, number := range blocks {
			b, err := c.BlockByNumber(t.Context(), number)
			hash, ok := canonical(number)
			if err != nil || ok && hash != b.Hash {
				t.Errorf("block %d is %s: %v", number, hash, err)
			} else if ok {
				shown++
			}
		}
		if shown != want || (woken > 0) != news {
			t.Errorf("%d blocks, want %d; woken %d times", shown, want, woken)
		}
	}
	passed(maxWalk, true)
	passed(len(blocks), true)
	passed(len(blocks), false)
	if err := c.Reorg(295, chaintest.Keep); err != nil {
		t.Fatal(err)
	}
	c.MineEmpty(300)
	passed(maxWalk, true)
	passed(len(blocks), true)
	tr.StopAudit(1)
	if passed(0, false); len(tr.below) > 0 {
		t.Errorf("%d are kept", len(tr.below))
	}
}

// TestAuditedAbove_AfterGap_ReachesFurtherBack verifies that after missed blocks an owner still
// compares earlier audited transactions for a while, also when more blocks are missed. A chain that
// is faster than its tracker does not extend that forever.
func TestAuditedAbove_AfterGap_ReachesFurtherBack(t *testing.T) {
	t.Parallel()
	type step struct {
		mined int
		after time.Duration
		want  uint64
	}
	steps := map[string][]step{
		"one": {
			{20, 0, 20},
			{500, 0, 20},
			{1, time.Minute, 20},
			{1, time.Hour, 522},
		},
		"a second one": {
			{20, 0, 20},
			{500, 0, 20},
			{40, time.Second, 20},
			{1, time.Hour - time.Second - 1, 20},
			{1, 1, 520},
			{1, time.Second, 563},
		},
		"a second one, long after": {
			{20, 0, 20},
			{500, 0, 20},
			{1, 2 * time.Hour, 521},
			{40, 0, 521},
		},
	}
	fast := []step{{20, 0, 20}}
	for range 2 * mostOutages {
		fast = append(fast, step{maxWalk + 1, time.Minute, 20})
	}
	steps["ever again"] = append(fast,
		step{1, time.Hour - (2*mostOutages-1)*time.Minute, 20 + maxWalk + 1})
	for name, steps := range steps {
		c, now := chaintest.New(chaintest.Options{}), clock.NewFake(
			time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		tr := newTracker(c, quick, now)
		for i, step := range steps {
			c.MineEmpty(step.mined)
			now.Advance(step.after)
			if err := tr.Update(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, known := tr.AuditedAbove(time.Hour)
			if !known || got != step.want-quick.AuditDepth {
				t.Errorf("%s, %d: %d, want %d", name, i, got+quick.AuditDepth, step.want)
			}
			if len(tr.outages) > mostOutages {
				t.Fatalf("%d outages are kept", len(tr.outages))
			}
		}
	}
}

// Blocks far below the head and below the window are read at once, not a few with each new head: if
// the owner left meanwhile, nothing would compare them.
func TestAudit_FarBelowHead_ReadWithoutWaiting(t *testing.T) {
	t.Parallel()
	chain, policy := chaintest.New(chaintest.Options{}), quick
	policy.AuditDepth = 80
	chain.MineEmpty(400)
	tr := New(Options{
		Chain: chain, Policy: policy, PollInterval: time.Hour, Clock: clock.Real{},
		Logger: slog.New(slog.DiscardHandler),
	})
	blocks := []uint64{325} // the rest lies beneath
	for number := uint64(100); number < 200; number++ {
		blocks = append(blocks, number)
	}
	woken := make(chan struct{}, 1)
	tr.Audit(1, blocks, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { tr.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for left := blocks; len(left) > 0; {
		select {
		case <-woken:
			canonical := tr.View().Canonical
			left = slices.DeleteFunc(slices.Clone(blocks),
				func(number uint64) bool { _, known := canonical(number); return known })
		case <-ctx.Done():
			t.Fatalf("%d of %d blocks are compared with nothing", len(left), len(blocks))
		}
	}
}
