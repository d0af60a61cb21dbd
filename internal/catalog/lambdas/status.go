package lambdas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// status compares a lambda with the registration of its name.
type status struct {
	registered bool // there is a registration
	want       catalog.Registration
	// refused says why the registration is refused; nil: it is applied, or will be. Missing queues, which
	// only SQS knows, are no refusal.
	refused error
}

// isOutgrown reports whether the lambda can never become what the registration says: another lambda must
// replace it.
func (s *status) isOutgrown() bool { return errors.Is(s.refused, catalog.ErrFixed) }

// isWithdrawn reports whether a lambda that was made of a registration has none that fits any more: it is
// deleted when it has no live task. A registration that cannot be read counts.
func (s *status) isWithdrawn() bool { return !s.registered || s.isOutgrown() }

// mayBeRegistered reports whether there can be a registration of a lambda's name. A lambda that a call
// created may have one that is refused.
func (svc *Service) mayBeRegistered(entry *catalog.Entry) bool {
	return svc.Shared || entry.Registration != ""
}

// statusOf reads the registration of a lambda's name.
func (svc *Service) statusOf(ctx context.Context, entry *catalog.Entry) (status, error) {
	want, registered, err := ReadRegistration(ctx, svc.Store, entry.Name)
	if err != nil || !registered {
		return status{}, err
	}
	return svc.compare(ctx, entry, want), nil
}

func (svc *Service) compare(ctx context.Context, entry *catalog.Entry, want catalog.Registration) status {
	s := status{registered: true, want: want, refused: want.Err}
	isSame := want.Sum == entry.Registration
	if want.Err == nil && !isSame {
		if s.refused = want.Fits(entry); s.refused == nil {
			s.refused = cmp.Or(svc.Queue.CheckLambda(want.Lambda), svc.checkTarget(want.Target, nil))
		}
	}
	if s.refused == nil && (!isSame || !entry.IsMade(&want)) {
		s.refused = svc.checkDeclared(ctx, entry, &want)
	}
	return s
}

// statuses returns the status of every lambda that has a registration, by name.
func (svc *Service) statuses(ctx context.Context) (map[string]status, error) {
	registrations, err := ReadRegistrations(ctx, svc.Store)
	if err != nil {
		return nil, err
	}
	found := map[string]status{}
	for _, want := range registrations {
		if entry, err := svc.Catalog.Lambda(want.Name); err == nil {
			found[want.Name] = svc.compare(ctx, entry, want)
		}
	}
	return found, nil
}

// checkNotRegistered refuses to delete a lambda that servers would create again at once.
func (svc *Service) checkNotRegistered(ctx context.Context, entry *catalog.Entry) error {
	if entry.Registration == "" {
		return nil
	}
	s, err := svc.statusOf(ctx, entry)
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
		"lambda %s is registered: remove its registration (its module call in Terraform), and servers delete it when it has no live tasks%s", entry.Name, way)
}

// errWaiting says why a valid registration waits.
var errWaiting = errors.New("queues are not there yet")

// checkQueues fails unless all queues of a lambda exist, under names that are still free. Terraform makes
// them, with keys, tags and policies that this program does not know; a queue that this program made would be
// in the way.
func (svc *Service) checkQueues(ctx context.Context, l task.Lambda) error {
	missing, err := svc.Queue.Missing(ctx, l)
	switch {
	case errors.Is(err, queue.ErrOtherMode):
		return fmt.Errorf("%w: %w", errWaiting, err)
	case err != nil:
		return err
	case len(missing) > 0:
		return fmt.Errorf("%w: %s", errWaiting, strings.Join(missing, ", "))
	}
	if err := svc.Catalog.Refresh(ctx); err != nil { // the queue service may have taken a while
		return err
	}
	return svc.Queue.CheckLambda(l)
}

// checkDeclared refuses what a registration declares beside its lambda; l is nil if that is not there yet.
func (svc *Service) checkDeclared(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	var errs []error
	for _, d := range svc.Declared {
		errs = append(errs, d.Check(ctx, l, r))
	}
	return errors.Join(errs...)
}

// makeDeclared makes what the registration of a lambda declares beside it.
func (svc *Service) makeDeclared(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	if l.IsMade(r) {
		return nil
	}
	l, err := svc.Catalog.Claim(ctx, l, r)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range svc.Declared {
		errs = append(errs, d.Make(ctx, l, r))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err = svc.Catalog.Settle(ctx, l, r)
	return err
}

// removeDeclared takes away what the registration of a lambda declared. An occurrence that waits would keep
// the lambda.
func (svc *Service) removeDeclared(ctx context.Context, l *catalog.Entry) (*catalog.Entry, error) {
	if l.Made == "" {
		return l, nil
	}
	l, err := svc.Catalog.Undo(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, d := range svc.Declared {
		if err := d.Remove(ctx, l); err != nil {
			return nil, err
		}
	}
	return svc.Catalog.Undone(ctx, l)
}
