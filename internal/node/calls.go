package node

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/internal/tracing"
)

// countedTasks counts Schedule calls by their outcome, and traces them. It adds the overview to statistics.
type countedTasks struct {
	kinesinv1connect.TaskServiceHandler

	metrics *Metrics
	tracer  *tracing.Tracer
	glance  *glance
}

// Stats adds the overview, if it is asked for.
func (c countedTasks) Stats(ctx context.Context, request *kinesinv1.StatsRequest) (*kinesinv1.StatsResponse, error) {
	response, err := c.TaskServiceHandler.Stats(ctx, request)
	if err == nil && request.GetOverview() {
		response.Overview, err = c.glance.overview(ctx)
	}
	return response, err
}

// Schedule counts the call. It failed if the server failed one of its tasks.
func (c countedTasks) Schedule(ctx context.Context, request *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	ctx, end := c.tracer.Scheduling(ctx, request.GetItems())
	defer end()
	response, err := c.TaskServiceHandler.Schedule(ctx, request)
	outcome := callAccepted
	if err != nil {
		outcome = outcomeOf(refusal.Problem(err).GetReason())
	}
	for _, r := range response.GetResults() {
		if r.GetProblem() != nil && outcome != callFailed {
			outcome = outcomeOf(r.GetProblem().GetReason())
		}
	}
	c.metrics.calls.WithLabelValues(outcome).Inc()
	return response, err
}

func outcomeOf(reason kinesinv1.Reason) string {
	switch reason { //nolint:exhaustive // all others say what the caller did
	case kinesinv1.Reason_REASON_INTERNAL, kinesinv1.Reason_REASON_UNAVAILABLE, kinesinv1.Reason_REASON_FULL, kinesinv1.Reason_REASON_UNSPECIFIED:
		return callFailed
	}
	return callRefused
}
