package lambdas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// errContested says why the first by name of new registrations waits: see contestedFor.
var errContested = errors.New("another registration wants a queue of the same name")

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
	registrations, err := ReadRegistrations(ctx, r.Store)
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

// compareAll compares registrations with their lambdas.
func (r *registrar) compareAll(ctx context.Context, registrations []catalog.Registration) []candidate {
	all := make([]candidate, len(registrations))
	for i, want := range registrations {
		entry, err := r.Catalog.Lambda(want.Name)
		c := candidate{Registration: want, err: want.Err}
		if err == nil && c.err == nil {
			c.exists = true
			isSame := entry.Registration == want.Sum && !entry.Deleting
			if c.isApplied = isSame && r.hasQuotas(entry, &want) && entry.IsMade(&want); !c.isApplied {
				c.err = want.Fits(entry) // before SQS is asked, round after round
			}
		}
		if c.err == nil && !c.isApplied {
			c.err = cmp.Or(r.Catalog.CheckBounds(want.Lambda), r.checkTarget(want.Target, nil))
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
