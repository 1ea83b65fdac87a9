package engine

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// gatherLimit bounds how many submitters one statement asks for.
const gatherLimit = 1024

// gathered combines what the owners of this node ask for one by one. Those that ask while an answer is under way are served together by the next statement, so a
// node with a thousand busy submitters asks a few times, not a thousand.
type gathered[T any] struct {
	clock    clock.Clock // nil: nobody waits for a crowd
	ask      func(ctx context.Context, ids []txn.SubmitterID) (map[txn.SubmitterID]T, error)
	unwanted func(context.Context, []T) // gets the answers whose owners have left; may be nil

	wg      sync.WaitGroup // statements under way
	mu      sync.Mutex
	busy    bool
	crowd   bool               // the last batch was one
	cut     context.CancelFunc // of the statements under way
	waiting []*request[T]
}

type request[T any] struct {
	id     txn.SubmitterID
	done   chan struct{}
	answer T
	err    error
	ended  bool // answered, or its owner has left
}

// get asks for one submitter. The statement begins after the call, so it sees everything that was committed before it.
func (g *gathered[T]) get(ctx context.Context, id txn.SubmitterID) (answer T, err error) {
	r := &request[T]{id: id, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, r)
	if !g.busy {
		var serving context.Context
		serving, g.cut = context.WithCancel(context.WithoutCancel(ctx))
		g.busy = true
		g.wg.Go(func() { g.serve(serving) })
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.ended {
		return r.answer, r.err
	}
	r.ended = true
	return answer, ctx.Err()
}

// serve answers until nobody waits.
func (g *gathered[T]) serve(ctx context.Context) {
	for {
		g.await(ctx)
		batch := g.take()
		if batch == nil {
			return
		}
		ids := make([]txn.SubmitterID, len(batch))
		for i, r := range batch {
			ids[i] = r.id
		}
		all, err := g.ask(ctx, ids)
		if left := g.tell(batch, all, err); len(left) > 0 && g.unwanted != nil {
			g.unwanted(ctx, left)
		}
	}
}

const (
	// crowdFrom is how many must have asked together for the next batch to wait for others: then a block has woken hundreds, who ask as they get their turn.
	crowdFrom = 8
	// crowdWait is how long it waits.
	crowdWait = 10 * time.Millisecond
)

// await lets owners that were woken together ask together. Where there is no crowd it takes no time.
func (g *gathered[T]) await(ctx context.Context) {
	runtime.Gosched()
	g.mu.Lock()
	crowd, empty := g.crowd, len(g.waiting) == 0
	g.mu.Unlock()
	if crowd && !empty && g.clock != nil {
		_ = clock.Sleep(ctx, g.clock, crowdWait) // cut short, the statement fails
	}
}

// end waits for what is under way, and cuts off what takes longer. Nobody asks any more.
func (g *gathered[T]) end(c clock.Clock, atMost time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.wg.Wait()
	}()
	timer := c.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		g.mu.Lock()
		if g.busy {
			g.cut()
		}
		g.mu.Unlock()
		<-ended
	}
}

// take is the next batch, without those who have left; nil ends the server.
func (g *gathered[T]) take() (batch []*request[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > 0 && len(batch) < gatherLimit {
		if r := g.waiting[0]; !r.ended {
			batch = append(batch, r)
		}
		g.waiting = g.waiting[1:]
	}
	g.crowd = len(batch) >= crowdFrom
	if g.busy = len(batch) > 0; !g.busy {
		g.cut()
	}
	return batch
}

// tell hands the answers out, and returns those that nobody waits for any more.
func (g *gathered[T]) tell(batch []*request[T], all map[txn.SubmitterID]T, err error) (left []T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range batch {
		answer, has := all[r.id]
		if r.ended {
			if has {
				left = append(left, answer)
			}
			continue
		}
		r.answer, r.err, r.ended = answer, err, true
		close(r.done)
	}
	return left
}
