package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// withdrawnAfter is how long a registration must have been gone for its lambda to be deleted: one that was replaced, or a table
	// that was restored, is back by then.
	withdrawnAfter = time.Minute
	// withdrawnAgain is how long a lambda with live tasks is left alone before it is looked at again.
	withdrawnAgain = time.Minute
	// withdrawnManyAfter is withdrawnAfter when more than withdrawnManyMin registrations are gone at once, and more than half of all:
	// that is rather an emptied table, or a destroy in the wrong place, than what somebody wants.
	withdrawnManyAfter = 10 * time.Minute
	withdrawnManyMin   = 5
)

// withdrawals are the lambdas whose registrations are gone, and those that their registrations have outgrown. Their deletion takes seconds for each, so it goes on beside the
// rounds: one lambda at a time, and the next round with something to delete begins when the last has ended.
type withdrawals struct {
	gone    map[string]task.Instant // when a lambda without its registration is looked at next
	unseen  map[string]task.Instant // since when those are gone that were not looked at yet
	stays   map[string]error        // why a lambda that was outgrown is still there
	held    bool                    // these wait for withdrawnManyAfter
	results chan withdrawal         // of the deletions under way; nil when there are none
}

// withdrawal is what became of one.
type withdrawal struct {
	lambda string
	err    error
}

// errBack says that nothing is to be told of a lambda: its registration is back, or it is another lambda's now.
var errBack = errors.New("not withdrawn any more")

// withdraw deletes the lambdas whose registrations have been gone for a while, if no task of them lives. Their queues are most
// likely gone too; a lambda that is kept has its tasks again as soon as they and the registration are back. An outgrown lambda, whose
// registration wants what is fixed to be otherwise, was destroyed and came back within that while: it goes the same way, as soon as
// the one in its place can be made at once. registered are all lambdas that have, or had, a registration.
func (r *registrar) withdraw(ctx context.Context, registered []*catalog.Entry, there, outgrown map[string]bool) {
	now := r.Clock.Now()
	gone := map[string]bool{}
	for _, entry := range registered {
		if there[entry.Name] && !outgrown[entry.Name] {
			continue
		}
		gone[entry.Name] = true
		if _, seen := r.gone[entry.Name]; !seen {
			r.gone[entry.Name], r.unseen[entry.Name] = now.Add(withdrawnAfter), now
		}
		switch {
		case there[entry.Name]: // and counted as refused
		case r.told[entry.Name].outcome == RegistrationKept:
			r.states[RegistrationKept]++
		default:
			delete(r.told, entry.Name) // that was of its registration
		}
	}
	for name := range r.stays {
		if !outgrown[name] {
			delete(r.stays, name)
		}
	}
	for name := range r.gone {
		if !gone[name] {
			delete(r.gone, name)
			delete(r.unseen, name)
		}
	}
	r.holdMany(ctx, len(registered)-len(gone), there)
	if r.results != nil {
		return
	}
	var due []*catalog.Entry
	for _, entry := range registered {
		if gone[entry.Name] && now >= r.gone[entry.Name] {
			r.gone[entry.Name] = now.Add(withdrawnAgain)
			delete(r.unseen, entry.Name)
			due = append(due, entry)
		}
	}
	if len(due) > 0 {
		r.results = make(chan withdrawal, len(due))
		go r.deleteWithdrawn(ctx, due, r.results)
	}
}

// holdMany puts off all that were not looked at yet when there are too many of them beside those, stay of them, that are as they
// are to be.
func (r *registrar) holdMany(ctx context.Context, stay int, there map[string]bool) {
	n := len(r.unseen)
	if n <= withdrawnManyMin || n <= stay {
		r.held = false
		return
	}
	for name, since := range r.unseen {
		r.gone[name] = since.Add(withdrawnManyAfter)
		if !there[name] { // else it is counted as refused
			r.states[RegistrationHeld]++
		}
	}
	if !r.held {
		r.tell(ctx, "", RegistrationHeld, fmt.Errorf(
			"%d of %d registrations are gone at once, or want what is fixed to be otherwise: their lambdas are deleted in %v, those without live tasks; put the registrations back if that is not meant",
			n, n+stay, withdrawnManyAfter))
	}
	r.held = true
}

// endWithdrawals waits for the deletions under way; the context that ended the rounds ends them too.
func (w *withdrawals) endWithdrawals() {
	if w.results == nil {
		return
	}
	for range w.results { // until it is closed
	}
}

// tellWithdrawn tells what became of deletions so far.
func (r *registrar) tellWithdrawn(ctx context.Context, there map[string]bool) {
	for r.results != nil {
		select {
		case w, more := <-r.results:
			if !more {
				r.results = nil
				return
			}
			r.toldWithdrawn(ctx, w, there[w.lambda])
		default:
			return
		}
	}
}

// toldWithdrawn tells what became of one. isThere says whether there is a registration of its name: then what keeps the lambda is
// told with the refusal.
func (r *registrar) toldWithdrawn(ctx context.Context, w withdrawal, isThere bool) {
	switch {
	case errors.Is(w.err, errBack) || isRefusal(w.err, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA): // or another process was faster
	case isThere && w.err != nil:
		r.stays[w.lambda] = w.err
	case isRefusal(w.err, kinesinv1.Reason_REASON_IN_USE):
		r.tell(ctx, w.lambda, RegistrationKept, fmt.Errorf("%w; or put its registration back (its module call in Terraform)", w.err))
	case w.err != nil:
		r.tell(ctx, w.lambda, RegistrationKept, w.err)
	default:
		r.tell(ctx, w.lambda, RegistrationDeleted, nil)
		delete(r.told, w.lambda)
	}
}

// deleteWithdrawn deletes lambdas one after the other.
func (in *Inbound) deleteWithdrawn(ctx context.Context, due []*catalog.Entry, results chan<- withdrawal) {
	defer close(results)
	for _, entry := range due {
		if ctx.Err() != nil {
			return
		}
		results <- withdrawal{entry.Name, in.deleteUnregistered(ctx, entry)}
	}
}

// deleteUnregistered deletes a lambda whose registration is gone, or has outgrown it: then only if nothing is in the way of the one
// that is to be made in its place.
func (in *Inbound) deleteUnregistered(ctx context.Context, entry *catalog.Entry) error {
	s, err := in.standingOf(ctx, entry)
	if err != nil || !s.isWithdrawn() {
		return errBack
	}
	if s.isThere {
		if err := in.ready(ctx, s.want.Lambda); err != nil {
			return err
		}
	}
	if err = in.deleteLambda(ctx, entry, false); err != nil && in.isBack(ctx, entry) {
		return errBack
	}
	return err
}

// isBack reports whether a lambda may be registered again.
func (in *Inbound) isBack(ctx context.Context, entry *catalog.Entry) bool {
	s, err := in.standingOf(ctx, entry)
	return err != nil || !s.isWithdrawn()
}
