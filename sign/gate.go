package sign

import (
	"context"
	"fmt"

	"golang.org/x/time/rate"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// gate limits the signatures of one signer, so that a slow one holds a bounded number of
// connections, and a paid one a bounded bill. Waiting counts towards the timeout of a signature.
type gate struct {
	slots chan struct{}
	rate  *rate.Limiter // nil: no limit
}

func newGate(maxInFlight int, perSecond float64) gate {
	g := gate{slots: make(chan struct{}, maxInFlight)}
	if perSecond > 0 {
		g.rate = rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))
	}
	return g
}

// enter waits for a slot and for the rate. The caller leaves.
func (g gate) enter(ctx context.Context) (leave func(), err error) {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: its max_in_flight signatures are all pending: %w",
			txn.ErrUnavailable, context.Cause(ctx))
	}
	leave = func() { <-g.slots }
	if g.rate == nil {
		return leave, nil
	}
	now := wall.Now()
	reservation := g.rate.ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay == 0 {
		return leave, nil
	}
	// Without room before the deadline it fails at once, and a later signature takes the turn.
	deadline, limited := ctx.Deadline()
	if limited && now.Add(delay).After(deadline) {
		err = fmt.Errorf("%w: its per_second limit is reached", txn.ErrUnavailable)
	} else if err = clock.Sleep(ctx, wall, delay); err == nil {
		return leave, nil
	}
	reservation.CancelAt(wall.Now())
	leave()
	return nil, err
}
