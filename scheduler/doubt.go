package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Where ended rows expire by themselves, the wake-up row of a task that ended may outlive its task row while
// nobody makes passes: it then looks like one of a task that was never dispatched. A note in the store says
// when schedulers ran, and a row that may be of such a task is set aside for a person to decide, not fired.
// docs/protocol.md has the rule as 4d.

const (
	noteKind = "passes"
	noteName = "all"
	// noteEvery is how often every process renews the note, noteFirst how long after its start it does so
	// first: a process that dies at once has made no pass. noteRetry is when it tries again after a failure.
	noteEvery = task.EndedMin / 3
	noteFirst = time.Minute
	noteRetry = 10 * time.Second
	// passApart is how far apart two passes over a partition are at most.
	passApart = passEvery + passEvery/4
	// dispatchedMax is how long after it was renewed last the note may still be behind a scheduler that
	// dispatches.
	dispatchedMax = 2 * noteEvery
)

// Doubts is what tells rows that may be of ended tasks, and what takes them.
type Doubts struct {
	Rows ControlRows
	// Retention is how long a lambda keeps its ended rows; false for one that is not known.
	Retention func(lambda uint32) (time.Duration, bool)
	Aside     Aside
}

// ControlRows is where the note is.
type ControlRows interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	PutControl(ctx context.Context, c store.Control) error
}

// Aside is where tasks are set aside.
type Aside interface {
	// SetAside keeps the tasks that wake-up rows hold where a person finds them, until there is an error. It
	// returns how many are kept, from the first on.
	SetAside(ctx context.Context, rows []task.Task) (n int, err error)
}

// passNote says when schedulers ran over a store.
type passNote struct {
	At   task.Instant `json:"at"` // the last time; zero when it is not known
	Gaps []gap        `json:"gaps,omitempty"`

	stored task.Instant // At as it is in the store: since then the wall clock may have been set
}

// gap is a time for which no scheduler noted that it runs.
type gap struct {
	From task.Instant `json:"from"`
	Till task.Instant `json:"till"`
}

// outlasts reports whether an ended row that is kept for so long may have expired before a pass had seen its
// wake-up row.
func (g gap) outlasts(kept time.Duration) bool { return g.Till.Sub(g.From)+passApart > kept }

// covers reports whether there are no doubts by another gap that this one does not raise too.
func (g gap) covers(h gap) bool { return g.From >= h.From && g.Till.Sub(g.From) >= h.Till.Sub(h.From) }

// doubts reports whether a wake-up row that holds a task and has no task row may be of a task that was
// dispatched, ended and expired. Nobody dispatches in a gap but who stores a task, and then its row says so.
func (g gap) doubts(row *task.Task, retention time.Duration) bool {
	kept := max(retention, task.EndedMin)
	switch {
	case row.Key != "" || row.IsBare() || !g.outlasts(kept):
		return false
	case row.State == task.Scheduled:
		return max(row.WakeRow.At, row.Created) <= g.From.Add(dispatchedMax)
	}
	return row.Created.Add(kept) <= g.Till
}

// add notes a gap, if it matters.
func (n *passNote) add(g gap) {
	if g.From.IsZero() || !g.outlasts(task.EndedMin) || slices.ContainsFunc(n.Gaps, func(old gap) bool { return old.covers(g) }) {
		return
	}
	n.Gaps = append(slices.DeleteFunc(slices.Clone(n.Gaps), g.covers), g)
}

// isDoubtful reports whether a row must not be fired: by the gap that lasts until now, or by one before.
func (s *Scheduler) isDoubtful(row *task.Task, now task.Instant) bool {
	if s.Doubts == nil {
		return false
	}
	retention, known := s.Doubts.Retention(row.Partition.Lambda)
	note := s.noted.Load()
	doubts := func(g gap) bool { return g.doubts(row, retention) }
	return known && (!note.At.IsZero() && doubts(gap{note.At, now}) || slices.ContainsFunc(note.Gaps, doubts))
}

// setAside has doubtful rows set aside, and removes those that are. The others are left for the next pass.
func (m *managing) setAside(ctx context.Context, rows []task.Task) {
	if len(rows) == 0 {
		return
	}
	within, done := limited(ctx, m.l.s.Clock)
	defer done()
	n, err := m.l.s.Doubts.Aside.SetAside(within, rows)
	m.l.progress.mark(m.l.s.Clock)
	m.remnants = append(m.remnants, rows[:n]...)
	if err != nil {
		m.l.s.complain(ctx, m.l.partition, fmt.Errorf("set aside tasks that may have run: %w", err))
	}
}

// readNote reads the note before anything is looked at; false when ctx ended.
func (s *Scheduler) readNote(ctx context.Context) bool {
	for failures := 0; ctx.Err() == nil; failures++ {
		s.progress.mark(s.Clock)
		note, _, err := s.note(ctx)
		if err == nil {
			note.stored = note.At
			s.noted.Store(&note)
			return true
		}
		s.complainOfNote(ctx, err)
		_ = clock.Sleep(ctx, s.Clock, s.backoff(failures))
	}
	return false
}

// keepNote renews the note until ctx ends.
func (s *Scheduler) keepNote(ctx context.Context) {
	for wait := noteFirst; clock.Sleep(ctx, s.Clock, wait) == nil; {
		wait = noteEvery
		if err := s.renewNote(ctx); err != nil {
			s.complainOfNote(ctx, err)
			wait = noteRetry
		}
	}
}

// renewNote says that a scheduler runs now, and what is known here of gaps. Passes over all that lies behind
// the last one are made within the time until the next one.
func (s *Scheduler) renewNote(ctx context.Context) error {
	ctx, done := limited(ctx, s.Clock)
	defer done()
	note, version, err := s.note(ctx)
	if err != nil {
		return err
	}
	now, known := s.Clock.Now(), s.noted.Load()
	if note.At == known.stored {
		note.At = known.At
	}
	for _, g := range append(slices.Clone(known.Gaps), gap{known.At, now.Add(noteEvery)}, gap{note.At, now.Add(noteEvery)}) {
		note.add(g)
	}
	note.At, note.stored = now, now
	value, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode the note of passes: %w", err)
	}
	err = s.Doubts.Rows.PutControl(ctx, store.Control{Kind: noteKind, Name: noteName, Version: version + 1, Value: value})
	if err != nil && !errors.Is(err, store.ErrConflict) { // else another one did just this
		return err
	}
	s.noted.Store(&note)
	return nil
}

// note reads the note and its version; 0 when there is none.
func (s *Scheduler) note(ctx context.Context) (note passNote, version uint64, err error) {
	row, err := s.Doubts.Rows.Control(ctx, noteKind, noteName)
	if errors.Is(err, store.ErrNotFound) {
		return passNote{}, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(row.Value, &note)
	}
	return note, row.Version, err
}

func (s *Scheduler) complainOfNote(ctx context.Context, err error) {
	if news, more := s.quiet.isNews(s.Clock, "note", err); news && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "the note of passes will be tried again", slog.Int("more", more), slog.Any("error", err))
	}
}
