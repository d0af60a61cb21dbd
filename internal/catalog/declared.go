package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// RegisteredCronsMax bounds the crons of a registration, all of which each process reads every few seconds.
const RegisteredCronsMax = 100

// The Made of a lambda while what its registration declares is being made, or taken away.
const (
	making  = "making"
	undoing = "undoing"
)

// RegisteredCron is a cron of a lambda as its registration declares it. An absent setting has its default.
type RegisteredCron struct {
	Schedule        string            `json:"schedule"`
	Zone            string            `json:"zone,omitempty"`
	Start           time.Time         `json:"start,omitzero"`
	End             time.Time         `json:"end,omitzero"`
	JitterMS        int64             `json:"jitter_ms,omitempty"`
	Gap             string            `json:"gap,omitempty"`
	Fold            string            `json:"fold,omitempty"`
	Overlap         string            `json:"overlap,omitempty"`
	CatchUp         string            `json:"catch_up,omitempty"`
	CatchUpMax      uint32            `json:"catch_up_max,omitempty"`
	CatchUpWithinMS int64             `json:"catch_up_within_ms,omitempty"`
	FailuresMax     uint32            `json:"failures_max,omitempty"`
	Priority        string            `json:"priority,omitempty"`
	Collection      string            `json:"collection,omitempty"`
	Tags            map[string]string `json:"tags,omitempty"`
	Payload         string            `json:"payload,omitempty"`
}

// RegisteredObjective is the objective of a lambda as its registration declares it.
type RegisteredObjective struct {
	WithinUS int64   `json:"within_us"`
	Percent  float64 `json:"objective"`
	WindowUS int64   `json:"window_us,omitempty"` // 0: the default
}

// Declared is what a registration declares beside its lambda. Unlike the settings of the lambda, nobody but
// the registration changes it.
type Declared struct {
	Crons     map[string]RegisteredCron // by name
	Objective *RegisteredObjective      // nil: none
}

func (d *Declared) isNothing() bool { return len(d.Crons) == 0 && d.Objective == nil }

func (d *Declared) validate() error {
	var errs []error
	if len(d.Crons) > RegisteredCronsMax {
		errs = append(errs, fmt.Errorf("%w crons: %d of them in one registration; want at most %d", task.ErrInvalid, len(d.Crons), RegisteredCronsMax))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Crons)) {
		errs = append(errs, task.CheckName("cron", name))
	}
	return errors.Join(errs...)
}

// IsMade reports whether all that a registration declares beside its lambda was made.
func (e *Entry) IsMade(r *Registration) bool {
	return e.Made == r.Sum || e.Made == "" && r.isNothing()
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
		if r.isNothing() {
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
