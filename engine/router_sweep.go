package engine

import (
	"context"
	"maps"
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
	looked    bool                            // another node said that something was given up
	blocked   map[txn.SubmitterID]bool        // orphans that could not be acquired in the last sweep
	elsewhere map[txn.SubmitterID]bool        // found to be another's since the last sweep
	left      map[txn.SubmitterID]time.Time   // orphans that are for another node, and since when
	unwatched map[txn.SubmitterID]time.Time   // likewise of those that have nothing but final transactions, which come up in turn
	stayed    bool                            // the last sweep left something of the look for these
	turn      map[txn.ChainID]txn.SubmitterID // where the next look for these begins
	calm      calm                            // which of them need no owner
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
		unwatched: map[txn.SubmitterID]time.Time{}, turn: map[txn.ChainID]txn.SubmitterID{}, calm: calm{},
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
		r.e.Logger.Warn("submitters without an owner cannot be looked for; trying again", "error",
			err)
		return again
	}
	unwatched, err := r.findUnwatched(limited)
	if err != nil && ctx.Err() == nil {
		r.e.Logger.Warn("final transactions that nobody watches cannot be looked for; trying again",
			"error", err)
	}
	ours, last := r.claim(place, orphans, now), r.claimUnwatched(place, unwatched.ids, now)
	for _, id := range last {
		if !slices.Contains(ours, id) {
			ours = append(ours, id)
		}
	}
	var cut []txn.SubmitterID
	if len(ours) > room {
		ours, cut, again = ours[:room], ours[room:], lookGap
	}
	missed := r.acquire(ctx, actors, ours)
	r.free(actors, missed)
	r.turnOn(
		unwatched,
		slices.ContainsFunc(last,
			func(id txn.SubmitterID) bool { return slices.Contains(missed, id) || slices.Contains(cut, id) }),
	)
	return again
}

// jittered spreads the sweeps of nodes that started together. The numbers are the node's own, and the same in each run of a simulation.
func (r *router) jittered(d time.Duration) time.Duration {
	r.sweeps++
	part := newSeat(r.e.members.self, nil, false).weight(txn.SubmitterID(int32(r.sweeps))) % 512
	return d*3/4 + d*time.Duration(part)/1024
}

// orphans lists submitters without an owner that have work. Who should own one depends on its chain, so in worker-queue mode each chain is asked for by itself.
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

// unwatched is a look for submitters without an owner that need one because of what is final, and where the next looks would begin.
type unwatched struct {
	ids  []txn.SubmitterID
	next map[txn.ChainID]txn.SubmitterID
}

// findUnwatched looks at so many of each chain as a sweep could take of them, so that those that lie idle cost the same however many they are. What they have is read
// of those alone of which that is not known: once, as long as nobody owns them.
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

// calm remembers, by chain, which submitters without an owner need none because of what is final: under the token that it has seen, and for as long as the block above
// which that counts does not fall. Whoever has owned one since has left it another token.
type calm map[txn.ChainID]*calmChain

type calmChain struct {
	above  uint64
	tokens map[txn.SubmitterID]txn.Token
}

// unknown are those of these that have to be looked at.
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

// learn takes the end of such a look, which has found that some are not calm: they need an owner, or have something that may become final.
func (c calm) learn(chain txn.ChainID, idle []store.Unowned, not []txn.SubmitterID) {
	for _, one := range idle {
		if one.Settled && !slices.Contains(not, one.ID) {
			c[chain].tokens[one.ID] = one.Token
		}
	}
}

// turnOn has the next look begin where this one ended. Where something was left of it the same are looked at once more: it takes two sweeps to see that somebody holds
// a lease locked.
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

// auditedAbove is the block of a chain above which final transactions alone make a submitter one that needs an owner: for as long as the chain goes on, as
// neededUntil says, and where there is room besides that for work.
func (r *router) auditedAbove(chain txn.ChainID) uint64 {
	if r.count() >= r.e.MaxSubmitters-r.e.MaxSubmitters/auditShare {
		return txn.UnreachableBlock
	}
	if above, known := r.e.trackers[chain].AuditedAbove(r.e.IdleAfter); known {
		return above
	}
	return txn.UnreachableBlock
}

// claim picks the orphans that this node takes: those that it should own, and those that whoever should own them has left for too long.
func (r *router) claim(place placement, orphans []txn.SubmitterID,
	now time.Time) (ours []txn.SubmitterID) {
	ours, r.left = r.pick(place, orphans, r.left, now)
	return ours
}

// claimUnwatched is claim of those that come up in turn: that one did not come up does not tell that somebody has it. It is forgotten when many turns have gone by.
func (r *router) claimUnwatched(place placement, ids []txn.SubmitterID,
	now time.Time) (ours []txn.SubmitterID) {
	ours, left := r.pick(place, ids, r.unwatched, now)
	for id, since := range r.unwatched {
		if now.Sub(since) < unwatchedKeep*r.grace() && !slices.Contains(ids, id) {
			left[id] = since
		}
	}
	r.unwatched = left
	return ours
}

// unwatchedKeep is for how many graces it is remembered that one is for another node.
const unwatchedKeep = 32

func (r *router) pick(place placement, orphans []txn.SubmitterID, was map[txn.SubmitterID]time.Time,
	now time.Time) (ours []txn.SubmitterID, left map[txn.SubmitterID]time.Time) {
	if r.e.Mode == Basic {
		return orphans, was
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left = make(map[txn.SubmitterID]time.Time, len(orphans))
	for _, id := range orphans {
		preferred := place.preferred(id, r.chainOf[id], "")
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
				r.e.Logger.Warn(
					"a lease that somebody holds locked cannot be acquired; trying again",
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

// learn notes the chain of a submitter.
func (r *router) learn(id txn.SubmitterID, chain txn.ChainID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chainOf[id] = chain
}
