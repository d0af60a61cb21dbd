package scheduler_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// inIdleWorld is inWorld with so many partitions, and no loop for those that are idle.
func inIdleWorld(t *testing.T, partitions int, test func(w *world)) {
	t.Helper()
	inWorld(t, depth, func(w *world) {
		w.loops = -1
		w.parts.all = nil
		for shard := range partitions {
			w.parts.all = append(w.parts.all, task.Partition{Lambda: 7, Shard: uint16(shard)})
		}
		test(w)
	})
}

// lookEvery is how often an idle partition is looked at, at least.
const lookEvery = 375 * time.Second

func TestAnIdlePartitionCostsNoGoroutine(t *testing.T) {
	inIdleWorld(t, 1000, func(w *world) {
		warm := 0
		w.hooks.Warm = func(a *scheduler.Assignment) { warm = a.Owned }
		before := runtime.NumGoroutine()
		w.start()
		if n := runtime.NumGoroutine() - before; n > 10 || warm != 1000 {
			t.Errorf("%d goroutines for %d partitions", n, warm)
		}
		const long = time.Hour
		w.advance(long)
		for _, p := range w.parts.all {
			if n := w.rows.scansOf(p); n < 1+int(long/lookEvery) || n > 2+int(long/(lookEvery*3/5)) {
				t.Fatalf("%d looks at %v in an hour", n, p)
			}
		}
	})
}

// 100,000 idle partitions are to take at most 64 MiB.
func TestAnIdlePartitionTakesLittleMemory(t *testing.T) {
	const partitions, bytesMax = 20_000, 64 << 20 / 100_000
	inIdleWorld(t, partitions, func(w *world) {
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		w.start()
		each := (heap() - before) / partitions
		t.Logf("%d bytes for each, with what the test notes", each)
		if each > bytesMax {
			t.Errorf("%d bytes for each of %d idle partitions, want at most %d", each, partitions, bytesMax)
		}
	})
}

// Partitions become idle and get loops again, in any order of hints, and every task is on time.
func TestTasksOfIdlePartitionsAreOnTime(t *testing.T) {
	inIdleWorld(t, 20, func(w *world) {
		r := rand.New(rand.NewPCG(1, 2))
		someDelay := func() time.Duration {
			return time.Duration(r.Int64N(int64([]time.Duration{time.Second, time.Minute, 10 * time.Minute, time.Hour}[r.IntN(4)])))
		}
		var all []task.Task
		for range 30 { // which nobody is told of
			all = append(all, w.waiting(w.parts.all[r.IntN(20)], someDelay()))
		}
		s := w.start()
		for range 300 {
			w.advance(time.Duration(r.Int64N(int64(20 * time.Second))))
			one := w.waiting(w.parts.all[r.IntN(20)], someDelay())
			s.Added(&one)
			all = append(all, one)
			w.drain(10_000)
		}
		w.advance(2 * time.Hour)
		w.wantOnTime(all...)
		if n := s.InFlight(); n != len(all) {
			t.Errorf("%d in flight, want %d", n, len(all))
		}
	})
}

// A row that is stored and told of while its partition is looked at is seen: by the watch of idle partitions,
// and by a loop that is about to end.
func TestAHintDuringALookIsNotLost(t *testing.T) {
	for _, c := range []struct{ looks, due time.Duration }{
		{0, time.Second},
		{0, 7 * time.Minute},
		{lookEvery, 3 * time.Second},
		{lookEvery, 20 * time.Minute},
		// Due a moment after what the look sees, and maybe before the next one.
		{lookEvery, 301 * time.Second},
		{lookEvery, 302 * time.Second},
		{lookEvery, 303 * time.Second},
		{lookEvery, 304 * time.Second},
		{lookEvery, 305 * time.Second},
		{lookEvery, 306 * time.Second},
		{lookEvery, 307 * time.Second},
		{lookEvery, 308 * time.Second},
		{0, 301 * time.Second},
		{0, 302 * time.Second},
		{0, 303 * time.Second},
		{0, 304 * time.Second},
		{0, 305 * time.Second},
	} {
		inIdleWorld(t, 1, func(w *world) {
			s := w.start()
			if c.looks == 0 { // a loop
				one := w.waiting(w.parts.all[0], 0)
				s.Added(&one)
				w.advance(time.Millisecond)
				ended := w.read(one.ID)
				ended.State, ended.Wake, ended.Seq, ended.Ended, ended.ExpireAt = task.Success, 0, ended.Seq+1, w.clock.Now(), w.clock.Now().Add(time.Hour)
				w.finished(s, ended)
				w.drain(10)
			}
			var inserted task.Task
			scans := w.rows.scansOf(w.parts.all[0])
			w.rows.mu.Lock()
			w.rows.looks = true
			w.rows.during = func(p task.Partition) {
				inserted = w.waiting(p, c.due)
				s.Added(&inserted)
			}
			w.rows.mu.Unlock()
			w.advance(lookEvery)
			if w.rows.scansOf(w.parts.all[0]) == scans {
				t.Fatal("no look")
			}
			w.advance(time.Hour)
			w.wantOnTime(inserted)
		})
	}
}

