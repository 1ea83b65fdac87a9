package limit

import (
	"context"
	"sync"
)

const (
	// maxBuilds bounds the long responses over HTTP that a node builds at once. Each takes several
	// times its size until it is complete.
	maxBuilds = 4
	// buildsOfCaller is how many of them may be for one caller, and buildsOfSource for the callers
	// without names of one source address, which can be a proxy.
	buildsOfCaller, buildsOfSource = 1, 2
)

// turns lets callers build long responses: each caller a few at a time, and maxBuilds in all. A
// build does not depend on how fast a client reads, so the others wait.
type turns struct {
	all chan struct{}

	mu  sync.Mutex
	own map[string]*turn
}

// turn is the builds of one caller.
type turn struct {
	free  chan struct{} // holds an element for each further build
	users int           // that build or wait
}

func newTurns() *turns {
	return &turns{all: make(chan struct{}, maxBuilds), own: map[string]*turn{}}
}

// take waits for a turn of the key, which has n at a time. release ends it.
func (t *turns) take(ctx context.Context, key string, n int) (release func(), err error) {
	own := t.join(key, n)
	select {
	case <-own.free:
	case <-ctx.Done():
		t.leave(key, own)
		return nil, ctx.Err()
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		own.free <- struct{}{}
		t.leave(key, own)
		return nil, ctx.Err()
	}
	return func() {
		<-t.all
		own.free <- struct{}{}
		t.leave(key, own)
	}, nil
}

func (t *turns) join(key string, n int) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.own[key]
	if own == nil {
		own = &turn{free: make(chan struct{}, n)}
		for range n {
			own.free <- struct{}{}
		}
		t.own[key] = own
	}
	own.users++
	return own
}

func (t *turns) leave(key string, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.own, key)
	}
}
