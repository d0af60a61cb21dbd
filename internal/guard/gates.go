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

	next kinesinv1connect.GateServiceHandler
	find finder
}

// Gates guards a GateService. find returns the lambda and the collection of a gate.
func (g *Guard) Gates(next kinesinv1connect.GateServiceHandler, find finder) kinesinv1connect.GateServiceHandler {
	return gates{g, next, find}
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

// ResumeGate needs operate on the lambda. For who may not read the gate either there is none.
func (s gates) ResumeGate(ctx context.Context, r *kinesinv1.ResumeGateRequest) (*kinesinv1.ResumeGateResponse, error) {
	lambda, err := s.checkGate(ctx, actResumeGate, r.GetId(), access.Operate)
	if err != nil {
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

// GetGate needs read in the collection, or for a gate of all collections in one of them. For others there is no
// such gate.
func (s gates) GetGate(ctx context.Context, r *kinesinv1.GetGateRequest) (*kinesinv1.GetGateResponse, error) {
	if _, err := s.checkGate(ctx, actReadGate, r.GetId(), access.Read); err != nil {
		return nil, err
	}
	return s.next.GetGate(ctx, r)
}

// checkGate is checkNamed for a gate.
func (s gates) checkGate(ctx context.Context, action, id string, v access.Verb) (lambda string, err error) {
	lambda, collection, err := s.find(ctx, id)
	switch by := access.From(ctx).Grants; {
	case err != nil:
		return "", s.unseen(ctx, err, errNoGate)
	case !seesGate(by, lambda, collection) && !by.Allow(v, lambda):
		_ = s.allow(ctx, action, v, lambda) // which notes it
		return "", errNoGate
	case v == access.Read:
		return lambda, nil
	}
	return lambda, s.allow(ctx, action, v, lambda)
}

// seesGate reports whether who may do this may see a gate. One of no collection holds tasks of all of them.
func seesGate(by access.Grants, lambda, collection string) bool {
	return collection == "" && by.AllowSome(access.Read, lambda) || by.AllowIn(access.Read, lambda, collection)
}

var errNoGate = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such gate among those that you may read")

// ListGates needs read on the lambda, and leaves out the gates that the caller may not read.
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
	response.Gates = slices.DeleteFunc(response.Gates, func(g *kinesinv1.Gate) bool { return !seesGate(by, g.GetLambda(), g.GetCollection()) })
	return response, nil
}
