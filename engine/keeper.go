package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// keeper holds the leases of the node. One statement renews all of them, on a connection that nothing else uses, so load on the API cannot starve it. Each
// lease also has a local deadline, counted on the monotonic clock from before the request that made or renewed it: past the deadline the owner's context is
// ended, so that no outside call starts under a lease that may have lapsed. That deadline only saves noise; what keeps the ledger is the fence.
type keeper struct {
	e    *Engine
	mu   sync.Mutex
	held map[txn.SubmitterID]*holding
}

// holding is one lease and the owner that works under it.
type holding struct {
	lease    *store.Lease
	deadline time.Time
	owner    *actor
}

func newKeeper(e *Engine) *keeper { return &keeper{e: e, held: map[txn.SubmitterID]*holding{}} }

// margin is how much earlier than the database a node regards its lease as lapsed.
func (k *keeper) margin() time.Duration { return k.e.LeaseDuration / 10 }

// hold begins to renew a lease, in place of an older one of the same submitter. Its owner is ended once it is gone.
func (k *keeper) hold(l *store.Lease, owner *actor) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[l.Submitter()] = &holding{lease: l, owner: owner, deadline: l.TakenAt().Add(k.e.LeaseDuration - k.margin())}
}

// drop stops renewing; the lease lapses by itself unless it was released or taken anew.
func (k *keeper) drop(l *store.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[l.Submitter()]; h != nil && h.lease == l {
		delete(k.held, l.Submitter())
	}
}

func (k *keeper) run(ctx context.Context) {
	renew := k.e.Clock.NewTimer(k.e.RenewInterval)
	defer renew.Stop()
	expire := k.e.Clock.NewTimer(k.margin())
	defer expire.Stop()
	renewed := make(chan struct{}, 1) // a renewal that hangs must not stop the deadlines
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
			wg.Go(func() {
				k.renew(ctx)
				renewed <- struct{}{}
			})
		case <-renewed:
			renew.Reset(k.e.RenewInterval)
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
	if err != nil {
		k.e.metrics.lease(ctx, "renew_failed", len(leases))
		k.e.Logger.Warn("leases could not be renewed; trying again until they lapse", "leases", len(leases), "error", err)
		return
	}
	k.e.metrics.lease(ctx, "renew", len(renewed))
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
		if live[l] {
			h.deadline = asked.Add(k.e.LeaseDuration - k.margin())
			continue
		}
		k.lose(h, "it was taken over or lapsed")
	}
}

// expire ends the owners whose lease may have lapsed.
func (k *keeper) expire() {
	now := k.e.Clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		if now.After(h.deadline) {
			k.lose(h, "it could not be renewed in time")
		}
	}
}

func (k *keeper) lose(h *holding, why string) {
	k.e.Logger.Warn("lease lost: "+why, slog.Int("submitter_id", int(h.lease.Submitter())), slog.Int64("fencing_token", int64(h.lease.Token())))
	delete(k.held, h.lease.Submitter())
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

// release gives one lease back.
func (k *keeper) release(ctx context.Context, l *store.Lease) error {
	k.drop(l)
	if err := k.e.Store.Release(ctx, []*store.Lease{l}); err != nil {
		return fmt.Errorf("engine: release submitter %d: %w", l.Submitter(), err)
	}
	return nil
}

// releaseAll gives everything back, when all owners have ended.
func (k *keeper) releaseAll(ctx context.Context) error {
	leases := k.leases()
	for _, l := range leases {
		k.drop(l)
	}
	if len(leases) == 0 {
		return nil
	}
	if err := k.e.Store.Release(ctx, leases); err != nil {
		return fmt.Errorf("engine: release %d leases; they lapse by themselves: %w", len(leases), err)
	}
	return nil
}
