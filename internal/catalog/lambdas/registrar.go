package lambdas

import (
	"context"

	"github.com/kinesin-io/kinesin/task"
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

// withdrawal is the progress of deleting a lambda whose registration is gone, or does not fit it any more.
type withdrawal struct {
	since    task.Instant // 0: the registration fits
	next     task.Instant // when the lambda is deleted, or looked at again
	tried    bool         // its deletion was tried
	deleting bool         // its deletion goes on in the next round
	keptBy   error        // why a lambda that does not fit its registration still exists
}

func (r *registrar) of(name string) *progress {
	p := r.lambdas[name]
	if p == nil {
		p = &progress{}
		r.lambdas[name] = p
	}
	return p
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

func (r *registrar) report() {
	if r.Hooks.Registrations != nil {
		r.Hooks.Registrations(r.states)
	}
}
