package chain

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/internal/clock"
)

// headQueue is the number of buffered notifications. Their content is not read, so a few suffice.
const headQueue = 16

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
	heads := make(chan json.RawMessage, headQueue)
	var (
		sub  *rpc.ClientSubscription
		over *rpc.Client
	)
	f := e.call(ctx, func(ctx context.Context, client *rpc.Client) error {
		var err error
		over = client
		sub, err = client.EthSubscribe(ctx, heads, "newHeads")
		return err
	})
	if f != nil {
		return
	}
	defer sub.Unsubscribe()
	e.o.Logger.Debug("subscribed to new heads", "chain", e.o.Name, "endpoint", e.label)
	ping(wake) // blocks may have arrived without a subscription
	for {
		select {
		case <-heads:
			ping(wake)
		case err := <-sub.Err():
			if err != nil {
				e.drop(over)
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

// ping never blocks: one unread wake-up is as good as two.
func ping(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
