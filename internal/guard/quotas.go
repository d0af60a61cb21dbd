package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
)

// Actions on quotas, as they are in the audit log.
const (
	actSetQuota  = "quota.set"
	actReadQuota = "quota.read"
)

type quotas struct {
	*Guard

	next kinesinv1connect.QuotaServiceHandler
}

// Quotas guards a QuotaService.
func (g *Guard) Quotas(next kinesinv1connect.QuotaServiceHandler) kinesinv1connect.QuotaServiceHandler {
	return quotas{g, next}
}

// SetQuota needs operate on the lambda.
func (s quotas) SetQuota(ctx context.Context, r *kinesinv1.SetQuotaRequest) (*kinesinv1.SetQuotaResponse, error) {
	if err := s.allow(ctx, actSetQuota, access.Operate, r.GetLambda()); err != nil {
		return nil, err
	}
	before := s.current(ctx, r.GetLambda())
	response, err := s.next.SetQuota(ctx, r)
	s.note(ctx, audit.Record{Action: actSetQuota, Target: r.GetLambda(), Before: before, After: s.settings(response.GetQuota())}, err)
	return response, err
}

// current returns the quotas of a lambda as they are; empty if there are none, or nothing is recorded.
func (s quotas) current(ctx context.Context, lambda string) string {
	if s.Audit == nil {
		return ""
	}
	response, _ := s.next.GetQuotas(ctx, &kinesinv1.GetQuotasRequest{Lambda: lambda}) // the change itself says what is wrong
	return s.settings(response)
}

// GetQuotas needs read on the lambda that the request names, in one of its collections at least. Without a
// lambda it leaves out those that the caller may not read.
func (s quotas) GetQuotas(ctx context.Context, r *kinesinv1.GetQuotasRequest) (*kinesinv1.GetQuotasResponse, error) {
	if r.GetLambda() != "" {
		if err := s.allowSome(ctx, actReadQuota, access.Read, r.GetLambda()); err != nil {
			return nil, err
		}
		return s.next.GetQuotas(ctx, r)
	}
	response, err := s.next.GetQuotas(ctx, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Quotas = slices.DeleteFunc(response.Quotas, func(q *kinesinv1.Quota) bool { return !by.AllowSome(access.Read, q.GetLambda()) })
	return response, nil
}
