package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Commits of unknown outcome come in groups: when the database fails, each of their owners needs
// its lease again. They ask together, in one statement that skips locked leases, which an old
// statement still holds. A few of the skipped owners wait one by one, each on its own connection.
// Waiting ends the session that blocks, which usually frees all others too. The others keep asking
// together in the meantime.

// reacquireFirst is the first wait between two tries; it doubles up to the renewal interval.
// Waiting owners cost one statement per round.
const reacquireFirst = 50 * time.Millisecond

// reacquireAll acquires leases under new tokens, except those that are locked.
func (r *router) reacquireAll(ctx context.Context,
	ids []txn.SubmitterID) (map[txn.SubmitterID]*store.Lease, error) {
	limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration/2)
	defer cancel()
	leases, err := r.e.Store.Acquire(limited, ids)
	if err != nil {
		return nil, err
	}
	got := make(map[txn.SubmitterID]*store.Lease, len(leases))
	for _, l := range leases {
		got[l.Submitter()] = l
	}
	return got, nil
}

// reacquireOne waits until a locked lease is free. It returns nil if too many owners wait already.
func (r *router) reacquireOne(ctx context.Context, id txn.SubmitterID) (*store.Lease, error) {
	select {
	case r.waiting <- struct{}{}:
	default:
		return nil, nil
	}
	defer func() { <-r.waiting }()
	l, err := r.e.Store.AcquireOne(ctx, id)
	if err == nil && l == nil {
		return nil, errFenced
	}
	return l, err
}

// surrender queues the release of a lease under which no owner will work.
func (r *router) surrender(l *store.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back = append(r.back, l)
	signal(r.handed)
}

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
