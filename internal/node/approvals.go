package node

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/internal/clock"
)

// openApprovals makes the metric of approvals.
func (l *ledger) openApprovals() (err error) {
	l.awaiting, err = l.metrics.Meter("node").Int64Gauge("fencepost_approvals_waiting",
		metric.WithDescription("transactions of the ledger that await an approval, up to 10,000"))
	if err != nil {
		return fmt.Errorf("make the metric of approvals: %w", err)
	}
	return nil
}

// expireApprovals fails transactions that were not approved in time, and counts those that wait,
// until ctx ends. Other nodes do the same, and one of them is enough.
func (l *ledger) expireApprovals(ctx context.Context) error {
	for {
		_, err := l.store.ExpireApprovals(ctx)
		if err == nil {
			var waiting int64
			if waiting, err = l.store.Awaiting(ctx); err == nil {
				l.awaiting.Record(ctx, waiting)
			}
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("expiry of approvals failed; retrying", "error", err)
		}
		if clock.Sleep(ctx, clock.Real{}, l.cfg.Lease.SweepInterval) != nil {
			return nil
		}
	}
}
