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

// An owner that rests holds nothing of the view that it last went by. On a chain that goes on each
// view has blocks of its own, so that owners which came to rest at different times would hold as
// many copies of the chain.
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
	for range 50 { // it rests through these
		mine()
		runtime.GC()
		left = 0
		for _, v := range views {
			if v.Value() != nil {
				left++
			}
		}
		if left == 1 { // the published one
			return
		}
	}
	t.Errorf("%d of %d views are held", left, len(views))
}
