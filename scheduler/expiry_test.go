package scheduler_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const startWithin = 20 * time.Second

// startSoon stores a task that is due in d, as a wake-up row alone, and has to start within startWithin.
func (w *world) startSoon(p task.Partition, d time.Duration) task.Task {
	w.t.Helper()
	t := w.next(p, d)
	t.StartBefore = t.Due.Add(startWithin)
	ops := store.First(t)
	w.apply(ops...)
	return ops[0].Task
}

// wantExpired wants a task to have ended, at the moment when it expired, without a wake-up row.
func (w *world) wantExpired(all ...task.Task) {
	w.t.Helper()
	for _, t := range all {
		row := w.read(t.ID)
		if row.State != task.Expired || row.Ended < t.StartBefore || row.Ended > t.StartBefore.Add(time.Second) {
			w.t.Errorf("task to start before +%v is %s since +%v", t.StartBefore.Sub(start), row.State, row.Ended.Sub(start))
		}
	}
	if left := w.schedule(high); len(left) != 0 {
		w.t.Errorf("%d wake-up rows are left", len(left))
	}
}

// No worker takes a message, and the queue gets older than any timeout.
func TestAnEnqueuedTaskExpiresInTime(t *testing.T) {
	for name, early := range map[string]bool{"after its row is stored": false, "before it has a row": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 100, func(w *world) {
				w.parts.set(high)
				w.sent.early = early
				one := w.startSoon(high, 30*time.Second)
				var told []task.ID
				w.hooks.Ended = func(t *task.Task) { w.note(func() { told = append(told, t.ID) }) }
				w.start()
				w.advance(30*time.Second + startWithin - time.Millisecond)
				if _, ok := w.dispatched(one); !ok {
					t.Fatal("not dispatched")
				}
				w.advance(2 * time.Second)
				w.wantExpired(one)
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(told) != 1 || told[0] != one.ID {
					t.Errorf("told of the ends of %v", told)
				}
			})
		})
	}
}

// Expired tasks wait for no room in a queue that nobody empties.
func TestTasksBehindAFullQueueExpireInTime(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.parts.set(high)
		for range 4 {
			w.waiting(high, time.Second)
		}
		var all []task.Task
		for range 3 {
			all = append(all, w.startSoon(high, 2*time.Second))
		}
		keyed := w.awake(high, 2*time.Second, func(t *task.Task) { t.StartBefore = t.Due.Add(startWithin) })
		w.start()
		w.advance(2*time.Second + startWithin - time.Millisecond)
		for _, one := range all {
			if _, ok := w.dispatched(one); ok {
				t.Error("the queue had room")
			}
		}
		w.advance(2 * time.Second)
		w.drain(4) // for those that do not expire
		for _, one := range append(all, keyed) {
			if row := w.read(one.ID); row.State != task.Expired || row.Ended > one.StartBefore.Add(time.Second) {
				t.Errorf("%s since +%v", row.State, row.Ended.Sub(start))
			}
		}
	})
}

// Running tasks are not looked at differently.
func TestAStartedTaskDoesNotExpire(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		w.parts.set(high)
		one := w.awake(high, time.Second, func(t *task.Task) {
			t.State, t.Attempt, t.Failures, t.StartBefore = task.RetriableFailure, 1, 1, t.Due.Add(time.Second)
			t.FirstStarted, t.Wake = t.Due, t.Due.Add(10*time.Second)
		})
		w.start()
		w.advance(15 * time.Second)
		if row := w.read(one.ID); row.State != task.Enqueued {
			t.Errorf("%s, want its retry enqueued", row.State)
		}
	})
}
