package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// router finds submitters that have work and no owner, acquires them and gives each an actor; in worker-queue mode it leaves those to others that others should
// own, and hands over what it has of theirs. Where work is found and who gets it decides speed only: whatever is missed by a wake-up is found by the next
// sweep, and whatever its preferred node does not take is taken by any other after a while.
type router struct {
	e       *Engine
	inboxes gathered[store.Inbox]  // what others wrote for the submitters of this node
	again   gathered[*store.Lease] // leases after commits of unknown fate
	chains  []txn.ChainID          // that this node works on

	mu      sync.Mutex
	actors  map[txn.SubmitterID]*actor
	chainOf map[txn.SubmitterID]txn.ChainID // as far as it is known; it never changes
	foreign map[txn.SubmitterID]bool        // of chains that this node does not work on
	freeing map[txn.SubmitterID]bool        // being waited for
	back    []*store.Lease                  // of owners that ended while theirs was good
	mailed  bool                            // one of those had mail that it has not read
	doubted map[txn.SubmitterID]bool        // whose lease may be this node's, by the database, while nobody here works under it
	handed  chan struct{}                   // back has something, or doubted has that cannot wait
	ended   chan struct{}                   // an actor or a waiting acquisition has ended; for wait
	waiting chan struct{}                   // bounds acquisitions that wait for a commit to end: each holds a connection

	sweeping // of the goroutine that runs
}

// maxWaiting is how many acquisitions may wait for a commit at a time.
const maxWaiting = 2

func newRouter(e *Engine) *router {
	r := &router{
		e: e, chains: slices.Sorted(maps.Keys(e.trackers)), actors: map[txn.SubmitterID]*actor{}, chainOf: map[txn.SubmitterID]txn.ChainID{},
		foreign: map[txn.SubmitterID]bool{}, freeing: map[txn.SubmitterID]bool{}, doubted: map[txn.SubmitterID]bool{}, handed: make(chan struct{}, 1),
		ended: make(chan struct{},
			1), waiting: make(chan struct{}, maxWaiting), sweeping: newSweeping(),
	}
	r.inboxes.clock = e.Clock
	r.inboxes.ask = func(ctx context.Context, ids []txn.SubmitterID) (map[txn.SubmitterID]store.Inbox, error) {
		limited, cancel := context.WithTimeout(ctx, e.LeaseDuration)
		defer cancel()
		return e.Store.Inboxes(limited, ids, queueHead)
	}
	r.again.ask = r.againAll
	r.again.unwanted = r.release
	return r
}

// run hands out work until ctx ends. Actors live in a context of their own, which ends later.
func (r *router) run(ctx, actors context.Context) {
	sweep := r.e.Clock.NewTimer(0)
	defer sweep.Stop()
	poll := r.e.Clock.NewTimer(r.e.PollInterval)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.e.Store.Woken():
			if look := r.woken(ctx, actors); look {
				sweep.Reset(r.soon())
			}
		case <-r.handed:
			if look := r.giveBack(ctx); look {
				sweep.Reset(r.soon())
			}
			r.acquire(ctx, actors, r.inDoubt())
		case <-poll.C:
			r.poll(ctx)
			poll.Reset(r.e.PollInterval)
		case <-sweep.C:
			sweep.Reset(r.sweep(ctx, actors))
		}
	}
}

// woken passes on what it is told: mail to owners here, what is free and ours to new ones. What was written on this node and finds neither is told to the other
// nodes, of which one is the owner or should be; what they told is not, or two nodes could tell each other for ever.
func (r *router) woken(ctx, actors context.Context) (look bool) {
	written, told, look := r.e.Store.TakeWoken()
	written = append(written, r.queue(r.e.Store.TakeQueued())...)
	place := r.e.members.now(r.e.Clock.Now())
	here := r.forUs(place, r.deliver(written))
	missed := r.acquire(ctx, actors, append(here.ours, r.forUs(place, r.deliver(told)).ours...))
	own := make(map[txn.SubmitterID]bool, len(written))
	for _, id := range written {
		own[id] = true
	}
	for _, id := range missed {
		if own[id] {
			here.others = append(here.others, id)
		}
	}
	if len(here.others) > 0 {
		r.e.Store.Notify(here.others...)
	}
	return look
}

