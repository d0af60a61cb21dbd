package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

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
