package sdk

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Quota bounds how many tasks of a lambda start, or may be scheduled, per second. In SetQuota a zero limit
// means "no change", and a negative one takes it away.
type Quota struct {
	Lambda   string
	Priority string  // whose starts Rate bounds; empty: those of all priorities together
	Identity string  // whose tasks Admit bounds; empty: those of all identities together
	Rate     float64 // starts per second
	Burst    int     // starts at once after a pause; zero: what Rate gives in 100 ms
	Admit    float64 // tasks per second that Schedule takes; the others are refused with ErrThrottled

	// The fields below are read only.

	Updated   time.Time
	UpdatedBy string // an identity
}

// SetQuota changes a quota, which holds on all servers two seconds later, and returns it.
func (c *Client) SetQuota(ctx context.Context, q Quota) (Quota, error) {
	request := &kinesinv1.SetQuotaRequest{
		Lambda: q.Lambda, Priority: q.Priority, Identity: q.Identity, Rate: changeOf(q.Rate), Admit: changeOf(q.Admit),
	}
	if q.Burst != 0 {
		burst := uint32(max(q.Burst, 0))
		request.Burst = &burst
	}
	response, err := call(ctx, c, "set quota", c.backend.quotas.SetQuota, request)
	if err != nil {
		return Quota{}, err
	}
	return quotaOf(response.GetQuota()), nil
}

// changeOf returns a limit as a change has it.
func changeOf(limit float64) *float64 {
	if limit == 0 {
		return nil
	}
	limit = max(limit, 0)
	return &limit
}

// Quotas returns the quotas of a lambda; with an empty name, of all lambdas that the client may read.
func (c *Client) Quotas(ctx context.Context, lambda string) ([]Quota, error) {
	response, err := call(ctx, c, "get quotas", c.backend.quotas.GetQuotas, &kinesinv1.GetQuotasRequest{Lambda: lambda})
	if err != nil {
		return nil, err
	}
	all := make([]Quota, len(response.GetQuotas()))
	for i, q := range response.GetQuotas() {
		all[i] = quotaOf(q)
	}
	return all, nil
}

func quotaOf(w *kinesinv1.Quota) Quota {
	return Quota{
		Lambda: w.GetLambda(), Priority: w.GetPriority(), Identity: w.GetIdentity(), Rate: w.GetRate(), Burst: int(w.GetBurst()), Admit: w.GetAdmit(),
		Updated: timeOf(w.GetUpdatedMicros()), UpdatedBy: w.GetUpdatedBy(),
	}
}
