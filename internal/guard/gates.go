package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

type gates service[kinesinv1connect.GateServiceHandler]

// Gates guards a GateService. find returns the lambda and the collection of a gate.
func (g *Guard) Gates(next kinesinv1connect.GateServiceHandler, find finder) kinesinv1connect.GateServiceHandler {
	return gates{g, next, find}
}

// SetGate needs operate on the lambda. So does a dry run.
func (s gates) SetGate(ctx context.Context, r *kinesinv1.SetGateRequest) (*kinesinv1.SetGateResponse, error) {
	a := s.onLambda(ctx, "gate.set", access.Operate, r.GetGate().GetLambda())
	return recordChange(ctx, s.Guard, a, s.next.SetGate, r, (*kinesinv1.SetGateResponse).GetGate)
}

// ResumeGate needs operate on the lambda. For who may not read the gate either there is none.
func (s gates) ResumeGate(ctx context.Context, r *kinesinv1.ResumeGateRequest) (*kinesinv1.ResumeGateResponse, error) {
	a := s.onGate(ctx, "gate.resume", r.GetId(), access.Operate)
	if a.refused == nil {
		a.Before = s.current(ctx, r.GetId())
	}
	return recordChange(ctx, s.Guard, a, s.next.ResumeGate, r, (*kinesinv1.ResumeGateResponse).GetGate)
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
	return invoke(ctx, s.onGate(ctx, "gate.read", r.GetId(), access.Read).refused, s.next.GetGate, r)
}

// onGate is onNamed for a gate.
func (s gates) onGate(ctx context.Context, action, id string, v access.Verb) act {
	lambda, collection, err := s.find(ctx, id)
	a := act{Record: audit.Record{Action: action, Target: lambda}}
	switch by := access.From(ctx).Grants; {
	case err != nil:
		a.refused = s.unseen(ctx, err, errNoGate)
	case !seesGate(by, lambda, collection) && !by.Allow(v, lambda):
		_ = s.allow(ctx, action, v, lambda) // which notes it
		a.refused = errNoGate
	case v != access.Read:
		a.refused = s.allow(ctx, action, v, lambda)
	}
	return a
}

// seesGate reports whether who may do this may see a gate. One of no collection holds tasks of all of them.
func seesGate(by access.Grants, lambda, collection string) bool {
	return collection == "" && by.AllowSome(access.Read, lambda) || by.AllowIn(access.Read, lambda, collection)
}

var errNoGate = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such gate among those that you may read")

// ListGates needs read on the lambda, and leaves out the gates that the caller may not read.
func (s gates) ListGates(ctx context.Context, r *kinesinv1.ListGatesRequest) (*kinesinv1.ListGatesResponse, error) {
	response, err := invoke(ctx, s.allowReading(ctx, "gate.list", r.GetLambda()), s.next.ListGates, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Gates = slices.DeleteFunc(response.Gates, func(g *kinesinv1.Gate) bool { return !seesGate(by, g.GetLambda(), g.GetCollection()) })
	return response, nil
}
