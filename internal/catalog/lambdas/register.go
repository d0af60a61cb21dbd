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

// Why a valid registration waits.
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
	// contestedFor is how long the first by name of two new registrations with a queue of one name waits. A
	// process that read the registrations before the other one existed has created its lambda by then, and
	// that one stays.
	contestedFor = 15 * time.Second
)

// Outcomes of a registration; see Hooks.Registered.
const (
	RegistrationCreated   = "created" // the lambda was created
	RegistrationChanged   = "changed" // the lambda was changed, or is now that of the registration
	RegistrationWaiting   = "waiting" // the lambda is created or changed as soon as all its queues are there
	RegistrationRefused   = "refused" // the lambda, if there is one, stays as it is
	RegistrationDeleted   = "deleted" // the lambda was deleted: its registration is gone and it had no live task
	RegistrationKept      = "kept"    // the lambda is kept though its registration is gone: it has live tasks
	RegistrationUnread    = "unread"  // no registration could be read; of no lambda in particular
	RegistrationHeld      = "held"    // so many are gone at once that nothing is deleted for a while; of no lambda in particular
	RegistrationRecovered = "well"    // the lambda is as registered again; of no lambda: registrations can be read again
)

// RegistrationApplied is the state of a registration whose lambda is as it says. The others are
// RegistrationWaiting, RegistrationRefused, RegistrationKept, RegistrationHeld and, of no lambda in
// particular, RegistrationUnread: see Hooks.Registrations.
const RegistrationApplied = "taken"

// Registrations lists the outcomes of registrations.
func Registrations() []string {
	return []string{
		RegistrationCreated, RegistrationChanged, RegistrationWaiting, RegistrationRefused, RegistrationDeleted, RegistrationKept,
		RegistrationUnread, RegistrationHeld, RegistrationRecovered,
	}
}

// RegistrationStates lists the states that registrations can be in.
func RegistrationStates() []string {
	return []string{RegistrationApplied, RegistrationWaiting, RegistrationRefused, RegistrationKept, RegistrationUnread, RegistrationHeld}
}

// Register creates and changes lambdas as registrations in the store say, and deletes withdrawn lambdas that
// have no live task, until ctx ends. Several processes may do so at once. Where no other process uses the
// store nobody registers lambdas.
func (svc *Service) Register(ctx context.Context) error {
	if !svc.Shared {
		<-ctx.Done()
		return nil
	}
	r := registrar{Service: svc, lambdas: map[string]*progress{}, states: map[string]int{}}
	for ctx.Err() == nil {
		r.round(ctx)
		_ = clock.Sleep(ctx, svc.Clock, r.pause()) // the loop sees that ctx ended
	}
	r.cancelDeletions(context.WithoutCancel(ctx))
	return nil
}

// registrar is one Register.
type registrar struct {
	*Service
	lambdas map[string]*progress // by name, of those that have or had a registration; empty: of all together
	states  map[string]int       // as of the last round that could read registrations
	held    bool                 // deletions wait for withdrawnManyAfter
}

// progress is what is known of a lambda from round to round.
type progress struct {
	outcome, text  string       // last told, so that it is told once
	contestedSince task.Instant // when its registration was first seen to want a queue of a later one; 0: it does not
	withdrawal
}

func (r *registrar) of(name string) *progress {
	p := r.lambdas[name]
	if p == nil {
		p = &progress{}
		r.lambdas[name] = p
	}
	return p
}

// pause returns how long after a round the next one begins.
func (r *registrar) pause() time.Duration {
	for _, p := range r.lambdas {
		if p.deleting {
			return deletingEvery
		}
	}
	return registerEvery
}

// candidate is a registration and how its lambda compares.
type candidate struct {
	catalog.Registration
	isApplied bool  // the lambda is as it says
	exists    bool  // the lambda exists
	err       error // why it is refused; nil: not so far
}

