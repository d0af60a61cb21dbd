package scheduler_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// withSlots gives the world's lambda concurrency quotas.
func (w *world) withSlots(limits ...quota.Limit) {
	w.t.Helper()
	row, err := quota.AsRows.Encode(&quota.Quota{Lambda: "seven", Ref: high.Lambda, Limits: limits, Meta: control.Meta{Version: w.quotaRow}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.quotaRow++
	w.apply(store.Op{Kind: store.PutControl, Control: row})
	if w.book == nil {
		w.book = quota.NewBook(w.rows.Store, w.clock, discard)
		w.concurrency = &quota.Running{Book: w.book}
	}
	if err := w.book.Refresh(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// runningNow returns the tasks that are enqueued or run, as their rows tell.
func (w *world) runningNow(of []task.Task) (running []task.Task) {
	for _, t := range of {
		if row, err := w.rows.Task(w.ctx, t.ID); err == nil && (row.State == task.Enqueued || row.State.IsRunning()) {
			running = append(running, row)
		}
	}
	return running
}

func (w *world) wantRunning(of []task.Task, want int) []task.Task {
	w.t.Helper()
	synctest.Wait()
	running := w.runningNow(of)
	if len(running) != want {
		w.t.Fatalf("%d tasks hold slots, want %d", len(running), want)
	}
	return running
}

// change stores an event of a task row, and tells the scheduler as the HSC does.
func (w *world) change(s *scheduler.Scheduler, row task.Task, e task.Event) task.Task {
	w.t.Helper()
	next, _, err := row.Apply(e, w.clock.Now(), policy)
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(store.Change(next, false, false)...)
	switch {
	case s == nil:
	case next.State.IsEnd():
		s.Done([]task.Task{next})
	case next.State == task.RetriableFailure || next.State == task.Scheduled:
		s.Awake(&next)
	}
	synctest.Wait()
	return next
}

func (w *world) claim(row task.Task) task.Task {
	w.t.Helper()
	return w.change(nil, row, task.Event{Kind: task.Claim, Seq: row.Seq, Worker: "w", Lease: time.Minute})
}

func (w *world) report(s *scheduler.Scheduler, row task.Task, outcome task.Outcome) {
	w.t.Helper()
	w.change(s, row, task.Event{Kind: task.Finish, Worker: row.Worker, Attempt: row.Attempt, Outcome: outcome})
}

func (w *world) waitingMany(p task.Partition, count int) (all []task.Task) {
	for range count {
		all = append(all, w.waiting(p, 0))
	}
	return all
}

func TestAConcurrencyQuotaIsFilledAndNotExceeded(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 5})
		tasks := append(w.waitingMany(high, 20), w.waitingMany(low, 20)...)
		s := w.start()
		w.advance(time.Second)
		for left := 40; left > 5; left-- {
			running := w.wantRunning(tasks, 5)
			w.report(s, w.claim(running[0]), task.OutcomeSuccess) // at once, in virtual time
			w.wantRunning(tasks, 5)
		}
	})
}

func TestAFreedSlotGoesToTheHigherPriority(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 2})
		lows := w.waitingMany(low, 5)
		s := w.start()
		w.advance(time.Second)
		running := w.wantRunning(lows, 2)
		highs := []task.Task{w.waiting(high, 0)}
		s.Added(&highs[0])
		w.wantRunning(highs, 0)
		w.report(s, w.claim(running[0]), task.OutcomeSuccess)
		w.wantRunning(highs, 1)
		w.wantRunning(lows, 1)
	})
}

// TestAnEndIsHeardByWhoeverWaitsNext ends a task while nobody waits for its slot, so that its loop is not woken: before a task
// of another priority waits for it, and in the round in which one of the same priority begins to.
func TestAnEndIsHeardByWhoeverWaitsNext(t *testing.T) {
	for _, p := range []task.Partition{low, high} {
		inWorld(t, depth, func(w *world) {
			w.withSlots(quota.Limit{Concurrency: 1})
			s := w.start()
			w.advance(10 * time.Second)
			first := w.waiting(high, 0)
			s.Added(&first)
			row := w.claim(w.wantRunning([]task.Task{first}, 1)[0])
			ended := w.change(nil, row, task.Event{Kind: task.Finish, Worker: row.Worker, Attempt: row.Attempt, Outcome: task.OutcomeSuccess})
			second := w.waiting(p, 0)
			done := sync.OnceFunc(func() { s.Done([]task.Task{ended}) })
			if w.sent.roomed = done; p != high {
				done()
			}
			s.Added(&second)
			w.wantRunning([]task.Task{second}, 1)
		})
	}
}

func TestAPriorityHasItsOwnSlots(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Priority: "low", Class: low.Priority, Concurrency: 3})
		lows, highs := w.waitingMany(low, 10), w.waitingMany(high, 10)
		w.start()
		w.advance(time.Second)
		w.wantRunning(lows, 3)
		w.wantRunning(highs, 10)
	})
}

