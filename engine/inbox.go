package engine

import (
	"context"
	"sync"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// inboxes reads what others wrote for the submitters of this node. Actors ask one by one; those that ask while a read is under way are served together by the
// next, so a node with a thousand busy submitters makes a few reads, not a thousand.
type inboxes struct {
	read func(ctx context.Context, ids []txn.SubmitterID) (map[txn.SubmitterID]store.Inbox, error)

	wg      sync.WaitGroup // reads under way
	mu      sync.Mutex
	busy    bool
	waiting []*inboxRequest
}

type inboxRequest struct {
	id    txn.SubmitterID
	done  chan struct{}
	inbox store.Inbox
	err   error
}

// get reads the inbox of one submitter. The read begins after the call, so it holds everything that was committed before it.
func (b *inboxes) get(ctx context.Context, id txn.SubmitterID) (store.Inbox, error) {
	r := &inboxRequest{id: id, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, r)
	lead := !b.busy
	b.busy = true
	b.mu.Unlock()
	if lead {
		b.wg.Go(func() { b.serve(context.WithoutCancel(ctx)) })
	}
	select {
	case <-r.done:
		return r.inbox, r.err
	case <-ctx.Done():
		return store.Inbox{}, ctx.Err()
	}
}

// serve answers until nobody waits.
func (b *inboxes) serve(ctx context.Context) {
	for {
		b.mu.Lock()
		batch := b.waiting
		b.waiting = nil
		if len(batch) == 0 {
			b.busy = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		ids := make([]txn.SubmitterID, 0, len(batch))
		for _, r := range batch {
			ids = append(ids, r.id)
		}
		all, err := b.read(ctx, ids)
		for _, r := range batch {
			r.inbox, r.err = all[r.id], err
			close(r.done)
		}
	}
}
