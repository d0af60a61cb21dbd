package cron

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// todoEvery is how often a process looks for crons whose first occurrence is not put, or whose pause is over.
// It looks sooner, but not sooner than todoSoonest, when it knows that a pause ends before.
const (
	todoEvery   = 5 * time.Second
	todoSoonest = 10 * time.Millisecond
)

// putFirstMax is how long after a change its first occurrence is put that may be past. After that it may
// have been put, have run and be forgotten, as ended rows are after 15 minutes at the soonest, and the first
// one to come is put.
const putFirstMax = task.EndedMin / 2

// todoKeptMax is how long what is to be done for a change is kept while the change is not stored. The process
// that was to store it is dead by then.
const todoKeptMax = 24 * time.Hour

// Change changes a cron as control.Book.Set does, and puts its first occurrence if what fires is another. Before a change
// is stored it is noted that there is something to be done for it: a process that finds the row in KindTodo does what
// this one could not.
func (f *Firing) Change(ctx context.Context, name string, edit func(c *Cron) (control.Do, error)) (*Cron, error) {
	var noted *todo
	c, err := f.crons.Set(ctx, name, func(c *Cron) (do control.Do, err error) {
		before := uint64(0)
		if c.Version > 0 {
			before = c.Now().Number
		}
		if do, err = edit(c); err == nil && do == control.Store && c.Now().Number != before {
			noted, err = f.note(ctx, c)
		}
		return do, err
	})
	if err != nil || noted == nil {
		return c, err
	}
	if _, err := f.do(ctx, c, noted); err != nil {
		f.Log.WarnContext(ctx, "the first occurrence of a cron is put later", slog.String("cron", c.Name), slog.Any("error", err))
	}
	return c, nil
}

// todo says that something is to be done for a change of a cron. The change is stored after the row, which stays until the
// change is there and everything is done for it. A row of an earlier release has the zero value, and does not
// wait.
type todo struct {
	control.Meta `json:"-"`

	Cron   string       `json:"-"`
	Change uint64       `json:"version,omitempty"` // version of the cron with the change
	Life   task.Instant `json:"life,omitempty"`    // when the cron was created: one of the same name may follow it
	At     task.Instant `json:"at,omitempty"`
	// Earlier says that something was still to be done for the cron as it was before the change, which may
	// never be stored.
	Earlier bool `json:"earlier,omitempty"`
}

// todoAsRows reads what cannot be read as the zero value.
var todoAsRows = control.Kind[todo]{
	Live: KindTodo, What: "what is to be done for cron", Name: func(t *todo) string { return t.Cron },
	Read: func(name string, value []byte, t *todo) error {
		if json.Unmarshal(value, t) != nil {
			*t = todo{}
		}
		t.Cron = name
		return nil
	},
}

// waits reports whether the change has not been stored yet.
func (t *todo) waits(c *Cron) bool { return c.Created == t.Life && c.Version < t.Change }

// note stores that something is to be done for a change of a cron that is stored next. Each change has a version of its
// own, so that who has done it for an earlier change does not delete it.
func (f *Firing) note(ctx context.Context, c *Cron) (*todo, error) {
	return f.todos.Set(ctx, c.Name, func(t *todo) (control.Do, error) {
		next := todo{Meta: t.Meta, Cron: c.Name, Change: c.Version + 1, Life: c.Created, At: f.Clock.Now()}
		if t.Version > 0 && t.Life == c.Created {
			next.Change = max(next.Change, t.Change)
			next.Earlier = t.Earlier || !t.waits(c)
		}
		*t = next
		return control.Store, nil
	})
}

// Run does what is to be done for crons, until ctx ends.
func (f *Firing) Run(ctx context.Context) error {
	for {
		next, err := f.doAll(ctx)
		if err != nil && ctx.Err() == nil {
			f.Log.WarnContext(ctx, "crons not looked after", slog.Any("error", err))
		}
		wait := todoEvery
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(f.Clock.Now()), todoSoonest))
		}
		if clock.Sleep(ctx, f.Clock, wait) != nil {
			return nil //nolint:nilerr // it was told to end
		}
	}
}

