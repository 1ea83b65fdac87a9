package engine

import (
	"context"
	"errors"
	"time"
)

// Commits of unknown outcome come in groups: when the database fails, each of their owners needs
// its lease again. They ask together, in one statement that skips locked leases, which an old
// statement still holds. A few of the skipped owners wait one by one, each on its own connection.
// Waiting ends the session that blocks, which usually frees all others too. The others keep asking
// together in the meantime.

// reacquireFirst is the first wait between two tries; it doubles up to the renewal interval.
// Waiting owners cost one statement per round.
const reacquireFirst = 50 * time.Millisecond

// reacquire acquires the lease under a new token. A statement of unknown outcome has then either
// finished, or will be fenced. So the next read sees its final effect.
func (a *actor) reacquire(ctx context.Context) error {
	a.e.keeper.reacquiring(a.lease)
	wait := reacquireFirst
	for ctx.Err() == nil {
		a.insideStep() // retrying counts as progress
		l, err := a.e.router.again.get(ctx, a.id)
		if err == nil && l == nil {
			l, err = a.e.router.reacquireOne(ctx, a.id)
		}
		switch {
		case errors.Is(err, errFenced):
			return errFenced
		case err == nil && l != nil:
			a.e.metrics.acquired(ctx, "own", 1)
			a.adopt(l)
			return nil
		}
		a.pause(ctx, wait)
		wait = min(2*wait, a.e.RenewInterval)
	}
	a.e.router.doubt(a.id) // the last try may have succeeded
	return ctx.Err()
}
