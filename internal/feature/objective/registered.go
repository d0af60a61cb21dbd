package objective

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
)

// registeredBy is who set the objectives of registrations.
const registeredBy = "(registration)"

// isRegisteredOf reports whether an objective is there because the registration of the lambda declares it.
func (o *Objective) isRegisteredOf(l *catalog.Entry) bool {
	return o.Registered && l.Made != ""
}

// registered refuses a call that changes what is the registration's.
func registered(lambda string) error {
	return api.Errorf(kinesinv1.Reason_REASON_REGISTERED,
		"the objective of lambda %s is registered with it: change or remove it there (objective of its module call in Terraform)", lambda)
}

// wanted returns the objective of a registration; nil if it declares none.
func (s *Service) wanted(l *catalog.Entry, r *catalog.Registration) *Objective {
	if r.Objective == nil {
		return nil
	}
	o := s.objectiveOf(l, r.Objective, registeredBy)
	o.Registered = true
	return o
}

// Check refuses an objective that cannot become that of a registration.
func (s *Service) Check(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	o := s.wanted(l, r)
	if o == nil {
		return nil
	}
	if err := o.Validate(); err != nil {
		return refusal.Invalid("objective: %v", err)
	}
	if l == nil {
		return nil
	}
	have, err := s.Keeper.book.Find(ctx, l.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil || have.Ref != l.Ref || have.ManagedBy == "":
		return err
	}
	return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "objective: there is one, managed by set %s: take it out of that file, and delete it with kinesin objective delete %s", have.ManagedBy, l.Name)
}

// Make sets the objective of a registration, or deletes that of an earlier one.
func (s *Service) Make(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	return s.register(ctx, l, s.wanted(l, r))
}

// Remove deletes the objective that a registration declared.
func (s *Service) Remove(ctx context.Context, l *catalog.Entry) error {
	return s.register(ctx, l, nil)
}

func (s *Service) register(ctx context.Context, l *catalog.Entry, want *Objective) error {
	return s.change(ctx, l, func(have *Objective) (control.Do, error) {
		if want == nil && !have.Registered {
			return control.Keep, nil
		}
		if err := s.Catalog.CheckCurrent(ctx, l); err != nil {
			return control.Keep, err
		}
		if want == nil {
			return control.Remove, nil
		}
		return s.replace(have, want)
	})
}
