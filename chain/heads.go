package chain

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/internal/clock"
)

// unsubscribeTimeout limits the wait for the confirmation at the end of a subscription.
const unsubscribeTimeout = time.Second

// resubscribeAfter is the delay before a lost subscription is renewed.
const resubscribeAfter = time.Second

// Heads returns a channel that wakes when there may be a new head, through the first WebSocket
// endpoint with subscriptions; nil if no endpoint is a WebSocket. A lost wake-up costs the wait
// until the next poll. The channel is closed when ctx ends.
func (c *Client) Heads(ctx context.Context) <-chan struct{} {
	var sockets []*endpoint
	for _, e := range c.endpoints {
		if e.ws {
			sockets = append(sockets, e)
		}
	}
	if len(sockets) == 0 {
		return nil
	}
	wake := make(chan struct{}, 1)
	go func() {
		defer close(wake)
		for ctx.Err() == nil {
			for _, e := range sockets {
				e.follow(ctx, wake)
			}
			_ = clock.Sleep(ctx, c.o.Clock,
				resubscribeAfter) // ends early only with ctx, which the loop checks
		}
	}()
	return wake
}

// follow forwards notifications until the subscription or ctx ends.
func (e *endpoint) follow(ctx context.Context, wake chan<- struct{}) {
	var (
		sub  *jsonrpc.Subscription
		over *jsonrpc.Client
	)
	f := e.call(ctx, func(ctx context.Context, client *jsonrpc.Client) error {
		var err error
		over = client
		sub, err = client.Subscribe(ctx, "newHeads", func() { ping(wake) })
		return err
	})
	if f != nil {
		return
	}
	e.o.Logger.Debug("subscribed to new heads", "chain", e.o.Name, "endpoint", e.label)
	ping(wake) // blocks may have arrived without a subscription
	select {
	case <-sub.Done():
		e.drop(over)
	case <-ctx.Done():
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTimeout)
		defer cancel()
		sub.Unsubscribe(ending)
	}
}

// ping never blocks: one unread wake-up is as good as two.
func ping(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