// round handles all registrations once. The lambdas must be read before the registrations: otherwise a lambda
// that another process made of a registration in between would look withdrawn.
func (r *registrar) round(ctx context.Context) {
	lambdas := slices.DeleteFunc(slices.Clone(r.Catalog.All()), func(l *catalog.Entry) bool { return l.Registration == "" })
	registrations, err := catalog.Registrations(ctx, r.Store)
	if err != nil {
		r.unread(ctx, err)
		return
	}
	all := r.compareAll(ctx, registrations)
	if slices.ContainsFunc(all, func(c candidate) bool { return !c.isApplied && c.err == nil }) {
		if err := r.refreshAll(ctx); err != nil {
			r.unread(ctx, err)
			return
		}
		all = r.compareAll(ctx, registrations)
	}
	r.recovered(ctx, "")
	r.states = map[string]int{}
	fits := make(map[string]bool, len(all)) // by name of a registration; false: its lambda has to make way
	for i := range all {
		c := &all[i]
		if fits[c.Name] = !errors.Is(c.err, catalog.ErrFixed); c.isApplied {
			r.recovered(ctx, c.Name)
		}
	}
	r.applyAll(ctx, all)
	r.withdraw(ctx, lambdas, fits)
	r.forget(lambdas, fits)
	r.report()
}

// forget drops the progress of names with neither a registration nor a lambda that had one.
func (r *registrar) forget(lambdas []*catalog.Entry, fits map[string]bool) {
	known := map[string]bool{"": true}
	for _, entry := range lambdas {
		known[entry.Name] = true
	}
	maps.DeleteFunc(r.lambdas, func(name string, _ *progress) bool {
		_, registered := fits[name]
		return !registered && !known[name]
	})
}

// unread ends a round that could not read; the states are those of the round before, as far as is known.
func (r *registrar) unread(ctx context.Context, err error) {
	r.tell(ctx, "", RegistrationUnread, err)
	r.states[RegistrationUnread] = 1
	r.report()
}

func (r *registrar) report() {
	if r.Hooks.Registrations != nil {
		r.Hooks.Registrations(r.states)
	}
}

// compareAll compares registrations with their lambdas.
func (r *registrar) compareAll(ctx context.Context, registrations []catalog.Registration) []candidate {
	all := make([]candidate, len(registrations))
	for i, want := range registrations {
		c := candidate{Registration: want, err: want.Err}
		entry, err := r.Catalog.Lambda(want.Name)
		if err == nil && c.err == nil {
			c.exists = true
			isSame := entry.Registration == want.Sum && !entry.Deleting
			if c.isApplied = isSame && r.hasQuotas(entry, &want) && entry.IsMade(&want); !c.isApplied {
				c.err = want.Fits(entry) // before SQS is asked, round after round
			}
		}
		if c.err == nil && !c.isApplied {
			c.err = r.Catalog.CheckBounds(want.Lambda)
		}
		if c.err == nil && !c.isApplied {
			c.err = r.checkDeclared(ctx, entry, &c.Registration)
		}
		all[i] = c
	}
	return all
}

// refreshAll reads what other processes have done about registrations.
func (r *registrar) refreshAll(ctx context.Context) error {
	if err := r.Catalog.Refresh(ctx); err != nil || r.Quotas == nil {
		return err
	}
	return r.Quotas.Refresh(ctx)
}

// hasQuotas reports whether a lambda has the quotas of its registration, or what calls made of them since.
func (r *registrar) hasQuotas(entry *catalog.Entry, want *catalog.Registration) bool {
	return r.Quotas == nil || r.Quotas.IsRegistered(entry, want.Sum, want.Quotas)
}

