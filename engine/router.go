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

// router finds submitters that have work and no owner, acquires them, and starts an actor for each.
// In worker-queue mode it leaves submitters to their preferred node and releases them to it. Its
// choices affect only speed: the next sweep finds work that wake-ups missed, and any node takes a
// submitter that its preferred node does not take in time.
type router struct {
	e       *Engine
	inboxes gathered[store.Inbox] // client writes for this node's submitters
	// of those in mode EXTERNAL; it never waits for a crowd, because clients wait for the result
	nonceMail gathered[nonceMail]
	again     gathered[*store.Lease] // leases after commits of unknown outcome
	chains    []txn.ChainID          // of this node

	mu      sync.Mutex
	actors  map[txn.SubmitterID]*actor
	chainOf map[txn.SubmitterID]txn.ChainID // as far as known; it never changes
	known   map[txn.SubmitterID]knowledge   // newest state seen committed; kept for ever
	foreign map[txn.SubmitterID]bool        // of chains that are not configured on this node
	freeing map[txn.SubmitterID]bool        // being waited for
	back    []*store.Lease                  // to release: of owners that ended with a valid lease
	mailed  bool                            // one of them had unread mail
	doubted map[txn.SubmitterID]bool        // may be leased to this node without an owner here
	handed  chan struct{}                   // back or doubted has an urgent entry
	ended   chan struct{}                   // an actor or a waiting acquisition ended; for wait
	waiting chan struct{}                   // limits waiting acquisitions: each holds a connection

	sweeping // used only by run
}

// maxWaiting is the number of acquisitions that may wait for a locked lease at a time.
const maxWaiting = 2

func newRouter(e *Engine) *router {
	r := &router{
		e:        e,
		chains:   slices.Sorted(maps.Keys(e.trackers)),
		actors:   map[txn.SubmitterID]*actor{},
		chainOf:  map[txn.SubmitterID]txn.ChainID{},
		known:    map[txn.SubmitterID]knowledge{},
		foreign:  map[txn.SubmitterID]bool{},
		freeing:  map[txn.SubmitterID]bool{},
		doubted:  map[txn.SubmitterID]bool{},
		handed:   make(chan struct{}, 1),
		ended:    make(chan struct{}, 1),
		waiting:  make(chan struct{}, maxWaiting),
		sweeping: newSweeping(),
	}
	r.inboxes.clock = e.Clock
	r.inboxes.ask = func(ctx context.Context,
		ids []txn.SubmitterID) (map[txn.SubmitterID]store.Inbox, error) {
		limited, cancel := context.WithTimeout(ctx, e.LeaseDuration)
		defer cancel()
		return e.Store.Inboxes(limited, ids, r.headsOf(ids)...)
	}
	r.nonceMail.ask = r.readNonceMail
	r.again.ask = r.reacquireAll
	r.again.unwanted = r.release
	return r
}

// run distributes work until ctx ends. Actors have their own context, which ends later.
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
			if search := r.woken(ctx, actors); search {
				sweep.Reset(r.soon())
			}
		case <-r.handed:
			if search := r.releaseEnded(ctx); search {
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

// woken forwards notifications: mail to owners here, and submitters that this node should own to
// acquire. Local writes for other submitters are forwarded to the other nodes, one of which owns
// them or should. Notifications from other nodes are not forwarded, or two nodes could notify each
// other forever.
func (r *router) woken(ctx, actors context.Context) (search bool) {
	written, notified, search := r.e.Store.TakeWoken()
	written = append(written, r.queue(r.e.Store.TakeQueued())...)
	nodes := r.e.members.now(r.e.Clock.Now())
	here := r.forUs(nodes, r.deliver(written))
	missed := r.acquire(ctx, actors, append(here.ours, r.forUs(nodes, r.deliver(notified)).ours...))
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
	return search
}

// deliver notifies the owners among ids of mail, and returns the other ids.
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

// queue notifies the owners among ids of possible new queue entries, and returns the other ids.
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

// poll covers lost wake-ups: one statement reads which owners have commands, and owners with a free
// slot read their queue. If the statement fails, every owner reads its inbox.
func (r *router) poll(ctx context.Context) {
	ids, _ := r.owned()
	if len(ids) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration/4)
	defer cancel()
	commanded, err := r.e.Store.WithCommands(limited, ids)
	if err != nil {
		commanded = ids
	}
	r.deliver(commanded)
	r.queue(ids)
}

