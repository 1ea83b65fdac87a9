package engine

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/fencepost/fencepost/txn"
)

// TestRest_ViewReleased verifies that a resting owner does not keep its last view. Each view has
// its own blocks, so owners that rest since different times would keep many copies.
func TestRest_ViewReleased(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, time.Minute)
	c.policy = quick
	n := c.start("a",
		func(o *Options) { o.SweepInterval, o.IdleAfter = 50*time.Millisecond, time.Hour })
	tracker := n.engine.trackers[c.chain.ID()]
	var views []weak.Pointer[txn.Block]
	mine := func() {
		t.Helper()
		head := c.chain.Mine(1)
		c.eventually("the view has it", func() error {
			view := tracker.View()
			if hash, ok := view.Canonical(view.Head); !ok || hash != head.Hash {
				return errors.New("not yet")
			}
			views = append(views, weak.Make(&view.Blocks()[0]))
			return nil
		})
	}
	mine()
	id := c.create(0, "one", transfer())
	c.eventually("it is final", func() error {
		mine()
		if open := c.openTransactions(); open > 0 {
			return fmt.Errorf("%d are not: %w", open, c.is(id, "final")())
		}
		return nil
	})
	left := 0
	for range 50 { // the owner rests
		mine()
		runtime.GC()
		left = 0
		for _, v := range views {
			if v.Value() != nil {
				left++
			}
		}
		if left == 1 { // the current one
			return
		}
	}
	t.Errorf("%d of %d views are held", left, len(views))
}
