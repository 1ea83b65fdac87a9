package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A commit of unknown fate rarely comes alone: when the database goes away, whole groups are lost at once, and each of their owners needs its lease anew. So they
// ask together, in one statement that skips what is locked, which is what an old statement still holds. Only of those skipped some wait, one by one, each on a
// connection of its own; waiting ends the session that is in the way, and with it all others are free as a rule. They keep asking together meanwhile.

// againFirst is the first wait between two tries; it doubles up to the renewal interval. All that wait cost one statement a round.
const againFirst = 50 * time.Millisecond

// againAll takes the leases of owners anew, under new tokens, as far as nobody holds them locked.
func (r *router) againAll(ctx context.Context,
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

// againOne waits out whoever holds a lease locked. Nil is for "not yet": as many wait already as may.
func (r *router) againOne(ctx context.Context, id txn.SubmitterID) (*store.Lease, error) {
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

// surrender gives back, as soon as may be, a lease under which nobody will work.
func (r *router) surrender(l *store.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back = append(r.back, l)
	signal(r.handed)
}

// reacquire takes the lease under a new token. Whatever the statement of unknown fate has done is done by then, and if it has not begun it will find itself
// fenced: so what is read next is what it left.
func (a *actor) reacquire(ctx context.Context) error {
	a.e.keeper.takenAnew(a.lease)
	wait := againFirst
	for ctx.Err() == nil {
		a.insideStep() // one that asks again gets on
		l, err := a.e.router.again.get(ctx, a.id)
		if err == nil && l == nil {
			l, err = a.e.router.againOne(ctx, a.id)
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
	a.e.router.doubt(a.id) // the last try may have had it
	return ctx.Err()
}
