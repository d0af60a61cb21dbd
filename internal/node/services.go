package node

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/feature/deadletter"
	"github.com/kinesin-io/kinesin/internal/feature/job"
	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/internal/rest"
	"github.com/kinesin-io/kinesin/internal/tracing"
)

// Services are the guarded services of a node. They do what the caller in a context may do.
type Services struct {
	rest.Services

	Inbound kinesinv1connect.InboundServiceHandler
	Access  kinesinv1connect.AccessServiceHandler
	Keyring kinesinv1connect.KeyringServiceHandler
}

// Services returns the services of this node's roles; those of other roles are nil.
func (n *Node) Services() (s Services) {
	s.Access = n.guard.Access(n.tokens, n.taken)
	if n.hsc != nil {
		s.Workers = n.hsc
	}
	if n.inbound == nil {
		return s
	}
	s.Tasks, s.Lambdas, s.Jobs = countedTasks{n.guard.Tasks(n.inbound), n.metrics, n.tracer, &glance{source: n, clock: n.clock}}, n.guard.Lambdas(n.lambdas), n.guard.Jobs(n.jobs, job.VerbOf)
	s.DeadLetters = n.guard.DeadLetters(deadletter.New(deadletter.Config{Queue: n.queue, Lambda: n.catalog.Find, LambdaOf: n.inbound.LambdaOf, Clock: n.clock}))
	s.Gates = n.guard.Gates(n.gating, n.gating.LambdaOf)
	s.Crons = n.guard.Crons(n.periodic, n.periodic.LambdaOf)
	s.Chains = n.guard.Chains(n.chaining)
	s.Groups = n.guard.Groups(n.grouping, n.grouping.LambdaOf, n.grouping.IDsThatBegin)
	s.Quotas = n.guard.Quotas(n.quotas.service)
	s.Objectives = n.guard.Objectives(n.objectiveService())
	s.Inbound, s.Keyring = n.guard.Inbound(n.ingest), n.guard.Keyring(n.keyring)
	return s
}

// objectiveService serves objectives, and makes those of registrations.
func (n *Node) objectiveService() *objective.Service {
	return &objective.Service{Keeper: n.objectives, Catalog: n.catalog}
}

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