// finished stores that a task has ended, and deletes its wake-up row.
func (w *world) finished(s *scheduler.Scheduler, ended task.Task) {
	w.t.Helper()
	w.apply(store.Change(ended, false, false)...)
	s.Done([]task.Task{ended})
}

// A retry that waits in memory keeps the loop, and is on time.
func TestARetryKeepsTheLoop(t *testing.T) {
	inIdleWorld(t, 2, func(w *world) {
		p := w.parts.all[0]
		s := w.start()
		one := w.awake(p, 0, func(t *task.Task) { t.State, t.Enqueues, t.Wake = task.Enqueued, 1, t.Due.Add(20*time.Minute) }) // its row stays there
		s.Enqueued(&one)
		w.advance(0)
		one.State, one.Attempt, one.Wake, one.Seq = task.RetriableFailure, 1, w.clock.Now().Add(time.Minute), one.Seq+1
		w.apply(store.Change(one, false, false)...)
		s.Awake(&one)
		w.advance(2 * time.Minute)
		w.wantDispatched(&one, one.Wake, 0)
	})
}

// While the store is away most idle partitions stay without a loop, and later all are looked at.
func TestIdlePartitionsOfAStoreThatIsAway(t *testing.T) {
	inIdleWorld(t, 500, func(w *world) {
		w.loops = 10
		w.rows.setFails(func(task.Partition) error { return errors.New("away") })
		before := runtime.NumGoroutine()
		s := w.start()
		w.advance(time.Minute)
		if n := runtime.NumGoroutine() - before; n > 50 || s.Unread(5*time.Second) < 10 {
			t.Errorf("%d goroutines, %d partitions said to be unread", n, s.Unread(5*time.Second))
		}
		var all []task.Task
		for _, p := range w.parts.all {
			all = append(all, w.waiting(p, 20*time.Second)) // which nobody is told of
		}
		w.rows.setFails(nil)
		w.advance(time.Minute)
		w.wantOnTime(all...)
	})
}

// Due times follow steps of the wall clock, also where no loop runs.
func TestAStepOfTheClockIsSeenByIdlePartitions(t *testing.T) {
	inIdleWorld(t, 3, func(w *world) {
		wall := &clocktest.Settable{Clock: w.clock}
		w.wall = wall
		one := w.waiting(w.parts.all[0], 31*time.Minute)
		s := w.start()
		w.advance(time.Minute)
		const step = 29*time.Minute + 30*time.Second
		wall.Step(step)
		due := w.clock.Now().Add(30 * time.Second)
		s.ClockStepped(step)
		w.advance(time.Minute)
		w.wantDispatched(&one, due.Add(-time.Second), time.Second)
	})
}

// Partitions come and go while they are idle.
func TestIdlePartitionsComeAndGo(t *testing.T) {
	inIdleWorld(t, 50, func(w *world) {
		all := w.parts.Partitions()
		s := w.start()
		w.parts.set(all[:10]...)
		gone, here := w.waiting(all[20], time.Second), w.waiting(all[5], time.Second)
		s.Added(&gone)
		s.Added(&here)
		w.advance(time.Hour)
		w.wantOnTime(here)
		if _, ok := w.dispatched(gone); ok || s.Fires(all[20]) {
			t.Error("a task of a partition that is not fired here was dispatched")
		}
		looks := w.rows.scansOf(all[30])
		w.parts.set(all...)
		w.advance(time.Second)
		if n := w.rows.scansOf(all[30]) - looks; n != 1 {
			t.Errorf("%d looks at a partition that comes back", n)
		}
		if at, ok := w.dispatched(gone); !ok {
			t.Errorf("not dispatched when its partition came back: %v", at)
		}
	})
}
