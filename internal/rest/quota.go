package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// quotaRequest changes what it has; 0 takes a limit away.
type quotaRequest struct {
	Priority string   `json:"priority,omitempty" jsonschema:"whose starts rate bounds; when not set, those of all priorities together"`
	Identity string   `json:"identity,omitempty" jsonschema:"whose tasks admit bounds; when not set, those of all identities together"`
	Rate     *float64 `json:"rate,omitempty" jsonschema:"starts per second; 0: no limit"`
	Burst    *uint32  `json:"burst,omitempty" jsonschema:"starts at once after a pause; 0: what the rate gives in 100 ms"`
	Admit    *float64 `json:"admit,omitempty" jsonschema:"tasks per second that may be scheduled; 0: no limit"`

	Concurrency *uint32 `json:"concurrency,omitempty" jsonschema:"tasks that run at once, those that wait in a queue for a worker included; 0: no limit"`

	Recovery *uint32 `json:"recovery,omitempty" jsonschema:"tasks per second of a resumed gate or a redrive without a pace of its own; 0: no limit"`

	ManagedBy string `json:"managed_by,omitempty" jsonschema:"the declared set that it is of; none takes it out, and it stays when not set"`
}

func quotaRoutes() []route {
	return []route{
		op("GET", "/v1/quotas", "listQuotas", "Read the quotas of all lambdas", getQuotas),
		op("GET", "/v1/lambdas/{lambda}/quotas", "getQuotas", "Read the quotas of a lambda", getQuotas, notFound),
		op("PUT", "/v1/lambdas/{lambda}/quotas", "setQuota", "Set a quota of a lambda, or take it away", setQuota, notFound),
	}
}

func getQuotas(c *call, _ *none) (int, *kinesinv1.GetQuotasResponse, error) {
	response, err := c.Quotas.GetQuotas(c.r.Context(), &kinesinv1.GetQuotasRequest{Lambda: c.vars["lambda"]})
	return http.StatusOK, response, err
}

func setQuota(c *call, r *quotaRequest) (int, *kinesinv1.Quota, error) {
	response, err := c.Quotas.SetQuota(c.r.Context(), &kinesinv1.SetQuotaRequest{
		Lambda: c.vars["lambda"], Priority: r.Priority, Identity: r.Identity, Rate: r.Rate, Burst: r.Burst, Admit: r.Admit,
		Concurrency: r.Concurrency, Recovery: r.Recovery, ManagedBy: r.ManagedBy,
	})
	return http.StatusOK, response.GetQuota(), err
}
