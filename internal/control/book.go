// Package control keeps what operators and roles set in control rows. A Book has the rows of a kind: it finds them,
// changes them by compare-and-set under one rule of retries, and moves those that have ended out of the way. A Copy
// and an OnDemand are what a process knows of such rows without reading them each time. A Keeper is the loop of a
// feature that has something to do for each row when it is due. The package decides nothing about what the rows say.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// triesMax bounds how often a change is tried again because somebody else made one.
const triesMax = 16

// changeRetry is the pause before all tries of a change but the first two.
var changeRetry = backoff.Policy{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond}

// ErrBusy means that a row kept changing. It wraps store.ErrConflict.
var ErrBusy = fmt.Errorf("the row kept changing: %w", store.ErrConflict)

// Book has the rows of a kind. It is safe for concurrent use, and keeps nothing in memory.
type Book[T any] struct {
	Kind[T]

	rows  store.ControlRows
	clock clock.Clock
}

// NewBook returns the Book of a kind.
func NewBook[T any](rows store.ControlRows, k Kind[T], c clock.Clock) *Book[T] {
	return &Book[T]{k, rows, c}
}

// Find reads a value, whether it has ended or not; store.ErrNotFound if there is none.
func (b *Book[T]) Find(ctx context.Context, name string) (*T, error) {
	for _, kind := range []string{b.Live, b.Ended} { // in this order: a row that is buried meanwhile is found
		if kind == "" || name == "" {
			break
		}
		row, err := b.rows.Control(ctx, kind, name)
		if err == nil {
			return b.Decode(row)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("read %s %s: %w", b.What, name, err)
		}
	}
	return nil, fmt.Errorf("%s %q: %w", b.What, name, store.ErrNotFound)
}

// All reads the values that have not ended, in the order of their names, and leaves out those that cannot be read.
func (b *Book[T]) All(ctx context.Context) ([]*T, error) { return b.all(ctx, b.Live) }

// AllEnded is All for the values that have ended.
func (b *Book[T]) AllEnded(ctx context.Context) ([]*T, error) { return b.all(ctx, b.Ended) }

func (b *Book[T]) all(ctx context.Context, kind string) ([]*T, error) {
	rows, err := b.rows.Controls(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("read rows of kind %s: %w", kind, err)
	}
	all := make([]*T, 0, len(rows))
	for _, row := range rows {
		if t, err := b.Decode(row); err == nil {
			all = append(all, t)
		}
	}
	return all, nil
}

// Put stores a value that has not ended in place of the version that it was read at; store.ErrConflict if there is
// another one.
func (b *Book[T]) Put(ctx context.Context, t *T) error { return b.put(ctx, b.Live, t) }

func (b *Book[T]) put(ctx context.Context, kind string, t *T) error {
	row, err := b.encode(kind, t)
	if err != nil {
		return err
	}
	if err := b.rows.PutControl(ctx, row); err != nil {
		return fmt.Errorf("store %s %s: %w", b.What, row.Name, err)
	}
	*metaOf(t) = b.metaFor(&row)
	return nil
}

// Delete deletes a value that has not ended; store.ErrConflict if there is another version than the one that was read.
func (b *Book[T]) Delete(ctx context.Context, t *T) error { return b.delete(ctx, b.Live, t) }

func (b *Book[T]) delete(ctx context.Context, kind string, t *T) error {
	row := store.Control{Kind: kind, Name: b.Name(t), Version: metaOf(t).Version}
	if err := b.rows.DeleteControl(ctx, row); err != nil {
		return fmt.Errorf("delete %s %s: %w", b.What, row.Name, err)
	}
	return nil
}

// Do says what becomes of a row after an edit.
type Do int

// What an edit may say.
const (
	Keep Do = iota
	Store
	Remove
)

// Change reads a value, which may have ended, has edit change it, and stores or removes it as edit says. If somebody
// else changes the row meanwhile, edit is called again with the value as it is then: all that decides stands in edit.
// What edit makes of a value that has ended must be Keep. Change returns the value as it is stored; ErrBusy if the row
// kept changing, store.ErrNotFound if there is none.
func (b *Book[T]) Change(ctx context.Context, name string, edit func(t *T) (Do, error)) (*T, error) {
	return b.change(ctx, name, nil, b.Find, edit)
}

