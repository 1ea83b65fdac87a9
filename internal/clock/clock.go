// Package clock is the only source of time.
//
// Everything that waits or measures takes a Clock, so that a simulation can drive many nodes
// through one scheduler. Time here is for liveness only: safety never depends on it, and only the
// database's clock decides whether a lease has expired.
//
// There are two clocks. Real is the machine's; inside a testing/synctest bubble it follows the
// bubble's time, so unit tests need nothing else. Fake stands still until it is advanced: it is for
// simulations, which use a real database and therefore cannot run in a bubble.
package clock

import (
	"context"
	"time"
)

// Clock returns the time and creates timers.
type Clock interface {
	// Now returns the current time. Real times carry a monotonic reading, so the difference of two
	// of them is right even if the wall clock is set.
	Now() time.Time
	// NewTimer returns a timer that fires once, d from now. A d of zero or less fires at once.
	NewTimer(d time.Duration) *Timer
}

// Timer sends the time on C once. After Stop or Reset returns, no value of an
// earlier setting is received from C.
type Timer struct {
	C <-chan time.Time

	stop  func() bool
	reset func(time.Duration) bool
}

// NewTimer returns a timer of another kind of clock, such as one that a simulation's scheduler
// drives. stop and reset must keep the contract of Timer.
func NewTimer(c <-chan time.Time, stop func() bool, reset func(time.Duration) bool) *Timer {
	return &Timer{C: c, stop: stop, reset: reset}
}

// Stop cancels the timer and reports whether its value was still to be received.
func (t *Timer) Stop() bool { return t.stop() }

// Reset sets the timer to fire d from now and returns the result of Stop.
func (t *Timer) Reset(d time.Duration) bool { return t.reset(d) }

// Real is the machine's clock.
type Real struct{}

// Now returns the machine's time.
func (Real) Now() time.Time { return time.Now() }

// NewTimer returns a timer of the time package.
func (Real) NewTimer(d time.Duration) *Timer {
	t := time.NewTimer(d)
	return &Timer{C: t.C, stop: t.Stop, reset: t.Reset}
}

// Sleep waits for d by c, or until ctx ends, whose cause it then returns.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
