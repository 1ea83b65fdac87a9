package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Limits of one sweep. The rest follows soon, and other nodes can take their part in the meantime.
const (
	sweepLimit  = 256  // leases acquired
	moveLimit   = 64   // owners leaving at a time, so that a new node does not cause a mass move
	orphanLimit = 4096 // submitters read
	auditShare  = 4    // below this fraction of MaxSubmitters, take none for audits alone
)

// lookGap is the minimum time between two sweeps.
const lookGap = 50 * time.Millisecond

// sweeping is the state kept between sweeps.
type sweeping struct {
	sweptAt   time.Time
	sweeps    uint64
	looked    bool                            // another node announced a release
	blocked   map[txn.SubmitterID]bool        // orphans not acquired in the last sweep
	elsewhere map[txn.SubmitterID]bool        // found to be owned since the last sweep
	left      map[txn.SubmitterID]time.Time   // orphans left to another node, and since when
	unwatched map[txn.SubmitterID]time.Time   // likewise, of those with only final transactions
	stayed    bool                            // the last sweep repeats its unwatched search
	turn      map[txn.ChainID]txn.SubmitterID // where the next unwatched search begins
	calm      calm                            // unwatched ones that need no owner
	kept      map[txn.SubmitterID]kept
}

// kept is why a submitter stays here although another node is preferred: that node did not take it.
type kept struct {
	from  string
	until time.Time
	times int // in a row
}

func newSweeping() sweeping {
	return sweeping{
		blocked:   map[txn.SubmitterID]bool{},
		elsewhere: map[txn.SubmitterID]bool{},
		left:      map[txn.SubmitterID]time.Time{},
		kept:      map[txn.SubmitterID]kept{},
		unwatched: map[txn.SubmitterID]time.Time{},
		turn:      map[txn.ChainID]txn.SubmitterID{},
		calm:      calm{},
	}
}

// grace is how long an orphan is left to its preferred node.
func (r *router) grace() time.Duration { return r.e.LeaseDuration }

// firstKeep and mostKeep limit, in graces, how long a kept submitter stays.
const (
	firstKeep = 3
	mostKeep  = 96
)

// keep records that this node takes a submitter in place of its preferred node. That node may only
// have been slow, or it cannot take it, for example because an owner is stuck there. So it gets
// another chance, with growing intervals, until the cost is negligible.
func (r *router) keep(id txn.SubmitterID, from string, now time.Time) {
	k := r.kept[id]
	if k.from != from {
		k = kept{from: from}
	}
	k.until = now.Add(r.grace() * time.Duration(min(firstKeep<<min(k.times, 8), mostKeep)))
	k.times++
	r.kept[id] = k
}

// soon returns the delay of a requested sweep.
func (r *router) soon() time.Duration {
	r.looked = true
	return max(0, lookGap-r.e.Clock.Now().Sub(r.sweptAt))
}

// sweep finds submitters with work and no owner, and returns the delay until the next sweep.
func (r *router) sweep(ctx, actors context.Context) (again time.Duration) {
	if r.looked {
		r.looked = false
		r.e.keeper.heartbeat(ctx) // a leaving node updates the node list before it releases
	}
	_ = r.releaseEnded(ctx) // the sweep follows in any case
	now := r.e.Clock.Now()
	r.sweptAt = now
	clear(r.elsewhere)
	nodes := r.e.members.now(now)
	r.rebalance(nodes, now)
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
		r.e.Logger.Warn("unowned submitter search failed; retrying", "error",
			err)
		return again
	}
	unwatched, err := r.findUnwatched(limited)
	if err != nil && ctx.Err() == nil {
		r.e.Logger.Warn("unwatched final transaction search failed; retrying",
			"error", err)
	}
	ours, last := r.claim(nodes, orphans, now), r.claimUnwatched(nodes, unwatched.ids, now)
	for _, id := range last {
		if !slices.Contains(ours, id) {
			ours = append(ours, id)
		}
	}
	var cut []txn.SubmitterID
	if len(ours) > room {
		ours, cut = ours[:room], ours[room:]
		again = lookGap
	}
	missed := r.acquire(ctx, actors, ours)
	r.free(actors, missed)
	r.turnOn(
		unwatched,
		slices.ContainsFunc(last,
			func(id txn.SubmitterID) bool {
				return slices.Contains(missed, id) || slices.Contains(cut, id)
			}),
	)
	return again
}

