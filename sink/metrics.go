package sink

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type metrics struct {
	delivered, retried, parked, dead metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider, r *Runner) (*metrics, error) {
	meter := provider.Meter("github.com/fencepost/fencepost/sink")
	m := &metrics{}
	var errs [9]error
	m.delivered, errs[0] = meter.Int64Counter("fencepost.sink.delivered",
		metric.WithDescription("Events accepted by the receiver, by sink"),
		metric.WithUnit("{event}"))
	m.retried, errs[1] = meter.Int64Counter("fencepost.sink.retried",
		metric.WithDescription("Repeated attempts to deliver an event, by sink"),
		metric.WithUnit("{event}"))
	m.parked, errs[2] = meter.Int64Counter("fencepost.sink.parked",
		metric.WithDescription("Transactions parked because an event was not accepted, by sink"),
		metric.WithUnit("{transaction}"))
	m.dead, errs[3] = meter.Int64Counter("fencepost.sink.dead",
		metric.WithDescription("Transactions whose events are not retried any more, by sink"),
		metric.WithUnit("{transaction}"))
	waiting, err4 := meter.Int64ObservableGauge("fencepost.sink.waiting",
		metric.WithDescription("Transactions that are parked now, counted up to 100000, by sink "+
			"and state (parked, dead); of the sinks that this node delivers for"),
		metric.WithUnit("{transaction}"))
	events, err5 := meter.Int64ObservableGauge("fencepost.sink.lag.events",
		metric.WithDescription("Events that this node has read and the sink has not passed, "+
			"at most watch.ring_events, by sink"),
		metric.WithUnit("{event}"))
	seconds, err6 := meter.Float64ObservableGauge("fencepost.sink.lag",
		metric.WithDescription("Age of the oldest event that is being delivered, by sink; or "+
			"how long the sink has not delivered, because its receiver cannot be opened, or it "+
			"is paused or disabled; 0: neither"),
		metric.WithUnit("s"))
	held, err7 := meter.Int64ObservableGauge("fencepost.sink.owned",
		metric.WithDescription("1 on the node that delivers for a sink, 0 on the other nodes, by "+
			"sink"),
		metric.WithUnit("{sink}"))
	errs[4], errs[5] = err4, err5
	errs[6], errs[7] = err6, err7
	_, errs[8] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := r.o.Clock.Now()
		for _, name := range r.names {
			owned := int64(0)
			if w := r.worker(name); w != nil && !w.lost.Load() {
				owned = 1
			}
			o.ObserveInt64(held, owned, metric.WithAttributes(attribute.String("sink", name)))
		}
		for _, w := range r.all() {
			of := attribute.String("sink", w.set.Name)
			by := metric.WithAttributes(of)
			o.ObserveInt64(events, w.behind.Load(), by)
			lag := 0.0
			for _, since := range []int64{w.oldest.Load(), w.stalled.Load()} {
				if since != 0 {
					lag = max(lag, now.Sub(time.Unix(0, since)).Seconds())
				}
			}
			o.ObserveFloat64(seconds, lag, by)
			o.ObserveInt64(waiting, w.parked.Load(),
				metric.WithAttributes(of, attribute.String("state", "parked")))
			o.ObserveInt64(waiting, w.dead.Load(),
				metric.WithAttributes(of, attribute.String("state", "dead")))
		}
		return nil
	}, waiting, events, seconds, held)
	// Export zeros from the start: a rate needs a sample before the first increase.
	for _, s := range r.names {
		for _, c := range []metric.Int64Counter{m.delivered, m.retried, m.parked, m.dead} {
			m.add(context.Background(), c, s, 0)
		}
	}
	return m, errors.Join(errs[:]...)
}

func (m *metrics) add(ctx context.Context, c metric.Int64Counter, sink string, n int64) {
	if c != nil {
		c.Add(ctx, n, metric.WithAttributes(attribute.String("sink", sink)))
	}
}
