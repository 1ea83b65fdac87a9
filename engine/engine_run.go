package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Run works until ctx ends, then releases all leases and returns. Leases are released on a context
// that outlives ctx. Run always returns: an owner that is stuck in a step is abandoned without its
// lease, and the error reports it.
func (e *Engine) Run(ctx context.Context) error {
	actors, stopActors := context.WithCancel(context.WithoutCancel(ctx))
	defer stopActors()
	// The services that actors use end after the actors.
	below, stopBelow := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBelow()
	var lower sync.WaitGroup
	for _, t := range e.trackers {
		lower.Go(func() { t.Run(below) })
	}
	lower.Go(func() { e.keeper.run(below) })
	lower.Go(func() { e.count(below) })
	lower.Go(func() { e.auditor.run(ctx) })
	lower.Go(func() { e.settler.run(ctx) })
	if !e.NoListen {
		lower.Go(func() { e.Store.Listen(below) })
	}
	e.Announce(ctx) // the list of live nodes decides which submitters to take first
	e.router.run(ctx, actors)
	err := e.stop(below, stopActors)
	stopBelow()
	lower.Wait()
	e.router.inboxes.end(e.Clock, 0)
	e.router.nonceMail.end(e.Clock, 0)
	e.router.again.end(e.Clock, e.RenewInterval/3) // releases the leases it still acquires
	return err
}

// Announce sends a heartbeat before Run, so that the node is listed once its API serves. A failure
// is logged, and Run repeats it.
func (e *Engine) Announce(ctx context.Context) { e.keeper.heartbeat(ctx) }

// stop releases everything. It announces that this node accepts no more submitters, lets owners end
// between two steps, cancels those that take longer, and releases all leases in one statement. A
// commit still running then happens under its lease or not at all, and the successor waits for it.
func (e *Engine) stop(below context.Context, stopActors context.CancelFunc) error {
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		e.keeper.retire(below)
	}()
	e.router.dismiss()
	if e.router.wait(e.patience()) > 0 {
		stopActors()
		e.router.wait(e.patience())
	}
	e.awaitAtMost(announced, e.patience())
	e.releaseAll(below)
	stopActors()
	if left := e.router.wait(e.LeaseDuration / 2); left > 0 {
		return fmt.Errorf(
			"engine: stop: %d owners stuck in a step; their leases were released", left)
	}
	return nil
}

// releaseAll releases every lease and removes this node from the live nodes. A failure is not a
// failed stop: leases and heartbeat expire automatically.
func (e *Engine) releaseAll(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, e.RenewInterval)
	defer cancel()
	leases := append(
		slices.DeleteFunc(e.router.surrendered(), e.keeper.holds),
		e.keeper.leases()...)
	if err := e.keeper.release(limited, leases); err != nil {
		e.Logger.Warn("lease release failed; leases will expire", "error", err)
	}
	leaving, cancel := context.WithTimeout(ctx,
		e.RenewInterval/3) // separate: the release may have used up the first limit
	defer cancel()
	if err := e.keeper.leave(leaving); err != nil {
		e.Logger.Warn(
			"leave announcement failed; heartbeat will expire",
			"error", err)
	}
}

// patience is how long a stop waits for owners before it proceeds without them.
func (e *Engine) patience() time.Duration { return min(200*time.Millisecond, e.LeaseDuration/10) }
