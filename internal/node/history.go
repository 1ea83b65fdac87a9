package node

import (
	"context"

	"github.com/fencepost/fencepost/internal/clock"
)

// checkpoint adds a checkpoint of the history in each audit interval, until ctx ends. Other nodes
// do the same, and one of them is enough.
func (n *Node) checkpoint(ctx context.Context) error {
	for n.cfg.Audit.Interval > 0 {
		if clock.Sleep(ctx, clock.Real{}, n.cfg.Audit.Interval) != nil {
			return nil
		}
		if _, err := n.store.AddCheckpoint(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("checkpoint of the history failed; retrying", "error", err)
		}
	}
	<-ctx.Done()
	return nil
}
