package otlp

import (
	"context"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

const metricsPath = "v1/metrics"

// Metrics sends the series of a registry, every minute unless OTEL_METRIC_EXPORT_INTERVAL says otherwise.
type Metrics struct{ provider *metric.MeterProvider }

// NewMetrics returns what sends series to the collector whose base URL is endpoint; see NewTraces.
func NewMetrics(ctx context.Context, endpoint string, series prometheus.Gatherer, failed func(error)) (*Metrics, error) {
	options := []otlpmetrichttp.Option{otlpmetrichttp.WithTimeout(sendMax), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression)}
	if endpoint != "" {
		full, err := url.JoinPath(endpoint, metricsPath)
		if err != nil {
			return nil, err
		}
		options = append(options, otlpmetrichttp.WithEndpointURL(full))
	}
	exporter, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, err
	}
	of, err := resource.New(ctx, resource.WithAttributes(service()...), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	reader := metric.NewPeriodicReader(observedMetrics{exporter, failed}, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(series))))
	return &Metrics{metric.NewMeterProvider(metric.WithResource(of), metric.WithReader(reader))}, nil
}

// Close sends the series once more, until ctx ends.
func (m *Metrics) Close(ctx context.Context) error { return m.provider.Shutdown(ctx) }

// observedMetrics is an exporter that tells of failures, as observedSpans does.
type observedMetrics struct {
	metric.Exporter

	failed func(error)
}

// Export implements metric.Exporter.
func (o observedMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := o.Exporter.Export(ctx, m); err != nil && o.failed != nil {
		o.failed(err)
	}
	return nil
}
