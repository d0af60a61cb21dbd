// Package quota bounds how many tasks of a lambda, or of a priority of it, start in a second and run at once,
// and how many Schedule takes. Quotas are control rows, of which a Book is this process's copy. What keeps the
// limits of starts and of what runs is internal/limit; an Admission keeps this server's share of what Schedule
// takes. A Service serves the QuotaService of the wire contract. The package reads and writes no task.
package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Book has all quotas. It answers from memory, and is safe for concurrent use. While the store does not
// answer, the quotas that were known last stay.
type Book struct {
	*control.Copy[byLambda]
}

// byLambda has the limits of each lambda as they are looked up.
type byLambda map[uint32]*limits

// limits are the limits of a lambda.
type limits struct {
	starts  map[uint8]Limit    // of priorities
	all     Limit              // of all priorities together; it may have no rate
	hasRate bool               // starts of the lambda, or of one of its priorities, are bounded
	running *limit.Concurrency // nil: any number of tasks run at once
	admits  map[string]float64 // by identity; of all together under the empty one

	recovery uint32

	bounding []Limit // those with a rate or a concurrency

	registration string // the digest of the one that set them last
}

// NewBook returns a book without quotas; Refresh or Run fills it.
func NewBook(rows control.Rows, c clock.Clock, log *slog.Logger) *Book {
	return &Book{control.CopyOf(&AsRows, rows, c, log, build)}
}

func build(quotas []*Quota) byLambda {
	all := byLambda{}
	for _, q := range quotas {
		if len(q.Limits) > 0 || q.Registration != "" {
			all[q.Ref] = limitsOf(q)
		}
	}
	return all
}

func limitsOf(q *Quota) *limits {
	of := &limits{starts: map[uint8]Limit{}, admits: map[string]float64{}, registration: q.Registration}
	for _, l := range q.Limits {
		of.hasRate = of.hasRate || l.Rate > 0
		of.running = noteConcurrency(of.running, &l)
		if l.Rate > 0 || l.Concurrency > 0 {
			of.bounding = append(of.bounding, l)
		}
		switch {
		case l.Rate > 0 && l.Priority != "":
			of.starts[l.Class] = l
		case l.Rate > 0:
			of.all = l
		}
		of.recovery = max(of.recovery, l.Recovery)
		if l.Admit > 0 {
			of.admits[l.Identity] = l.Admit
		}
	}
	return of
}

// Recovery returns at how many tasks per second what was held back or has ended goes on, if nobody says
// otherwise; 0: at once.
func (b *Book) Recovery(lambda uint32) uint32 {
	if of := b.Value()[lambda]; of != nil {
		return of.recovery
	}
	return 0
}

// Starts returns the limits that bound how many tasks of a lambda start or run at once: that of all
// priorities together comes first.
func (b *Book) Starts(lambda uint32) []Limit {
	of := b.Value()[lambda]
	if of == nil {
		return nil
	}
	return of.bounding
}

// Registration returns the digest of the registration that set the quotas of a lambda last; empty: none did.
func (b *Book) Registration(lambda uint32) string {
	if of := b.Value()[lambda]; of != nil {
		return of.registration
	}
	return ""
}

// Kind is the kind of the control rows of quotas, each under the name of its lambda.
const Kind = "quota"

// Quota has the limits of a lambda. It is also the stored form.
type Quota struct {
	control.Meta `json:"-"`

	Lambda string  `json:"lambda"`
	Ref    uint32  `json:"ref"` // of the lambda: one that is created again is another
	Limits []Limit `json:"limits"`

	// Registration is the digest of the registration that set the limits last; empty: none did. A row with
	// one stays when a call takes all limits away, so that they are not set again.
	Registration string `json:"registration,omitempty"`
}

// Limit is a limit of a quota, which a registration may declare.
type Limit = catalog.Limit

// Find returns the limit of a priority and identity; a new one if there is none.
func (q *Quota) Find(priority, identity string) Limit {
	for _, l := range q.Limits {
		if l.Priority == priority && l.Identity == identity {
			return l
		}
	}
	return Limit{Priority: priority, Identity: identity}
}

// With returns the quota with a limit in place of the one of the same priority and identity. A limit that
// bounds nothing is left out.
func (q *Quota) With(l Limit) *Quota {
	next := *q
	next.Limits = slices.DeleteFunc(slices.Clone(q.Limits), func(old Limit) bool {
		return old.Priority == l.Priority && old.Identity == l.Identity
	})
	if !l.IsNone() {
		next.Limits = append(next.Limits, l)
	}
	slices.SortFunc(next.Limits, func(a, b Limit) int {
		if a.Priority+a.Identity == "" || b.Priority+b.Identity == "" {
			return len(a.Priority+a.Identity) - len(b.Priority+b.Identity)
		}
		if (a.Identity == "") != (b.Identity == "") {
			return len(a.Identity) - len(b.Identity)
		}
		if a.Class != b.Class {
			return int(a.Class) - int(b.Class)
		}
		return cmp.Compare(a.Identity, b.Identity)
	})
	return &next
}

// AsRows says how quotas are kept as rows.
var AsRows = control.Kind[Quota]{Live: Kind, What: "quota", Name: func(q *Quota) string { return q.Lambda }}

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
