package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
)

type quotas service[kinesinv1connect.QuotaServiceHandler]

// Quotas guards a QuotaService.
func (g *Guard) Quotas(next kinesinv1connect.QuotaServiceHandler) kinesinv1connect.QuotaServiceHandler {
	return quotas{Guard: g, next: next}
}

func (s quotas) SetQuota(ctx context.Context, r *kinesinv1.SetQuotaRequest) (*kinesinv1.SetQuotaResponse, error) {
	a := s.onLambda(ctx, "quota.set", access.Operate, r.GetLambda()).was(ctx, s.current)
	return recordChange(ctx, s.Guard, a, s.next.SetQuota, r, (*kinesinv1.SetQuotaResponse).GetQuota)
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
		return invoke(ctx, s.allowSome(ctx, "quota.read", access.Read, r.GetLambda()), s.next.GetQuotas, r)
	}
	response, err := s.next.GetQuotas(ctx, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Quotas = slices.DeleteFunc(response.Quotas, func(q *kinesinv1.Quota) bool { return !by.AllowSome(access.Read, q.GetLambda()) })
	return response, nil
}