// jittered spreads the sweeps of nodes that started together. The jitter depends on the node id and
// the sweep count, so simulations are reproducible.
func (r *router) jittered(d time.Duration) time.Duration {
	r.sweeps++
	part := newCandidate(r.e.members.self, nil,
		false).weight(txn.SubmitterID(int32(r.sweeps))) % 512
	return d*3/4 + d*time.Duration(part)/1024
}

// orphans returns submitters with work and no owner. The preferred node depends on the chain, so in
// worker-queue mode each chain is read separately.
func (r *router) orphans(ctx context.Context, room int) ([]txn.SubmitterID, error) {
	if r.e.Mode == Basic {
		return r.e.Store.Orphans(ctx, r.chains, r.count(), room)
	}
	var all []txn.SubmitterID
	for i, chain := range r.chains {
		ids, err := r.e.Store.Orphans(ctx, r.chains[i:i+1], r.count(), orphanLimit)
		if err != nil {
			return nil, err
		}
		r.learnAll(ids, chain)
		all = append(all, ids...)
	}
	return all, nil
}

// unwatched is the result of a search for unowned submitters that need an owner because of final
// transactions, with the positions where the next search begins.
type unwatched struct {
	ids  []txn.SubmitterID
	next map[txn.ChainID]txn.SubmitterID
}

// findUnwatched searches as many submitters per chain as one sweep could take, so its cost does not
// grow with the number of idle ones. Their final transactions are read only if the result is
// unknown: once, as long as they have no owner.
func (r *router) findUnwatched(ctx context.Context) (u unwatched, err error) {
	u.next = map[txn.ChainID]txn.SubmitterID{}
	for _, chain := range r.chains {
		above := r.auditedAbove(chain)
		if above >= txn.UnreachableBlock {
			u.next[chain] = 0
			continue
		}
		idle, next, err := r.e.Store.Unowned(ctx, chain, r.turn[chain], sweepLimit)
		if err != nil {
			return u, err
		}
		unknown := r.calm.unknown(chain, above, idle)
		ids, work, err := r.e.Store.Unwatched(ctx, unknown, above)
		if err != nil {
			return u, err
		}
		r.calm.learn(chain, idle, slices.Concat(ids, work))
		u.next[chain] = next
		r.learnAll(ids, chain)
		u.ids = append(u.ids, ids...)
	}
	return u, nil
}

// calm caches, by chain, which unowned submitters need no owner because of final transactions. An
// entry holds for one token, and until the block limit falls. An owner in between leaves another
// token.
type calm map[txn.ChainID]*calmChain

type calmChain struct {
	above  uint64
	tokens map[txn.SubmitterID]txn.Token
}

