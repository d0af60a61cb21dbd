package cron

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

var errAway = errors.New("the store is away")

// flaky is a store of which writes of a kind fail.
type flaky struct {
	*store.Store

	fails func(op *store.Op) bool
}

func (f *flaky) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	for i := range ops {
		if f.fails != nil && f.fails(&ops[i]) {
			return make([]error, len(ops)), errAway
		}
	}
	return f.Store.Apply(ctx, ops)
}

func (f *flaky) DeleteControl(ctx context.Context, c store.Control) error {
	if f.fails != nil && f.fails(&store.Op{Kind: store.DeleteControl, Control: c}) {
		return errAway
	}
	return f.Store.DeleteControl(ctx, c)
}

type fixture struct {
	*Firing

	t      *testing.T
	time   *clock.Virtual
	rows   *flaky
	lambda *task.Lambda
	added  []task.ID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	v := clock.NewVirtual(at(t, "00:00:00"), 1)
	c := v.Process(0)
	f := &fixture{
		t: t, time: v, rows: &flaky{Store: store.New(storemem.New(), store.Config{Clock: c})},
		lambda: &task.Lambda{Name: "mail", Ref: 7, Priorities: []string{"high", "normal"}, Shards: 8, Retention: time.Hour},
	}
	f.Firing = NewFiring(FiringConfig{
		Store: f.rows, Lambda: func(uint32) *task.Lambda { return f.lambda }, InlineMax: 100, Clock: c, Log: slog.New(slog.DiscardHandler),
		Added: func(t *task.Task) { f.added = append(f.added, t.ID) },
	})
	return f
}

func (f *fixture) cron(change func(s *Spec)) *Cron {
	now := f.Clock.Now()
	c := &Cron{Name: "tick", Lambda: "mail", Ref: 7, Created: now, Revisions: []Revision{{
		Number: 1, From: now, Spec: Spec{Schedule: "*/10 * * * *", Class: 1, Payload: []byte("{{nominal}}")},
	}}}
	if change != nil {
		change(&c.Revisions[0].Spec)
	}
	return c
}

// waiting returns the rows of occurrences in the schedule.
func (f *fixture) waiting(c *Cron) []task.Task {
	f.t.Helper()
	rows, err := f.rows.ScanSchedule(f.t.Context(), PartitionOf(f.lambda, 1, c.Name), store.WakeKey{}, at(f.t, "23:59:59"), 100)
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

// Save stores a cron as it is.
func (f *fixture) Save(ctx context.Context, c *Cron) error {
	stored, err := f.Change(ctx, c.Name, func(have *Cron) (control.Do, error) {
		meta := have.Meta
		*have = *c
		have.Meta = meta
		return control.Store, nil
	})
	if err == nil {
		*c = *stored
	}
	return err
}

func (f *fixture) doAll(ctx context.Context) error {
	_, err := f.Firing.doAll(ctx)
	return err
}

func (f *fixture) todo() int {
	f.t.Helper()
	rows, err := f.Store.Controls(f.t.Context(), KindTodo)
	if err != nil {
		f.t.Fatal(err)
	}
	return len(rows)
}

func TestTheFirstOccurrence(t *testing.T) {
	f := newFixture(t)
	c := f.cron(nil)
	if err := f.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	rows := f.waiting(c)
	if len(rows) != 1 || f.todo() != 0 || !slices.Equal(f.added, []task.ID{rows[0].ID}) {
		t.Fatalf("%d rows, %d to do, %d hints", len(rows), f.todo(), len(f.added))
	}
	r := &rows[0]
	want := task.Firing{Revision: 1, Nominal: at(t, "00:10:00")}
	if r.Due != at(t, "00:10:00") || r.Occurrence.At != want || string(r.Payload) != "2026-03-01T00:10:00Z" || r.ID != task.OccurrenceID(7, "tick", c.Created, want) {
		t.Errorf("%+v, %+v", r, r.Occurrence)
	}
}

// Whatever a process does not come to when it saves a cron, another one does.
func TestASaveThatIsCutShort(t *testing.T) {
	for name, fails := range map[string]func(op *store.Op) bool{
		"before the occurrence": func(op *store.Op) bool { return op.Kind == store.PutWakeup },
		"before the payload":    func(op *store.Op) bool { return op.Kind == store.PutPayload },
		"before it is noted":    func(op *store.Op) bool { return op.Kind == store.DeleteControl },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.cron(func(s *Spec) { s.Payload = bytes.Repeat([]byte("x"), 101) })
			f.rows.fails = fails
			if err := f.Save(t.Context(), c); err != nil || f.todo() != 1 {
				t.Fatal(err, f.todo())
			}
			f.rows.fails = nil
			f.time.Advance(time.Minute)
			if err := f.doAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			rows := f.waiting(c)
			if len(rows) != 1 || f.todo() != 0 || rows[0].Due != at(t, "00:10:00") {
				t.Fatalf("%d rows, %d to do", len(rows), f.todo())
			}
			if payload, err := f.rows.Payload(t.Context(), rows[0].PayloadID()); err != nil || len(payload) != 101 {
				t.Errorf("%d bytes of payload, %v", len(payload), err)
			}
		})
	}
}