// split is a list of submitters without an owner here, by which node should try first.
type split struct{ ours, others []txn.SubmitterID }

// forUs separates submitters for this node from those for others: preferred by another node, or
// found to be owned elsewhere since the last sweep.
func (r *router) forUs(nodes placement, ids []txn.SubmitterID) (s split) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if !r.elsewhere[id] && !r.foreign[id] && r.should(nodes, id) {
			s.ours = append(s.ours, id)
		} else {
			s.others = append(s.others, id)
		}
	}
	return s
}

// should reports whether this node should take a submitter. For an unknown chain, one chain that
// makes it preferred is enough.
func (r *router) should(nodes placement, id txn.SubmitterID) bool {
	if r.e.Mode == Basic {
		return true
	}
	if chain, known := r.chainOf[id]; known {
		return nodes.preferred(id, chain, "") == r.e.members.self
	}
	return slices.ContainsFunc(r.chains,
		func(c txn.ChainID) bool { return nodes.preferred(id, c, "") == r.e.members.self })
}

// acquire acquires the free submitters among ids, starts an actor for each, and returns those that
// it did not get.
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
			r.e.Logger.Warn("lease acquisition failed; retrying", "error", err)
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

// unowned returns the ids that can be acquired. One whose actor here lost its lease must wait until
// the actor ends. Foreign chains, and leases being waited for, are left out too.
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
	r.e.owners.log(a.log, "submitter acquired", func() []any {
		return []any{"before", l.Before().Owner, "expires_at", l.ExpiresAt()}
	})
	go func() {
		defer lost()
		r.end(owned, a, r.safely(owned, a))
	}()
}

// safely runs an actor. A panic caused by one submitter's data must not affect other submitters, or
// other nodes.
func (r *router) safely(ctx context.Context, a *actor) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error(
				"actor panicked; restarting it after its lease expires",
				"panic", p, "stack", string(debug.Stack()))
			a.pause(ctx, quarantine)
			err = errDefect
		}
	}()
	return a.run(ctx)
}

// end cleans up after an actor. A valid lease is released, unless the engine stops, which releases
// all leases together.
func (r *router) end(ctx context.Context, a *actor, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errIdle),
		errors.Is(err, errForeign),
		errors.Is(err, errMoved),
		errors.Is(err, errStopped):
		r.e.owners.log(a.log, "submitter released", func() []any { return []any{"why", err} })
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
			// Idle submitters wait for the next sweep: each release makes the other nodes sweep.
			signal(r.handed)
		}
	}
	signal(r.ended)
}

// releaseEnded releases the leases of ended owners in one statement, and reports whether one of
// them left work behind.
func (r *router) releaseEnded(ctx context.Context) (search bool) {
	r.mu.Lock()
	leases, search := r.back, r.mailed
	r.back, r.mailed = nil, false
	r.mu.Unlock()
	if len(leases) == 0 {
		return search
	}
	r.release(ctx, leases)
	return search
}

// doubt marks submitters whose lease may belong to this node without an owner here. A cancelled
// statement may still execute, late. It then acquires a lease that no owner here waits for: either
// from the owner that lives here by then, or unused. An unused one would count as live until it
// expires, and no sweep would find it. So the router acquires it again: at once for a fenced owner,
// otherwise with the next sweep.
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
		r.e.Logger.Warn("lease release failed; leases will expire", "error", err)
	}
}

// surrendered returns the leases that are still to be released.
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

// wait returns when nothing runs any more or after atMost, with the number still running.
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

// owned returns the submitters whose owner here has its lease, and the number of owners that lost
// it for lack of progress and have not ended.
func (r *router) owned() (ids []txn.SubmitterID, wedged int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, a := range r.actors {
		switch {
		case a.wedged.Load():
			wedged++
		case !a.over.Load():
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, wedged
}

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

// outliving returns a context for statements that a stop must not cut off, such as those about
// leases: they may have executed, and the result would be lost. It ends after the limit, or one
// renewal interval after ctx.
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