func TestARetryFreesItsSlotAndNeedsAnother(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 1})
		tasks := w.waitingMany(high, 2)
		s := w.start()
		w.advance(time.Second)
		first := w.wantRunning(tasks, 1)[0]
		w.report(s, w.claim(first), task.OutcomeRetriable) // it waits a second or so
		second := w.wantRunning(tasks, 1)[0]
		if second.ID == first.ID {
			t.Fatal("the retry came first")
		}
		w.advance(30 * time.Second)
		w.wantRunning(tasks, 1)
		w.report(s, w.claim(second), task.OutcomeSuccess)
		if again := w.wantRunning(tasks, 1)[0]; again.ID != first.ID {
			t.Error("the retry does not run")
		}
	})
}

func TestALostTaskKeepsItsSlot(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 2})
		tasks := w.waitingMany(high, 4)
		w.start()
		w.advance(time.Second)
		for _, row := range w.wantRunning(tasks, 2) {
			w.claim(row) // of a worker that has no lease
		}
		w.advance(10 * time.Minute)
		for _, row := range w.wantRunning(tasks, 2) {
			if row.Lost == 0 {
				t.Error("the worker was not lost")
			}
		}
	})
}

func TestALowerQuotaWaitsUntilTasksEnd(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 4})
		tasks := w.waitingMany(high, 20)
		s := w.start()
		w.advance(time.Second)
		running := w.wantRunning(tasks, 4)
		w.withSlots(quota.Limit{Concurrency: 2})
		for n, want := range []int{3, 2, 2, 2} {
			w.report(s, w.claim(running[n]), task.OutcomeSuccess)
			w.wantRunning(tasks, want)
		}
		w.withSlots(quota.Limit{Concurrency: 6})
		w.advance(time.Second)
		w.wantRunning(tasks, 6)
		w.withSlots()
		w.advance(time.Second)
		w.wantRunning(tasks, 16)
	})
}

// Tasks that were started before the quota was set, or before this process was, hold slots as well, also if their rows
// cannot be read at first.
func TestWhatRunsAlreadyHoldsSlots(t *testing.T) {
	for _, away := range []time.Duration{0, time.Second} { // of task rows
		inWorld(t, depth, func(w *world) {
			w.withSlots(quota.Limit{Concurrency: 5})
			w.look = 64 // far fewer than wait
			var tasks []task.Task
			for n := range 3000 {
				if n%1000 == 999 {
					tasks = append(tasks, w.awake(high, 0, func(t *task.Task) {
						t.State, t.Attempt, t.Worker, t.ClaimedAt, t.Wake = task.Claimed, 1, "w", w.clock.Now(), w.clock.Now().Add(time.Hour)
					}))
				} else {
					tasks = append(tasks, w.waiting(high, 0))
				}
			}
			w.rows.away = away > 0
			w.start()
			w.advance(away)
			w.rows.setAway(false)
			w.advance(10 * time.Second)
			w.wantRunning(tasks, 5)
		})
	}
}

// A dispatch without an answer may have been made, and holds its slot until its row is read.
func TestADispatchWithoutAnAnswerHoldsItsSlot(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 2})
		tasks := w.waitingMany(high, 10)
		calls := 0
		w.sent.refuse = func(*task.Task) error {
			if calls++; calls <= 2 {
				return errors.New("no answer")
			}
			return nil
		}
		w.start()
		w.advance(100 * time.Millisecond)
		w.wantRunning(tasks, 0)
		w.advance(10 * time.Second)
		w.wantRunning(tasks, 2)
	})
}

// inSlotsFleet runs a test with a lambda that has two slots and this process owns, among others.
func inSlotsFleet(t *testing.T, owner string, test func(w *world, a *assigned, s *scheduler.Scheduler, tasks []task.Task)) {
	t.Helper()
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 2})
		a := newAssigned(map[task.Partition]string{high: owner, low: owner})
		tasks := append(w.waitingMany(high, 5), w.waitingMany(low, 5)...)
		test(w, a, w.startAs(a), tasks)
	})
}

func TestAnOwnerWaitsUntilAllFollow(t *testing.T) {
	inSlotsFleet(t, "me", func(w *world, a *assigned, _ *scheduler.Scheduler, tasks []task.Task) {
		w.advance(4 * time.Second)
		w.wantRunning(tasks, 0)
		a.follow()
		w.advance(2 * time.Second)
		w.wantRunning(tasks, 2)
	})
}

// TestAnOwnerWaitsUntilAllKnowALambda gives the lambda to this process because another one comes, of which
// its owner may not have heard.
func TestAnOwnerWaitsUntilAllKnowALambda(t *testing.T) {
	inSlotsFleet(t, "other", func(w *world, a *assigned, _ *scheduler.Scheduler, tasks []task.Task) {
		a.follow()
		w.advance(time.Minute)
		a.mu.Lock()
		a.owners[high], a.owners[low] = "me", "me"
		a.mu.Unlock()
		w.parts.set(high, low, task.Partition{Lambda: 8})
		w.advance(3400 * time.Millisecond)
		w.wantRunning(tasks, 0)
		w.advance(time.Second)
		w.wantRunning(tasks, 2)
	})
}