// Another process may look for what is to be done between the two writes of a save, and this one die after
// them.
func TestWhatIsToBeDoneWaitsForItsChange(t *testing.T) {
	for _, isNew := range []bool{true, false} {
		f := newFixture(t)
		c := f.cron(nil)
		due := at(t, "00:10:00")
		if !isNew {
			if err := f.Save(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if err := c.Change(Spec{Schedule: "5 * * * *", Class: 1}, f.Clock.Now()); err != nil {
				t.Fatal(err)
			}
			due = at(t, "00:05:00")
		}
		c.Updated = f.Clock.Now()
		_, err := f.note(t.Context(), c)
		if err := errors.Join(err, f.doAll(t.Context()), f.crons.Put(t.Context(), c), f.doAll(t.Context())); err != nil {
			t.Fatal(err)
		}
		if rows := f.waiting(c); len(rows) == 0 || rows[0].Due != due || f.todo() != 0 {
			t.Errorf("new %v: %d rows, %d to do", isNew, len(rows), f.todo())
		}
	}
}

// A save that died before it stored its change leaves something to be done for a change that never comes.
func TestWhatIsToBeDoneForNothingIsForgotten(t *testing.T) {
	f := newFixture(t)
	if _, err := f.note(t.Context(), f.cron(nil)); err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		if err := f.doAll(t.Context()); err != nil || f.todo() != 1-want {
			t.Fatal(err, f.todo())
		}
		f.time.Advance(todoKeptMax + time.Second)
	}
}

