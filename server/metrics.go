package server

import (
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
	return &metrics{watchers, polls, catchUps}, errors.Join(err1, err2, err3)
}
