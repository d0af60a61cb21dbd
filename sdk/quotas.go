package sdk

import (
	"context"
	"math"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Quota bounds how many tasks of a lambda start, or may be scheduled, per second, and how many run at once.
// In SetQuota a zero limit means "no change", and a negative one takes it away.
type Quota struct {
	Lambda   string
	Priority string  // whose starts Rate bounds; empty: those of all priorities together
	Identity string  // whose tasks Admit bounds; empty: those of all identities together
	Rate     float64 // starts per second
	Burst    int     // starts at once after a pause; zero: what Rate gives in 100 ms
	Admit    float64 // tasks per second that Schedule takes; the others are refused with ErrThrottled
	// Concurrency is how many tasks of the lambda, or of Priority, run at once, at most 100,000: those that
	// wait in a queue for a worker included. It does not go with Identity, nor with a deliver lambda.
	Concurrency int
	Recovery    int // tasks per second of a gate that is resumed, or a redrive job, without a pace of its own

	// ManagedBy names the declared set that it is of (kinesin apply). In SetQuota an empty one means no
	// change of it, and "none" that it is of none.
	ManagedBy string

	// The fields below are read only.

	Updated    time.Time
	UpdatedBy  string // an identity
	Registered bool   // the registration of the lambda set it (Terraform), and sets it again when it changes
}

// SetQuota changes a quota, which holds on all servers two seconds later, and returns it.
func (c *Client) SetQuota(ctx context.Context, q Quota) (Quota, error) {
	request := &kinesinv1.SetQuotaRequest{
		Lambda: q.Lambda, Priority: q.Priority, Identity: q.Identity, Rate: changeOf(q.Rate), Admit: changeOf(q.Admit),
		ManagedBy: q.ManagedBy,
	}
	if q.Burst != 0 {
		burst := uint32(max(q.Burst, 0))
		request.Burst = &burst
	}
	if q.Concurrency != 0 {
		concurrency := uint32(min(max(q.Concurrency, 0), math.MaxUint32))
		request.Concurrency = &concurrency
	}
	if q.Recovery != 0 {
		recovery := uint32(max(q.Recovery, 0))
		request.Recovery = &recovery
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
	return listOf(response.GetQuotas(), quotaOf), nil
}

func quotaOf(w *kinesinv1.Quota) Quota {
	return Quota{
		Lambda: w.GetLambda(), Priority: w.GetPriority(), Identity: w.GetIdentity(), Rate: w.GetRate(), Burst: int(w.GetBurst()), Admit: w.GetAdmit(),
		Concurrency: int(w.GetConcurrency()), Recovery: int(w.GetRecovery()),
		Updated: timeOf(w.GetUpdated()), UpdatedBy: w.GetUpdatedBy(),
		ManagedBy: w.GetManagedBy(), Registered: w.GetRegistered(),
	}
}
