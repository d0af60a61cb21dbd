package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
)

// Quota bounds how many tasks of a lambda start, or may be scheduled, per second, and how many run at once.
// In Quotas.Set a zero limit means "no change"; QuotaSetOptions.Reset names those to take away.
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

	ManagedBy string // name of the declared set that it is of (kinesin apply); empty: none

	// The fields below are read only.

	Updated    time.Time
	UpdatedBy  string // an identity
	Registered bool   // the registration of the lambda set it (Terraform), and sets it again when it changes
}

// Quotas has the calls about quotas.
type Quotas struct{ c *calls }

// QuotaSetOptions are the options of Quotas.Set.
type QuotaSetOptions struct {
	// Reset names what is taken away, as JSON has it: rate, burst, admit, concurrency, recovery, managed_by.
	Reset []string
}

// Set changes what is not zero of a quota, and takes away what o.Reset names. The quota, which it returns, holds on all
// servers two seconds later.
func (s Quotas) Set(ctx context.Context, q Quota, o QuotaSetOptions) (Quota, error) {
	request := wirecopy.To[kinesinv1.SetQuotaRequest](&q)
	if err := api.SetMask(request, o.Reset...); err != nil {
		return Quota{}, fmt.Errorf("set quota of %s: %w", q.Lambda, err)
	}
	r, err := call(ctx, s.c, "set quota", s.c.Quotas.SetQuota, request)
	return wirecopy.From[Quota](r.GetQuota()), err
}

// List returns the quotas of a lambda, or of all.
func (s Quotas) List(ctx context.Context, lambda string) ([]Quota, error) {
	r, err := call(ctx, s.c, "get quotas", s.c.Quotas.GetQuotas, &kinesinv1.GetQuotasRequest{Lambda: lambda})
	return wirecopy.All[Quota](r.GetQuotas()), err
}
