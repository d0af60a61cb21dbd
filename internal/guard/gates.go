package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
)

// Actions on gates, as they are in the audit log.
const (
	actSetGate    = "gate.set"
	actResumeGate = "gate.resume"
	actListGates  = "gate.list"
	actReadGate   = "gate.read"
)

type gates struct {
	*Guard

	next     kinesinv1connect.GateServiceHandler
	lambdaOf func(ctx context.Context, id string) (lambda string, err error)
}

// Gates guards a GateService. lambdaOf returns the lambda of a gate.
func (g *Guard) Gates(next kinesinv1connect.GateServiceHandler, lambdaOf func(ctx context.Context, id string) (lambda string, err error)) kinesinv1connect.GateServiceHandler {
	return gates{g, next, lambdaOf}
}

// SetGate needs operate on the lambda. So does a dry run.
func (s gates) SetGate(ctx context.Context, r *kinesinv1.SetGateRequest) (*kinesinv1.SetGateResponse, error) {
	lambda := r.GetGate().GetLambda()
	if err := s.allow(ctx, actSetGate, access.Operate, lambda); err != nil {
		return nil, err
	}
	response, err := s.next.SetGate(ctx, r)
	if !r.GetDryRun() {
		s.note(ctx, audit.Record{Action: actSetGate, Target: lambda, After: s.settings(response.GetGate())}, err)
	}
	return response, err
}

// ResumeGate needs operate on the lambda. For who may not read the lambda either there is no such gate.
func (s gates) ResumeGate(ctx context.Context, r *kinesinv1.ResumeGateRequest) (*kinesinv1.ResumeGateResponse, error) {
	lambda, err := s.lambdaOf(ctx, r.GetId())
	if err != nil {
		return nil, s.unseen(ctx, err)
	}
	if err := s.allow(ctx, actResumeGate, access.Operate, lambda); err != nil {
		if !access.From(ctx).Grants.AllowSome(access.Read, lambda) {
			return nil, errNoGate
		}
		return nil, err
	}
	before := s.current(ctx, r.GetId())
	response, err := s.next.ResumeGate(ctx, r)
	s.note(ctx, audit.Record{Action: actResumeGate, Target: lambda, Before: before, After: s.settings(response.GetGate())}, err)
	return response, err
}

// current returns a gate as it is; empty if nothing is recorded.
func (s gates) current(ctx context.Context, id string) string {
	if s.Audit == nil {
		return ""
	}
	response, _ := s.next.ListGates(ctx, &kinesinv1.ListGatesRequest{Ended: true}) // the change itself says what is wrong
	for _, g := range response.GetGates() {
		if g.GetId() == id {
			return s.settings(g)
		}
	}
	return ""
}

// GetGate needs read on the lambda, in one of its collections at least. For others there is no such gate.
func (s gates) GetGate(ctx context.Context, r *kinesinv1.GetGateRequest) (*kinesinv1.GetGateResponse, error) {
	lambda, err := s.lambdaOf(ctx, r.GetId())
	if err != nil {
		return nil, s.unseen(ctx, err)
	}
	if s.allowSome(ctx, actReadGate, access.Read, lambda) != nil {
		return nil, errNoGate
	}
	return s.next.GetGate(ctx, r)
}

var errNoGate = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such gate among those of the lambdas that you may read")

// unseen returns the error of a gate that was not found, which a caller who may not read everything learns in
// the same words as that of a gate that it may not see.
func (s gates) unseen(ctx context.Context, err error) error {
	if api.ProblemOf(err).GetReason() == kinesinv1.Reason_REASON_NOT_FOUND && !access.From(ctx).Grants.AllowAll(access.Read) {
		return errNoGate
	}
	return err
}

// ListGates needs read on the lambda, and leaves out the gates of lambdas that the caller may not read.
func (s gates) ListGates(ctx context.Context, r *kinesinv1.ListGatesRequest) (*kinesinv1.ListGatesResponse, error) {
	if r.GetLambda() != "" {
		if err := s.allowSome(ctx, actListGates, access.Read, r.GetLambda()); err != nil {
			return nil, err
		}
	}
	response, err := s.next.ListGates(ctx, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Gates = slices.DeleteFunc(response.Gates, func(g *kinesinv1.Gate) bool { return !by.AllowSome(access.Read, g.GetLambda()) })
	return response, nil
}
