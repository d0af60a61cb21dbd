package lambdas

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
)

// standing is how a lambda and the registration of its name stand to each other.
type standing struct {
	isThere bool // the registration is
	want    catalog.Registration
	// refused is why it is not taken; nil: it is, or will be. What only SQS knows, queues that are missing,
	// is no refusal.
	refused error
}

// hasOutgrown reports whether the lambda can never become what the registration says. Only another one can,
// in its place.
func (s *standing) hasOutgrown() bool { return errors.Is(s.refused, catalog.ErrFixed) }

// isWithdrawn reports whether a lambda that was made of a registration has none any more: it goes when its
// tasks have ended. A registration that cannot be read is one.
func (s *standing) isWithdrawn() bool { return !s.isThere || s.hasOutgrown() }

// mayBeRegistered reports whether there can be a registration of a lambda's name. One that a call made may
// have got one that is refused.
func (svc *Service) mayBeRegistered(entry *catalog.Entry) bool {
	return svc.Shared || entry.Registration != ""
}

// standingOf reads the registration of a lambda's name.
func (svc *Service) standingOf(ctx context.Context, entry *catalog.Entry) (standing, error) {
	want, isThere, err := catalog.RegistrationOf(ctx, svc.Store, entry.Name)
	if err != nil || !isThere {
		return standing{}, err
	}
	return svc.compare(entry, want), nil
}

// compare is standingOf for a registration that was read.
func (svc *Service) compare(entry *catalog.Entry, want catalog.Registration) standing {
	s := standing{isThere: true, want: want, refused: want.Err}
	if want.Err == nil && want.Sum != entry.Registration {
		if s.refused = want.Fits(entry); s.refused == nil {
			s.refused = svc.Queue.CheckLambda(want.Lambda)
		}
	}
	return s
}

// standings are those of all lambdas, by name. Without any registration there are none.
func (svc *Service) standings(ctx context.Context, all []*catalog.Entry) (map[string]standing, error) {
	registrations, err := catalog.Registrations(ctx, svc.Store)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*catalog.Entry, len(all))
	for _, entry := range all {
		byName[entry.Name] = entry
	}
	found := map[string]standing{}
	for _, want := range registrations {
		if entry := byName[want.Name]; entry != nil {
			found[want.Name] = svc.compare(entry, want)
		}
	}
	return found, nil
}

// mustNotBeRegistered refuses to delete a lambda that servers would make again at once, as it is.
func (svc *Service) mustNotBeRegistered(ctx context.Context, entry *catalog.Entry) error {
	if entry.Registration == "" {
		return nil
	}
	s, err := svc.standingOf(ctx, entry)
	if err != nil || s.isWithdrawn() {
		return err
	}
	way := ""
	if s.refused != nil {
		way = fmt.Sprintf("; its registration is refused: %v", s.refused)
	}
	if svc.Unregister != nil {
		way += "; if Terraform has forgotten it (a removed block), delete its registration by hand: " + svc.Unregister(entry.Name)
	}
	return api.Errorf(kinesinv1.Reason_REASON_REGISTERED,
		"lambda %s is registered: take it out where it is (its module call in Terraform), and servers delete it when it has no live tasks%s", entry.Name, way)
}

// viewLambda is viewEntry, after a look at the registration of the lambda's name.
func (svc *Service) viewLambda(ctx context.Context, e *catalog.Entry) (v *kinesinv1.Lambda, err error) {
	var s standing
	if svc.mayBeRegistered(e) {
		s, err = svc.standingOf(ctx, e)
	}
	return viewEntry(e, s), err
}
