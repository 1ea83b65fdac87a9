package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// maxSeries bounds the label values of one instrument; values above it share one series.
const maxSeries = 1000

// Metrics collects the metrics of a node's parts, and exposes them to Prometheus.
type Metrics struct {
	provider *sdk.MeterProvider
	registry *prometheus.Registry
	who      *resource.Resource
	ledgers  []*Metrics
}

// NewMetrics returns the metrics of a node. They include those of the Go runtime and the process.
func NewMetrics(node, version string) (*Metrics, error) {
	registry := prometheus.NewRegistry()
	err := errors.Join(registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return nil, fmt.Errorf("telemetry: register process metrics: %w", err)
	}
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: create Prometheus exporter: %w", err)
	}
	who := resource.NewSchemaless(
		attribute.String("service.name", "fencepost"),
		attribute.String("service.version", version),
		attribute.String("service.instance.id", node),
	)
	return &Metrics{
		provider: sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithResource(who),
			sdk.WithCardinalityLimit(maxSeries)),
		registry: registry,
		who:      who,
	}, nil
}

// OfLedger returns the metrics of one of several ledgers. They have the label "ledger".
func (m *Metrics) OfLedger(name string) (*Metrics, error) {
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"ledger": name}, m.registry)
	reader, err := exporter.New(exporter.WithRegisterer(labelled), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: create Prometheus exporter: %w", err)
	}
	of := &Metrics{
		provider: sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithResource(m.who),
			sdk.WithCardinalityLimit(maxSeries)),
		registry: m.registry,
	}
	m.ledgers = append(m.ledgers, of)
	return of, nil
}

// Provider returns the meter provider.
func (m *Metrics) Provider() metric.MeterProvider { return m.provider }

// Meter returns the meter of one part of the node.
func (m *Metrics) Meter(part string) metric.Meter {
	return m.provider.Meter("github.com/fencepost/fencepost/" + part)
}

// Handler serves all metrics in the Prometheus format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Shutdown stops the collection.
func (m *Metrics) Shutdown(ctx context.Context) error {
	err := m.provider.Shutdown(ctx)
	for _, of := range m.ledgers {
		err = errors.Join(err, of.Shutdown(ctx))
	}
	if err != nil {
		return fmt.Errorf("telemetry: shut down metrics: %w", err)
	}
	return nil
}