// Set is Change, and calls edit with an empty value of version 0 if there is no row.
func (b *Book[T]) Set(ctx context.Context, name string, edit func(t *T) (Do, error)) (*T, error) {
	return b.change(ctx, name, nil, func(ctx context.Context, name string) (*T, error) {
		t, err := b.Find(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			return new(T), nil
		}
		return t, err
	}, edit)
}

// ChangeFrom is Change, and calls edit with a value that is known already before it reads the row.
func (b *Book[T]) ChangeFrom(ctx context.Context, seen T, edit func(t *T) (Do, error)) (*T, error) {
	return b.change(ctx, b.Name(&seen), &seen, b.Find, edit)
}

func (b *Book[T]) change(ctx context.Context, name string, t *T, find func(context.Context, string) (*T, error), edit func(t *T) (Do, error)) (_ *T, err error) {
	for tries := 1; ; tries++ {
		if t == nil {
			if t, err = find(ctx, name); err != nil {
				return nil, err
			}
		}
		do, err := edit(t)
		if err != nil || do == Keep {
			return t, err
		}
		switch {
		case metaOf(t).buried:
			return t, fmt.Errorf("%w: change of %s %s, which has ended", store.ErrMalformed, b.What, name)
		case do == Store:
			err = b.Put(ctx, t)
		default:
			err = b.Delete(ctx, t)
		}
		if !errors.Is(err, store.ErrConflict) {
			return t, err
		}
		if tries == triesMax {
			return t, fmt.Errorf("%w: %s %s", ErrBusy, b.What, name)
		}
		t = nil
		if tries > 1 {
			if err := changeRetry.Sleep(ctx, b.clock, tries-1); err != nil {
				return nil, err
			}
		} else if now := (*store.ConflictError)(nil); errors.As(err, &now) && now.Control != nil {
			if t, err = b.Decode(*now.Control); err != nil {
				return nil, err
			}
		}
	}
}

// Bury puts a value whose end is stored among those that have ended, and then deletes its row. It may be called again.
// first reports whether nobody had put it there before.
func (b *Book[T]) Bury(ctx context.Context, t *T) (first bool, err error) {
	live := *t
	metaOf(t).Version = 0
	if err := b.put(ctx, b.Ended, t); err != nil {
		*metaOf(t) = *metaOf(&live)
		if !errors.Is(err, store.ErrConflict) {
			return false, err
		}
	}
	err = b.Delete(ctx, &live)
	if errors.Is(err, store.ErrConflict) {
		err = nil
	}
	return metaOf(t).buried, err
}

// Forget says which values that have ended are forgotten.
type Forget[T any] struct {
	// Until returns for how long a value is kept.
	Until func(t *T) task.Instant
	// Max is how many are kept, those with the latest Until; 0: any number.
	Max int
	// First is called before a value is forgotten, which stays if it fails. It may be nil.
	First func(ctx context.Context, t *T) error
	// Last orders the values of which the last one is never forgotten. It may be nil.
	Last func(a, b *T) int
}

// Forget deletes rows of values that have ended. One that cannot be deleted puts off no other.
func (b *Book[T]) Forget(ctx context.Context, f Forget[T]) error {
	all, err := b.AllEnded(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	var stays *T
	if f.Last != nil {
		stays = slices.MaxFunc(all, f.Last)
	}
	slices.SortStableFunc(all, func(x, y *T) int { return cmp.Compare(f.Until(y), f.Until(x)) })
	now := b.clock.Now()
	var errs []error
	for i, t := range all {
		if (f.Max == 0 || i < f.Max) && now < f.Until(t) || t == stays {
			continue
		}
		var err error
		if f.First != nil {
			err = f.First(ctx, t)
		}
		if err == nil {
			err = b.delete(ctx, b.Ended, t)
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
