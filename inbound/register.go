package inbound

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// errWaiting says that a registration is good, and that its queues are still to come.
var errWaiting = errors.New("queues are not there yet")

const (
	// registerEvery is how soon a registration becomes a lambda. It costs a read unit for every 4 KB of registrations.
	registerEvery = 5 * time.Second
)

// What became of a registration: see Hooks.Registered.
const (
	RegistrationCreated = "created" // the lambda was
	RegistrationChanged = "changed" // the lambda was, or is now that of the registration
	RegistrationWaiting = "waiting" // the lambda is made, or changed, as soon as all its queues are there
	RegistrationRefused = "refused" // the lambda, if there is one, stays as it is
	RegistrationDeleted = "deleted" // the lambda was, since its registration is gone and it had no tasks
	RegistrationKept    = "kept"    // the lambda is, though its registration is gone: it has live tasks
	RegistrationUnread  = "unread"  // none could be read; of no lambda in particular
	RegistrationHeld    = "held"    // so many are gone at once that nothing is deleted for a while; of no lambda in particular
)

// Registrations lists what can become of registrations.
func Registrations() []string {
	return []string{RegistrationCreated, RegistrationChanged, RegistrationWaiting, RegistrationRefused, RegistrationDeleted, RegistrationKept, RegistrationUnread, RegistrationHeld}
}

// Register makes and changes lambdas as registrations in the store say, and deletes those that are withdrawn and have no live
// tasks, until ctx ends. Several processes may do so at once. Where no other process is over the store nobody registers.
func (in *Inbound) Register(ctx context.Context) error {
	if !in.Shared {
		<-ctx.Done()
		return nil
	}
	r := registrar{
		Inbound: in, told: map[string]string{},
		withdrawals: withdrawals{gone: map[string]task.Instant{}, unseen: map[string]task.Instant{}},
	}
	for ctx.Err() == nil {
		r.round(ctx)
		_ = clock.Sleep(ctx, in.Clock, registerEvery) // the loop sees that ctx ended
	}
	r.endWithdrawals()
	return nil
}

// registrar is one Register. The maps have an entry for each lambda at most.
type registrar struct {
	*Inbound
	withdrawals

	told map[string]string // what was last told of a name, so that it is told once
}

// round looks at all registrations once. What is known of lambdas is older than what is read of registrations: a lambda that
// another process made of a registration in between must not look as if that were gone.
func (r *registrar) round(ctx context.Context) {
	lambdas := r.Catalog.All()
	rows, err := r.Store.Controls(ctx, catalog.RegistrationKind)
	if err != nil {
		r.tell(ctx, "", RegistrationUnread, fmt.Errorf("read registrations: %w", err))
		return
	}
	delete(r.told, "")
	there := make(map[string]bool, len(rows))
	for _, row := range rows {
		there[row.Name] = true
		if outcome, err := r.take(ctx, row); outcome != "" {
			r.tell(ctx, row.Name, outcome, err)
		}
	}
	var registered []*catalog.Entry
	for _, entry := range lambdas {
		if entry.Registration != "" {
			registered = append(registered, entry)
		}
	}
	r.withdraw(ctx, registered, there)
}

// take makes a lambda what a registration says; no outcome when it is that.
func (r *registrar) take(ctx context.Context, row store.Control) (outcome string, err error) {
	want, err := catalog.ParseRegistration(row)
	if err != nil {
		return RegistrationRefused, err
	}
	if entry, err := r.Catalog.Lambda(row.Name); err == nil {
		if entry.Registration == want.Sum && !entry.Deleting {
			delete(r.told, row.Name)
			return "", nil
		}
		if err := want.Fits(entry.Lambda); err != nil { // before SQS is asked, round after round
			return RegistrationRefused, err
		}
	}
	if err := r.ready(ctx, want.Lambda); errors.Is(err, errWaiting) {
		return RegistrationWaiting, err
	} else if err != nil {
		return RegistrationRefused, err
	}
	_, created, err := r.Catalog.Register(ctx, want)
	switch {
	case err != nil:
		return RegistrationRefused, err
	case created:
		return RegistrationCreated, nil
	}
	return RegistrationChanged, nil
}

// ready fails unless all queues of a lambda are there. Those are made by who registered it, with keys, tags and policies that
// nobody here knows, and never by this program: what it made would be in the way.
func (r *registrar) ready(ctx context.Context, l task.Lambda) error {
	if err := r.Queue.CheckLambda(l); err != nil {
		return err
	}
	missing, err := r.Queue.Missing(ctx, l)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: %s", errWaiting, strings.Join(missing, ", "))
	}
	return err
}

// tell tells what became of a registration, unless that is what was told last, or what a stop did.
func (r *registrar) tell(ctx context.Context, name, outcome string, err error) {
	if ctx.Err() != nil {
		return
	}
	text := outcome
	if err != nil {
		text += ": " + err.Error()
	}
	if r.told[name] == text {
		return
	}
	r.told[name] = text
	if r.Hooks.Registered != nil {
		r.Hooks.Registered(ctx, name, outcome, err)
	}
}