// deliver tells the owners among ids that they have mail, and returns the others.
func (r *router) deliver(ids []txn.SubmitterID) []txn.SubmitterID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []txn.SubmitterID
	for _, id := range ids {
		if a := r.actors[id]; a != nil && !a.over.Load() {
			a.deliver()
		} else {
			others = append(others, id)
		}
	}
	return others
}

// queue tells the owners among ids that there may be more in their queues, and returns the others.
func (r *router) queue(ids []txn.SubmitterID) []txn.SubmitterID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []txn.SubmitterID
	for _, id := range ids {
		if a := r.actors[id]; a != nil && !a.over.Load() {
			a.queue()
		} else {
			others = append(others, id)
		}
	}
	return others
}

// poll finds what no wake-up has told of: one look at the commands for all owners, and those who could take a transaction look for one. When that look fails,
// everybody looks for itself.
func (r *router) poll(ctx context.Context) {
	ids, _ := r.owned()
	if len(ids) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration/4)
	defer cancel()
	asked, err := r.e.Store.Asked(limited, ids)
	if err != nil {
		asked = ids
	}
	r.deliver(asked)
	r.queue(ids)
}

// split is a list of submitters without an owner here, by who should look for a lease first.
type split struct{ ours, others []txn.SubmitterID }

// forUs leaves to others what they should own, and what was found to be another's since the last sweep.
func (r *router) forUs(place placement, ids []txn.SubmitterID) (s split) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if !r.elsewhere[id] && !r.foreign[id] && r.should(place, id) {
			s.ours = append(s.ours, id)
		} else {
			s.others = append(s.others, id)
		}
	}
	return s
}

// should tells whether this node is the one to take a submitter. As long as its chain is not known, any chain that would make it so counts.
func (r *router) should(place placement, id txn.SubmitterID) bool {
	if r.e.Mode == Basic {
		return true
	}
	if chain, known := r.chainOf[id]; known {
		return place.preferred(id, chain, "") == r.e.members.self
	}
	return slices.ContainsFunc(r.chains,
		func(c txn.ChainID) bool { return place.preferred(id, c, "") == r.e.members.self })
}

// acquire takes what is free among ids, starts an actor for each, and returns those that it did not get.
func (r *router) acquire(ctx, actors context.Context,
	ids []txn.SubmitterID) (missed []txn.SubmitterID) {
	ids, missed = r.unowned(ids)
	if room := max(0, r.e.MaxSubmitters-r.count()); len(ids) > room {
		ids, missed = ids[:room], append(missed, ids[room:]...)
	}
	if len(ids) == 0 {
		return missed
	}
	limited, cancel := r.e.outliving(ctx, r.e.LeaseDuration)
	defer cancel()
	leases, err := r.e.Store.Acquire(limited, ids)
	if err != nil {
		r.doubt(ids...)
		r.e.metrics.acquired(ctx, "error", len(ids))
		if ctx.Err() == nil {
			r.e.Logger.Warn("leases cannot be acquired; trying again", "error", err)
		}
		return append(missed, ids...)
	}
	got := make(map[txn.SubmitterID]bool, len(leases))
	for _, l := range leases {
		got[l.Submitter()] = true
		r.start(actors, l)
	}
	r.e.metrics.acquired(ctx, "not_owner", len(ids)-len(leases))
	for _, id := range ids {
		if !got[id] {
			r.elsewhere[id] = true
			missed = append(missed, id)
		}
	}
	return missed
}

// unowned leaves out those that have an actor here. Its lease may be lost, but it has to end before another begins: until then they are nothing for this node,
// like those of foreign chains and those that are being waited for.
func (r *router) unowned(ids []txn.SubmitterID) (free, not []txn.SubmitterID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		switch {
		case r.actors[id] == nil && !r.foreign[id] && !r.freeing[id]:
			free = append(free, id)
		case r.actors[id] == nil || r.actors[id].over.Load():
			not = append(not, id)
		}
	}
	return free, not
}

