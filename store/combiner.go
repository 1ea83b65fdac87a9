package store

import (
	"errors"
	"runtime"
	"sync"
)

// maxOutstanding bounds the items of one combiner, all groups together.
const maxOutstanding = 1 << 16

// maxAttempts is how often a refusal that may pass (a deadlock, a lock that was not to be had) is
// tried for one item alone.
const maxAttempts = 4

var (
	errClosed = errors.New("the store is closed")
	errFull   = errors.New("too many pending database operations")
)

// item is sent by a combiner. Each item has its own outcome: send ends each one that it settles.
type item interface {
	comparable
	size() int  // bytes in a statement, roughly; always the same
	key() int64 // items of one key never share a group; 0 has no such bond
}

// refusal is a server's word that a statement failed and that nothing of it was done.
type refusal struct {
	err   error
	again bool // it may pass when it is tried again
}

type limits struct {
	items, bytes int // of a group
	outstanding  int // items
	held         int // bytes of these; 0: no limit
}

// combiner collects items while a statement is running, and sends them together as the next one. A
// rejected group is halved on a second connection until the faulty item is alone; the next group
// does not wait for that. No goroutine runs while there is nothing to send.
type combiner[T item] struct {
	limits limits
	send   func(aside bool, group []T) *refusal // nil: every item was ended
	refuse func(T, *refusal)                    // ends an item that is refused alone

	mu          sync.Mutex
	closed      bool
	outstanding int
	held        int // bytes of the outstanding items
	waiting     []T
	sending     bool
	refused     []refusedGroup[T]
	dividing    bool
	running     sync.WaitGroup
}

type refusedGroup[T item] struct {
	items []T
	why   *refusal
}

func newCombiner[T item](l limits, send func(bool, []T) *refusal,
	refuse func(T, *refusal)) *combiner[T] {
	return &combiner[T]{limits: l, send: send, refuse: refuse}
}

// put hands items over, all or none; unless it returns an error they will be ended. They go
// together as far as a group has room.
func (c *combiner[T]) put(items ...T) error {
	bytes := sizeOf(items)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.outstanding+len(items) > c.limits.outstanding,
		c.limits.held > 0 && c.held+bytes > c.limits.held:
		return errFull
	}
	c.outstanding += len(items)
	c.held += bytes
	c.waiting = append(c.waiting, items...)
	if !c.sending {
		c.sending = true
		c.running.Go(c.sendAll)
	}
	return nil
}

// close waits until all that was put is ended.
func (c *combiner[T]) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

func (c *combiner[T]) sendAll() {
	for {
		// lets goroutines that were woken together with the first one add their items; costs
		// nothing if there are none
		runtime.Gosched()
		group := c.gather()
		if group == nil {
			return
		}
		if why := c.send(false, group); why != nil {
			c.setAside(group, why)
			continue
		}
		c.settled(group)
	}
}

// gather takes the next group of waiting items, in order; nil ends the sender. The first item is
// always taken, however large it is.
func (c *combiner[T]) gather() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.sending = false
		return nil
	}
	var group, left []T
	taken := map[int64]bool{}
	room := c.limits.bytes
	for i, it := range c.waiting {
		if len(group) == c.limits.items || len(group) > 0 && room < it.size() {
			left = append(left, c.waiting[i:]...)
			break
		}
		if key := it.key(); key != 0 && taken[key] {
			left = append(left, it)
			continue
		} else {
			taken[key] = true
		}
		room -= it.size()
		group = append(group, it)
	}
	c.waiting = left
	return group
}

func (c *combiner[T]) settled(group []T) {
	bytes := sizeOf(group)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outstanding -= len(group)
	c.held -= bytes
}

func sizeOf[T item](items []T) (bytes int) {
	for _, it := range items {
		bytes += it.size()
	}
	return bytes
}

func (c *combiner[T]) setAside(group []T, why *refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, refusedGroup[T]{group, why})
	if !c.dividing {
		c.dividing = true
		c.running.Go(c.divideAll)
	}
}

func (c *combiner[T]) divideAll() {
	for {
		c.mu.Lock()
		if len(c.refused) == 0 {
			c.dividing = false
			c.mu.Unlock()
			return
		}
		next := c.refused[0]
		c.refused = c.refused[1:]
		c.mu.Unlock()
		c.divide(next.items, next.why)
		c.settled(next.items)
	}
}

// divide ends every item of a group that was refused. It goes no deeper than the logarithm of the
// group's size.
func (c *combiner[T]) divide(group []T, why *refusal) {
	if len(group) == 1 {
		c.tryAlone(group[0], why)
		return
	}
	for _, half := range [][]T{group[:len(group)/2], group[len(group)/2:]} {
		if why := c.send(true, half); why != nil {
			c.divide(half, why)
		}
	}
}

func (c *combiner[T]) tryAlone(it T, why *refusal) {
	for n := 1; why.again && n < maxAttempts; n++ {
		if why = c.send(true, []T{it}); why == nil {
			return
		}
	}
	c.refuse(it, why)
}
