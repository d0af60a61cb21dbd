package scheduler_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// withKeyLimit has so many tasks of each limit key run at once.
func (w *world) withKeyLimit(atOnce int32) {
	w.keyLimits = func(uint32) (int32, float64, bool) { return atOnce, 0, false }
	w.concurrency = groups{}
}

// groups are of a lambda that limits its limit keys: all partitions of a shard have one owner.
type groups struct{}

func (groups) Group(p task.Partition) (task.Partition, bool) {
	return task.Partition{Lambda: p.Lambda, Shard: p.Shard}, true
}

func (groups) Limits(task.Partition) (*limit.Concurrency, []uint16) { return &limit.Concurrency{}, nil }
func (groups) Changed() <-chan struct{}                             { return nil }

// keyed stores a task of a limit key.
func (w *world) keyed(p task.Partition, key string, in time.Duration) task.Task {
	t := w.next(p, in)
	t.LimitKey = key
	ops := store.First(t)
	w.apply(ops...)
	return ops[0].Task
}

func TestAPacedGateLetsTasksOfLimitKeysGo(t *testing.T) {
	for _, keys := range []int{200, 3} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			inWorld(t, depth, func(w *world) {
				g := w.withGates()
				limiter := limit.NewLimiter(nil, w.clock)
				w.gating.Pace = func(g *hold.Gate, p task.Partition) (bool, task.Instant) {
					n, wait := limiter.Take(limit.Ask{Name: g.ID, Rate: float64(g.Pace), Burst: 1, Caller: p, Want: 1, Wait: 2})
					if wait.More != nil {
						return n > 0, w.clock.Now()
					}
					return n > 0, wait.Again
				}
				w.withKeyLimit(100)
				gate := pauseAll()
				g.set(gate)
				w.start()
				w.advance(time.Second)
				for i := range 300 {
					w.keyed(high, fmt.Sprint("k", i%keys), time.Second)
				}
				w.advance(5 * time.Second)
				if n := len(w.sent.fired()); n > 0 {
					t.Fatalf("%d tasks were dispatched behind a gate", n)
				}
				gate.Resumed, gate.Pace = w.clock.Now(), 4
				g.set(gate)
				w.advance(30 * time.Second)
				if n := len(w.sent.fired()); n < 100 || n > 140 {
					t.Errorf("%d tasks went in 30 s at 4 per second", n)
				}
			})
		})
	}
}

func TestATaskOfALimitKeyIsSoonDispatchedAgainThatFailed(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withKeyLimit(5)
		down := true
		w.sent.refuse = func(*task.Task) error {
			if down {
				return store.ErrUnreachable
			}
			return nil
		}
		w.start()
		w.advance(time.Second)
		for i := range 50 {
			w.keyed(high, fmt.Sprint("k", i), time.Second)
		}
		w.advance(8 * time.Second)
		w.sent.mu.Lock()
		down = false
		w.sent.mu.Unlock()
		w.advance(30 * time.Second)
		if n := len(w.sent.fired()); n != 50 {
			t.Errorf("%d of 50 tasks were dispatched within 30 s", n)
		}
	})
}

func TestAFreeSlotOfAKeyGoesToWhoCanUseIt(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withKeyLimit(1)
		w.withSlots(quota.Limit{Priority: "high", Class: high.Priority, Concurrency: 1})
		s := w.start()
		w.advance(10 * time.Second)
		b := w.keyed(low, "b", 0) // it holds the slot of b
		s.Added(&b)
		synctest.Wait()
		lowB, highB := w.keyed(low, "b", 0), w.keyed(high, "b", 0)
		s.Added(&lowB)
		s.Added(&highB)
		synctest.Wait()
		a := w.keyed(high, "a", 0) // it holds the slot of its priority
		s.Added(&a)
		synctest.Wait()
		w.wantRunning([]task.Task{a, b}, 2)
		w.report(s, w.claim(w.runningNow([]task.Task{b})[0]), task.OutcomeSuccess)
		w.advance(2 * time.Second)
		w.wantRunning([]task.Task{lowB}, 1)
		w.wantRunning([]task.Task{highB}, 0)
	})
}

func TestATaskWithoutAStartSpinsNot(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 50}, quota.Limit{Priority: "high", Class: high.Priority, Rate: 1})
		w.quotas = &quota.Starts{Book: w.book, Limiter: limit.NewLimiter(nil, w.clock)}
		w.waitingMany(high, 200)
		rounds, most := 0, 2000
		w.sent.roomed = func() {
			if rounds++; rounds == most {
				panic(fmt.Sprint(most, " rounds in ", w.clock.Now().Sub(start)))
			}
		}
		s := w.start()
		w.advance(2 * time.Second)
		lows := w.waitingMany(low, 20)
		for i := range lows {
			s.Added(&lows[i])
		}
		w.wantRunning(lows, 20)
	})
}

func TestAKeyWaitsForItsRateNoLongerWhenTheClockIsSetBack(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.keyLimits = func(uint32) (int32, float64, bool) { return 0, 0.1, false }
		w.concurrency = groups{}
		wall := &clocktest.Settable{Clock: w.clock}
		w.wall, w.parts.all = wall, []task.Partition{high}
		for range 4 {
			w.keyed(high, "a", -2*time.Hour)
		}
		w.start()
		w.advance(12 * time.Second)
		before := len(w.sent.fired())
		wall.Step(-time.Hour)
		w.advance(30 * time.Second)
		if n := len(w.sent.fired()) - before; n < 2 {
			t.Errorf("%d tasks started within 30 s after the clock was set back, and %d before, at one in 10 s", n, before)
		}
	})
}

