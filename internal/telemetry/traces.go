package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"

	"github.com/fencepost/fencepost/internal/clock"
)

const (
	exportTimeout = 10 * time.Second
	// flushTimeout bounds the last export of a stopping node.
	flushTimeout = 3 * time.Second
	// exportLogInterval is how often a failing export is logged.
	exportLogInterval = time.Minute
)

// Traces exports the spans of a node.
type Traces struct{ provider *sdktrace.TracerProvider }

// TraceOptions configures Traces.
type TraceOptions struct {
	Endpoint      string // http://host:port or https://host:port of an OTLP/gRPC collector
	Headers       map[string]string
	TLS           *tls.Config // nil: that of the system
	SampleRatio   float64     // of requests without a trace context, 0 to 1
	Node, Version string
	Log           *slog.Logger
}

// NewTraces returns the traces of a node. It does not wait for the collector: spans are dropped
// while it is unavailable.
func NewTraces(ctx context.Context, o TraceOptions) (*Traces, error) {
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpointURL(o.Endpoint),
		otlptracegrpc.WithTimeout(exportTimeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}),
		otlptracegrpc.WithHeaders(o.Headers),
	}
	if o.TLS != nil {
		options = append(options,
			otlptracegrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: create trace exporter: %w", err)
	}
	who := resource.NewSchemaless(
		attribute.String("service.name", "fencepost"),
		attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Node),
	)
	return &Traces{sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&loggedExporter{Exporter: exporter, log: o.Log}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.SampleRatio))),
		sdktrace.WithResource(who))}, nil
}

// Provider returns the tracer provider; nil without traces.
func (t *Traces) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Tracer returns the tracer of one part of the node; nil without traces.
func (t *Traces) Tracer(part string) trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer("github.com/fencepost/fencepost/" + part)
}

// Shutdown exports the last spans.
func (t *Traces) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("telemetry: shut down traces: %w", err)
	}
	return nil
}

// loggedExporter logs failed exports. The library would report each to a global handler.
type loggedExporter struct {
	*otlptrace.Exporter
	log    *slog.Logger
	logged atomic.Int64 // Unix time of the last line
}

// ExportSpans exports spans; those of a failed export are dropped.
func (e *loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.Exporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	now, last := clock.Real{}.Now().Unix(), e.logged.Load()
	if now-last >= int64(exportLogInterval/time.Second) && e.logged.CompareAndSwap(last, now) {
		e.log.Warn("trace export failed; spans dropped", "spans", len(spans), "error", err)
	}
	return nil
}
