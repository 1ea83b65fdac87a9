package engine

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// metrics count what an operator watches. Submitters are not labels: there may be many thousands.
type metrics struct {
	leases  metric.Int64Counter
	commits metric.Int64Counter
	sends   metric.Int64Counter
}

func newMetrics(m metric.Meter) (metrics, error) {
	if m == nil {
		m = noop.NewMeterProvider().Meter("")
	}
	var all metrics
	var err error
	counter := func(name, what string) metric.Int64Counter {
		c, failed := m.Int64Counter(name, metric.WithDescription(what))
		if failed != nil {
			err = fmt.Errorf("engine: metric %s: %w", name, failed)
		}
		return c
	}
	all.leases = counter("fencepost_lease", "leases asked for, by result")
	all.commits = counter("fencepost_commit", "fenced commits, by outcome")
	all.sends = counter("fencepost_tx_submit", "signed transactions handed to a chain, by the class of the answer")
	return all, err
}

func (m metrics) lease(ctx context.Context, result string, n int) {
	if n > 0 {
		m.leases.Add(ctx, int64(n), metric.WithAttributes(attribute.String("result", result)))
	}
}

// tellCommit counts the fate of a change.
func (a *actor) tellCommit(ctx context.Context, _ txn.Step, _ txn.Change, o store.Outcome) {
	a.e.metrics.commits.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", o.String())))
}

func (m metrics) sent(ctx context.Context, c txn.Class) {
	m.sends.Add(ctx, 1, metric.WithAttributes(attribute.String("class", string(c))))
}