// TestAProcessThatStartsWaitsUntilAllKnowALambda starts a process in the moment in which a lambda may have
// come: another one, which has not heard of that lambda, may take the group for its own.
func TestAProcessThatStartsWaitsUntilAllKnowALambda(t *testing.T) {
	inSlotsFleet(t, "me", func(w *world, a *assigned, _ *scheduler.Scheduler, tasks []task.Task) {
		a.follow()
		w.advance(3400 * time.Millisecond)
		w.wantRunning(tasks, 0)
		w.advance(time.Second)
		w.wantRunning(tasks, 2)
	})
}

func TestAnOwnerDoesNotWaitForEver(t *testing.T) {
	inSlotsFleet(t, "me", func(w *world, _ *assigned, _ *scheduler.Scheduler, tasks []task.Task) {
		w.advance(scheduler.ReleaseMax + 3*time.Second)
		w.wantRunning(tasks, 2)
	})
}

func TestAProcessThatTheOthersMayMissStartsNothing(t *testing.T) {
	inSlotsFleet(t, "me", func(w *world, a *assigned, s *scheduler.Scheduler, tasks []task.Task) {
		a.follow()
		w.advance(4 * time.Second)
		running := w.wantRunning(tasks, 2)
		a.count(0, true)
		w.report(s, w.claim(running[0]), task.OutcomeSuccess)
		w.advance(10 * time.Second)
		w.wantRunning(tasks, 1)
		a.count(0, false)
		w.advance(time.Second)
		running = w.wantRunning(tasks, 2)
		// It was taken for gone, and another process has started tasks meanwhile.
		a.count(0, true)
		for _, row := range running {
			w.report(s, w.claim(row), task.OutcomeSuccess)
		}
		foreign := 0
		for _, t := range tasks {
			if _, err := w.rows.Task(w.ctx, t.ID); errors.Is(err, store.ErrNotFound) && foreign < 2 {
				foreign++
				next, _, err := t.Undispatched().Apply(task.Event{Kind: task.Enqueue, By: "other"}, w.clock.Now(), policy)
				if err != nil {
					w.t.Fatal(err)
				}
				w.apply(store.Op{Kind: store.PutTask, Task: next})
			}
		}
		a.count(w.clock.Now(), false)
		w.advance(5 * time.Second)
		w.wantRunning(tasks, 2)
	})
}

func TestWhoGivesALambdaAwayStopsAtOnce(t *testing.T) {
	inSlotsFleet(t, "me", func(w *world, a *assigned, s *scheduler.Scheduler, tasks []task.Task) {
		a.follow()
		w.advance(4 * time.Second)
		running := w.wantRunning(tasks, 2)
		a.unfollow() // it has not taken over yet
		a.give(high, "other")
		a.give(low, "other")
		if !s.Fires(high) {
			w.t.Error("it has given the lambda away already")
		}
		w.report(s, w.claim(running[0]), task.OutcomeSuccess)
		w.advance(3 * time.Second)
		w.wantRunning(tasks, 1)
		w.advance(time.Minute)
		w.wantRunning(tasks, 1)
	})
}

// A process starts no task that it stored itself, if another one counts what runs.
func TestOnlyTheOwnerStartsTasksWithAConcurrencyQuota(t *testing.T) {
	inSlotsFleet(t, "other", func(w *world, a *assigned, s *scheduler.Scheduler, tasks []task.Task) {
		a.follow()
		for i := range tasks {
			s.Added(&tasks[i])
		}
		if s.FiresWithin(high, w.clock.Now()) {
			w.t.Error("it would fire what has no wake-up row")
		}
		w.advance(time.Minute)
		w.wantRunning(tasks, 0)
	})
}

// A slot that is freed at another process, and a task that is stored there, are found soon.
func TestAnOwnerFindsWhatOthersDid(t *testing.T) {
	inSlotsFleet(t, "me", func(w *world, a *assigned, _ *scheduler.Scheduler, tasks []task.Task) {
		a.follow()
		w.advance(4 * time.Second)
		for range 4 {
			w.report(nil, w.claim(w.wantRunning(tasks, 2)[0]), task.OutcomeSuccess)
			w.wantRunning(tasks, 1)
			w.advance(500 * time.Millisecond)
		}
		for range 2 {
			for _, row := range w.wantRunning(tasks, 2) {
				w.report(nil, w.claim(row), task.OutcomeSuccess)
			}
			w.advance(500 * time.Millisecond)
		}
		for _, row := range w.wantRunning(tasks, 2) {
			w.report(nil, w.claim(row), task.OutcomeSuccess)
		}
		w.advance(7 * time.Second) // nothing waits
		late := []task.Task{w.waiting(high, 100*time.Millisecond)}
		w.advance(time.Second)
		w.wantRunning(late, 1)
	})
}
