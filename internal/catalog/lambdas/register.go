package lambdas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// What a good registration waits for.
var (
	errWaiting   = errors.New("queues are not there yet")
	errContested = errors.New("another registration wants a queue of the same name")
)

const (
	// registerEvery is how soon a registration becomes a lambda. It costs a read unit for every 4 KB of
	// registrations.
	registerEvery = 5 * time.Second
	// deletingEvery is registerEvery while lambdas are being deleted, which take no tasks meanwhile.
	deletingEvery = time.Second
	// contestedFor is how long the first by name of two registrations with a queue of one name waits, when
	// neither is a lambda: whoever read the registrations before the other one was there has made its lambda
	// by then, and that one stays.
	contestedFor = 15 * time.Second
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
	RegistrationWell    = "well"    // the lambda is as registered, after something else was told; of no lambda: they could be read again
)

// RegistrationTaken is the state of one whose lambda is as it says, besides RegistrationWaiting,
// RegistrationRefused, RegistrationKept, RegistrationHeld and, of no lambda in particular,
// RegistrationUnread: see Hooks.Registrations.
const RegistrationTaken = "taken"

// Registrations lists what can become of registrations.
func Registrations() []string {
	return []string{
		RegistrationCreated, RegistrationChanged, RegistrationWaiting, RegistrationRefused, RegistrationDeleted, RegistrationKept,
		RegistrationUnread, RegistrationHeld, RegistrationWell,
	}
}

// RegistrationStates lists the states that registrations can be in.
func RegistrationStates() []string {
	return []string{RegistrationTaken, RegistrationWaiting, RegistrationRefused, RegistrationKept, RegistrationUnread, RegistrationHeld}
}

// Register makes and changes lambdas as registrations in the store say, and deletes those that are withdrawn
// and have no live tasks, until ctx ends. Several processes may do so at once. Where no other process is over
// the store nobody registers.
func (svc *Service) Register(ctx context.Context) error {
	if !svc.Shared {
		<-ctx.Done()
		return nil
	}
	r := registrar{Service: svc, names: map[string]*remembered{}, states: map[string]int{}}
	for ctx.Err() == nil {
		r.round(ctx)
		_ = clock.Sleep(ctx, svc.Clock, r.pause()) // the loop sees that ctx ended
	}
	r.keepWithdrawn(context.WithoutCancel(ctx))
	return nil
}

// registrar is one Register.
type registrar struct {
	*Service
	names  map[string]*remembered // of registrations, and of lambdas that have or had one; empty: what is told of all of them
	states map[string]int         // as of this round, or the last that could be
	held   bool                   // withdrawals wait for withdrawnManyAfter
}

// pause is how long after a round the next one comes.
func (r *registrar) pause() time.Duration {
	for _, m := range r.names {
		if m.deleting {
			return deletingEvery
		}
	}
	return registerEvery
}

// remembered is what is known of a name from round to round.
type remembered struct {
	outcome, text string       // what was last told, so that it is told once
	contested     task.Instant // when its registration was first seen to share a queue's name with a later one; 0: it does not
	withdrawal
}

func (r *registrar) of(name string) *remembered {
	m := r.names[name]
	if m == nil {
		m = &remembered{}
		r.names[name] = m
	}
	return m
}

// wanted is a registration, and how its lambda is.
type wanted struct {
	catalog.Registration
	isTaken bool  // the lambda is as it says
	isThere bool  // the lambda is there
	err     error // why it is refused; nil: not so far
}

// round looks at all registrations once. What is known of lambdas is older than what is read of
// registrations: a lambda that another process made of a registration in between must not look as if that
// were gone.
func (r *registrar) round(ctx context.Context) {
	lambdas := slices.DeleteFunc(slices.Clone(r.Catalog.All()), func(l *catalog.Entry) bool { return l.Registration == "" })
	registrations, err := catalog.Registrations(ctx, r.Store)
	if err != nil {
		r.unread(ctx, err)
		return
	}
	all := r.look(registrations)
	if slices.ContainsFunc(all, func(w wanted) bool { return !w.isTaken && w.err == nil }) {
		if err := r.Catalog.Refresh(ctx); err != nil {
			r.unread(ctx, err)
			return
		}
		all = r.look(registrations)
	}
	r.wellAgain(ctx, "")
	r.states = map[string]int{}
	fits := make(map[string]bool, len(all)) // the names of registrations; false: the lambda has to make way
	for i := range all {
		w := &all[i]
		if fits[w.Name] = !errors.Is(w.err, catalog.ErrFixed); w.isTaken {
			r.wellAgain(ctx, w.Name)
		}
	}
	r.takeAll(ctx, all)
	r.withdraw(ctx, lambdas, fits)
	r.forget(lambdas, fits)
	r.report(r.states)
}

// forget drops what is remembered of names with neither a registration nor a lambda that had one.
func (r *registrar) forget(lambdas []*catalog.Entry, fits map[string]bool) {
	known := map[string]bool{"": true}
	for _, entry := range lambdas {
		known[entry.Name] = true
	}
	maps.DeleteFunc(r.names, func(name string, _ *remembered) bool {
		_, there := fits[name]
		return !there && !known[name]
	})
}

// unread is a round that could not be: what was before is as it was, as far as is known.
func (r *registrar) unread(ctx context.Context, err error) {
	r.tell(ctx, "", RegistrationUnread, err)
	r.states[RegistrationUnread] = 1
	r.report(r.states)
}

