package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// keeper holds the leases of the node, and the node's place among the others. One statement renews all leases and another says that the node lives, on a
// connection that nothing else uses, so load on the API cannot starve them. Each lease also has a local deadline, counted on the monotonic clock from before the
// request that made or renewed it: past the deadline the owner's context is ended, so that no outside call starts under a lease that may have lapsed. That
// deadline only saves noise; what keeps the ledger is the fence. And only an owner that gets on is renewed: one that is stuck inside a step loses its lease.
type keeper struct {
	e    *Engine
	mu   sync.Mutex
	held map[txn.SubmitterID]*holding

	stopping atomic.Bool
	turn     chan struct{} // of who tells the others of this node: one at a time, and nobody after it has left
	full     bool
	gone     bool
}

// holding is one lease and the owner that works under it.
type holding struct {
	lease    *store.Lease
	deadline time.Time
	owner    *actor
	anew     bool // its owner is about to have it under a new token, under which the database may know it already
}

func newKeeper(e *Engine) *keeper {
	return &keeper{e: e, held: map[txn.SubmitterID]*holding{}, turn: make(chan struct{}, 1)}
}

// margin is how much earlier than the database a node regards its lease as lapsed.
func (k *keeper) margin() time.Duration { return k.e.LeaseDuration / 10 }

// hold begins to renew a lease, in place of an older one of the same submitter. Its owner is ended once it is gone. An owner that was told to end already, since
// the older lease was lost while this one was waited for, does not get it: nobody would work under it.
func (k *keeper) hold(l *store.Lease, owner *actor) (held bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if owner.over.Load() {
		return false
	}
	k.held[l.Submitter()] = &holding{
		lease:    l,
		owner:    owner,
		deadline: l.TakenAt().Add(k.e.LeaseDuration - k.margin()),
	}
	return true
}

// takenAnew says that an owner is taking its lease anew. It is renewed as before, so that nobody else gets it meanwhile. But a renewal that fails says nothing
// from now on: between the database's new token and our knowing of it, that is our own doing. Whether the lease is another's the owner hears when it asks.
func (k *keeper) takenAnew(l *store.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[l.Submitter()]; h != nil && h.lease == l {
		h.anew = true
	}
}

// drop stops renewing; the lease lapses by itself unless it was released or taken anew.
func (k *keeper) drop(l *store.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[l.Submitter()]; h != nil && h.lease == l {
		delete(k.held, l.Submitter())
	}
}

func (k *keeper) holds(l *store.Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[l.Submitter()]
	return h != nil && h.lease == l
}

func (k *keeper) run(ctx context.Context) {
	renew := k.e.Clock.NewTimer(k.e.RenewInterval)
	defer renew.Stop()
	expire := k.e.Clock.NewTimer(k.margin())
	defer expire.Stop()
	renewed := make(chan time.Time, 1) // a renewal that hangs must not stop the deadlines
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-expire.C:
			k.expire()
			expire.Reset(k.margin())
		case <-renew.C:
			began := k.e.Clock.Now()
			wg.Go(func() {
				k.renew(ctx)
				k.beat(ctx)
				renewed <- began
			})
		case began := <-renewed: // the interval counts from beginning to beginning: a database that is slow takes time from the pause, not from the leases
			renew.Reset(k.e.RenewInterval - k.e.Clock.Now().Sub(began))
		}
	}
}

// renew extends every lease that is held. A lease that the database no longer grants ends its owner at once; when the database cannot be asked, the deadline
// does.
func (k *keeper) renew(ctx context.Context) {
	leases := k.leases()
	if len(leases) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, k.e.LeaseDuration/2)
	defer cancel()
	asked := k.e.Clock.Now()
	renewed, err := k.e.Store.Renew(limited, leases)
	if ctx.Err() != nil {
		return // the node stops, and has given back what it had
	}
	if err != nil {
		k.e.metrics.renewed(ctx, "error", len(leases))
		k.e.Logger.Warn("leases could not be renewed; trying again until they lapse", "leases",
			len(leases), "error", err)
		return
	}
	k.e.metrics.renewed(ctx, "ok", len(renewed))
	live := make(map[*store.Lease]bool, len(renewed))
	for _, l := range renewed {
		live[l] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range leases {
		h := k.held[l.Submitter()]
		if h == nil || h.lease != l {
			continue
		}
		switch {
		case live[l]:
			h.deadline = asked.Add(k.e.LeaseDuration - k.margin())
		case !h.anew:
			h.owner.fenced.Store(true)
			k.lose(h, "it was taken over or lapsed")
		}
	}
}

