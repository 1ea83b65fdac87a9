package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
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

	mu      sync.Mutex
	actors  map[txn.SubmitterID]*actor
	foreign map[txn.SubmitterID]bool // of chains that this node does not work on
	freeing map[txn.SubmitterID]bool // being waited for
	blocked map[txn.SubmitterID]bool // orphans that could not be acquired in the last sweep
	wg      sync.WaitGroup
	waiting chan struct{} // bounds acquisitions that wait for a commit to end: each holds a connection
}

// maxWaiting is how many acquisitions may wait for a commit at a time.
const maxWaiting = 2

func newRouter(e *Engine) *router {
	r := &router{
		e: e, actors: map[txn.SubmitterID]*actor{}, foreign: map[txn.SubmitterID]bool{}, freeing: map[txn.SubmitterID]bool{}, blocked: map[txn.SubmitterID]bool{},
		waiting: make(chan struct{}, maxWaiting),
	}
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
			ids, heard, _ := r.e.Store.TakeWoken()
			ids = append(ids, heard...)
			_ = r.acquire(ctx, actors, r.deliver(ids))
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
	r.free(actors, r.acquire(ctx, actors, orphans))
}

// free takes what could not be acquired in two sweeps in a row. The holder of such a lease is in the middle of a commit, or froze there: then its session holds
// the lease locked for ever, and waiting for it is what ends that session.
func (r *router) free(actors context.Context, missed []txn.SubmitterID) {
	was := r.blocked
	r.blocked = make(map[txn.SubmitterID]bool, len(missed))
	for _, id := range missed {
		r.blocked[id] = true
		if !was[id] {
			continue
		}
		select {
		case r.waiting <- struct{}{}:
		default:
			return // the others come in the next sweeps
		}
		r.setFreeing(id, true)
		r.wg.Go(func() {
			defer func() { <-r.waiting }()
			defer r.setFreeing(id, false)
			l, err := r.e.Store.AcquireOne(actors, id)
			if err != nil {
				r.e.Logger.Warn("a lease that somebody holds locked cannot be acquired; trying again", "submitter_id", int(id), "error", err)
				return
			}
			if l != nil {
				r.e.metrics.lease(actors, "freed", 1)
				r.start(actors, l)
			}
		})
	}
}

func (r *router) setFreeing(id txn.SubmitterID, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if on {
		r.freeing[id] = true
	} else {
		delete(r.freeing, id)
	}
}

// acquireOne waits out the commit of an actor's own that has an unknown fate, and takes the lease anew.
func (r *router) acquireOne(ctx context.Context, id txn.SubmitterID) (*store.Lease, error) {
	select {
	case r.waiting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.waiting }()
	return r.e.Store.AcquireOne(ctx, id)
}

// acquire takes what is free among ids, starts an actor for each, and returns those that it did not get.
func (r *router) acquire(ctx, actors context.Context, ids []txn.SubmitterID) (missed []txn.SubmitterID) {
	ids = r.unowned(ids)
	if room := r.e.MaxSubmitters - r.count(); len(ids) > room {
		ids = ids[:max(0, room)]
	}
	if len(ids) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration)
	defer cancel()
	leases, err := r.e.Store.Acquire(limited, ids)
	if err != nil {
		r.e.metrics.lease(ctx, "error", len(ids))
		r.e.Logger.Warn("leases cannot be acquired; trying again", "error", err)
		return nil
	}
	r.e.metrics.lease(ctx, "acquired", len(leases))
	r.e.metrics.lease(ctx, "not_owner", len(ids)-len(leases))
	got := make(map[txn.SubmitterID]bool, len(leases))
	for _, l := range leases {
		got[l.Submitter()] = true
		r.start(actors, l)
	}
	return slices.DeleteFunc(ids, func(id txn.SubmitterID) bool { return got[id] })
}

// unowned leaves out those of foreign chains, those that are being waited for, and those that have an actor here. Its lease may have lapsed, but it has to end before another begins.
func (r *router) unowned(ids []txn.SubmitterID) []txn.SubmitterID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id txn.SubmitterID) bool { return r.actors[id] != nil || r.foreign[id] || r.freeing[id] })
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
		r.ended(ctx, a, r.safely(owned, a))
	})
}

// safely runs an actor. A defect that one submitter's data bring out must not take all others of the node along, nor the next node.
func (r *router) safely(ctx context.Context, a *actor) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("a defect in Fencepost stopped a submitter; it is tried again when its lease has lapsed", "panic", p, "stack", string(debug.Stack()))
			a.pause(ctx, quarantine)
			err = errDefect
		}
	}()
	return a.run(ctx)
}

// ended tidies up after an actor. A lease that is still ours is given back, unless the engine stops: then all are given back together.
func (r *router) ended(ctx context.Context, a *actor, err error) {
	r.mu.Lock()
	delete(r.actors, a.id)
	if errors.Is(err, errForeign) {
		r.foreign[a.id] = true
	}
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
func (r *router) wait() {
	r.wg.Wait()
	r.inboxes.wg.Wait()
}

func (r *router) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.actors)
}
