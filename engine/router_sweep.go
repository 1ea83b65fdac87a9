package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Limits of one sweep. What is over them comes soon after, and meanwhile other nodes get their part of it.
const (
	sweepLimit    = 256  // leases that are taken
	handOverLimit = 64   // owners that are on their way out, so that a node that joins does not have everything dropped at once
	orphanLimit   = 4096 // submitters that are looked at
	auditShare    = 4    // once only this part of MaxSubmitters is left, nobody is taken for audits alone
)

// lookGap is the least time between two sweeps, whatever they were asked for by.
const lookGap = 50 * time.Millisecond

// sweeping is what the router remembers between sweeps.
type sweeping struct {
	sweptAt   time.Time
	sweeps    uint64
	looked    bool                          // another node said that something was given up
	blocked   map[txn.SubmitterID]bool      // orphans that could not be acquired in the last sweep
	elsewhere map[txn.SubmitterID]bool      // found to be another's since the last sweep
	left      map[txn.SubmitterID]time.Time // orphans that are for another node, and since when
	kept      map[txn.SubmitterID]kept
}

// kept is why a submitter is not handed over: it was taken because the node that should own it did not.
type kept struct {
	from  string
	until time.Time
	times int // in a row
}

func newSweeping() sweeping {
	return sweeping{
		blocked: map[txn.SubmitterID]bool{}, elsewhere: map[txn.SubmitterID]bool{}, left: map[txn.SubmitterID]time.Time{}, kept: map[txn.SubmitterID]kept{},
	}
}

// grace is how long an orphan is left to the node that should own it.
func (r *router) grace() time.Duration { return r.e.LeaseDuration }

// Limits, in graces, of how long what was taken after the grace is not handed over to the node that did not take it.
const (
	firstKeep = 3
	mostKeep  = 96
)

// keep notes that a submitter is taken in place of the node that should own it. That node may only have been slow; or it is unable to take it, for instance
// because an owner is stuck there. So it gets another chance soon, and each time later, until hardly any time is lost by it.
func (r *router) keep(id txn.SubmitterID, from string, now time.Time) {
	k := r.kept[id]
	if k.from != from {
		k = kept{from: from}
	}
	k.until = now.Add(r.grace() * time.Duration(min(firstKeep<<min(k.times, 8), mostKeep)))
	k.times++
	r.kept[id] = k
}

// soon is how long a sweep that somebody asks for waits.
func (r *router) soon() time.Duration {
	r.looked = true
	return max(0, lookGap-r.e.Clock.Now().Sub(r.sweptAt))
}

// sweep looks for submitters that have something to be done and no owner, and tells when to look again.
func (r *router) sweep(ctx, actors context.Context) (again time.Duration) {
	if r.looked {
		r.looked = false
		r.e.keeper.beat(ctx) // a node that leaves says so first
	}
	_ = r.giveBack(ctx) // this is the look
	now := r.e.Clock.Now()
	r.sweptAt = now
	clear(r.elsewhere)
	place := r.e.members.now(now)
	r.handOver(place, now)
	r.acquire(ctx, actors, r.inDoubt())
	again = r.jittered(r.e.SweepInterval)
	room := min(r.e.MaxSubmitters-r.count(), sweepLimit)
	if room <= 0 {
		return again
	}
	limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration)
	defer cancel()
	orphans, err := r.orphans(limited, room)
	if ctx.Err() != nil {
		return again
	}
	if err != nil {
		r.e.Logger.Warn("submitters without an owner cannot be looked for; trying again", "error", err)
		return again
	}
	ours := r.claim(place, orphans, now)
	if len(ours) > room {
		ours, again = ours[:room], lookGap
	}
	r.free(actors, r.acquire(ctx, actors, ours))
	return again
}

// jittered spreads the sweeps of nodes that started together. The numbers are the node's own, and the same in each run of a simulation.
func (r *router) jittered(d time.Duration) time.Duration {
	r.sweeps++
	part := newSeat(r.e.members.self, nil, false).weight(txn.SubmitterID(int32(r.sweeps))) % 512
	return d*3/4 + d*time.Duration(part)/1024
}

