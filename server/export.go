package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/otlp"
)

// byEnv is the share of traced calls that leaves it to OTEL_TRACES_SAMPLER.
const byEnv = -1

// export begins to send traces and metrics to an OpenTelemetry collector, as far as that is turned on.
func (s *Server) export(ctx context.Context, c *node.Config) error {
	failed := func(what string) func(error) {
		return func(err error) {
			s.config.Log.WarnContext(ctx, "OpenTelemetry collector took nothing", slog.String("what", what), slog.Any("error", err))
		}
	}
	if share := s.config.TraceSample; share > 0 || s.config.OTLPByEnv {
		if share == 0 {
			share = byEnv
		}
		traces, err := otlp.NewTraces(ctx, s.config.OTLPEndpoint, share, failed("traces"))
		if err != nil {
			return err
		}
		c.Tracer = traces.Tracer()
		s.exports = append(s.exports, traces)
	}
	if s.config.OTLPMetrics {
		metrics, err := otlp.NewMetrics(ctx, s.config.OTLPEndpoint, s.metrics.Gatherer(), failed("metrics"))
		if err != nil {
			return err
		}
		s.exports = append(s.exports, metrics)
	}
	return nil
}

// exporter sends something to a collector until it is closed.
type exporter interface {
	Close(ctx context.Context) error
}

// closeExports sends what is left.
func (s *Server) closeExports() {
	ctx, cancel := clock.Within(context.Background(), clock.Real(), collectorCloseMax)
	defer cancel()
	var errs []error
	for _, e := range s.exports {
		errs = append(errs, e.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		s.config.Log.WarnContext(ctx, "OpenTelemetry collector did not take the last traces and metrics", slog.Any("error", err))
	}
}
