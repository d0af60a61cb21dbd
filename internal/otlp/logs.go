// Package otlp sends audit records to an OpenTelemetry collector, by OTLP over HTTP. Sending is best effort
// and never delays a call: the store keeps each record, whether or not the collector takes it. The exporter
// also follows OpenTelemetry's own environment variables, such as OTEL_EXPORTER_OTLP_HEADERS.
package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

const (
	// queueRecordsMax bounds the records that wait for the collector, batchRecordsMax those of a request.
	queueRecordsMax, batchRecordsMax = 4096, 512
	// sendEvery is how long a record waits for others, sendMax how long a request and its repetitions take at
	// most.
	sendEvery, sendMax = time.Second, 10 * time.Second
	logsPath           = "v1/logs" // below the endpoint: OTLP 1.11, section OTLP/HTTP Request
)

// ErrEndpoint refuses an endpoint; the text says what is allowed.
var ErrEndpoint = errors.New("OTLP endpoint refused")

// AuditLog sends audit records. It is safe for concurrent use.
type AuditLog struct {
	provider *sdklog.LoggerProvider
	logger   log.Logger
}

// CheckEndpoint refuses what is not the base URL of a collector, such as http://localhost:4318.
func CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%w: want a URL such as http://localhost:4318", ErrEndpoint)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%w: want a URL without user, query and fragment; credentials go into OTEL_EXPORTER_OTLP_HEADERS", ErrEndpoint)
	}
	return nil
}

// NewAuditLog returns what sends audit records to the collector whose base URL is endpoint. failed is told of
// each request that is given up, and may be nil.
func NewAuditLog(ctx context.Context, endpoint string, failed func(error)) (*AuditLog, error) {
	if err := CheckEndpoint(endpoint); err != nil {
		return nil, err
	}
	full, err := url.JoinPath(endpoint, logsPath)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEndpoint, err)
	}
	exporter, err := otlploghttp.New(ctx,
		otlploghttp.WithEndpointURL(full),
		otlploghttp.WithTimeout(sendMax),
		otlploghttp.WithCompression(otlploghttp.GzipCompression),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: sendMax / 2, MaxElapsedTime: sendMax}))
	if err != nil {
		return nil, err
	}
	of, err := resource.New(ctx, resource.WithAttributes(service()...), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	p := sdklog.NewLoggerProvider(sdklog.WithResource(of), sdklog.WithProcessor(sdklog.NewBatchProcessor(
		observed{exporter, failed}, sdklog.WithMaxQueueSize(queueRecordsMax), sdklog.WithExportMaxBatchSize(batchRecordsMax),
		sdklog.WithExportInterval(sendEvery), sdklog.WithExportTimeout(sendMax))))
	return &AuditLog{provider: p, logger: p.Logger("kinesin.audit")}, nil
}

// Write queues a record. Where the queue is full, because the collector is away, the oldest one goes.
func (l *AuditLog) Write(r audit.Record) {
	var o log.Record
	o.SetTimestamp(r.At.Time())
	o.SetObservedTimestamp(r.At.Time())
	o.SetSeverity(log.SeverityInfo)
	if r.Outcome != audit.OK {
		o.SetSeverity(log.SeverityWarn)
	}
	o.SetEventName("kinesin.audit")
	o.AddAttributes(
		attribute.String("identity", r.Identity), attribute.String("from", r.From), attribute.String("action", r.Action),
		attribute.String("target", r.Target), attribute.String("outcome", r.Outcome), attribute.Int64("count", int64(r.Count)))
	if text, err := json.Marshal(r); err == nil {
		o.SetBody(attribute.StringValue(string(text)))
	}
	l.logger.Emit(context.Background(), o)
}

// Close sends what is queued, until ctx ends.
func (l *AuditLog) Close(ctx context.Context) error { return l.provider.Shutdown(ctx) }

// observed is an exporter that tells of failures.
type observed struct {
	sdklog.Exporter

	failed func(error)
}

// Export implements sdklog.Exporter. It returns no error, because the process's log says it already.
func (o observed) Export(ctx context.Context, records []sdklog.Record) error {
	if err := o.Exporter.Export(ctx, records); err != nil && o.failed != nil {
		o.failed(err)
	}
	return nil
}
