package guard

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
)

// allowSet refuses verbs on a set of tasks unless each is granted, in one collection at least, on a lambda of
// which the filter may select tasks. The role leaves out the others that the caller may not read, and knows
// it when it counts to a limit.
func (g *Guard) allowSet(ctx context.Context, action, expression string, verbs ...access.Verb) error {
	c := access.From(ctx)
	for _, v := range verbs {
		if c.Grants.AllowAll(v) {
			continue
		}
		lambdas, err := g.Where(expression)
		if err != nil {
			return err
		}
		allowed := len(lambdas) == 0 && c.Grants.Have(v)
		for _, lambda := range lambdas {
			allowed = allowed || c.Grants.AllowSome(v, lambda)
		}
		switch {
		case allowed:
		case len(lambdas) == 1:
			return g.deny(c, action, v, lambdas[0])
		default:
			return g.deny(c, action, v, "")
		}
	}
	return nil
}

// allowList needs read on the lambda of a list, or, without one, on one that its filter may select.
func (s tasks) allowList(ctx context.Context, r *kinesinv1.ListRequest) error {
	if r.GetLambda() != "" {
		return s.allowSome(ctx, actList, access.Read, r.GetLambda())
	}
	return s.allowSet(ctx, actList, r.GetWhere(), access.Read)
}

// Count needs read on a lambda that its filter may select.
func (s tasks) Count(ctx context.Context, r *kinesinv1.CountRequest) (*kinesinv1.CountResponse, error) {
	return invoke(ctx, s.allowSet(ctx, "task.count", r.GetWhere(), access.Read), s.next.Count, r)
}

// Stats needs read on the lambda, in all its collections; without one it leaves out those that the caller may
// not read whole.
func (s tasks) Stats(ctx context.Context, r *kinesinv1.StatsRequest) (*kinesinv1.StatsResponse, error) {
	if r.GetLambda() == "" {
		return s.next.Stats(ctx, r)
	}
	return invoke(ctx, s.allow(ctx, "task.stats", access.Read, r.GetLambda()), s.next.Stats, r)
}