// expire ends the owners whose lease may have lapsed, and those that are stuck.
func (k *keeper) expire() {
	now := k.e.Clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		switch inside := h.owner.insideFor(now); {
		case now.After(h.deadline):
			k.lose(h, whyOverdue)
		case inside > k.e.ProgressTimeout:
			h.owner.wedged.Store(true)
			k.e.metrics.wedged.Add(context.Background(), 1)
			k.lose(
				h,
				fmt.Sprintf(
					"its owner has been stuck inside one step for %s, and is not renewed any more",
					inside.Round(time.Millisecond)),
			)
		}
	}
}

const whyOverdue = "it could not be renewed in time"

// overdue ends the owner of a submitter if its lease may have lapsed.
func (k *keeper) overdue(id txn.SubmitterID) {
	now := k.e.Clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[id]; h != nil && now.After(h.deadline) {
		k.lose(h, whyOverdue)
	}
}

func (k *keeper) lose(h *holding, why string) {
	k.e.metrics.renewed(context.Background(), "lost", 1)
	k.e.Logger.Warn("lease lost: "+why, slog.Int("submitter_id", int(h.lease.Submitter())),
		slog.Int64("fencing_token", int64(h.lease.Token())))
	delete(k.held, h.lease.Submitter())
	h.owner.over.Store(true)
	h.owner.lost()
}

func (k *keeper) leases() []*store.Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	leases := make([]*store.Lease, 0, len(k.held))
	for _, h := range k.held {
		leases = append(leases, h.lease)
	}
	return leases
}

// release gives leases back.
func (k *keeper) release(ctx context.Context, leases []*store.Lease) error {
	for _, l := range leases {
		k.drop(l)
	}
	if len(leases) == 0 {
		return nil
	}
	if err := k.e.Store.Release(ctx, leases); err != nil {
		return fmt.Errorf("engine: release %d leases; they lapse by themselves: %w", len(leases),
			err)
	}
	return nil
}

// beat says that the node lives, and hears which others do.
func (k *keeper) beat(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx,
		k.e.RenewInterval) // or the next renewal would be late
	defer cancel()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-limited.Done():
		return
	}
	if k.gone {
		return
	}
	asked := k.e.Clock.Now()
	nodes, err := k.e.Store.Heartbeat(limited, k.e.router.chains, k.accepts())
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		k.e.Logger.Warn("the other nodes could not be told that this one lives; trying again",
			"error", err)
		return
	}
	if came, went := k.e.members.saw(nodes, asked); len(came)+len(went) > 0 {
		k.e.Logger.Info("nodes came or went", "came", came, "went", went, "nodes", len(nodes))
	}
	k.e.metrics.nodes.Record(ctx, int64(len(nodes)))
}

// accepts tells whether the node takes more submitters. One that was full must have some room again first, or it would be given and refuse the same ones in turn.
func (k *keeper) accepts() bool {
	switch n, most := k.e.router.count(), k.e.MaxSubmitters; {
	case n >= most:
		k.full = true
	case n <= most-most/8:
		k.full = false
	}
	return !k.full && !k.stopping.Load()
}

// retire tells the others, without delay, that this node takes nothing more.
func (k *keeper) retire(ctx context.Context) {
	k.stopping.Store(true)
	k.beat(ctx)
}

// leave takes the node from the list of those that live.
func (k *keeper) leave(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return fmt.Errorf("engine: leave: %w", ctx.Err())
	}
	k.gone = true
	if err := k.e.Store.Leave(ctx); err != nil {
		return fmt.Errorf("engine: leave; the node counts as live until that lapses: %w", err)
	}
	return nil
}
