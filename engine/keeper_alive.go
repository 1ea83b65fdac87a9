package engine

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Progress returns an error if the loop that keeps the leases has stalled, so that a watchdog can
// restart the process. An unavailable database or chain is no stall, and neither is the time before
// Run: a restart would not help. A stuck owner is none either, because the loop ends it.
func (e *Engine) Progress() error { return e.keeper.progress() }

// mark records that the loop made progress.
func (k *keeper) mark(at *atomic.Pointer[time.Time]) {
	now := k.e.Clock.Now()
	at.Store(&now)
}

func (k *keeper) progress() error {
	expired, cycled := k.expired.Load(), k.cycled.Load()
	if expired == nil || cycled == nil {
		return nil
	}
	now, limit := k.e.Clock.Now(), 2*k.e.LeaseDuration
	for name, last := range map[string]time.Time{
		"check of lease deadlines": *expired, "renewal of leases": *cycled,
	} {
		if since := now.Sub(last); since > limit {
			return fmt.Errorf("engine: last %s was %s ago, limit %s", name, since, limit)
		}
	}
	return nil
}