func (r *router) start(ctx context.Context, l *store.Lease) {
	r.e.metrics.acquired(ctx, how(l.Before(), r.e.members.self), 1)
	owned, lost := context.WithCancel(ctx)
	a := newActor(r.e, l, lost)
	r.mu.Lock()
	r.actors[a.id] = a
	r.mu.Unlock()
	a.log.Info("submitter acquired", "before", l.Before().Owner)
	go func() {
		defer lost()
		r.end(owned, a, r.safely(owned, a))
	}()
}

// safely runs an actor. A defect that one submitter's data bring out must not take all others of the node along, nor the next node.
func (r *router) safely(ctx context.Context, a *actor) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error(
				"a defect in Fencepost stopped a submitter; it is tried again when its lease has lapsed",
				"panic", p, "stack", string(debug.Stack()))
			a.pause(ctx, quarantine)
			err = errDefect
		}
	}()
	return a.run(ctx)
}

// end tidies up after an actor. A lease that is still ours is given back, unless the engine stops: then all are given back together.
func (r *router) end(ctx context.Context, a *actor, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errIdle),
		errors.Is(err, errForeign),
		errors.Is(err, errMoved),
		errors.Is(err, errStopped):
		a.log.Info("submitter released", "why", err)
	default:
		r.e.keeper.drop(a.lease)
		a.log.Warn("submitter lost", slog.Any("why", err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.actors, a.id)
	if errors.Is(err, errForeign) {
		r.foreign[a.id] = true
	}
	if a.fenced.Load() || errors.Is(err, errFenced) {
		r.doubted[a.id] = true
		signal(r.handed)
	}
	if ctx.Err() == nil && r.e.keeper.holds(a.lease) {
		mailed := a.mail.Load() || a.more.Load()
		r.back, r.mailed = append(r.back, a.lease), r.mailed || mailed
		if mailed || !errors.Is(err, errIdle) {
			signal(
				r.handed) // what nobody needs at the moment goes with the next sweep: each release has all other nodes look
		}
	}
	signal(r.ended)
}

// giveBack releases what owners have left since the last time, in one statement, and tells whether one of them went while there was something to do.
func (r *router) giveBack(ctx context.Context) (look bool) {
	r.mu.Lock()
	leases, look := r.back, r.mailed
	r.back, r.mailed = nil, false
	r.mu.Unlock()
	if len(leases) == 0 {
		return look
	}
	r.release(ctx, leases)
	return look
}

// doubt notes submitters whose lease may be this node's without an owner here. A statement that was given up may run all the same, and late: then it takes a lease
// that nobody has asked for any more, be it from the owner that lives here by then, or from nobody. It would count as live for its whole duration, and no sweep
// would list it. So it is asked for once more, under which whoever it is of goes on: for who was fenced at once, else with the next sweep.
func (r *router) doubt(ids ...txn.SubmitterID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.doubted[id] = true
	}
}

func (r *router) inDoubt() []txn.SubmitterID {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := slices.Sorted(maps.Keys(r.doubted))
	clear(r.doubted)
	return ids
}

func (r *router) release(ctx context.Context, leases []*store.Lease) {
	limited, cancel := r.e.outliving(ctx, r.e.LeaseDuration)
	defer cancel()
	if err := r.e.keeper.release(limited, leases); err != nil {
		r.e.Logger.Warn("leases not released; they lapse by themselves", "error", err)
	}
}

// surrendered are the leases that are still to be given back.
func (r *router) surrendered() []*store.Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	leases := r.back
	r.back = nil
	return leases
}

// dismiss asks every owner to end before its next step.
func (r *router) dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.actors {
		a.leave(errStopped)
	}
}

// wait returns once nothing runs any more, or after a while, and tells how many have not ended.
func (r *router) wait(atMost time.Duration) (left int) {
	timer := r.e.Clock.NewTimer(atMost)
	defer timer.Stop()
	for {
		if left = r.running(); left == 0 {
			return 0
		}
		select {
		case <-r.ended:
		case <-timer.C:
			return r.running()
		}
	}
}

func (r *router) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.actors) + len(r.freeing)
}

func (r *router) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.actors)
}

// signal leaves a note that carries no data.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is there already
	}
}
