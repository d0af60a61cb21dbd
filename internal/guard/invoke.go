package guard

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

// service is what the guard of a service needs.
type service[S any] struct {
	*Guard

	next S
	find finder // of the objects that calls name; nil where calls name lambdas
}

// act is what a caller wants to do, as the audit log has it.
type act struct {
	audit.Record

	refused error // nil: it is allowed
}

// onLambda returns an act that needs a verb on a lambda, in all its collections.
func (g *Guard) onLambda(ctx context.Context, action string, v access.Verb, lambda string) act {
	return act{audit.Record{Action: action, Target: lambda}, g.allow(ctx, action, v, lambda)}
}

// onAll returns an act that needs verbs on all lambdas. name is the name of what the act is on, if that has one.
func (g *Guard) onAll(ctx context.Context, action, name string, verbs ...access.Verb) act {
	return act{audit.Record{Action: action, Target: name}, g.allowAll(ctx, action, name, verbs...)}
}

// onNamed returns an act that needs verbs on an object that is found by its name. The target of the record is the
// lambda of the object.
func (g *Guard) onNamed(ctx context.Context, action string, find finder, name string, absent error, verbs ...access.Verb) act {
	o, err := g.checkNamed(ctx, action, find, name, absent, verbs...)
	return act{audit.Record{Action: action, Target: o.lambda}, err}
}

// as returns the act with another target for the record; a refusal is noted already.
func (a act) as(target string) act {
	a.Target = target
	return a
}

// was returns the act with what current returns of the target, for the record: as it is before the change.
func (a act) was(ctx context.Context, current func(ctx context.Context, name string) string) act {
	if a.refused == nil {
		a.Before = current(ctx, a.Target)
	}
	return a
}

// invoke passes a call on unless it is refused.
func invoke[R, A any](ctx context.Context, refused error, next func(context.Context, *R) (*A, error), r *R) (*A, error) {
	if refused != nil {
		return nil, refused
	}
	return next(ctx, r)
}

// record passes a call on unless it is refused, and notes the act. A dry run changes nothing, and neither does a
// call that finds what it would create, so neither is noted.
func record[R, A any](ctx context.Context, g *Guard, a act, next func(context.Context, *R) (*A, error), r *R) (*A, error) {
	return recordChange(ctx, g, a, next, r, func(*A) proto.Message { return nil })
}

// recordChange does what record does, for an act whose record has a part of the response: what was changed, as it
// is after the change.
func recordChange[R, A any, M proto.Message](ctx context.Context, g *Guard, a act, next func(context.Context, *R) (*A, error), r *R, after func(*A) M) (*A, error) {
	response, err := invoke(ctx, a.refused, next, r)
	asked, _ := any(r).(interface{ GetDryRun() bool })
	found, _ := any(response).(interface{ GetDuplicate() bool })
	if a.refused == nil && (asked == nil || !asked.GetDryRun()) && (found == nil || !found.GetDuplicate()) {
		a.After = cmp.Or(g.settings(after(response)), a.After)
		g.note(ctx, a.Record, err)
	}
	return response, err
}

// settings returns a message in JSON, for the record of a change; empty if nothing is recorded.
func (g *Guard) settings(m proto.Message) string {
	if g.Audit == nil || m == nil || !m.ProtoReflect().IsValid() {
		return ""
	}
	return string(jsonform.AppendRecord(nil, m))
}
