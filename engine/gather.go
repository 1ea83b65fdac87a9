package engine

import (
	"context"
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

const (
	// gatherLimit bounds how many submitters one statement asks for.
	gatherLimit = 1024
	// failuresLimit bounds how many statements fail for one batch, in case all rows are unreadable.
	// To find one of gatherLimit takes 11.
	failuresLimit = 64
)

// gathered combines the requests of this node's owners. Requests made during a statement are served
// together by the next one, so a thousand busy submitters cost a few statements, not a thousand.
type gathered[T any] struct {
	clock    clock.Clock // nil: never wait for more requests
	ask      func(ctx context.Context, ids []txn.SubmitterID) (map[txn.SubmitterID]T, error)
	unwanted func(context.Context, []T) // receives results whose owners have left; may be nil

	wg      sync.WaitGroup // running statements
	mu      sync.Mutex
	busy    bool
	crowd   bool               // the last batch had at least crowdFrom requests
	cut     context.CancelFunc // cancels the running statements
	waiting []*request[T]
}

type request[T any] struct {
	id     txn.SubmitterID
	done   chan struct{}
	answer T
	err    error
	ended  bool // answered, or the owner has left
}

// get requests the result for one submitter. The statement starts after the call, so it sees
// everything that was committed before it.
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

// serve runs statements until no request waits.
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
		failures := failuresLimit
		all, failed := g.askAll(ctx, ids, &failures)
		if left := g.deliver(batch, all, failed); len(left) > 0 && g.unwanted != nil {
			g.unwanted(ctx, left)
		}
	}
}

// askAll requests the results for all submitters with one statement. If the content of a row makes
// it fail, it asks for each half of them, so that only the submitter of that row fails. failures is
// how many statements may still fail before it stops dividing.
func (g *gathered[T]) askAll(ctx context.Context, ids []txn.SubmitterID,
	failures *int) (all map[txn.SubmitterID]T, failed map[txn.SubmitterID]error) {
	answers, err := g.ask(ctx, ids)
	if err == nil {
		return answers, nil
	}
	*failures--
	if len(ids) > 1 && store.IsRowError(err) && *failures > 0 {
		all, failed = g.askAll(ctx, ids[:len(ids)/2], failures)
		if *failures > 0 {
			others, too := g.askAll(ctx, ids[len(ids)/2:], failures)
			return joined(all, others), joined(failed, too)
		}
		ids = ids[len(ids)/2:]
	}
	failed = joined(failed, make(map[txn.SubmitterID]error, len(ids)))
	for _, id := range ids {
		failed[id] = err
	}
	return all, failed
}

func joined[T any](a, b map[txn.SubmitterID]T) map[txn.SubmitterID]T {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}

const (
	// crowdFrom is the batch size from which the next batch waits for more requests: a block has
	// then woken hundreds of actors, which ask as they are scheduled.
	crowdFrom = 8
	// crowdWait is the length of that wait.
	crowdWait = 10 * time.Millisecond
)

// await lets actors that were woken together ask together. It takes no time after a small batch.
func (g *gathered[T]) await(ctx context.Context) {
	runtime.Gosched()
	g.mu.Lock()
	crowd, empty := g.crowd, len(g.waiting) == 0
	g.mu.Unlock()
	if crowd && !empty && g.clock != nil {
		_ = clock.Sleep(ctx, g.clock, crowdWait) // if cancelled, the statement fails
	}
}

// end waits for running statements, and cancels them after atMost. No request may follow.
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

// take returns the next batch, without owners that have left; nil ends serve.
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

// deliver delivers the results, and returns those whose owners have left.
func (g *gathered[T]) deliver(batch []*request[T], all map[txn.SubmitterID]T,
	failed map[txn.SubmitterID]error) (left []T) {
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
		r.answer, r.err = answer, failed[r.id]
		r.ended = true
		close(r.done)
	}
	return left
}
