package sim

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

// nodeClock is the local clock of one node, with its own offset and rate. The scheduler fires its
// timers one at a time, and only while a goroutine is waiting for that timer. A select in a node
// therefore never finds a timer and another channel ready together, so the runtime's random choice,
// which no seed controls, never matters.
type nodeClock struct {
	w    *World
	rate float64 // of local time to the world's

	mu     sync.Mutex
	offset time.Duration
	timers []*timer // armed, in the order they were set
}

type timer struct {
	c     chan time.Time
	due   time.Duration
	label string // the function that created it
}

// Now is the local time.
func (c *nodeClock) Now() time.Time {
	elapsed := c.w.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.w.began.Add(c.offset + time.Duration(float64(elapsed)*c.rate))
}

// NewTimer returns a timer that the scheduler fires.
func (c *nodeClock) NewTimer(d time.Duration) *clock.Timer {
	return c.newTimer(d, origin())
}

func (c *nodeClock) newTimer(d time.Duration, label string) *clock.Timer {
	t := &timer{c: make(chan time.Time), label: label}
	c.set(t, d)
	return clock.NewTimer(t.c, func() bool { return c.unset(t) }, func(d time.Duration) bool {
		was := c.unset(t)
		c.set(t, d)
		return was
	})
}

// markedClock is the clock of a node for one of its ledgers. Their timers have labels of their own.
type markedClock struct {
	*nodeClock
	mark string
}

func (c markedClock) NewTimer(d time.Duration) *clock.Timer {
	return c.newTimer(d, origin()+c.mark)
}

func (c *nodeClock) set(t *timer, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.due = c.w.now()
	if d > 0 { // never early by the local clock
		t.due += time.Duration(float64(d)/c.rate) + time.Microsecond
	}
	c.timers = append(c.timers, t)
	select {
	case c.w.kick <- struct{}{}: // it may be due before the scheduler's next wake-up
	default:
	}
}

func (c *nodeClock) unset(t *timer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.timers, t)
	if i >= 0 {
		c.timers = slices.Delete(c.timers, i, i+1)
	}
	return i >= 0
}

// origin returns the name of the function that creates a timer.
func origin() string {
	callers := make([]uintptr, 2)
	runtime.Callers(3, callers)
	frames := runtime.CallersFrames(callers)
	frame, more := frames.Next()
	if more && strings.HasSuffix(frame.Function, "clock.Sleep") {
		frame, _ = frames.Next()
	}
	return frame.Function[strings.LastIndex(frame.Function, "/")+1:]
}

// due returns the timers that may fire. Goroutines that run concurrently can set timers at the same
// moment, so timers are ordered by the name of the function that created them.
func (c *nodeClock) due(now time.Duration) []*timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var due []*timer
	for _, t := range c.timers {
		if t.due <= now {
			due = append(due, t)
		}
	}
	slices.SortStableFunc(due, func(a, b *timer) int { return strings.Compare(a.label, b.label) })
	return due
}

// next returns when the earliest timer that is not due yet will be due.
func (c *nodeClock) next(now time.Duration) (at time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.timers {
		if t.due > now && (!ok || t.due < at) {
			at, ok = t.due, true
		}
	}
	return at, ok
}

// fire sends the time to a timer's receiver, if one is waiting. The lock keeps the receiver from
// resetting the timer before it is removed from the list.
func (c *nodeClock) fire(t *timer) bool {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case t.c <- now:
		c.timers = slices.DeleteFunc(c.timers, func(other *timer) bool { return other == t })
		return true
	default:
		return false
	}
}

// jump moves the clock forward or back.
func (c *nodeClock) jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += by
}
