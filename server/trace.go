package server

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceParent returns the trace context of a call in the form of W3C; empty if it is not sampled.
func traceParent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// propagators read the trace context of clients; none without traces.
func propagators(traced bool) propagation.TextMapPropagator {
	if traced {
		return propagation.TraceContext{}
	}
	return propagation.NewCompositeTextMapPropagator()
}