func (r *registrar) report(states map[string]int) {
	if r.Hooks.Registrations != nil {
		r.Hooks.Registrations(states)
	}
}

// look compares registrations with their lambdas.
func (r *registrar) look(registrations []catalog.Registration) []wanted {
	all := make([]wanted, len(registrations))
	for i, want := range registrations {
		w := wanted{Registration: want, err: want.Err}
		if entry, err := r.Catalog.Lambda(want.Name); err == nil && w.err == nil {
			w.isThere = true
			if w.isTaken = entry.Registration == want.Sum && !entry.Deleting; !w.isTaken {
				w.err = want.Fits(entry) // before SQS is asked, round after round
			}
		}
		all[i] = w
	}
	return all
}

// takeAll takes what can be taken; all are in the order of names.
func (r *registrar) takeAll(ctx context.Context, all []wanted) {
	for i := range all {
		if w := &all[i]; w.err == nil && !w.isTaken {
			w.err = r.Queue.CheckLambda(w.Lambda)
		}
	}
	for i := range all {
		w := &all[i]
		if w.isTaken {
			r.states[RegistrationTaken]++
			continue
		}
		if w.err == nil && !w.isThere {
			w.err = r.contest(w, all[:i], all[i+1:])
		}
		outcome, err := RegistrationRefused, w.err
		switch {
		case errors.Is(err, errContested):
			outcome, w.err = RegistrationWaiting, nil // it is still to be
		case err == nil:
			outcome, err = r.take(ctx, w)
		case r.of(w.Name).stays != nil:
			err = fmt.Errorf("%w; it is still there: %w", err, r.of(w.Name).stays)
		}
		r.tell(ctx, w.Name, outcome, err)
		switch outcome {
		case RegistrationRefused, RegistrationWaiting:
			r.states[outcome]++
		default:
			r.states[RegistrationTaken]++
		}
	}
}

// contest decides between registrations that want a queue of the same name, when neither is a lambda: the
// first by name gets it, after a while, and the others are refused. Against a lambda that is there both are
// refused before.
func (r *registrar) contest(w *wanted, before, after []wanted) error {
	if err := r.Queue.CheckLambda(w.Lambda, planned(before)...); err != nil {
		return err
	}
	m, now := r.of(w.Name), clock.Steady(r.Clock)
	err := r.Queue.CheckLambda(w.Lambda, planned(after)...)
	if err == nil {
		m.contested = 0
		return nil
	}
	m.contested = cmp.Or(m.contested, now)
	if now.Sub(m.contested) < contestedFor {
		return fmt.Errorf("%w, and this is the first by name: its lambda is made in %v, and the other refused: %w", errContested, contestedFor, err)
	}
	return nil
}

// planned are the lambdas that are to be made of registrations that are not refused.
func planned(of []wanted) []task.Lambda {
	var all []task.Lambda
	for i := range of {
		if w := &of[i]; w.err == nil && !w.isThere {
			all = append(all, w.Lambda)
		}
	}
	return all
}

// take makes a lambda what a registration says.
func (r *registrar) take(ctx context.Context, w *wanted) (outcome string, err error) {
	if err := r.ready(ctx, w.Lambda); errors.Is(err, errWaiting) {
		return RegistrationWaiting, err
	} else if err != nil {
		return RegistrationRefused, err
	}
	_, created, err := r.Catalog.Register(ctx, w.Registration)
	switch {
	case err != nil:
		return RegistrationRefused, err
	case created:
		return RegistrationCreated, nil
	}
	return RegistrationChanged, nil
}

// ready fails unless all queues of a lambda are there, under names that are still free. They are made by who
// registered it, with keys, tags and policies that nobody here knows, and never by this program: what it made
// would be in the way.
func (svc *Service) ready(ctx context.Context, l task.Lambda) error {
	missing, err := svc.Queue.Missing(ctx, l)
	switch {
	case errors.Is(err, queue.ErrOtherMode):
		return fmt.Errorf("%w: %w", errWaiting, err)
	case err != nil:
		return err
	case len(missing) > 0:
		return fmt.Errorf("%w: %s", errWaiting, strings.Join(missing, ", "))
	}
	if err := svc.Catalog.Refresh(ctx); err != nil { // to ask took a while
		return err
	}
	return svc.Queue.CheckLambda(l)
}

func isRefusal(err error, reason kinesinv1.Reason) bool {
	return err != nil && refusal.Problem(err).Reason == reason
}

// wellAgain tells that nothing is wrong with a lambda any more, if something was told to be.
func (r *registrar) wellAgain(ctx context.Context, name string) {
	m := r.of(name)
	switch m.outcome {
	case RegistrationWaiting, RegistrationRefused, RegistrationKept, RegistrationUnread:
		r.tell(ctx, name, RegistrationWell, nil)
	}
	if ctx.Err() == nil {
		m.outcome, m.text = "", ""
	}
}

// tell tells what became of a registration, unless that is what was told last, or what a stop did.
func (r *registrar) tell(ctx context.Context, name, outcome string, err error) {
	text := outcome
	if err != nil {
		text += ": " + err.Error()
	}
	m := r.of(name)
	if ctx.Err() != nil || m.text == text {
		return
	}
	m.outcome, m.text = outcome, text
	if r.Hooks.Registered != nil {
		r.Hooks.Registered(ctx, name, outcome, err)
	}
}
