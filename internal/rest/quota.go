package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func quotaRoutes() []route {
	return []route{
		op("GET", "/v1/quotas", "listQuotas", "Read the quotas of all lambdas", getQuotas),
		op("GET", "/v1/lambdas/{lambda}/quotas", "getQuotas", "Read the quotas of a lambda", getQuotas, notFound),
		op("PATCH", "/v1/lambdas/{lambda}/quotas", "setQuota", "Change a quota of a lambda, or take it away", setQuota, notFound, without("lambda")),
	}
}

func getQuotas(c *call, _ *none) (int, *kinesinv1.GetQuotasResponse, error) {
	response, err := c.Quotas.GetQuotas(c.r.Context(), &kinesinv1.GetQuotasRequest{Lambda: c.vars["lambda"]})
	return http.StatusOK, response, err
}

func setQuota(c *call, r *kinesinv1.SetQuotaRequest) (int, *kinesinv1.Quota, error) {
	r.Lambda = c.vars["lambda"]
	response, err := c.Quotas.SetQuota(c.r.Context(), r)
	return http.StatusOK, response.GetQuota(), err
}
