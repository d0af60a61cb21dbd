package crons

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// todoEvery is how often a process looks for crons whose first occurrence is not put, or whose pause is over.
const todoEvery = 5 * time.Second

// putFirstMax is how long after a change its first occurrence is put that may be past. After that it may
// have been put, have run and be forgotten, as ended rows are after 15 minutes at the soonest, and the first
// one to come is put.
const putFirstMax = task.EndedMin / 2

// todoKeptMax is how long what is to be done for a change is kept while the change is not stored. The process
// that was to store it is dead by then.
const todoKeptMax = 24 * time.Hour

// casTriesMax bounds how often a write is tried again because somebody else made one.
const casTriesMax = 16

// Save stores a cron in place of the version that it was read at, and puts its first occurrence;
// store.ErrConflict if there is another version. Once the cron is stored, a process that finds the row in
// KindTodo does what this one could not.
func (f *Firing) Save(ctx context.Context, c *Cron) error {
	todo, err := f.note(ctx, c)
	if err != nil {
		return err
	}
	if err := Put(ctx, f.Store, c); err != nil {
		return err
	}
	if err := f.do(ctx, c, todo); err != nil {
		f.Log.WarnContext(ctx, "the first occurrence of a cron is put later", slog.String("cron", c.Name), slog.Any("error", err))
	}
	return nil
}

// todoValue is the value of a row in KindTodo. The change is stored after the row, and until then nothing is
// done, so that the row is there when it is. A row of an earlier release has the zero value, and does not
// wait.
type todoValue struct {
	Version uint64       `json:"version,omitempty"` // of the cron, with the change
	At      task.Instant `json:"at,omitempty"`
}

// note stores that something is to be done for a change of a cron that is stored next, and returns the row.
// Each change has a version of its own, so that who has done it for an earlier change does not delete it.
func (f *Firing) note(ctx context.Context, c *Cron) (row store.Control, err error) {
	for range casTriesMax {
		row, err = f.Store.Control(ctx, KindTodo, c.Name)
		if errors.Is(err, store.ErrNotFound) {
			row, err = store.Control{Kind: KindTodo, Name: c.Name}, nil
		}
		if err != nil {
			break
		}
		v := todoValue{Version: max(c.Version+1, todoOf(row).Version), At: f.Clock.Now()}
		if row.Value, err = json.Marshal(v); err != nil {
			break
		}
		row.Version++
		if err = f.Store.PutControl(ctx, row); err == nil || !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if err != nil {
		return row, fmt.Errorf("store what is to be done for cron %s: %w", c.Name, err)
	}
	return row, nil
}

// todoOf returns the value of a row; the zero value if it has none that can be read.
func todoOf(row store.Control) todoValue {
	var v todoValue
	if json.Unmarshal(row.Value, &v) != nil {
		return todoValue{}
	}
	return v
}

// Run does what is to be done for crons, until ctx ends.
func (f *Firing) Run(ctx context.Context) error {
	for again := true; again; again = clock.Sleep(ctx, f.Clock, todoEvery) == nil {
		if err := f.doAll(ctx); err != nil && ctx.Err() == nil {
			f.Log.WarnContext(ctx, "crons not looked after", slog.Any("error", err))
		}
	}
	return nil
}

func (f *Firing) doAll(ctx context.Context) error {
	rows, err := f.Store.Controls(ctx, KindTodo)
	if err != nil {
		return fmt.Errorf("read what is to be done for crons: %w", err)
	}
	var errs []error
	for _, row := range rows {
		c, err := Find(ctx, f.Store, row.Name)
		v, isThere := todoOf(row), err == nil
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
		case isThere && c.Version >= v.Version:
			err = f.do(ctx, c, row)
		case f.Clock.Now().Sub(v.At) > todoKeptMax:
			err = f.done(ctx, row)
		default:
			err = nil // the change may be stored yet
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// do puts the first occurrence of the newest revision. A pause that is over is ended before.
func (f *Firing) do(ctx context.Context, c *Cron, todo store.Control) error {
	now := f.Clock.Now()
	if todo.Version > 1 {
		if err := f.putEarlier(ctx, c, now); err != nil {
			return err
		}
	}
	if p := c.Now().Pause; p != nil {
		switch {
		case p.Until.IsZero():
			return f.done(ctx, todo)
		case now < p.Until:
			return nil // the row stays until then
		}
		if err := c.Resume(now); err != nil {
			return err
		}
		c.Updated, c.UpdatedBy = now, ""
		if err := Put(ctx, f.Store, c); err != nil {
			return err
		}
	}
	if err := f.putFirst(ctx, c, len(c.Revisions)-1); err != nil {
		return err
	}
	return f.done(ctx, todo)
}

// putEarlier puts the first occurrences of earlier revisions, one of which may not be put: the next change
// came before. It leaves out those that may have been put, have run and be forgotten.
func (f *Firing) putEarlier(ctx context.Context, c *Cron, now task.Instant) error {
	for i := range c.Revisions[:len(c.Revisions)-1] {
		r := &c.Revisions[i]
		if r.Pause != nil || now.Sub(max(r.From, r.Resumed)) > putFirstMax {
			continue
		}
		if err := f.putFirst(ctx, c, i); err != nil {
			return err
		}
	}
	return nil
}

// putFirst puts the first occurrence of which a revision is in charge.
func (f *Firing) putFirst(ctx context.Context, c *Cron, revision int) error {
	r := &c.Revisions[revision]
	s, err := r.Spec.Parse(c.Name)
	if err != nil {
		return err
	}
	from := r.From
	if now := f.Clock.Now(); now.Sub(c.Updated) > putFirstMax {
		from = max(from, now)
	}
	at := nominals{s, c.untilOf(r), 0}.after(from)
	if at == 0 {
		return nil // it has ended
	}
	o := &task.Occurrence{Cron: c.Name, Life: c.Created, At: task.Firing{Revision: r.Number, Nominal: at}}
	if revision > 0 {
		earlier := &c.Revisions[revision-1]
		s, err := earlier.Spec.Parse(c.Name)
		if err != nil {
			return err
		}
		if last := (nominals{s, c.untilOf(earlier), 0}).last(earlier.From, r.From); last != 0 {
			o.Before = task.Firing{Revision: earlier.Number, Nominal: last}
		}
	}
	first, err := f.of(c, o, s)
	if err != nil {
		return err
	}
	return f.putBuilt(ctx, []built{first}, store.First)
}

// done deletes the row that says that something is to be done.
func (f *Firing) done(ctx context.Context, todo store.Control) error {
	err := f.Store.DeleteControl(ctx, todo)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("delete what is to be done for cron %s: %w", todo.Name, err)
	}
	return nil
}