func TestALostTaskWaitsForAStartNoLongerThanItHasTo(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withSlots(quota.Limit{Concurrency: 1, Rate: 0.01, Burst: 1})
		w.quotas = &quota.Starts{Book: w.book, Limiter: limit.NewLimiter(nil, w.clock)}
		tasks := w.waitingMany(high, 1)
		w.start()
		w.advance(100 * time.Millisecond)
		w.claim(w.wantRunning(tasks, 1)[0]) // of a worker that has no lease
		w.advance(102 * time.Second)
		if row := w.read(tasks[0].ID); row.State != task.Enqueued || row.Lost != 1 {
			t.Errorf("the task is %v, lost %d times, when the next start was allowed two seconds ago", row.State, row.Lost)
		}
	})
}

// TestATaskThatIsStoredLateIsFound stores tasks of limit keys as another server does with what comes out of
// the inbound buffer after it was due. The server that starts them gets no hint, and its read-ahead begins
// behind those that wait. The later they are, the longer that may take.
func TestATaskThatIsStoredLateIsFound(t *testing.T) {
	keys := func(w *world) {
		w.withKeyLimit(3)
		w.withGates() // full scans begin behind what waits
	}
	for _, c := range []struct {
		name         string
		limit        func(w *world)
		late, within time.Duration
	}{
		{"keys", keys, 50 * time.Second, 31 * time.Second},
		{"keys", keys, 170 * time.Second, 61 * time.Second},
		{"keys", keys, 20 * time.Minute, 9 * time.Minute},
		{"quota", func(w *world) { w.withSlots(quota.Limit{Concurrency: 500}) }, 170 * time.Second, 61 * time.Second},
	} {
		t.Run(fmt.Sprint(c.name, " ", c.late), func(t *testing.T) {
			inWorld(t, depth, func(w *world) {
				c.limit(w)
				w.shared = true
				for range 20 {
					w.keyed(high, "waits", -time.Hour) // three of these start
				}
				w.start()
				w.advance(10 * time.Minute)
				var stored []task.Task
				for i := range 30 {
					stored = append(stored, w.keyed(high, fmt.Sprint("k", i), -c.late))
					w.advance(7 * time.Second)
				}
				w.advance(c.within)
				for i := range stored {
					if at, ok := w.dispatched(stored[i]); !ok || at > stored[i].Due.Add(c.late+c.within) {
						t.Errorf("task %d was dispatched (%v) %v after it was stored, want at most %v", i, ok, at.Sub(stored[i].Due)-c.late, c.within)
					}
				}
			})
		})
	}
}

// TestASlotThatAnotherPriorityHoldsIsFreed has a task of one priority wait for the slot of its key, which a
// task of another priority holds that ends at another server.
func TestASlotThatAnotherPriorityHoldsIsFreed(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withKeyLimit(1)
		w.shared = true
		w.start()
		w.advance(3 * time.Second)
		first := w.keyed(high, "a", 0)
		w.advance(time.Second)
		second := w.keyed(low, "a", 0)
		w.advance(time.Second)
		w.report(nil, w.claim(w.wantRunning([]task.Task{first}, 1)[0]), task.OutcomeSuccess)
		w.wantRunning([]task.Task{second}, 0)
		w.advance(time.Second)
		w.wantRunning([]task.Task{second}, 1)
	})
}

// TestTasksOfManyKeysShareADispatch has tasks of many keys due one after the other.
func TestTasksOfManyKeysShareADispatch(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withKeyLimit(1)
		s := w.start()
		w.advance(10 * time.Second)
		const tasks, apart = 200, 2 * time.Millisecond
		for i := range tasks {
			one := w.keyed(high, fmt.Sprint("k", i), time.Second+time.Duration(i)*apart)
			s.Added(&one)
		}
		rounds := 0
		w.sent.roomed = func() { rounds++ }
		w.advance(2 * time.Second)
		if n := len(w.sent.fired()); n != tasks {
			t.Errorf("%d of %d tasks were dispatched", n, tasks)
		}
		if most := int(tasks*apart/(scheduler.LeadDefault/2)) + 2; rounds > most {
			t.Errorf("%d rounds, want at most %d", rounds, most)
		}
	})
}

// TestASlotIsFreedOfWhichNobodyWasTold ends a task while nobody waits for the slot of its key, so that its loop is not woken,
// and then has a task of another priority wait for it.
func TestASlotIsFreedOfWhichNobodyWasTold(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withKeyLimit(1)
		s := w.start()
		w.advance(10 * time.Second)
		first := w.keyed(high, "a", 0)
		s.Added(&first)
		synctest.Wait()
		w.report(s, w.claim(w.wantRunning([]task.Task{first}, 1)[0]), task.OutcomeSuccess)
		synctest.Wait()
		second := w.keyed(low, "a", 0)
		s.Added(&second)
		synctest.Wait()
		w.wantRunning([]task.Task{second}, 1)
	})
}

// TestTasksThatWaitForTheirKeyAreCounted has nothing happen after the first start.
func TestTasksThatWaitForTheirKeyAreCounted(t *testing.T) {
	for after := 16 * time.Second; after < 24*time.Second; after += 1700 * time.Millisecond {
		inWorld(t, depth, func(w *world) {
			w.withKeyLimit(1)
			s := w.start()
			w.advance(time.Minute)
			for range 3 {
				w.keyed(high, "k", after)
			}
			if w.advance(after + 1100*time.Millisecond); s.Counts(high).Keys != 2 {
				t.Errorf("due after %v: %+v", after, s.Counts(high))
			}
		})
	}
}
