package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// RegistrationKind is the kind of control rows that define lambdas. Terraform writes them and no server does:
// a lambda's own row also has a reference and a version, which no file could give. See docs/adr/0018.
const RegistrationKind = "registration"

// ErrFixed refuses a registration with another mode or other priorities than the lambda has, or with fewer
// shards than it ever had.
var ErrFixed = errors.New("mode, fifo and priorities are fixed at creation, and shards only grow")

// Registration is the definition of a lambda.
type Registration struct {
	task.Lambda // with defaults, except that Shards are 0 where it does not say; without Ref, Created and Deleting

	// Quotas are the limits that the lambda is to have; nil: those that it has stay, unless they are of a
	// registration.
	Quotas []Limit

	// Crons, by name, and Objective are declared beside the lambda. Unlike its settings, nobody but the
	// registration changes them.
	Crons     map[string]*kinesinv1.Cron
	Objective *kinesinv1.SetObjectiveRequest // nil: none

	Sum string // the digest of what the row means, however that is written

	Err error // why it cannot be read or is invalid: then only its name is known
}

func (r *Registration) declaresNothing() bool { return len(r.Crons) == 0 && r.Objective == nil }

// CheckSettings refuses settings, given without defaults, that have no meaning in a mode.
func CheckSettings(mode task.Mode, given task.Lambda) error {
	if mode != task.Deliver {
		return nil
	}
	var unfit []string
	for _, setting := range []struct {
		name  string
		given bool
	}{
		{"max attempts", given.MaxAttempts != 0},
		{"timeout", given.Timeout != 0},
		{"backoff", given.BackoffMin != 0 || given.BackoffMax != 0},
		{"poison bound", given.PoisonBound != 0},
		{"start within", given.StartWithin != 0},
		{"priority weights", given.PriorityWeights != nil},
		{"limits by key", given.HasKeyLimits()},
		{"retry share", given.RetryShare != 0},
		{"target", given.Target != nil},
		{"breaker", given.Breaker != task.Breaker{}},
	} {
		if setting.given {
			unfit = append(unfit, setting.name)
		}
	}
	if unfit == nil {
		return nil
	}
	return fmt.Errorf("%s: not for mode deliver, whose tasks are put on a queue and not executed by Kinesin; leave that out", strings.Join(unfit, ", "))
}

// Fits refuses, with ErrFixed, a registration that an existing lambda can never become. The one that it was
// made of last always fits.
func (r *Registration) Fits(have *Entry) error {
	if have.Registration == r.Sum || have.Mode == r.Mode && have.FIFO == r.FIFO && slices.Equal(have.Priorities, r.Priorities) && r.shardsFit(have) {
		return nil
	}
	wayOut := "register another lambda with these settings; or delete it, and it is created anew of this registration"
	if have.Registration != "" {
		wayOut = "put the registration back; or wait until it has no live tasks, or delete it with its tasks dropped: then it is created anew of this " +
			"registration, a few minutes later, if all queues of that exist"
	}
	return fmt.Errorf("%w: the registration of %s wants mode %s, priorities %s, shards %d, and %s; %s",
		ErrFixed, r.Name, modeText(&r.Lambda), strings.Join(r.Priorities, ","), cmp.Or(r.Shards, have.Shards), describe(have.Lambda), wayOut)
}

// shardsFit reports whether a lambda can have the shards of a registration: more than it has, or a count that
// it had once and that a call made grow since.
func (r *Registration) shardsFit(have *Entry) bool {
	return r.Shards == 0 || r.Shards > have.Shards || have.HadShards(r.Shards)
}

