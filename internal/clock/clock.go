// Package clock is the one door to time.
//
// Everything that waits or measures takes a Clock, so that a simulation can
// drive many nodes through one scheduler. Time here is for liveness only: no
// safety rests on it, and whether a lease has expired is judged by the
// database's clock alone.
//
// There are two clocks. Real is the machine's; inside a testing/synctest bubble
// it follows the bubble's time, so unit tests need nothing else. Fake stands
// still until somebody advances it: it is for simulations, which talk to a real
// database and therefore cannot live in a bubble.
package clock

import (
	"context"
	"time"
)

// Clock tells the time and makes timers.
type Clock interface {
	// Now is the present. Real times carry a monotonic reading, so the
	// difference of two of them is right even when the wall clock is set.
	Now() time.Time
	// NewTimer makes a timer that fires once, d from now. A d of zero or less
	// fires at once.
	NewTimer(d time.Duration) *Timer
}

// Timer sends the time on C once. After Stop or Reset returns, no value of an
// earlier setting is received from C.
type Timer struct {
	C <-chan time.Time

	stop  func() bool
	reset func(time.Duration) bool
}

// NewTimer makes the timer of a clock of another kind, such as one that a simulation's scheduler drives. stop and reset must keep what Timer promises.
func NewTimer(c <-chan time.Time, stop func() bool, reset func(time.Duration) bool) *Timer {
	return &Timer{C: c, stop: stop, reset: reset}
}

// Stop unsets the timer and reports whether its value was still to be received.
func (t *Timer) Stop() bool { return t.stop() }

// Reset sets the timer to fire d from now and reports what Stop would have.
func (t *Timer) Reset(d time.Duration) bool { return t.reset(d) }

// Real is the machine's clock.
type Real struct{}

// Now is the machine's time.
func (Real) Now() time.Time { return time.Now() }

// NewTimer makes a timer of the time package.
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
