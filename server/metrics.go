package server

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// metrics are what the server measures beyond the calls themselves, which the transport's own instrumentation counts and times.
type metrics struct {
	watchers metric.Int64UpDownCounter
	polls    metric.Int64Counter
	catchUps metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter("github.com/fencepost/fencepost/server")
	watchers, err1 := meter.Int64UpDownCounter("fencepost.watch.streams",
		metric.WithDescription("WatchTx streams that are open"), metric.WithUnit("{stream}"))
	polls, err2 := meter.Int64Counter("fencepost.feed.polls",
		metric.WithDescription("Reads of the feed's head by the tailer of the node"), metric.WithUnit("{read}"))
	catchUps, err3 := meter.Int64Counter("fencepost.watch.ledger_reads",
		metric.WithDescription("Pages that streams read from the ledger themselves, because they resumed or fell behind"), metric.WithUnit("{read}"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	for _, c := range []metric.Int64Counter{polls, catchUps} { // there before their first event, which is none to a query of increases otherwise
		c.Add(context.Background(), 0)
	}
	watchers.Add(context.Background(), 0)
	return &metrics{watchers, polls, catchUps}, nil
}