// orphans lists submitters without an owner, those with work first. Who should own one depends on its chain, so in worker-queue mode each chain is asked for by
// itself.
func (r *router) orphans(ctx context.Context, room int) ([]txn.SubmitterID, error) {
	var reach []store.Reach
	for _, chain := range r.chains {
		reach = append(reach, store.Reach{Chain: chain, Above: r.auditedAbove(chain)})
	}
	if r.e.Mode == Basic {
		return r.e.Store.Orphans(ctx, reach, room)
	}
	var all []txn.SubmitterID
	for i, chain := range r.chains {
		ids, err := r.e.Store.Orphans(ctx, reach[i:i+1], orphanLimit)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		for _, id := range ids {
			r.chainOf[id] = chain
		}
		r.mu.Unlock()
		all = append(all, ids...)
	}
	return all, nil
}

// auditedAbove is the block of a chain above which final transactions alone make a submitter one that needs an owner: for as long as the chain goes on, as
// neededUntil says, and where there is room besides that for work.
func (r *router) auditedAbove(chain txn.ChainID) uint64 {
	if r.count() >= r.e.MaxSubmitters-r.e.MaxSubmitters/auditShare {
		return store.Nowhere
	}
	return r.e.trackers[chain].auditedAbove(r.e.IdleAfter)
}

// claim picks the orphans that this node takes: those that it should own, and those that whoever should own them has left for too long.
func (r *router) claim(place placement, orphans []txn.SubmitterID, now time.Time) (ours []txn.SubmitterID) {
	if r.e.Mode == Basic {
		return orphans
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := make(map[txn.SubmitterID]time.Time, len(orphans))
	for _, id := range orphans {
		preferred := place.preferred(id, r.chainOf[id], "")
		if preferred == r.e.members.self {
			ours = append(ours, id)
			continue
		}
		since, known := r.left[id]
		if !known {
			since = now
		}
		left[id] = since
		if now.Sub(since) >= r.grace() {
			ours = append(ours, id)
			r.keep(id, preferred, now)
		}
	}
	r.left = left
	return ours
}

// handOver asks owners to go whose submitter another node should own, a few at a time. That node lives, works on the chain and accepts more, or it would not be
// preferred; and it has been there for a while.
func (r *router) handOver(place placement, now time.Time) {
	if r.e.Mode == Basic || len(place.seats) < 2 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, k := range r.kept {
		if now.After(k.until.Add(mostKeep * r.grace())) {
			delete(r.kept, id)
		}
	}
	going := 0
	var moving []*actor
	for id, a := range r.actors {
		if a.leaving.Load() != nil {
			going++
		}
		chain, known := r.chainOf[id]
		if !known || a.leaving.Load() != nil || a.over.Load() {
			continue // not known: it has only begun
		}
		to := place.preferred(id, chain, r.e.members.self)
		if k := r.kept[id]; k.from == to && !now.After(k.until) {
			continue
		}
		if to != r.e.members.self && r.e.members.settled(to, now) {
			moving = append(moving, a)
		}
	}
	slices.SortFunc(moving, func(a, b *actor) int { return int(a.id) - int(b.id) })
	for _, a := range moving[:min(len(moving), max(0, handOverLimit-going))] {
		a.leave(errMoved)
		r.e.metrics.handOvers.Add(context.Background(), 1)
	}
}

// free takes what could not be acquired in two sweeps in a row. The holder of such a lease is in the middle of a commit, or froze there: then its session holds
// the lease locked for ever, and waiting for it is what ends that session.
func (r *router) free(actors context.Context, missed []txn.SubmitterID) {
	was := r.blocked
	r.blocked = make(map[txn.SubmitterID]bool, len(missed))
	for _, id := range missed {
		if !r.elsewhere[id] {
			continue // not even tried
		}
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
		go func() {
			defer func() { <-r.waiting }()
			defer r.setFreeing(id, false)
			l, err := r.e.Store.AcquireOne(actors, id)
			switch stopped := actors.Err() != nil; {
			case l != nil && stopped:
				r.surrender(l)
			case l != nil:
				r.start(actors, l)
			case err != nil && !stopped:
				r.doubt(id)
				r.e.Logger.Warn("a lease that somebody holds locked cannot be acquired; trying again", "submitter_id", int(id), "error", err)
			}
		}()
	}
}

func (r *router) setFreeing(id txn.SubmitterID, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if on {
		r.freeing[id] = true
		return
	}
	delete(r.freeing, id)
	signal(r.ended)
}

// learn notes the chain of a submitter.
func (r *router) learn(id txn.SubmitterID, chain txn.ChainID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chainOf[id] = chain
}
