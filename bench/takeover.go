package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

const takeoverSubmitters = 50

// takeover kills the node that owns everything, and measures how long it takes until another takes
// nonces: the first, and the last submitter's.
func takeover(ctx context.Context, b *bench) (err error) {
	s, err := newService(
		ctx,
		b,
		serviceOptions{
			submitters: takeoverSubmitters,
			period:     250 * time.Millisecond,
			lease:      b.size.lease,
		},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := load.Create(ctx, s.nodes[0].conns, load.Plan{
		Submitters: s.submitters, Callers: 16, Count: 200 * takeoverSubmitters, Payload: transfer(),
		Prefix: "takeover",
	}); err != nil {
		return err
	}
	if err := s.addNode(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*b.size.lease)
	defer cancel()
	h := &heirs{first: map[string]time.Time{}, all: make(chan struct{})}
	begun := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(
		// a failure shows as a wait that ends in vain
		func() {
			_ = load.Watch(ctx, s.nodes[1].conns[0], load.All(), func() { close(begun) },
				h.saw)
		})
	select {
	case <-begun:
	case <-ctx.Done():
		return ctx.Err()
	}
	h.kill(s.nodes[0])
	s.nodes = s.nodes[1:]
	select {
	case <-h.all:
	case <-ctx.Done():
		return errors.New("not every submitter has found another owner")
	}
	first, last := h.times()
	b.add("takeover.first", "s", first.Seconds())
	b.add("takeover.all", "s", last.Seconds())
	b.add("takeover.lease", "s", b.size.lease.Seconds())
	return nil
}

// heirs notes when each submitter takes its first nonce after the kill.
type heirs struct {
	mu     sync.Mutex
	killed time.Time
	first  map[string]time.Time
	all    chan struct{}
}

// inFlight is how long the transactions of the dead node may still arrive.
const inFlight = 200 * time.Millisecond

func (h *heirs) kill(n *node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.killed = time.Now()
	_ = n.kill() // it is there
	<-n.ended
}

func (h *heirs) saw(e load.Seen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := e.GetTime().AsTime()
	if h.killed.IsZero() || at.Sub(h.killed) < inFlight ||
		e.GetKind() != pb.TxEventKind_TX_EVENT_KIND_ALLOCATED ||
		!h.first[e.GetSubmitter()].IsZero() {
		return
	}
	h.first[e.GetSubmitter()] = at
	if len(h.first) == takeoverSubmitters {
		close(h.all)
	}
}

func (h *heirs) times() (first, last time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.first {
		after := at.Sub(h.killed)
		if first == 0 || after < first {
			first = after
		}
		last = max(last, after)
	}
	return first, last
}