// A save that dies before it stored its change keeps nothing from being done for the cron as it is.
func TestASaveThatDiesKeepsNoPauseFromEnding(t *testing.T) {
	f := newFixture(t)
	c := f.cron(nil)
	err := f.Save(t.Context(), c)
	if err == nil {
		err = c.PauseAt(Pause{Reason: "test", Until: f.Clock.Now().Add(time.Minute)}, f.Clock.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Updated = f.Clock.Now()
	err = f.Save(t.Context(), c)
	for range 2 { // two that die
		if err == nil {
			_, err = f.note(t.Context(), c)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f.time.Advance(2 * time.Minute)
	if err := f.doAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := f.crons.Find(t.Context(), c.Name); err != nil || c.Now().Pause != nil {
		t.Fatal("paused still", err)
	}
}

// A process that looks after crons knows when the next pause ends, and does not wait longer.
func TestWhenTheNextPauseEnds(t *testing.T) {
	f := newFixture(t)
	now := f.Clock.Now()
	for name, until := range map[string]task.Instant{"a": now.Add(time.Hour), "b": now.Add(12 * time.Second), "c": 0} {
		c := f.cron(nil)
		c.Name = name
		err := f.Save(t.Context(), c)
		if err == nil {
			err = c.PauseAt(Pause{Reason: "test", Until: until}, now)
		}
		if err == nil {
			err = f.Save(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if next, err := f.Firing.doAll(t.Context()); err != nil || next != now.Add(12*time.Second) {
		t.Error(next, err)
	}
	f.time.Advance(12 * time.Second)
	next, err := f.Firing.doAll(t.Context())
	if err != nil || next != now.Add(time.Hour) {
		t.Error(next, err)
	}
	if c, err := f.crons.Find(t.Context(), "b"); err != nil || c.Now().Pause != nil {
		t.Error("paused after its end", err)
	}
}

// However often a cron was changed, it can be paused, and go on.
func TestAPauseAfterManyChanges(t *testing.T) {
	f := newFixture(t)
	c, now := f.cron(nil), f.Clock.Now()
	var err error
	for err == nil {
		err = c.Change(Spec{Schedule: "5 * * * *", Class: 1}, now)
	}
	c.Revisions = c.Revisions[:revisionsMax]
	if !errors.Is(err, task.ErrInvalid) {
		t.Error(err)
	}
	if err := errors.Join(c.PauseAt(Pause{Reason: "test"}, now), c.Resume(now)); err != nil {
		t.Error(err)
	}
	for range 2 * revisionsMax {
		if err = c.PauseAt(Pause{Reason: "test"}, now); err != nil {
			break
		}
		if err = c.Resume(now); err != nil {
			break
		}
	}
	if !errors.Is(err, task.ErrInvalid) {
		t.Error("paused without a bound")
	}
}

// A cron that is created again has nothing to do with what was noted for the one before.
func TestWhatIsToBeDoneForACronOfTheSameName(t *testing.T) {
	f := newFixture(t)
	c := f.cron(nil)
	c.Version = 7
	if _, err := f.note(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	f.time.Advance(time.Second)
	again := f.cron(nil)
	again.Created, again.Updated = f.Clock.Now(), f.Clock.Now()
	f.rows.fails = func(op *store.Op) bool { return op.Kind == store.PutWakeup }
	if err := f.Save(t.Context(), again); err != nil || f.todo() != 1 {
		t.Fatal(err, f.todo())
	}
	f.rows.fails = nil
	if err := f.doAll(t.Context()); err != nil || f.todo() != 0 || len(f.waiting(again)) == 0 {
		t.Errorf("%v, %d to do, %d waiting", err, f.todo(), len(f.waiting(again)))
	}
}

// A change may come before the first occurrence of the one before it is put.
func TestAChangeAfterASaveThatIsCutShort(t *testing.T) {
	for name, change := range map[string]func(c *Cron, now task.Instant) error{
		"pause":  func(c *Cron, now task.Instant) error { return c.PauseAt(Pause{Reason: "test"}, now) },
		"change": func(c *Cron, now task.Instant) error { return c.Change(Spec{Schedule: "5 * * * *", Class: 1}, now) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.cron(func(s *Spec) { s.Schedule = "*/5 * * * *" })
			c.Updated = c.Created
			f.rows.fails = func(op *store.Op) bool { return op.Kind == store.PutWakeup }
			if err := f.Save(t.Context(), c); err != nil || f.todo() != 1 {
				t.Fatal(err, f.todo())
			}
			f.time.Advance(11 * time.Minute / 2)
			if err := change(c, f.Clock.Now()); err != nil {
				t.Fatal(err)
			}
			c.Updated = f.Clock.Now()
			if err := f.Save(t.Context(), c); err != nil || f.todo() != 1 {
				t.Fatal(err, f.todo())
			}
			f.rows.fails = nil
			if err := f.doAll(t.Context()); err != nil || f.todo() != 0 {
				t.Fatal(err, f.todo())
			}
			first := task.Firing{Revision: 1, Nominal: at(t, "00:05:00")}
			if !slices.ContainsFunc(f.waiting(c), func(r task.Task) bool { return r.Occurrence.At == first }) {
				t.Errorf("the first revision has no occurrence among %d", len(f.waiting(c)))
			}
		})
	}
}

// A task that was put long ago may have run and be forgotten.
func TestAnOccurrenceIsNotPutAnewLongAfter(t *testing.T) {
	f := newFixture(t)
	c := f.cron(nil)
	c.Updated = c.Created
	f.rows.fails = func(op *store.Op) bool { return op.Kind == store.DeleteControl }
	if err := f.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	first := f.waiting(c)[0]
	if outcomes, err := f.Store.Apply(t.Context(), []store.Op{store.Remove(&first)}); err != nil || outcomes[0] != nil {
		t.Fatal(err, outcomes)
	}
	f.rows.fails = nil
	f.time.Advance(time.Hour)
	if err := f.doAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := f.waiting(c); len(rows) != 1 || rows[0].Due != at(t, "01:10:00") {
		t.Errorf("%d rows, %v", len(rows), rows[0].Due.Time().UTC())
	}
}

func TestWhatIsToBeDoneForALaterChangeStays(t *testing.T) {
	f := newFixture(t)
	c := f.cron(nil)
	if err := f.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	earlier, err := f.note(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.note(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := f.done(t.Context(), earlier); err != nil || f.todo() != 1 {
		t.Errorf("%v, %d to do, want 1", err, f.todo())
	}
}

func TestADecisionPutsTheNextOccurrence(t *testing.T) {
	f := newFixture(t)
	c := f.cron(nil)
	if err := f.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	first := f.waiting(c)[0]
	f.time.Advance(10 * time.Minute)
	for range 2 { // both of two owners, one of them later
		f.time.Advance(time.Second)
		if v := f.Decide(t.Context(), []*task.Task{&first}); v[0] != (task.Verdict{}) {
			t.Fatalf("%+v", v)
		}
	}
	rows := f.waiting(c)
	if len(rows) != 2 || rows[1].Due != at(t, "00:20:00") || rows[1].Occurrence.Before != first.Occurrence.At {
		t.Fatalf("%d rows, %+v", len(rows), rows[len(rows)-1].Occurrence)
	}
	f.time.Advance(10*time.Minute - 2*time.Second)
	if v := f.Decide(t.Context(), []*task.Task{&rows[1]}); v[0].Again != at(t, "00:20:01") || len(f.waiting(c)) != 2 {
		t.Errorf("before the first one is dispatched: %+v, %d rows", v, len(f.waiting(c)))
	}
	f.rows.fails = func(op *store.Op) bool { return op.Kind == store.PutWakeup }
	if v := f.Decide(t.Context(), []*task.Task{&first}); !errors.Is(v[0].Err, errAway) {
		t.Errorf("without a next row: %+v", v)
	}
	f.rows.fails = nil
	if err := f.crons.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if v := f.Decide(t.Context(), []*task.Task{&first}); v[0].Skip != "the cron was deleted" {
		t.Errorf("after it was deleted: %+v", v)
	}
	again := f.cron(nil)
	if err := f.Save(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if v := f.Decide(t.Context(), []*task.Task{&first}); v[0].Skip != "the cron was deleted" {
		t.Errorf("of an earlier cron of that name: %+v", v)
	}
}