// doAll does what is to be done for all crons. It returns when the next pause ends by itself; zero: none
// does.
func (f *Firing) doAll(ctx context.Context) (next task.Instant, err error) {
	all, err := f.todos.All(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, t := range all {
		again, err := f.doOne(ctx, t)
		errs = append(errs, err)
		if !again.IsZero() && (next.IsZero() || again < next) {
			next = again
		}
	}
	return next, errors.Join(errs...)
}

// doOne does what a row says for the cron as it is now. If the change that the row is for is not stored, the
// row stays until that cannot be any more. It returns when the pause of the cron ends by itself; zero: there
// is none that does.
func (f *Firing) doOne(ctx context.Context, t *todo) (again task.Instant, err error) {
	isOld := f.Clock.Now().Sub(t.At) > todoKeptMax
	c, err := f.crons.Find(ctx, t.Cron)
	switch {
	case errors.Is(err, store.ErrNotFound) && isOld:
		return 0, f.done(ctx, t)
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case !t.waits(c):
		return f.do(ctx, c, t)
	case !t.Earlier && isOld:
		return 0, f.done(ctx, t)
	case !t.Earlier:
		return 0, nil
	}
	again, err = f.catchUp(ctx, c, t.Version)
	if err != nil || !again.IsZero() {
		return again, err
	}
	t.Earlier = false
	if err := f.todos.Put(ctx, t); err != nil && !errors.Is(err, store.ErrConflict) {
		return 0, err
	}
	return 0, nil
}

// do does what is to be done for a cron, and deletes the row that said so. It returns when the pause of the
// cron ends by itself, up to which the row stays.
func (f *Firing) do(ctx context.Context, c *Cron, noted *todo) (again task.Instant, err error) {
	again, err = f.catchUp(ctx, c, noted.Version)
	if err != nil || !again.IsZero() {
		return again, err
	}
	return 0, f.done(ctx, noted)
}

// catchUp puts the first occurrence of the newest revision. A pause that is over is ended before. It returns
// when there is something to be done again: a pause ends then. Zero: nothing more is to be done. noted counts
// the changes since the last time that nothing was to be done.
func (f *Firing) catchUp(ctx context.Context, c *Cron, noted uint64) (again task.Instant, err error) {
	now := f.Clock.Now()
	if noted > 1 {
		if err := f.putEarlier(ctx, c, now); err != nil {
			return 0, err
		}
	}
	if p := c.Now().Pause; p != nil {
		if p.Until.IsZero() || now < p.Until {
			return p.Until, nil
		}
		if err := c.Resume(now); err != nil {
			return 0, err
		}
		c.Updated, c.UpdatedBy = now, ""
		switch err := f.crons.Put(ctx, c); {
		case errors.Is(err, store.ErrConflict): // another server looks as punctually
			return now.Add(todoEvery), nil
		case err != nil:
			return 0, err
		}
	}
	return 0, f.putFirst(ctx, c, len(c.Revisions)-1)
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
func (f *Firing) done(ctx context.Context, noted *todo) error {
	err := f.todos.Delete(ctx, noted)
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// cancelOccurrences cancels occurrences that will not run. If that fails they are skipped when they are due.
func (s *Service) cancelOccurrences(ctx context.Context, c *Cron, all []nominal) {
	l, err := s.Lambdas.FindRef(ctx, c.Ref)
	if err != nil || l == nil {
		return
	}
	for _, n := range all {
		rows, err := s.Store.Wakeups(ctx, []store.WakeKey{s.FirstRow(c, l, n.revision, n.at, n.due)})
		if err == nil && len(rows) > 0 && !rows[0].ID.IsZero() {
			_, _ = s.Tasks.Cancel(ctx, &kinesinv1.CancelRequest{Ids: []string{s.PublicID(&rows[0])}}) // see above
		}
	}
}

// cancelNext cancels the next occurrence of a cron that is deleted.
func (s *Service) cancelNext(ctx context.Context, c *Cron) {
	s.cancelOccurrences(ctx, c, slices.Concat(nextOf(c, s.Clock.Now(), 1), replacedOf(c)))
}
