package guard

import (
	"context"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
)

// Actions on lambdas, as they are in the audit log.
const (
	actCreateLambda = "lambda.create"
	actReadLambda   = "lambda.read"
	actUpdateLambda = "lambda.update"
	actDeleteLambda = "lambda.delete"
)

type lambdas struct {
	*Guard

	next kinesinv1connect.LambdaServiceHandler
}

// Lambdas guards a LambdaService.
func (g *Guard) Lambdas(next kinesinv1connect.LambdaServiceHandler) kinesinv1connect.LambdaServiceHandler {
	return lambdas{g, next}
}

// CreateLambda needs admin on the lambda.
func (s lambdas) CreateLambda(ctx context.Context, r *kinesinv1.CreateLambdaRequest) (*kinesinv1.CreateLambdaResponse, error) {
	name := r.GetLambda().GetName()
	if err := s.allow(ctx, actCreateLambda, access.Admin, name); err != nil {
		return nil, err
	}
	response, err := s.next.CreateLambda(ctx, r)
	if !response.GetExisted() {
		s.note(ctx, audit.Record{Action: actCreateLambda, Target: name, After: s.settings(response.GetLambda())}, err)
	}
	return response, err
}

// GetLambda needs read on the lambda, in one of its collections at least.
func (s lambdas) GetLambda(ctx context.Context, r *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
	if err := s.allowSome(ctx, actReadLambda, access.Read, r.GetName()); err != nil {
		return nil, err
	}
	return s.next.GetLambda(ctx, r)
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

// UpdateLambda needs admin on the lambda.
func (s lambdas) UpdateLambda(ctx context.Context, r *kinesinv1.UpdateLambdaRequest) (*kinesinv1.UpdateLambdaResponse, error) {
	name := r.GetLambda().GetName()
	if err := s.allow(ctx, actUpdateLambda, access.Admin, name); err != nil {
		return nil, err
	}
	before := s.current(ctx, name)
	response, err := s.next.UpdateLambda(ctx, r)
	s.note(ctx, audit.Record{Action: actUpdateLambda, Target: name, Before: before, After: s.settings(response.GetLambda())}, err)
	return response, err
}

// DeleteLambda needs admin on the lambda. Of a deletion that takes several calls each is recorded that
// dropped tasks, and the last.
func (s lambdas) DeleteLambda(ctx context.Context, r *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
	if err := s.allow(ctx, actDeleteLambda, access.Admin, r.GetName()); err != nil {
		return nil, err
	}
	before := s.current(ctx, r.GetName())
	response, err := s.next.DeleteLambda(ctx, r)
	if err != nil || !response.GetMore() || response.GetDropped() > 0 {
		s.note(ctx, audit.Record{Action: actDeleteLambda, Target: r.GetName(), Before: before, After: s.settings(response)}, err)
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

// settings returns a message in JSON, for the record of a change; empty if nothing is recorded.
func (g *Guard) settings(m proto.Message) string {
	if g.Audit == nil || !m.ProtoReflect().IsValid() {
		return ""
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return ""
	}
	return string(text)
}
