package chain

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/internal/clock"
)

// headQueue is how many notices may wait at the library. They carry nothing that is read, so a few do.
const headQueue = 16

// resubscribeAfter is the pause before a lost subscription is taken up again.
const resubscribeAfter = time.Second

// Heads wakes when there may be a new head, through the first WebSocket endpoint that can be subscribed; nil when no endpoint is a WebSocket. A notice is
// only a wake-up: losing one costs the wait until the next poll. The channel is closed when ctx ends.
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
				resubscribeAfter) // ends early only with ctx, which the loop asks
		}
	}()
	return wake
}

// follow passes notices on until the subscription or ctx ends.
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
	e.o.Logger.Debug("following new heads", "chain", e.o.Name, "endpoint", e.label)
	ping(wake) // blocks may have come while nobody followed
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

// ping never waits: one unread wake-up says as much as two.
func ping(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
