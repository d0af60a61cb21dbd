package cron

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// registeredBy is who made and changed the crons of registrations.
const registeredBy = "(registration)"

// isRegistered reports whether a cron is there because the registration of its lambda declares it.
func (s *Service) isRegistered(c *Cron) bool {
	if !c.Registered {
		return false
	}
	l := s.Lambdas.ByRef(c.Ref)
	return l != nil && l.HasMade(c.Name)
}

// registered refuses a call that changes what the next round of registrations would change back.
func registered(c *Cron) error {
	return api.Errorf(kinesinv1.Reason_REASON_REGISTERED,
		"cron %s is registered with lambda %s: change or remove it there (crons of its module call in Terraform); a pause needs no change of it", c.Name, c.Lambda)
}

// specOfRegistered returns what a registration says about a cron, checked.
func (s *Service) specOfRegistered(asked *kinesinv1.Cron, l *task.Lambda) (*Spec, *cronspec.Schedule, error) {
	spec, err := askedSettings(asked)
	if err != nil {
		return nil, nil, err
	}
	schedule, err := s.fit(spec, asked.Name, l)
	return spec, schedule, err
}

// Check refuses crons that cannot become those of a registration: with settings that are not allowed, or with
// the name of a cron that is there and of something else.
func (s *Service) Check(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.Crons)) {
		_, _, err := s.specOfRegistered(r.Crons[name], &r.Lambda)
		if err == nil {
			c, findErr := s.crons.Find(ctx, name)
			if err = findErr; errors.Is(findErr, store.ErrNotFound) {
				err = nil
			} else if findErr == nil {
				err = mayTake(c, l)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cron %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// mayTake refuses a cron that is there and not one that a registration of the lambda may make its own: those
// are its own, and those that calls made for the lambda.
func mayTake(c *Cron, l *catalog.Entry) error {
	switch {
	case l == nil || c.Ref != l.Ref:
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "it exists, of lambda %s or of an earlier one of that name: choose another name, or delete it (kinesin cron delete %s)", c.Lambda, c.Name)
	case c.ManagedBy != "":
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "it is managed by set %s: take it out of that file, and then of its set with kinesin cron set %s --reset managed_by", c.ManagedBy, c.Name)
	}
	return nil
}

// Make makes the crons of a registration, and deletes those that an earlier one declared and this one does
// not. Other settings are a new revision; a pause is none of them.
func (s *Service) Make(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.Crons)) {
		if err := s.makeRegistered(ctx, l, r.Crons[name]); err != nil {
			errs = append(errs, fmt.Errorf("cron %s: %w", name, err))
		}
	}
	for _, name := range l.Crons {
		if _, stays := r.Crons[name]; !stays {
			errs = append(errs, s.removeRegistered(ctx, l, name))
		}
	}
	return errors.Join(errs...)
}

// Remove deletes the crons that a registration of the lambda declared.
func (s *Service) Remove(ctx context.Context, l *catalog.Entry) error {
	var errs []error
	for _, name := range l.Crons {
		errs = append(errs, s.removeRegistered(ctx, l, name))
	}
	return errors.Join(errs...)
}

func (s *Service) makeRegistered(ctx context.Context, l *catalog.Entry, asked *kinesinv1.Cron) error {
	spec, schedule, err := s.specOfRegistered(asked, &l.Lambda)
	if err != nil {
		return err
	}
	c, err := s.change(ctx, asked.Name, func(c *Cron) (control.Do, error) {
		switch {
		case c.Version == 0:
			if err := s.checkFires(spec, schedule); err != nil {
				return control.Keep, err
			}
			*c = *s.newCron(asked.Name, spec, l, registeredBy)
		case mayTake(c, l) != nil:
			return control.Keep, mayTake(c, l)
		case !isSame(c, spec, l): // else nothing else fires; it is written all the same: see catalog.CheckCurrent
			if err := s.checkFires(spec, schedule); err != nil {
				return control.Keep, err
			}
			now := s.Clock.Now()
			if err := c.Change(*spec, now); err != nil {
				return control.Keep, err
			}
			c.Updated, c.UpdatedBy = now, registeredBy
		}
		c.Registered = true
		return control.Store, s.Lambdas.CheckCurrent(ctx, l)
	})
	if err == nil {
		s.cancelOccurrences(ctx, c, replacedOf(c))
	}
	return err
}

// removeRegistered deletes a cron unless it is none of the lambda's registration any more.
func (s *Service) removeRegistered(ctx context.Context, l *catalog.Entry, name string) error {
	removed := false
	c, err := s.change(ctx, name, func(c *Cron) (control.Do, error) {
		if removed = c.Registered && c.Ref == l.Ref; !removed {
			return control.Keep, nil
		}
		return control.Remove, s.Lambdas.CheckCurrent(ctx, l)
	})
	if err == nil && removed {
		s.cancelNext(ctx, c)
	}
	return err
}

// CronsOf names the crons of a lambda.
func (s *Service) CronsOf(ctx context.Context, l *catalog.Entry) ([]string, error) {
	all, err := s.crons.All(ctx)
	var names []string
	for _, c := range all {
		if c.Ref == l.Ref {
			names = append(names, c.Name)
		}
	}
	return names, err
}
