package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
)

// Actions on objectives, as they are in the audit log.
const (
	actSetObjective    = "objective.set"
	actDeleteObjective = "objective.delete"
	actReadObjective   = "objective.read"
)

type objectives struct {
	*Guard

	next kinesinv1connect.ObjectiveServiceHandler
}

// Objectives guards an ObjectiveService.
func (g *Guard) Objectives(next kinesinv1connect.ObjectiveServiceHandler) kinesinv1connect.ObjectiveServiceHandler {
	return objectives{g, next}
}

// SetObjective needs operate on the lambda.
func (s objectives) SetObjective(ctx context.Context, r *kinesinv1.SetObjectiveRequest) (*kinesinv1.SetObjectiveResponse, error) {
	if err := s.allow(ctx, actSetObjective, access.Operate, r.GetLambda()); err != nil {
		return nil, err
	}
	response, err := s.next.SetObjective(ctx, r)
	s.note(ctx, audit.Record{Action: actSetObjective, Target: r.GetLambda(), After: s.settings(response.GetObjective())}, err)
	return response, err
}

// DeleteObjective needs operate on the lambda.
func (s objectives) DeleteObjective(ctx context.Context, r *kinesinv1.DeleteObjectiveRequest) (*kinesinv1.DeleteObjectiveResponse, error) {
	if err := s.allow(ctx, actDeleteObjective, access.Operate, r.GetLambda()); err != nil {
		return nil, err
	}
	response, err := s.next.DeleteObjective(ctx, r)
	s.note(ctx, audit.Record{Action: actDeleteObjective, Target: r.GetLambda()}, err)
	return response, err
}

// GetObjectives needs read on the lambda that the request names, in all its collections, as the counts of
// starts are of all of them. Without a lambda it leaves out those that the caller may not read whole.
func (s objectives) GetObjectives(ctx context.Context, r *kinesinv1.GetObjectivesRequest) (*kinesinv1.GetObjectivesResponse, error) {
	if r.GetLambda() != "" {
		if err := s.allow(ctx, actReadObjective, access.Read, r.GetLambda()); err != nil {
			return nil, err
		}
		return s.next.GetObjectives(ctx, r)
	}
	response, err := s.next.GetObjectives(ctx, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Objectives = slices.DeleteFunc(response.Objectives, func(o *kinesinv1.ObjectiveStatus) bool {
		return !by.Allow(access.Read, o.GetObjective().GetLambda())
	})
	return response, nil
}
