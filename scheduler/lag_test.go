package scheduler_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// inLaggingWorld has an index of wake-ups that shows each change late.
func inLaggingWorld(t *testing.T, lag func(w *world, t *task.Task) time.Duration, test func(w *world)) {
	t.Helper()
	inWorldOver(t, depth, func(w *world) store.Driver {
		return storetest.NewLagging(storemem.New(), w.clock.Now, func(t *task.Task) time.Duration { return lag(w, t) })
	}, test)
}

func always(lag time.Duration) func(*world, *task.Task) time.Duration {
	return func(*world, *task.Task) time.Duration { return lag }
}

func backedOff(d time.Duration) func(t *task.Task) {
	return func(t *task.Task) {
		t.State, t.Attempt, t.Failures, t.Wake = task.RetriableFailure, 1, 1, t.Created.Add(d)
	}
}

// A scan in between does not show the row yet; the hint is kept past it.
func TestAHintedWakeupIsOnTimeThoughTheIndexLags(t *testing.T) {
	inLaggingWorld(t, always(4*time.Second), func(w *world) {
		s := w.start()
		var all []task.Task
		for range 40 { // scans come at any moment of their lives
			one := w.awake(high, 0, backedOff(1500*time.Millisecond))
			s.Awake(&one)
			all = append(all, one)
			w.advance(500 * time.Millisecond)
		}
		w.advance(10 * time.Second)
		for _, one := range all {
			if at, ok := w.dispatched(one); !ok || at < one.Wake || at > one.Wake.Add(time.Millisecond) {
				t.Errorf("dispatched (%v) %v after its backoff", ok, at.Sub(one.Wake))
			}
		}
	})
}

func TestAWakeupWithoutAHintIsFoundThoughTheIndexLags(t *testing.T) {
	const lag = 3 * time.Second
	inLaggingWorld(t, always(lag), func(w *world) {
		w.start()
		var all []task.Task
		for range 40 {
			all = append(all, w.awake(high, 0, backedOff(1500*time.Millisecond)))
			w.advance(700 * time.Millisecond)
		}
		w.advance(20 * time.Second)
		for _, one := range all {
			late := lag + scheduler.WindowDefault/2
			if at, ok := w.dispatched(one); !ok || at < one.Wake || at > one.Wake.Add(late) {
				t.Errorf("dispatched (%v) %v after its backoff, want %v at most", ok, at.Sub(one.Wake), late)
			}
		}
	})
}

// The partition's running tasks are long past and scans begin behind them when the entry of an old wake-up turns up among them.
func TestAnEntryThatComesLateBehindTheWatchedIsFound(t *testing.T) {
	late := map[task.ID]time.Duration{}
	inLaggingWorld(t, func(_ *world, t *task.Task) time.Duration { return late[t.ID] }, func(w *world) {
		l := w.openLease(15 * time.Second)
		for range 200 {
			w.running(high, l.Worker)
		}
		w.start()
		w.beat(30*time.Second, l)
		odd := w.next(high, 0)
		late[odd.ID] = time.Minute
		odd.State, odd.Attempt, odd.Failures, odd.Wake = task.RetriableFailure, 1, 1, w.clock.Now().Add(-29*time.Second)
		w.apply(store.Op{Kind: store.PutTask, Task: odd})
		w.beat(8*time.Minute, l)
		if _, ok := w.dispatched(odd); !ok {
			t.Error("never dispatched")
		}
	})
}

// Tasks fail again and again with an index that is late by anything up to some seconds: each try is made, none twice.
func TestNoWakeupIsLostInALaggingIndex(t *testing.T) {
	inLaggingWorld(t, func(w *world, _ *task.Task) time.Duration {
		return time.Duration(w.clock.Uint64() % uint64(6*time.Second))
	}, func(w *world) {
		w.look = 1
		const n, tries = 150, 4
		var all []task.Task
		for i := range n {
			all = append(all, w.awake(high, 0, backedOff(time.Duration(i)*37*time.Millisecond)))
		}
		l := w.openLease(15 * time.Second)
		s := w.start()
		ended, steps := 0, 0
		for ; ended < n && steps < 600; steps++ {
			w.beat(l.HeartbeatEvery(), l)
			for _, m := range w.drain(10_000) {
				ended += w.attempt(s, m.Task, l.Worker, tries)
			}
		}
		for _, one := range all {
			if got := w.read(one.ID); got.State != task.Dead || got.Attempt != tries+1 {
				t.Fatalf("%s at attempt %d", got.State, got.Attempt)
			}
		}
		t.Logf("%d heartbeats", steps)
	})
}

// attempt claims a message's task and fails it; it returns 1 when that was its last try.
func (w *world) attempt(s *scheduler.Scheduler, t task.Task, worker string, tries uint32) int {
	w.t.Helper()
	row := w.read(t.ID)
	claimed, _, err := row.Apply(task.Event{Kind: task.Claim, Seq: t.Seq, Worker: worker, Lease: 15 * time.Second}, w.clock.Now(), policy)
	if err != nil || row.Seq != t.Seq {
		return 0 // a message too many
	}
	w.apply(store.Op{Kind: store.ReplaceTask, Task: claimed})
	ending := policy
	ending.MaxAttempts = tries + 1
	failed, _, err := claimed.Apply(task.Event{Kind: task.Finish, Worker: worker, Attempt: claimed.Attempt, Outcome: task.OutcomeRetriable}, w.clock.Now(), ending)
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(store.Op{Kind: store.ReplaceTask, Task: failed})
	if failed.State == task.Dead {
		return 1
	}
	if w.clock.Uint64()%2 == 0 {
		s.Awake(&failed)
	}
	return 0
}
