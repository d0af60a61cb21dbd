package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func (w *world) withRetryShare(share float64) *limit.Retries {
	r := &limit.Retries{Share: func(uint32) float64 { return share }, Clock: w.clock}
	w.retries = r
	return r
}

// retriesFired returns how many of some tasks were dispatched up to now.
func (w *world) retriesFired(of map[task.ID]bool) (n int) {
	for _, f := range w.sent.fired() {
		if of[f.id] {
			n++
		}
	}
	return n
}

func TestRetriesWaitForTheBudgetAndFirstStartsDoNot(t *testing.T) {
	inWorld(t, 100_000, func(w *world) {
		w.withRetryShare(0.2)
		retries := map[task.ID]bool{}
		for range 2000 {
			retries[w.awake(high, 0, backedOff(0)).ID] = true
		}
		for i := range 1000 { // 50 per second for 20 s
			w.waiting(high, time.Duration(i)*20*time.Millisecond)
		}
		s := w.start()
		w.advance(20 * time.Second)
		if n := len(w.sent.fired()) - w.retriesFired(retries); n < 995 {
			t.Errorf("%d of 1000 first starts were made in time", n)
		}
		if n := w.retriesFired(retries); n < 190 || n > 230 {
			t.Errorf("%d retries in 20 s beside 1000 first starts, want a fifth and one per second", n)
		}
		if n := s.Counts(high).Retries; n < 1770 || n > 1810 {
			t.Errorf("%d retries are held, want about 1790", n)
		}
	})
}

func TestRetriesAloneGoOnSlowly(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withRetryShare(0.1)
		retries := map[task.ID]bool{}
		for range 200 {
			retries[w.awake(high, 0, backedOff(0)).ID] = true
		}
		s := w.start()
		w.advance(time.Second)
		w.rows.readRows()
		w.advance(10 * time.Second)
		if read := w.rows.readRows(); read > 30 {
			t.Errorf("%d rows were read in 10 s with a budget of 1 per second: what waits is not to be read", read)
		}
		w.advance(4 * time.Minute)
		if n := w.retriesFired(retries); n != 200 {
			t.Errorf("%d of 200 retries were dispatched in 4 min, want all", n)
		}
		if held := s.Counts(high).Retries; held != 0 {
			t.Errorf("%d are held after all were dispatched", held)
		}
	})
}

// First starts from the schedule, of keyed tasks, and direct ones, which the scheduler only hears of, earn.
func TestWhatEarnsAndWhatSpends(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		r := w.withRetryShare(1)
		s := w.settled()
		for range 10 {
			first := w.waiting(high, 0)
			s.Added(&first)
			keyed := w.awake(high, 0, func(*task.Task) {})
			s.Awake(&keyed)
		}
		direct := w.next(low, 0)
		direct.State, direct.Enqueues = task.Enqueued, 1
		s.Enqueued(&direct)
		w.advance(2 * time.Second)
		synctest.Wait()
		if left := r.Left(7); left != 31 {
			t.Errorf("%d retries are left, want the minimum of 10, and one for each of 21 first starts", left)
		}
		retry := w.awake(high, 0, backedOff(0))
		s.Awake(&retry)
		w.advance(time.Second)
		if left := r.Left(7); left != 30 {
			t.Errorf("%d retries are left after one, want 30", left)
		}
	})
}

func TestABudgetThatIsTakenAwayLetsAllRetriesGo(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		share := 0.1
		w.retries = &limit.Retries{Share: func(uint32) float64 { return share }, Clock: w.clock}
		for range 500 {
			w.awake(high, 0, backedOff(0))
		}
		w.start()
		w.advance(5 * time.Second)
		if n := len(w.sent.fired()); n > 15 {
			t.Fatalf("%d retries were dispatched in 5 s", n)
		}
		synctest.Wait()
		share = 0
		w.advance(time.Second)
		if n := len(w.sent.fired()); n != 500 {
			t.Errorf("%d of 500 retries were dispatched without a budget", n)
		}
	})
}

// A retry that has no room in its queue gives its budget back.
func TestARetryWithoutRoomSpendsNothing(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		r := w.withRetryShare(0.1)
		for range 8 {
			w.awake(high, 0, backedOff(0))
		}
		w.start()
		w.advance(2 * time.Second)
		if fired, left := len(w.sent.fired()), r.Left(7); fired != 5 || left != 5 {
			t.Errorf("%d retries were dispatched and %d are left, want 5 and 5 of 10", fired, left)
		}
	})
}

func TestATaskThatExpiresEarnsNoRetry(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withRetryShare(1)
		for range 100 {
			gone := w.next(high, -time.Hour)
			gone.StartBefore = gone.Due.Add(time.Minute)
			w.apply(store.First(gone)...)
		}
		retries := map[task.ID]bool{}
		for range 100 {
			retries[w.awake(high, time.Second, backedOff(time.Second)).ID] = true
		}
		w.start()
		w.advance(3 * time.Second)
		if n := w.retriesFired(retries); n > 20 {
			t.Errorf("%d retries started in 3 s and nothing else, want 10 and one a second", n)
		}
	})
}
