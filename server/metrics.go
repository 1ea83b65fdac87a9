package server

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// metrics are what the server measures beyond the calls themselves, which the transport's own instrumentation counts and times.
type metrics struct {
	watchers metric.Int64UpDownCounter
	polls    metric.Int64Counter
	catchUps metric.Int64Counter
	refusals metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter("github.com/fencepost/fencepost/server")
	watchers, err1 := meter.Int64UpDownCounter("fencepost.watch.streams",
		metric.WithDescription("WatchTx streams that are open"), metric.WithUnit("{stream}"))
	polls, err2 := meter.Int64Counter("fencepost.feed.polls",
		metric.WithDescription("Reads of the feed's head by the tailer of the node"), metric.WithUnit("{read}"))
	catchUps, err3 := meter.Int64Counter("fencepost.watch.ledger_reads",
		metric.WithDescription("Pages that streams read from the ledger themselves, because they resumed or fell behind"), metric.WithUnit("{read}"))
	refusals, err4 := meter.Int64Counter("fencepost.refusals",
		metric.WithDescription("Calls, and requests of batches, that were refused for want of room, by reason (QUEUE_FULL, NODE_BUSY)"), metric.WithUnit("{call}"))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	for _, c := range []metric.Int64Counter{polls, catchUps} { // there before their first event, which is none to a query of increases otherwise
		c.Add(context.Background(), 0)
	}
	watchers.Add(context.Background(), 0)
	for _, reason := range []pb.ErrorReason{pb.ErrorReason_ERROR_REASON_QUEUE_FULL, pb.ErrorReason_ERROR_REASON_NODE_BUSY} {
		refusals.Add(context.Background(), 0, metric.WithAttributes(attribute.String("reason", reasonName(reason))))
	}
	return &metrics{watchers, polls, catchUps, refusals}, nil
}
