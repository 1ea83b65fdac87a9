package node

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

// backlogPause is the time between two checkpoints while there are events for more.
const backlogPause = time.Second

// checkpoint adds a checkpoint of the history in each audit interval, until ctx ends. Other nodes
// do the same, and one of them is enough.
func (l *ledger) checkpoint(ctx context.Context) error {
	for pause := l.cfg.Audit.Interval; pause > 0; {
		if clock.Sleep(ctx, clock.Real{}, pause) != nil {
			return nil
		}
		_, more, err := l.store.AddCheckpoint(ctx)
		if err != nil && ctx.Err() == nil {
			l.log.Warn("checkpoint of the history failed; retrying", "error", err)
		}
		if pause = l.cfg.Audit.Interval; more && err == nil {
			pause = min(pause, backlogPause)
		}
	}
	<-ctx.Done()
	return nil
}
