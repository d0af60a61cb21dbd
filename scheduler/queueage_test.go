package scheduler_test

import (
	"math"
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

// Without workers a backlog leads to few messages: what has one is not sent again while the queue is older
// than the enqueue timeout, and what has none waits until there is room.
func TestABacklogWithoutWorkersLeadsToFewMessages(t *testing.T) {
	for name, c := range map[string]struct{ tasks, depth int }{
		"more than the queue takes": {either(100_000, 10_000), either(10_000, 1000)},
		"all in the queue":          {5000, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, c.depth, func(w *world) {
				w.parts.all = []task.Partition{high}
				for range c.tasks {
					w.waiting(high, 0)
				}
				s := w.start()
				const timeouts = 10
				w.advance(timeouts * task.EnqueueTimeout)
				messages := len(w.sent.fired()) + w.sent.counted(&w.sent.again)
				most := float64(min(c.tasks, c.depth)) * (1 + math.Log2(timeouts))
				t.Logf("%d messages for %d tasks in %v", messages, c.tasks, timeouts*task.EnqueueTimeout)
				if float64(messages) > most {
					t.Errorf("%d messages for %d tasks, want %.0f at most", messages, c.tasks, most)
				}
				held := s.Counts(high).Queue
				if full := c.tasks > c.depth; (s.Counts(high).Queue > 0) != full || (held > 0) != full {
					t.Errorf("%d tasks are said to wait for room", held)
				}
				if lag := s.Lag(); lag > 0 {
					t.Errorf("a lag of %v: more schedulers would not help", lag)
				}
			})
		})
	}
}
