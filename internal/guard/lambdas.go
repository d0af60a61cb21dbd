package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
)

type lambdas service[kinesinv1connect.LambdaServiceHandler]

// Lambdas guards a LambdaService.
func (g *Guard) Lambdas(next kinesinv1connect.LambdaServiceHandler) kinesinv1connect.LambdaServiceHandler {
	return lambdas{Guard: g, next: next}
}

func (s lambdas) CreateLambda(ctx context.Context, r *kinesinv1.CreateLambdaRequest) (*kinesinv1.CreateLambdaResponse, error) {
	a := s.onLambda(ctx, "lambda.create", access.Admin, r.GetLambda().GetName())
	return recordChange(ctx, s.Guard, a, s.next.CreateLambda, r, (*kinesinv1.CreateLambdaResponse).GetLambda)
}

// GetLambda needs read on the lambda, in one of its collections at least.
func (s lambdas) GetLambda(ctx context.Context, r *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
	return invoke(ctx, s.allowSome(ctx, "lambda.read", access.Read, r.GetName()), s.next.GetLambda, r)
}

// ListLambdas leaves out the lambdas that the caller may not read.
func (s lambdas) ListLambdas(ctx context.Context, r *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	response, err := s.next.ListLambdas(ctx, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Lambdas = slices.DeleteFunc(response.Lambdas, func(l *kinesinv1.Lambda) bool { return !by.AllowSome(access.Read, l.GetName()) })
	return response, nil
}

func (s lambdas) UpdateLambda(ctx context.Context, r *kinesinv1.UpdateLambdaRequest) (*kinesinv1.UpdateLambdaResponse, error) {
	a := s.onLambda(ctx, "lambda.update", access.Admin, r.GetLambda().GetName()).was(ctx, s.current)
	return recordChange(ctx, s.Guard, a, s.next.UpdateLambda, r, (*kinesinv1.UpdateLambdaResponse).GetLambda)
}

// DeleteLambda needs admin on the lambda. Of a deletion that takes several calls each is recorded that
// dropped tasks, and the last.
func (s lambdas) DeleteLambda(ctx context.Context, r *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
	a := s.onLambda(ctx, "lambda.delete", access.Admin, r.GetName()).was(ctx, s.current)
	response, err := invoke(ctx, a.refused, s.next.DeleteLambda, r)
	if a.refused == nil && (err != nil || !response.GetMore() || response.GetDropped() > 0) {
		a.After = s.settings(response)
		s.note(ctx, a.Record, err)
	}
	return response, err
}

// current returns the settings of a lambda; empty if there is none, or nothing is recorded.
func (s lambdas) current(ctx context.Context, name string) string {
	if s.Audit == nil {
		return ""
	}
	response, _ := s.next.GetLambda(ctx, &kinesinv1.GetLambdaRequest{Name: name}) // the change itself says what is wrong
	return s.settings(response.GetLambda())
}
