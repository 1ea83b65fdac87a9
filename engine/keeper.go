package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// keeper renews the leases of the node and sends its heartbeat. One statement renews all leases and
// another sends the heartbeat, on a dedicated connection, so that API load cannot starve them. Each
// lease also has a local deadline on the monotonic clock, counted from before the request that
// acquired or renewed it. Past the deadline the owner's context is cancelled, so that no external
// call starts under a lease that may have lapsed. The deadline only avoids useless work; the fence
// protects the ledger. Only owners that make progress are renewed: an owner stuck in a step loses
// its lease.
type keeper struct {
	e    *Engine
	mu   sync.Mutex
	held map[txn.SubmitterID]*holding

	stopping atomic.Bool
	turn     chan struct{} // serializes heartbeats; none may follow the node's departure
	full     bool
	gone     bool

	expired atomic.Pointer[time.Time] // last check of the deadlines; nil: not running
	cycled  atomic.Pointer[time.Time] // last end of a renewal with its heartbeat, failed or not
}

// holding is a lease and its owner.
type holding struct {
	lease      *store.Lease
	deadline   time.Time
	owner      *actor
	reacquired bool // being reacquired: the database may already have a newer token
}

func newKeeper(e *Engine) *keeper {
	return &keeper{e: e, held: map[txn.SubmitterID]*holding{}, turn: make(chan struct{}, 1)}
}

// margin is how much earlier than the database this node considers its lease lapsed.
func (k *keeper) margin() time.Duration { return k.e.LeaseDuration / 10 }

// hold starts to renew a lease, in place of an older one of the same submitter. The owner is
// cancelled when the lease is gone. hold returns false if the owner was already cancelled, because
// the older lease was lost in the meantime: it would not work under the new one.
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

// reacquiring marks a lease as being reacquired. Renewals continue, so that no other node takes it
// in the meantime. A failed renewal no longer ends the owner, because its own new token may be the
// cause. The owner detects a takeover through the reacquisition.
func (k *keeper) reacquiring(l *store.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[l.Submitter()]; h != nil && h.lease == l {
		h.reacquired = true
	}
}

// drop stops renewing; the lease lapses unless it was released or reacquired.
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
	renewed := make(chan time.Time, 1) // renewals run apart: a slow one must not delay expire
	var wg sync.WaitGroup
	defer wg.Wait()
	k.mark(&k.expired)
	k.mark(&k.cycled)
	for {
		select {
		case <-ctx.Done():
			return
		case <-expire.C:
			k.expire()
			k.mark(&k.expired)
			expire.Reset(k.margin())
		case <-renew.C:
			began := k.e.Clock.Now()
			wg.Go(func() {
				k.renew(ctx)
				k.heartbeat(ctx)
				renewed <- began
			})
		case began := <-renewed:
			k.mark(&k.cycled)
			// the interval runs from start to start, also on a slow database
			renew.Reset(k.e.RenewInterval - k.e.Clock.Now().Sub(began))
		}
	}
}

// renew extends all held leases. A lease that the database no longer grants ends its owner at once.
// When the database is unreachable, the deadline does.
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
		return // the node stops, and has released its leases
	}
	if err != nil {
		k.e.metrics.renewed(ctx, "error", len(leases))
		k.e.Logger.Warn("lease renewal failed; retrying", "leases",
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
		case !h.reacquired:
			h.owner.fenced.Store(true)
			k.lose(h, whyFenced)
		}
	}
}

// expire cancels owners whose lease may have lapsed, and owners that are stuck.
func (k *keeper) expire() {
	now := k.e.Clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		switch inside := h.owner.insideFor(now); {
		case now.After(h.deadline):
			k.lose(h, whyExpired)
		case inside > k.e.ProgressTimeout:
			h.owner.wedged.Store(true)
			k.e.metrics.wedged.Add(context.Background(), 1)
			k.lose(h, fmt.Sprintf("owner stuck in one step for %s", inside.Round(time.Millisecond)))
		}
	}
}

// Reasons for a lost lease.
const (
	whyFenced  = "taken over or lapsed"
	whyExpired = "not renewed in time"
)

// checkDeadline cancels the owner of a submitter if its lease may have lapsed.
func (k *keeper) checkDeadline(id txn.SubmitterID) {
	now := k.e.Clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[id]; h != nil && now.After(h.deadline) {
		k.lose(h, whyExpired)
	}
}

func (k *keeper) lose(h *holding, why string) {
	k.e.metrics.renewed(context.Background(), "lost", 1)
	k.e.Logger.Warn("lease lost", "why", why, "submitter_id", int(h.lease.Submitter()),
		"fencing_token", int64(h.lease.Token()))
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

// release releases leases.
func (k *keeper) release(ctx context.Context, leases []*store.Lease) error {
	for _, l := range leases {
		k.drop(l)
	}
	if len(leases) == 0 {
		return nil
	}
	if err := k.e.Store.Release(ctx, leases); err != nil {
		return fmt.Errorf("engine: release %d leases: %w; they will expire", len(leases), err)
	}
	return nil
}

// heartbeat sends the node's heartbeat and reads the list of live nodes.
func (k *keeper) heartbeat(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx,
		k.e.RenewInterval) // longer would delay the next renewal
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
		k.e.Logger.Warn("heartbeat failed; retrying",
			"error", err)
		return
	}
	if came, went := k.e.members.saw(nodes, asked); len(came)+len(went) > 0 {
		k.e.Logger.Info("live nodes changed", "came", came, "went", went, "nodes", len(nodes))
	}
	k.e.metrics.nodes.Record(ctx, int64(len(nodes)))
}

// accepts reports whether the node takes more submitters. A full node first needs some room again,
// or it would be offered and refuse the same submitters repeatedly.
func (k *keeper) accepts() bool {
	switch n, most := k.e.router.count(), k.e.MaxSubmitters; {
	case n >= most:
		k.full = true
	case n <= most-most/8:
		k.full = false
	}
	return !k.full && !k.stopping.Load()
}

// retire announces at once that this node accepts no more submitters.
func (k *keeper) retire(ctx context.Context) {
	k.stopping.Store(true)
	k.heartbeat(ctx)
}

// leave removes the node from the list of live nodes.
func (k *keeper) leave(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return fmt.Errorf("engine: leave: %w", ctx.Err())
	}
	k.gone = true
	if err := k.e.Store.Leave(ctx); err != nil {
		return fmt.Errorf("engine: leave: %w; the heartbeat will expire", err)
	}
	return nil
}
