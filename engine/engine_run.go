package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Run works until ctx ends, then hands everything over and returns. The leases are given back on a context that outlives ctx. It returns in any case: an owner
// that is stuck is left behind, without its lease, and told of in the error.
func (e *Engine) Run(ctx context.Context) error {
	actors, stopActors := context.WithCancel(context.WithoutCancel(ctx))
	defer stopActors()
	below, stopBelow := context.WithCancel(
		context.WithoutCancel(ctx)) // what the actors stand on ends after them
	defer stopBelow()
	var lower sync.WaitGroup
	for _, t := range e.trackers {
		lower.Go(func() { t.Run(below) })
	}
	lower.Go(func() { e.keeper.run(below) })
	lower.Go(func() { e.count(below) })
	lower.Go(func() { e.auditor.run(ctx) })
	if !e.NoListen {
		lower.Go(func() { e.Store.Listen(below) })
	}
	e.keeper.beat(ctx) // who else is there decides what is taken first
	e.router.run(ctx, actors)
	err := e.stop(below, stopActors)
	stopBelow()
	lower.Wait()
	e.router.inboxes.end(e.Clock, 0)
	e.router.again.end(e.Clock, e.RenewInterval/3) // what it gets it gives back
	return err
}

// stop hands everything over: the other nodes hear that this one takes nothing more, owners end between two steps, those that take longer are cut short, and all
// leases are given back in one statement. A commit that is still under way then is done under its lease or not at all, and its successor waits for it.
func (e *Engine) stop(below context.Context, stopActors context.CancelFunc) error {
	told := make(chan struct{})
	go func() {
		defer close(told)
		e.keeper.retire(below)
	}()
	e.router.dismiss()
	if e.router.wait(e.patience()) > 0 {
		stopActors()
		e.router.wait(e.patience())
	}
	e.awaitAtMost(told, e.patience())
	e.giveAllBack(below)
	stopActors()
	if left := e.router.wait(e.LeaseDuration / 2); left > 0 {
		return fmt.Errorf(
			"engine: stop: %d owners are stuck inside a step; they have no lease any more", left)
	}
	return nil
}

// giveAllBack ends every lease, and this node's place among the others. What cannot be told in time they find out: leases lapse by themselves, and so does the
// place. So that is no failure of the stop.
func (e *Engine) giveAllBack(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, e.RenewInterval)
	defer cancel()
	leases := append(
		slices.DeleteFunc(e.router.surrendered(), e.keeper.holds),
		e.keeper.leases()...)
	if err := e.keeper.release(limited, leases); err != nil {
		e.Logger.Warn("leases not released; they lapse by themselves", "error", err)
	}
	leaving, cancel := context.WithTimeout(ctx,
		e.RenewInterval/3) // a time of its own: the release may have used up the other
	defer cancel()
	if err := e.keeper.leave(leaving); err != nil {
		e.Logger.Warn(
			"the other nodes could not be told that this one stops; they find out when its heartbeat lapses",
			"error", err)
	}
}

// patience is how long a stop waits for what usually takes a moment, before it goes on without.
func (e *Engine) patience() time.Duration { return min(200*time.Millisecond, e.LeaseDuration/10) }

// outliving is a context for what should not be cut off by a stop, such as a statement about leases: cut off, it may have been done all the same, and nobody would
// know. It ends after the limit, or a renewal interval after ctx has.
func (e *Engine) outliving(ctx context.Context,
	limit time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		e.awaitAtMost(longer.Done(), e.RenewInterval)
		cancel()
	})
	return longer, func() {
		stop()
		cancel()
	}
}

func (e *Engine) awaitAtMost(done <-chan struct{}, d time.Duration) {
	timer := e.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
