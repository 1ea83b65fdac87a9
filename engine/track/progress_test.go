package track

import (
	"context"
	"log/slog"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// Each update reports whether the chain was read, the receipts that are still to be read, and the
// blocks that a reorg removed.
func TestUpdate_OutageAndReorg_Reported(t *testing.T) {
	t.Parallel()
	c := chaintest.New(chaintest.Options{})
	c.MineEmpty(10)
	var last Progress
	tr := New(Options{Chain: c, Policy: quick, Clock: clock.Real{},
		Logger:  slog.New(slog.DiscardHandler),
		Updated: func(_ context.Context, p Progress) { last = p }})
	update := func(want Progress) {
		t.Helper()
		if err := tr.Update(t.Context()); (err == nil) != want.Up {
			t.Fatal(err)
		}
		if last != want {
			t.Errorf("reported %+v, want %+v", last, want)
		}
	}
	update(Progress{Up: true})
	c.MineEmpty(3)
	update(Progress{Up: true})
	if err := c.Reorg(2, chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	update(Progress{Up: true, Removed: 2})
	update(Progress{Up: true})
	c.MineEmpty(500) // more than is read block by block: what was removed meanwhile is unknown
	update(Progress{Up: true})

	tr.Follow(txn.Hash{1}, nil, func() {})
	c.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		return chaintest.Fault{Down: call.Method == chaintest.MethodReceipts}
	})
	update(Progress{Up: true, Backlog: 1})
	c.Intercept(func(context.Context, chaintest.Call) chaintest.Fault {
		return chaintest.Fault{Down: true}
	})
	update(Progress{Up: false, Backlog: 1})
	c.Intercept(nil)
	update(Progress{Up: true})

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	last = Progress{Backlog: -1}
	if err := tr.Update(ctx); err == nil || last.Backlog >= 0 {
		t.Errorf("an interrupted update returns %v and reports %+v", err, last)
	}
}
