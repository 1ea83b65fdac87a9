package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// router finds submitters that have work and no owner, acquires them and gives each an actor. Where work is found decides speed only: whatever is missed by a
// wake-up is found by the next sweep.
type router struct {
	e       *Engine
	inboxes inboxes

	mu     sync.Mutex
	actors map[txn.SubmitterID]*actor
	wg     sync.WaitGroup
}

func newRouter(e *Engine) *router {
	r := &router{e: e, actors: map[txn.SubmitterID]*actor{}}
	r.inboxes.read = func(ctx context.Context, ids []txn.SubmitterID) (map[txn.SubmitterID]store.Inbox, error) {
		limited, cancel := context.WithTimeout(ctx, e.LeaseDuration)
		defer cancel()
		return e.Store.Inboxes(limited, ids, queueHead)
	}
	return r
}

// run hands out work until ctx ends. Actors live in a context of their own, which ends later.
func (r *router) run(ctx, actors context.Context) {
	sweep := r.e.Clock.NewTimer(0)
	defer sweep.Stop()
	poll := r.e.Clock.NewTimer(r.e.PollInterval)
	defer poll.Stop()
	chains := slices.Sorted(maps.Keys(r.e.trackers))
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.e.Store.Woken():
			r.acquire(ctx, actors, r.deliver(r.e.Store.TakeWoken()))
		case <-poll.C:
			r.deliverAll()
			poll.Reset(r.e.PollInterval)
		case <-sweep.C:
			r.sweep(ctx, actors, chains)
			sweep.Reset(r.e.SweepInterval)
		}
	}
}

// deliver tells the owners among ids that they have mail, and returns the others.
func (r *router) deliver(ids []txn.SubmitterID) []txn.SubmitterID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []txn.SubmitterID
	for _, id := range ids {
		if a := r.actors[id]; a != nil {
			a.deliver()
		} else {
			others = append(others, id)
		}
	}
	return others
}

func (r *router) deliverAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.actors {
		a.deliver()
	}
}

func (r *router) sweep(ctx, actors context.Context, chains []txn.ChainID) {
	room := r.e.MaxSubmitters - r.count()
	if room <= 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration)
	defer cancel()
	orphans, err := r.e.Store.Orphans(limited, chains, room)
	if err != nil {
		r.e.Logger.Warn("submitters without an owner cannot be looked for; trying again", "error", err)
		return
	}
	r.acquire(ctx, actors, orphans)
}

// acquire takes what is free among ids and starts an actor for each.
func (r *router) acquire(ctx, actors context.Context, ids []txn.SubmitterID) {
	ids = r.unowned(ids)
	if room := r.e.MaxSubmitters - r.count(); len(ids) > room {
		ids = ids[:max(0, room)]
	}
	if len(ids) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration)
	defer cancel()
	leases, err := r.e.Store.Acquire(limited, ids)
	if err != nil {
		r.e.metrics.lease(ctx, "error", len(ids))
		r.e.Logger.Warn("leases cannot be acquired; trying again", "error", err)
		return
	}
	r.e.metrics.lease(ctx, "acquired", len(leases))
	r.e.metrics.lease(ctx, "not_owner", len(ids)-len(leases))
	for _, l := range leases {
		r.start(actors, l)
	}
}

// unowned leaves out those that have an actor here. Its lease may have lapsed, but it has to end before another begins.
func (r *router) unowned(ids []txn.SubmitterID) []txn.SubmitterID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id txn.SubmitterID) bool { return r.actors[id] != nil })
}

func (r *router) start(ctx context.Context, l *store.Lease) {
	owned, lost := context.WithCancel(ctx)
	a := newActor(r.e, l, lost)
	r.mu.Lock()
	r.actors[a.id] = a
	r.mu.Unlock()
	a.log.Info("submitter acquired")
	r.wg.Go(func() {
		defer lost()
		r.ended(ctx, a, a.run(owned))
	})
}

// ended tidies up after an actor. A lease that is still ours is given back, unless the engine stops: then all are given back together.
func (r *router) ended(ctx context.Context, a *actor, err error) {
	r.mu.Lock()
	delete(r.actors, a.id)
	r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errIdle), errors.Is(err, errForeign):
		a.log.Info("submitter released", "why", err)
		limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration)
		defer cancel()
		if err := r.e.keeper.release(limited, a.lease); err != nil {
			a.log.Warn("lease not released; it lapses by itself", "error", err)
		}
	default:
		r.e.keeper.drop(a.lease)
		a.log.Warn("submitter lost", slog.Any("why", err))
	}
}

// wait returns when every actor has ended.
func (r *router) wait() { r.wg.Wait() }

func (r *router) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.actors)
}
