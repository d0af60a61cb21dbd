package otlp

import (
	"os"
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"
)

// service returns what the process is called in its records, unless OTEL_SERVICE_NAME or
// OTEL_RESOURCE_ATTRIBUTES says otherwise.
func service() []attribute.KeyValue {
	of := []attribute.KeyValue{attribute.String("service.name", "kinesin"), attribute.Int("process.pid", os.Getpid())}
	if info, found := debug.ReadBuildInfo(); found {
		of = append(of, attribute.String("service.version", info.Main.Version))
	}
	return of
}