// Register creates the lambda of a registration, or changes it when it was last made of another registration,
// and notes the digest of this one. So a change by a call stays until the registration itself changes. A
// deletion that has begun is cancelled: its Remove fails with ErrChanged. A lambda that cannot become so
// stays as it is (ErrFixed).
func (c *Catalog) Register(ctx context.Context, r Registration) (entry *Entry, created bool, err error) {
	entry, duplicate, err := c.create(ctx, r.Lambda, r.Sum, Owner{Urgent: true})
	switch {
	case err == nil && !duplicate:
		return entry, true, nil
	case err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrDeleting):
		return entry, false, err
	}
	entry, err = c.update(ctx, r.Name, func(e *Entry) error {
		if err := r.Fits(e); err != nil {
			return err
		}
		e.Deleting = false
		if e.Registration == r.Sum { // what a call changed since stays
			return nil
		}
		if r.Shards > e.Shards {
			if err := e.Grow(r.Shards, c.GrownFrom()); err != nil {
				return err
			}
		}
		settings := r.Lambda
		settings.Ref, settings.Created, settings.LimitKeySet = e.Ref, e.Created, e.LimitKeySet
		settings.Shards, settings.ShardHistory = e.Shards, e.ShardHistory
		if settings.Target != nil && e.Target != nil && settings.Target.KeepsTo(e.Target) { // no registration has these
			kept := *settings.Target
			kept.Headers, kept.Secrets = e.Target.Headers, e.Target.Secrets
			settings.Target = &kept
		}
		e.Lambda, e.Registration = settings, r.Sum
		return nil
	})
	return entry, false, err
}

// The Made of a lambda while what its registration declares is being made, or taken away.
const (
	making  = "making"
	undoing = "undoing"
)

// IsMade reports whether all that a registration declares beside its lambda was made.
func (e *Entry) IsMade(r *Registration) bool {
	return e.Made == r.Sum || e.Made == "" && r.declaresNothing()
}

// HasMade reports whether a cron is there because the lambda's registration declares it.
func (e *Entry) HasMade(cron string) bool { return slices.Contains(e.Crons, cron) }

// CheckCurrent fails with ErrChanged unless a lambda is still that of the registration of which what it
// declares is being made, or taken away. Whoever does so asks before each write, after it has read what it
// writes: what comes next is noted before any of it is made, and writes all of it, so that a conditional
// write for what was before fails.
func (c *Catalog) CheckCurrent(ctx context.Context, e *Entry) error {
	if err := c.Refresh(ctx); err != nil {
		return err
	}
	now := c.ByRef(e.Ref)
	settled := now != nil && e.Made == making && now.Made == e.Registration // by another process
	if now == nil || now.Registration != e.Registration || now.Made != e.Made && !settled {
		return fmt.Errorf("%w: lambda %s has another registration by now", ErrChanged, e.Name)
	}
	return nil
}

// Claim notes the crons that are about to be made for a registration beside those that were, so that none is
// forgotten.
func (c *Catalog) Claim(ctx context.Context, e *Entry, r *Registration) (*Entry, error) {
	return c.updateDeclared(ctx, e, "", func(now *Entry) {
		now.Made = making
		now.Crons = slices.Compact(slices.Sorted(slices.Values(slices.Concat(now.Crons, slices.Collect(maps.Keys(r.Crons))))))
	})
}

// Settle notes that all that a registration declares was made, and nothing else is left.
func (c *Catalog) Settle(ctx context.Context, e *Entry, r *Registration) (*Entry, error) {
	return c.updateDeclared(ctx, e, making, func(now *Entry) {
		now.Made, now.Crons = r.Sum, slices.Sorted(maps.Keys(r.Crons))
		if r.declaresNothing() {
			now.Made = ""
		}
	})
}

// Undo notes that what a registration declared is about to be taken away; Undone, that it was.
func (c *Catalog) Undo(ctx context.Context, e *Entry) (*Entry, error) {
	return c.updateDeclared(ctx, e, "", func(now *Entry) { now.Made = undoing })
}

// Undone is the end of Undo.
func (c *Catalog) Undone(ctx context.Context, e *Entry) (*Entry, error) {
	return c.updateDeclared(ctx, e, undoing, func(now *Entry) { now.Made, now.Crons = "", nil })
}

// updateDeclared changes a lambda unless it has another registration by now, or something else is being done
// with what that declares than before; empty: whatever was done before is over.
func (c *Catalog) updateDeclared(ctx context.Context, e *Entry, before string, change func(now *Entry)) (*Entry, error) {
	return c.update(ctx, e.Name, func(now *Entry) error {
		if now.Ref != e.Ref || now.Registration != e.Registration || before != "" && now.Made != before && (before == undoing || now.Made != e.Registration) {
			return fmt.Errorf("%w: lambda %s has another registration by now", ErrChanged, e.Name)
		}
		change(now)
		return nil
	})
}
