package feed

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

type metrics struct {
	streams     metric.Int64UpDownCounter
	reads       metric.Int64Counter
	ledgerReads metric.Int64Counter
}

// scope is the instrumentation scope of the server's metrics. It is exported with each of them.
const scope = "github.com/fencepost/fencepost/server"

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter(scope)
	streams, err1 := meter.Int64UpDownCounter("fencepost.watch.streams",
		metric.WithDescription("Open WatchTx streams"), metric.WithUnit("{stream}"))
	reads, err2 := meter.Int64Counter("fencepost.feed.polls",
		metric.WithDescription("Reads of the event feed by the node"),
		metric.WithUnit("{read}"))
	ledgerReads, err3 := meter.Int64Counter("fencepost.watch.ledger_reads",
		metric.WithDescription(
			"Pages of events read from the ledger by streams that resumed or fell behind"),
		metric.WithUnit("{read}"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("server: create the metrics of the feed: %w", err)
	}
	// Export zeros from the start: a rate needs a sample before the first increase.
	reads.Add(context.Background(), 0)
	ledgerReads.Add(context.Background(), 0)
	streams.Add(context.Background(), 0)
	return &metrics{streams, reads, ledgerReads}, nil
}
