package lambdas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// withdrawnAfter is how long a registration must have been gone for its lambda to be deleted: one that
	// was replaced, or a table that was restored, is back by then.
	withdrawnAfter = time.Minute
	// withdrawnAgain is when a lambda that was kept for its live tasks is looked at again.
	withdrawnAgain = time.Minute
	// withdrawnManyAfter is withdrawnAfter when more than withdrawnManyMin registrations are gone at once,
	// and more than half of all: that is rather an emptied table, or a destroy in the wrong place, than
	// intended.
	withdrawnManyAfter = 10 * time.Minute
	withdrawnManyMin   = 5
	// withdrawnTogether is how many lambdas a round goes on to delete, so that it has time for the
	// registrations.
	withdrawnTogether = 10
)

// errNotWithdrawn says that there is nothing to tell of a lambda: its registration is back, or another lambda
// has it.
var errNotWithdrawn = errors.New("not withdrawn any more")

// withdraw deletes the lambdas whose registrations have been gone for a while and that have no live task.
// Their queues are most likely gone too; a lambda that is kept has its tasks again when they and the
// registration are back. A lambda that does not fit its registration was destroyed and came back within that
// while: it is deleted in the same way, when the one in its place can be created at once. A deletion waits
// for other processes and for the buffer, so it goes on in the next round. lambdas are all that have, or had,
// a registration; fits has the names of the registrations.
func (r *registrar) withdraw(ctx context.Context, lambdas []*catalog.Entry, fits map[string]bool) {
	now := clock.Steady(r.Clock)
	var gone []*catalog.Entry
	for _, entry := range lambdas {
		p := r.of(entry.Name)
		switch {
		case fits[entry.Name]:
			r.cancelDeletion(ctx, entry, p)
			continue
		case p.since == 0:
			p.since, p.next = now, now.Add(withdrawnAfter)
		}
		gone = append(gone, entry)
	}
	r.holdMany(ctx, gone, len(lambdas)-len(gone))
	begun := 0
	for _, entry := range gone {
		_, registered := fits[entry.Name]
		p := r.of(entry.Name)
		if now >= p.next && begun < withdrawnTogether {
			begun++
			r.goOnDeleting(ctx, entry, p, registered)
		}
		switch {
		case registered: // it is counted as refused
		case p.outcome == RegistrationKept:
			r.states[RegistrationKept]++
		default:
			if r.held && !p.tried {
				r.states[RegistrationHeld]++
			}
			p.outcome, p.text = "", "" // that was of its registration
		}
	}
}

// holdMany puts off the deletions that were not tried yet when they are too many beside the lambdas that
// stay.
func (r *registrar) holdMany(ctx context.Context, gone []*catalog.Entry, stay int) {
	var untried []*progress
	for _, entry := range gone {
		if p := r.of(entry.Name); !p.tried {
			untried = append(untried, p)
		}
	}
	n := len(untried)
	if n <= withdrawnManyMin || n <= stay {
		r.held = false
		return
	}
	for _, p := range untried {
		p.next = p.since.Add(withdrawnManyAfter)
	}
	if !r.held {
		r.tell(ctx, "", RegistrationHeld, fmt.Errorf(
			"%d of %d registrations are gone at once, or change fixed settings: their lambdas are deleted in %v if they have no live tasks; put the registrations back if that is not intended",
			n, n+stay, withdrawnManyAfter))
	}
	r.held = true
}

// goOnDeleting does what can be done now to delete a lambda, and tells what became of it in the end. If it
// has a registration, what keeps it is told with the refusal of that.
func (r *registrar) goOnDeleting(ctx context.Context, entry *catalog.Entry, p *progress, registered bool) {
	err := r.deleteWithdrawn(ctx, entry)
	p.tried, p.deleting = true, errors.Is(err, errMoreToDo)
	if p.deleting {
		return
	}
	p.next = clock.Steady(r.Clock).Add(withdrawnAgain)
	switch {
	case errors.Is(err, errNotWithdrawn) || isRefusal(err, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA): // or another process was faster
	case registered && err != nil:
		p.keptBy = err
	case isRefusal(err, kinesinv1.Reason_REASON_IN_USE):
		r.tell(ctx, entry.Name, RegistrationKept, fmt.Errorf("%w; or put its registration back (its module call in Terraform)", err))
	case err != nil:
		r.tell(ctx, entry.Name, RegistrationKept, err)
	default:
		r.tell(ctx, entry.Name, RegistrationDeleted, nil)
		*p = progress{}
	}
}

// cancelDeletions cancels the deletions that were to go on. Other processes begin anew.
func (r *registrar) cancelDeletions(ctx context.Context) {
	for name, p := range r.lambdas {
		if entry, err := r.Catalog.Lambda(name); err == nil {
			r.cancelDeletion(ctx, entry, p)
		}
	}
}

// cancelDeletion cancels a deletion that was to go on. One that a registration cancelled is left as it is.
func (r *registrar) cancelDeletion(ctx context.Context, entry *catalog.Entry, p *progress) {
	if p.deleting {
		_ = r.Catalog.Unmark(ctx, entry) // if it fails, the mark ends after catalog.DeletingFor
	}
	p.withdrawal = withdrawal{}
}

// deleteWithdrawn goes on deleting a lambda whose registration is gone, or does not fit any more: then only
// if nothing is in the way of the lambda that is to be created in its place.
func (svc *Service) deleteWithdrawn(ctx context.Context, entry *catalog.Entry) error {
	s, err := svc.statusOf(ctx, entry)
	if err != nil || !s.isWithdrawn() {
		return errNotWithdrawn
	}
	if s.registered {
		if err := svc.checkQueues(ctx, s.want.Lambda); err != nil {
			return err
		}
	}
	d := deletion{Service: svc, entry: entry}
	d.resumeAfter(0)
	err = d.run(ctx)
	if err == nil || errors.Is(err, errMoreToDo) {
		return err
	}
	if s, readErr := svc.statusOf(ctx, entry); readErr != nil || !s.isWithdrawn() {
		return errNotWithdrawn
	}
	return err
}