// applyAll applies the registrations that are not refused; all are in the order of names.
func (r *registrar) applyAll(ctx context.Context, all []candidate) {
	for i := range all {
		if c := &all[i]; c.err == nil && !c.isApplied {
			c.err = r.Queue.CheckLambda(c.Lambda)
		}
	}
	for i := range all {
		c := &all[i]
		if c.isApplied {
			r.states[RegistrationApplied]++
			continue
		}
		if c.err == nil && !c.exists {
			c.err = r.contest(c, all[:i], all[i+1:])
		}
		outcome, err := RegistrationRefused, c.err
		switch {
		case errors.Is(err, errContested):
			outcome, c.err = RegistrationWaiting, nil // it still claims its queues
		case err == nil:
			outcome, err = r.apply(ctx, c)
		case r.of(c.Name).keptBy != nil:
			err = fmt.Errorf("%w; it is still there: %w", err, r.of(c.Name).keptBy)
		}
		r.tell(ctx, c.Name, outcome, err)
		switch outcome {
		case RegistrationRefused, RegistrationWaiting:
			r.states[outcome]++
		default:
			r.states[RegistrationApplied]++
		}
	}
}

// contest decides between new registrations that want a queue of the same name: the first by name gets it
// after a while, and the others are refused. A registration that wants a queue of an existing lambda was
// refused before.
func (r *registrar) contest(c *candidate, before, after []candidate) error {
	if err := r.Queue.CheckLambda(c.Lambda, planned(before)...); err != nil {
		return err
	}
	p, now := r.of(c.Name), clock.Steady(r.Clock)
	err := r.Queue.CheckLambda(c.Lambda, planned(after)...)
	if err == nil {
		p.contestedSince = 0
		return nil
	}
	p.contestedSince = cmp.Or(p.contestedSince, now)
	if now.Sub(p.contestedSince) < contestedFor {
		return fmt.Errorf("%w, and this one is first by name: its lambda is created in %v, and the other registration refused: %w", errContested, contestedFor, err)
	}
	return nil
}

// planned returns the lambdas that are to be created of registrations that are not refused.
func planned(of []candidate) []task.Lambda {
	var all []task.Lambda
	for i := range of {
		if c := &of[i]; c.err == nil && !c.exists {
			all = append(all, c.Lambda)
		}
	}
	return all
}

// apply makes a lambda what its registration says.
func (r *registrar) apply(ctx context.Context, c *candidate) (outcome string, err error) {
	if err := r.checkQueues(ctx, c.Lambda); errors.Is(err, errWaiting) {
		return RegistrationWaiting, err
	} else if err != nil {
		return RegistrationRefused, err
	}
	entry, created, err := r.Catalog.Register(ctx, c.Registration)
	if err == nil && r.Quotas != nil {
		err = r.Quotas.Register(ctx, entry, c.Sum, c.Quotas)
	}
	if err == nil {
		err = r.makeDeclared(ctx, entry, &c.Registration)
	}
	switch {
	case err != nil:
		return RegistrationRefused, err
	case created:
		return RegistrationCreated, nil
	}
	return RegistrationChanged, nil
}

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

func isRefusal(err error, reason kinesinv1.Reason) bool {
	return err != nil && refusal.Problem(err).Reason == reason
}

// recovered tells that a lambda is as registered again, if something else was told before.
func (r *registrar) recovered(ctx context.Context, name string) {
	p := r.of(name)
	switch p.outcome {
	case RegistrationWaiting, RegistrationRefused, RegistrationKept, RegistrationUnread:
		r.tell(ctx, name, RegistrationRecovered, nil)
	}
	if ctx.Err() == nil {
		p.outcome, p.text = "", ""
	}
}

// tell tells the hook what became of a registration, unless it was told last or ctx has ended.
func (r *registrar) tell(ctx context.Context, name, outcome string, err error) {
	text := outcome
	if err != nil {
		text += ": " + err.Error()
	}
	p := r.of(name)
	if ctx.Err() != nil || p.text == text {
		return
	}
	p.outcome, p.text = outcome, text
	if r.Hooks.Registered != nil {
		r.Hooks.Registered(ctx, name, outcome, err)
	}
}