// unknown returns the idle submitters that have to be read.
func (c calm) unknown(chain txn.ChainID, above uint64,
	idle []store.Unowned) (ids []txn.SubmitterID) {
	known := c[chain]
	if known == nil || above < known.above {
		known = &calmChain{tokens: map[txn.SubmitterID]txn.Token{}}
		c[chain] = known
	}
	known.above = above
	for _, one := range idle {
		if token, seen := known.tokens[one.ID]; !seen || token != one.Token {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// learn stores the result of a search; not lists the submitters that need an owner or may still get
// a final transaction.
func (c calm) learn(chain txn.ChainID, idle []store.Unowned, not []txn.SubmitterID) {
	for _, one := range idle {
		if one.Settled && !slices.Contains(not, one.ID) {
			c[chain].tokens[one.ID] = one.Token
		}
	}
}

// turnOn moves the next search to where this one ended. If some submitters were left, the same are
// searched once more: it takes two sweeps to detect a locked lease.
func (r *router) turnOn(u unwatched, left bool) {
	if left && !r.stayed {
		r.stayed = true
		return
	}
	r.stayed = false
	maps.Copy(r.turn, u.next)
}

func (r *router) learnAll(ids []txn.SubmitterID, chain txn.ChainID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.chainOf[id] = chain
	}
}

// auditedAbove returns the block of a chain above which final transactions alone require an owner.
// This holds while the chain progresses (see neededUntil), and while there is room beside
// submitters with work.
func (r *router) auditedAbove(chain txn.ChainID) uint64 {
	if r.count() >= r.e.MaxSubmitters-r.e.MaxSubmitters/auditShare {
		return txn.UnreachableBlock
	}
	if above, known := r.e.trackers[chain].AuditedAbove(r.e.IdleAfter); known {
		return above
	}
	return txn.UnreachableBlock
}

// claim returns the orphans that this node takes: those it should own, and those that their
// preferred node has not taken in time.
func (r *router) claim(nodes placement, orphans []txn.SubmitterID,
	now time.Time) (ours []txn.SubmitterID) {
	ours, r.left = r.pick(nodes, orphans, r.left, now)
	return ours
}

// claimUnwatched is claim for the unwatched search, which visits submitters in turn: one not seen
// in this sweep may still be unowned, so it is kept for many sweeps.
func (r *router) claimUnwatched(nodes placement, ids []txn.SubmitterID,
	now time.Time) (ours []txn.SubmitterID) {
	ours, left := r.pick(nodes, ids, r.unwatched, now)
	for id, since := range r.unwatched {
		if now.Sub(since) < unwatchedKeep*r.grace() && !slices.Contains(ids, id) {
			left[id] = since
		}
	}
	r.unwatched = left
	return ours
}

// unwatchedKeep is how many graces an unwatched submitter left to another node is remembered.
const unwatchedKeep = 32

func (r *router) pick(nodes placement, orphans []txn.SubmitterID, was map[txn.SubmitterID]time.Time,
	now time.Time) (ours []txn.SubmitterID, left map[txn.SubmitterID]time.Time) {
	if r.e.Mode == Basic {
		return orphans, was
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left = make(map[txn.SubmitterID]time.Time, len(orphans))
	for _, id := range orphans {
		preferred := nodes.preferred(id, r.chainOf[id], "")
		if preferred == r.e.members.self {
			ours = append(ours, id)
			continue
		}
		since, known := was[id]
		if !known {
			since = now
		}
		left[id] = since
		if now.Sub(since) >= r.grace() {
			ours = append(ours, id)
			r.keep(id, preferred, now)
		}
	}
	return ours, left
}

// rebalance asks owners to leave whose submitter prefers another node, a few at a time. A preferred
// node is live, works on the chain and accepts more, and it must have been live for a while.
func (r *router) rebalance(nodes placement, now time.Time) {
	if r.e.Mode == Basic || len(nodes.candidates) < 2 {
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
			continue // its actor has just started
		}
		to := nodes.preferred(id, chain, r.e.members.self)
		if k := r.kept[id]; k.from == to && !now.After(k.until) {
			continue
		}
		if to != r.e.members.self && r.e.members.settled(to, now) {
			moving = append(moving, a)
		}
	}
	slices.SortFunc(moving, func(a, b *actor) int { return int(a.id) - int(b.id) })
	for _, a := range moving[:min(len(moving), max(0, moveLimit-going))] {
		a.leave(errMoved)
		r.e.metrics.moves.Add(context.Background(), 1)
	}
}

// free waits for leases that could not be acquired in two sweeps in a row. The holder is in the
// middle of a commit, or froze in one. In that case its session keeps the lease locked forever, and
// waiting for the lock ends that session.
func (r *router) free(actors context.Context, missed []txn.SubmitterID) {
	was := r.blocked
	r.blocked = make(map[txn.SubmitterID]bool, len(missed))
	for _, id := range missed {
		if !r.elsewhere[id] {
			continue // not tried
		}
		r.blocked[id] = true
		if !was[id] {
			continue
		}
		select {
		case r.waiting <- struct{}{}:
		default:
			return // later sweeps handle the others
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
				r.e.Logger.Warn(
					"locked lease acquisition failed; retrying",
					"submitter_id", int(id), "error", err)
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

// learn stores the chain of a submitter.
func (r *router) learn(id txn.SubmitterID, chain txn.ChainID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chainOf[id] = chain
}
