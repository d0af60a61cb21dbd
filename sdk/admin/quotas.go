package admin

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
)

// Quota bounds how many tasks of a lambda start, or may be scheduled, per second, and how many run at once.
// In Quotas.Set a zero limit means "no change", and a negative one takes it away.
type Quota struct {
	Lambda   string
	Priority string  // whose starts Rate bounds; empty: those of all priorities together
	Identity string  // whose tasks Admit bounds; empty: those of all identities together
	Rate     float64 // starts per second
	Burst    int     // starts at once after a pause; zero: what Rate gives in 100 ms
	Admit    float64 // tasks per second that Schedule takes; the others are refused with sdk.ErrThrottled
	// Concurrency is how many tasks of the lambda, or of Priority, run at once, at most 100,000: those that
	// wait in a queue for a worker included. It does not go with Identity, nor with a deliver lambda.
	Concurrency int
	Recovery    int // tasks per second of a gate that is resumed, or a redrive job, without a pace of its own

	// ManagedBy names the declared set that it is of (kinesin apply). In Quotas.Set an empty one means no
	// change of it, and "none" that it is of none.
	ManagedBy string

	// The fields below are read only.

	Updated    time.Time
	UpdatedBy  string // an identity
	Registered bool   // the registration of the lambda set it (Terraform), and sets it again when it changes
}

// Quotas has the calls about quotas.
type Quotas struct{ c *calls }

// Set changes a quota, which holds on all servers two seconds later, and returns it.
func (s Quotas) Set(ctx context.Context, q Quota) (Quota, error) {
	r, err := call(ctx, s.c, "set quota", s.c.Quotas.SetQuota, wirecopy.To[kinesinv1.SetQuotaRequest](&q))
	return wirecopy.From[Quota](r.GetQuota()), err
}

// List returns the quotas of a lambda, or of all.
func (s Quotas) List(ctx context.Context, lambda string) ([]Quota, error) {
	r, err := call(ctx, s.c, "get quotas", s.c.Quotas.GetQuotas, &kinesinv1.GetQuotasRequest{Lambda: lambda})
	return wirecopy.All[Quota](r.GetQuotas()), err
}
