package engine

import (
	"context"
	"time"
)

// countInterval is the time between two counts of pending work. After a slow count, the pause is
// at least countRest times its duration, so that counting takes at most 1% of the time.
const (
	countInterval = 10 * time.Second
	countRest     = 100
)

// count updates the gauges of pending work until ctx ends.
func (e *Engine) count(ctx context.Context) {
	timer := e.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			began := e.Clock.Now()
			e.countOnce(ctx)
			timer.Reset(untilNextCount(e.Clock.Now().Sub(began)))
		}
	}
}

func untilNextCount(took time.Duration) time.Duration { return max(countInterval, countRest*took) }

func (e *Engine) countOnce(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, e.LeaseDuration)
	defer cancel()
	ids, wedged := e.router.owned()
	c, err := e.Store.QueueCounts(limited, ids)
	if err != nil {
		e.Logger.Debug("work count failed; retrying", "error", err)
		return
	}
	m := e.metrics
	m.queued.Record(ctx, c.Queued)
	m.oldest.Record(ctx, c.OldestQueued.Seconds())
	m.inFlight.Record(ctx, c.InFlight)
	m.stuck.Record(ctx, c.Stuck)
	m.undecided.Record(ctx, c.UndecidedNonces)
	for state, n := range map[string]int64{
		"owned":     int64(len(ids)),
		"protected": c.Protected,
		"paused":    c.Paused,
		"unfunded":  c.Unfunded,
		"wedged":    int64(wedged),
	} {
		m.submitters.Record(ctx, n, labelled("state", state))
	}
}
