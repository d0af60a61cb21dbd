package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/task"
)

// TestTasksThatAreLostAreSeen has a loop lose rows, as if they were gone from the store. They are seen all the same,
// until they start.
func TestTasksThatAreLostAreSeen(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		const keys = 300
		w.withKeyLimit(1)
		wall := &clocktest.Settable{Clock: w.clock}
		w.wall = wall
		w.look, w.rows.lost = 1, true // of 64 rows more is kept than their keys
		for i := range 2 * keys {
			w.keyed(high, fmt.Sprint("k", i%keys), -3*time.Hour)
		}
		s := w.start()
		seen, most := time.Duration(0), int64(0)
		for i := range 30 {
			if w.advance(5 * time.Second); i == 2 {
				wall.Step(-time.Hour)
			}
			if n := s.Counts(high).Unexplained; n > 0 {
				seen, most = seen+5*time.Second, max(most, n)
			}
			for _, m := range w.drain(2 * keys) {
				w.report(s, w.claim(m.Task), task.OutcomeSuccess)
			}
		}
		if seen < 30*time.Second || most < 8 {
			t.Errorf("tasks that do not start were seen for %v, up to %d of them", seen, most)
		}
		if held := s.Counts(high); held.Keys > int64(2*keys) {
			t.Errorf("%+v", held)
		}
		w.rows.mu.Lock()
		w.rows.lost = false
		w.rows.mu.Unlock()
		for range 60 {
			w.advance(5 * time.Second)
			for _, m := range w.drain(2 * keys) {
				w.report(s, w.claim(m.Task), task.OutcomeSuccess)
			}
		}
		if n := s.Counts(high).Unexplained; n > 0 || len(w.schedule(high)) > 0 {
			t.Errorf("%d tasks are unexplained, %d rows are left", n, len(w.schedule(high)))
		}
	})
}

// TestWhatIsHeldIsExplained has tasks be due for ten minutes that something holds, or that run or wait for a retry.
func TestWhatIsHeldIsExplained(t *testing.T) {
	many := func(w *world) {
		for i := range 200 {
			w.keyed(high, fmt.Sprint("k", i%20), -time.Hour)
		}
	}
	for name, prepare := range map[string]func(w *world){
		"by a gate":  func(w *world) { w.withGates().set(pauseAll()); many(w) },
		"by its key": func(w *world) { w.withKeyLimit(1); many(w) },
		"by the rate of its key": func(w *world) {
			w.keyLimits, w.concurrency = func(uint32) (int32, float64, bool) { return 0, 0.01, false }, groups{}
			many(w)
		},
		"by a rate":       func(w *world) { w.withQuota(quota.Limit{Rate: 0.1}); many(w) },
		"by a quota":      func(w *world) { w.withSlots(quota.Limit{Concurrency: 2}); many(w) },
		"by a full queue": func(w *world) { w.sent.depthMax = 5; many(w) },
		"by nothing: it runs": func(w *world) {
			for range 20 {
				w.running(high, "w")
			}
		},
		"by nothing: it is tried again later": func(w *world) {
			w.awake(high, -time.Hour, func(t *task.Task) {
				t.State, t.Attempt, t.Wake, t.Seq = task.RetriableFailure, 1, w.clock.Now().Add(time.Hour), 3
			})
		},
		"by nothing: it has ended": func(w *world) {
			w.awake(high, -time.Hour, func(t *task.Task) {
				t.State, t.Attempt, t.Wake, t.Seq, t.Ended, t.ExpireAt = task.Success, 1, 0, 4, start, start.Add(time.Hour)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, depth, func(w *world) {
				prepare(w)
				s := w.start()
				for at := time.Duration(0); at < 10*time.Minute; at += 5 * time.Second {
					w.advance(5 * time.Second)
					if n := s.Counts(high).Unexplained; n > 0 {
						t.Fatalf("%d tasks are unexplained after %v", n, at)
					}
				}
			})
		})
	}
}
