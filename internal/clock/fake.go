package clock

import (
	"sync"
	"time"
)

// Fake is a clock that moves only by Advance. It is safe for use by several
// goroutines. Make one with NewFake.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	made   uint64 // breaks ties: of two timers due together the first one set fires first
	timers map[*fakeTimer]struct{}
}

// fakeTimer is in its clock's set exactly while it is pending.
type fakeTimer struct {
	c     chan time.Time
	due   time.Time
	order uint64
}

// NewFake returns a clock that stands at start.
func NewFake(start time.Time) *Fake {
	return &Fake{now: start.Round(0), timers: map[*fakeTimer]struct{}{}}
}

// Now returns the clock's time. It has no monotonic reading.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// NewTimer returns a timer that fires once the clock has advanced by d.
func (f *Fake) NewTimer(d time.Duration) *Timer {
	t := &fakeTimer{c: make(chan time.Time, 1)}
	f.set(t, d)
	return &Timer{
		C:     t.c,
		stop:  func() bool { return f.unset(t) },
		reset: func(d time.Duration) bool { return f.set(t, d) },
	}
}

// Next returns when the earliest timer is due; ok is false if none is set. A scheduler that
// advances from one Next to the next triggers one deadline at a time.
func (f *Fake) Next() (due time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.earliest(); t != nil {
		return t.due, true
	}
	return time.Time{}, false
}

// Advance moves the clock by d and fires every timer that falls due on the way, in the order of
// their deadlines. It does not wait for the receivers.
func (f *Fake) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: a clock cannot be advanced by " + d.String())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.now.Add(d)
	for t := f.earliest(); t != nil && !t.due.After(end); t = f.earliest() {
		f.now = t.due
		f.fire(t)
	}
	f.now = end
}

func (f *Fake) set(t *fakeTimer, d time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.clear(t)
	f.made++
	t.due, t.order = f.now.Add(max(d, 0)), f.made
	f.timers[t] = struct{}{}
	if d <= 0 {
		f.fire(t)
	}
	return was
}

func (f *Fake) unset(t *fakeTimer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clear(t)
}

// clear also discards a value that was not received yet: it belongs to the old setting.
func (f *Fake) clear(t *fakeTimer) bool {
	_, was := f.timers[t]
	delete(f.timers, t)
	select {
	case <-t.c:
		return true
	default:
		return was
	}
}

// fire never blocks: setting a timer empties its channel.
func (f *Fake) fire(t *fakeTimer) {
	delete(f.timers, t)
	t.c <- f.now
}

func (f *Fake) earliest() *fakeTimer {
	var first *fakeTimer
	for t := range f.timers {
		if first == nil || t.due.Before(first.due) ||
			t.due.Equal(first.due) && t.order < first.order {
			first = t
		}
	}
	return first
}
