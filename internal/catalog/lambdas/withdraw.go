package lambdas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// withdrawnAfter is how long a registration must have been gone for its lambda to be deleted: one that
	// was replaced, or a table that was restored, is back by then.
	withdrawnAfter = time.Minute
	// withdrawnAgain is how long a lambda with live tasks is left alone before it is looked at again.
	withdrawnAgain = time.Minute
	// withdrawnManyAfter is withdrawnAfter when more than withdrawnManyMin registrations are gone at once,
	// and more than half of all: that is rather an emptied table, or a destroy in the wrong place, than what
	// somebody wants.
	withdrawnManyAfter = 10 * time.Minute
	withdrawnManyMin   = 5
	// withdrawnTogether is how many lambdas a round goes on to delete, so that it has time for the
	// registrations.
	withdrawnTogether = 10
)

// withdrawal is what is known of a lambda whose registration is gone, or has outgrown it.
type withdrawal struct {
	since    task.Instant // 0: neither
	look     task.Instant // when the lambda is deleted, or looked at again
	seen     bool         // that was begun
	deleting bool         // and goes on
	stays    error        // why a lambda that was outgrown is still there
}

// errBack says that nothing is to be told of a lambda: its registration is back, or it is another lambda's
// now.
var errBack = errors.New("not withdrawn any more")

// withdraw deletes the lambdas whose registrations have been gone for a while, if no task of them lives.
// Their queues are most likely gone too; a lambda that is kept has its tasks again as soon as they and the
// registration are back. An outgrown lambda, whose registration wants what is fixed to be otherwise, was
// destroyed and came back within that while: it goes the same way, as soon as the one in its place can be
// made at once. A deletion waits for other processes and for the buffer: it goes on with the next round.
// lambdas are all that have, or had, a registration; fits has the names of registrations, and whether they
// fit.
func (r *registrar) withdraw(ctx context.Context, lambdas []*catalog.Entry, fits map[string]bool) {
	now := clock.Steady(r.Clock)
	var gone []*catalog.Entry
	for _, entry := range lambdas {
		m := r.of(entry.Name)
		switch {
		case fits[entry.Name]:
			r.keep(ctx, entry, m)
			continue
		case m.since == 0:
			m.since, m.look = now, now.Add(withdrawnAfter)
		}
		gone = append(gone, entry)
	}
	r.holdMany(ctx, gone, len(lambdas)-len(gone))
	begun := 0
	for _, entry := range gone {
		_, isThere := fits[entry.Name]
		m := r.of(entry.Name)
		if now >= m.look && begun < withdrawnTogether {
			begun++
			r.goOnDeleting(ctx, entry, m, isThere)
		}
		switch {
		case isThere: // and counted as refused
		case m.outcome == RegistrationKept:
			r.states[RegistrationKept]++
		default:
			if r.held && !m.seen {
				r.states[RegistrationHeld]++
			}
			m.outcome, m.text = "", "" // that was of its registration
		}
	}
}

// holdMany puts off all that were not looked at yet when there are too many of them beside those, stay of
// them, that are as they are to be.
func (r *registrar) holdMany(ctx context.Context, gone []*catalog.Entry, stay int) {
	var unseen []*remembered
	for _, entry := range gone {
		if m := r.of(entry.Name); !m.seen {
			unseen = append(unseen, m)
		}
	}
	n := len(unseen)
	if n <= withdrawnManyMin || n <= stay {
		r.held = false
		return
	}
	for _, m := range unseen {
		m.look = m.since.Add(withdrawnManyAfter)
	}
	if !r.held {
		r.tell(ctx, "", RegistrationHeld, fmt.Errorf(
			"%d of %d registrations are gone at once, or want what is fixed to be otherwise: their lambdas are deleted in %v, those without live tasks; put the registrations back if that is not meant",
			n, n+stay, withdrawnManyAfter))
	}
	r.held = true
}

// goOnDeleting does what can be done by now to delete a lambda, and tells what became of it in the end.
// isThere says whether there is a registration of its name: then what keeps the lambda is told with the
// refusal.
func (r *registrar) goOnDeleting(ctx context.Context, entry *catalog.Entry, m *remembered, isThere bool) {
	err := r.deleteUnregistered(ctx, entry)
	m.seen, m.deleting = true, errors.Is(err, errMoreToDo)
	if m.deleting {
		return
	}
	m.look = clock.Steady(r.Clock).Add(withdrawnAgain)
	switch {
	case errors.Is(err, errBack) || isRefusal(err, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA): // or another process was faster
	case isThere && err != nil:
		m.stays = err
	case isRefusal(err, kinesinv1.Reason_REASON_IN_USE):
		r.tell(ctx, entry.Name, RegistrationKept, fmt.Errorf("%w; or put its registration back (its module call in Terraform)", err))
	case err != nil:
		r.tell(ctx, entry.Name, RegistrationKept, err)
	default:
		r.tell(ctx, entry.Name, RegistrationDeleted, nil)
		*m = remembered{}
	}
}

// keepWithdrawn takes back the deletions that were to go on. Other processes begin anew.
func (r *registrar) keepWithdrawn(ctx context.Context) {
	for name, m := range r.names {
		if entry, err := r.Catalog.Lambda(name); err == nil {
			r.keep(ctx, entry, m)
		}
	}
}

// keep takes a deletion back that was to go on. One that a registration took back is left as it is.
func (r *registrar) keep(ctx context.Context, entry *catalog.Entry, m *remembered) {
	if m.deleting {
		_ = r.Catalog.Unmark(ctx, entry) // or it is taken back after catalog.DeletingFor
	}
	m.withdrawal = withdrawal{}
}

// deleteUnregistered goes on deleting a lambda whose registration is gone, or has outgrown it: then only if
// nothing is in the way of the one that is to be made in its place.
func (svc *Service) deleteUnregistered(ctx context.Context, entry *catalog.Entry) error {
	s, err := svc.standingOf(ctx, entry)
	if err != nil || !s.isWithdrawn() {
		return errBack
	}
	if s.isThere {
		if err := svc.ready(ctx, s.want.Lambda); err != nil {
			return err
		}
	}
	d := deletion{Service: svc, entry: entry}
	d.goOnWithin(0)
	if err = d.run(ctx); err != nil && !errors.Is(err, errMoreToDo) && svc.isBack(ctx, entry) {
		return errBack
	}
	return err
}

// isBack reports whether a lambda may be registered again.
func (svc *Service) isBack(ctx context.Context, entry *catalog.Entry) bool {
	s, err := svc.standingOf(ctx, entry)
	return err != nil || !s.isWithdrawn()
}
