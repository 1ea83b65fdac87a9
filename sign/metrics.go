package sign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/txn"
)

// secondsBounds, in seconds, range from a key in memory to a slow service.
var secondsBounds = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
}

type metrics struct {
	seconds metric.Float64Histogram
	total   metric.Int64Counter
}

func noMetrics() metrics {
	m, _ := newMetrics(noop.NewMeterProvider().Meter("")) // it never fails
	return m
}

func newMetrics(meter metric.Meter) (m metrics, err error) {
	var failed error
	m.seconds, err = meter.Float64Histogram("fencepost_sign_seconds", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(secondsBounds...),
		metric.WithDescription("time of a signature, with the waits for the limits of its signer"))
	m.total, failed = meter.Int64Counter("fencepost_sign",
		metric.WithDescription("signatures requested, by signer and result: ok, key_missing, "+
			"fault (another transaction, or an invalid signature), unavailable, invalid"))
	if err = errors.Join(err, failed); err != nil {
		return metrics{}, fmt.Errorf("sign: create metrics: %w", err)
	}
	return m, nil
}

// Measure makes the book count its signatures. It must be called before the first one.
func (b *Book) Measure(meter metric.Meter) (err error) {
	if b.metrics, err = newMetrics(meter); err != nil {
		return err
	}
	for _, name := range b.Names() {
		for _, result := range results { // an alert on an increase misses the first of a series
			b.metrics.total.Add(context.Background(), 0, metric.WithAttributes(
				attribute.String("signer", name), attribute.String("result", result)))
		}
	}
	return nil
}

// results are the values of the label result.
var results = []string{"ok", "key_missing", "fault", "unavailable", "invalid"}

func (m metrics) record(ctx context.Context, signer string, took time.Duration, err error) {
	by := attribute.String("signer", signer)
	m.seconds.Record(ctx, took.Seconds(), metric.WithAttributes(by))
	m.total.Add(ctx, 1, metric.WithAttributes(by, attribute.String("result", result(err))))
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, txn.ErrKeyMissing):
		return "key_missing"
	case errors.Is(err, txn.ErrSignerFault):
		return "fault"
	case errors.Is(err, txn.ErrUnavailable):
		return "unavailable"
	}
	return "invalid"
}
