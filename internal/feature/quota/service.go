package quota

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Service is the QuotaService.
type Service struct {
	Rows    store.ControlRows
	Catalog *catalog.Catalog
	Book    *Book // of this server, which knows a change made here at once
	Clock   clock.Clock
}

// SetQuota changes what the mask of the request names. A quota holds on all servers two seconds later.
func (s *Service) SetQuota(ctx context.Context, r *kinesinv1.SetQuotaRequest) (_ *kinesinv1.SetQuotaResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if err := api.CheckMask(r); err != nil {
		return nil, err
	}
	if len(r.GetFields()) == 0 {
		return nil, refusal.Invalid("nothing to set: want a rate, a burst, concurrency, admit, recovery or managed_by")
	}
	l, err := s.Catalog.Find(ctx, r.GetLambda())
	if err != nil {
		return nil, err
	}
	var changed Limit
	err = s.change(ctx, l, func(q *Quota) (control.Do, error) {
		if changed, err = merge(q, l, r); err != nil {
			return control.Keep, err
		}
		changed.Updated, changed.UpdatedBy = s.Clock.Now(), access.From(ctx).Name
		if *q = *q.With(changed); len(q.Limits) > catalog.LimitsMax {
			return control.Keep, refusal.Invalid("lambda %s would have %d quotas, over priorities and identities: want at most %d", l.Name, len(q.Limits), catalog.LimitsMax)
		}
		return toStore(q), nil
	})
	if errors.Is(err, store.ErrConflict) {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the quotas of lambda %s are being changed by others; try again", l.Name)
	}
	if err != nil {
		return nil, err
	}
	return &kinesinv1.SetQuotaResponse{Quota: view(l.Name, &changed)}, nil
}

// change changes the quota of a lambda, which has no limits if there is none, or the row is of an earlier lambda of
// that name. What is changed is known here at once.
func (s *Service) change(ctx context.Context, l *catalog.Entry, edit func(q *Quota) (control.Do, error)) error {
	_, err := s.book().Set(ctx, l.Name, func(q *Quota) (control.Do, error) {
		own(q, l)
		return edit(q)
	})
	if err == nil {
		_ = s.Book.Refresh(ctx) // else it is known a moment later
	}
	return err
}

func (s *Service) book() *control.Book[Quota] {
	return control.NewBook(s.Rows, AsRows, s.Clock)
}

// own empties a quota that is not of a lambda.
func own(q *Quota, l *catalog.Entry) {
	if q.Lambda == "" || q.Ref != l.Ref {
		*q = Quota{Meta: control.Meta{Version: q.Version}, Lambda: l.Name, Ref: l.Ref}
	}
}

// toStore says that a quota is stored unless it says nothing.
func toStore(q *Quota) control.Do {
	switch {
	case len(q.Limits) > 0 || q.Registration != "":
		return control.Store
	case q.Version > 0:
		return control.Remove
	}
	return control.Keep
}

// registeredBy is who set the limits of a registration.
const registeredBy = "(registration)"

// Register sets the quotas of a lambda to those of a registration with a digest. With nil limits, which is a
// registration that says nothing of quotas, it takes away those of an earlier registration, and leaves others
// alone. It writes nothing if that was done before, so what calls changed since stays.
func (s *Service) Register(ctx context.Context, l *catalog.Entry, sum string, limits []Limit) error {
	err := s.change(ctx, l, func(q *Quota) (control.Do, error) {
		if limits == nil && q.Registration == "" || limits != nil && q.Registration == sum {
			return control.Keep, nil
		}
		q.Limits, q.Registration = nil, ""
		if limits != nil {
			q.Registration = sum
		}
		for _, limit := range limits {
			limit.Updated, limit.UpdatedBy = s.Clock.Now(), registeredBy
			*q = *q.With(limit)
		}
		return toStore(q), nil
	})
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("the quotas of lambda %s are being changed by others", l.Name)
	}
	return err
}

// IsRegistered reports whether the quotas of a lambda are known here to be as Register would leave them.
func (s *Service) IsRegistered(l *catalog.Entry, sum string, limits []Limit) bool {
	if limits == nil {
		sum = ""
	}
	return s.Book.Registration(l.Ref) == sum
}

// Refresh reads all quotas.
func (s *Service) Refresh(ctx context.Context) error { return s.Book.Refresh(ctx) }

// merge returns the limit of the priority and identity that a request names as it is after the change.
func merge(q *Quota, l *catalog.Entry, r *kinesinv1.SetQuotaRequest) (limit Limit, err error) {
	limit = q.Find(r.GetPriority(), r.GetIdentity())
	if r.GetPriority() != "" {
		if limit.Class, err = l.Priority(r.GetPriority()); err != nil {
			return limit, err
		}
	}
	next := &kinesinv1.SetQuotaRequest{
		Rate: limit.Rate, Burst: limit.Burst, Admit: limit.Admit, Concurrency: limit.Concurrency, Recovery: limit.Recovery, ManagedBy: limit.ManagedBy,
	}
	api.Change(next, r)
	if next.Rate == 0 && r.GetBurst() == 0 { // it goes with the rate
		next.Burst = 0
	}
	limit.Rate, limit.Burst, limit.Admit, limit.Concurrency, limit.Recovery, limit.ManagedBy = next.Rate, next.Burst, next.Admit, next.Concurrency, next.Recovery, next.ManagedBy
	if limit.ManagedBy != "" {
		if err := task.CheckName("managed by", limit.ManagedBy); err != nil {
			return limit, err
		}
	}
	if limit.Concurrency > 0 && l.Mode == task.Deliver {
		return limit, refusal.Invalid("lambda %s is a deliver lambda: Kinesin does not know how long its messages are worked on, so it cannot bound how many are at once; want a rate, or a managed lambda", l.Name)
	}
	if err := limit.Validate(); err != nil {
		return limit, refusal.Invalid("%v", err)
	}
	return limit, nil
}

// GetQuotas returns the quotas of a lambda, or of all.
func (s *Service) GetQuotas(ctx context.Context, r *kinesinv1.GetQuotasRequest) (_ *kinesinv1.GetQuotasResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	response := &kinesinv1.GetQuotasResponse{}
	if r.GetLambda() != "" {
		l, err := s.Catalog.Find(ctx, r.GetLambda())
		if err != nil {
			return nil, err
		}
		q, err := s.book().Find(ctx, l.Name)
		if err == nil && q.Ref == l.Ref {
			response.Quotas = views(q)
		}
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return response, err
	}
	all, err := s.book().All(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		if s.Catalog.ByRef(q.Ref) != nil {
			response.Quotas = append(response.Quotas, views(q)...)
		}
	}
	return response, nil
}

func views(q *Quota) []*kinesinv1.Quota {
	all := make([]*kinesinv1.Quota, len(q.Limits))
	for i := range q.Limits {
		all[i] = view(q.Lambda, &q.Limits[i])
	}
	return all
}

func view(lambda string, l *Limit) *kinesinv1.Quota {
	return &kinesinv1.Quota{
		Lambda: lambda, Priority: l.Priority, Identity: l.Identity, Rate: l.Rate, Burst: l.Burst, Admit: l.Admit, Concurrency: l.Concurrency, Recovery: l.Recovery,
		Updated: int64(l.Updated), UpdatedBy: l.UpdatedBy,
		ManagedBy: l.ManagedBy, Registered: l.UpdatedBy == registeredBy,
	}
}
