package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
)

type objectives service[kinesinv1connect.ObjectiveServiceHandler]

// Objectives guards an ObjectiveService.
func (g *Guard) Objectives(next kinesinv1connect.ObjectiveServiceHandler) kinesinv1connect.ObjectiveServiceHandler {
	return objectives{Guard: g, next: next}
}

func (s objectives) SetObjective(ctx context.Context, r *kinesinv1.SetObjectiveRequest) (*kinesinv1.SetObjectiveResponse, error) {
	a := s.onLambda(ctx, "objective.set", access.Operate, r.GetLambda())
	return recordChange(ctx, s.Guard, a, s.next.SetObjective, r, (*kinesinv1.SetObjectiveResponse).GetObjective)
}

func (s objectives) DeleteObjective(ctx context.Context, r *kinesinv1.DeleteObjectiveRequest) (*kinesinv1.DeleteObjectiveResponse, error) {
	return record(ctx, s.Guard, s.onLambda(ctx, "objective.delete", access.Operate, r.GetLambda()), s.next.DeleteObjective, r)
}

// GetObjectives needs read on the lambda that the request names, in all its collections, as the counts of
// starts are of all of them. Without a lambda it leaves out those that the caller may not read whole.
func (s objectives) GetObjectives(ctx context.Context, r *kinesinv1.GetObjectivesRequest) (*kinesinv1.GetObjectivesResponse, error) {
	if r.GetLambda() != "" {
		return invoke(ctx, s.allow(ctx, "objective.read", access.Read, r.GetLambda()), s.next.GetObjectives, r)
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
