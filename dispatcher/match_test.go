package dispatcher_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// workers have some slots that wait.
type workers struct {
	free, asked int
	serves      bool
	given       []*slot
}

// slot is one of them; over says how it was settled.
type slot struct {
	*workers

	over []error
	task task.Task
}

func (m *workers) Serves(*task.Task) bool { return m.serves }

func (m *workers) Match(*task.Task) dispatcher.Slot {
	m.asked++
	if m.free == 0 {
		return nil
	}
	m.free--
	s := &slot{workers: m}
	m.given = append(m.given, s)
	return s
}

func (*slot) Worker() string       { return "w1" }
func (*slot) Lease() time.Duration { return 15 * time.Second }

func (s *slot) Settle(claimed *task.Task, outcome error) {
	s.over, s.task = append(s.over, outcome), *claimed
}

// inWorldWith is inWorld with workers that have so many slots.
func inWorldWith(t *testing.T, free int, test func(w *world, m *workers)) {
	t.Helper()
	inWorld(t, func(w *world) {
		m := &workers{free: free}
		w.Matcher = m
		test(w, m)
		for _, s := range m.given {
			if len(s.over) != 1 {
				t.Errorf("a slot was settled %d times", len(s.over))
			}
		}
	})
}

func TestWhatIsMatchedIsClaimedInOneWrite(t *testing.T) {
	inWorldWith(t, 2, func(w *world, m *workers) {
		orders := []task.Order{w.waiting(1), w.retriable(2), w.waiting(3), w.waiting(4)}
		results := w.Dispatch(w.ctx, orders)
		wantNone(t, results)
		for i, want := range []task.State{task.Claimed, task.Claimed, task.Enqueued, task.Enqueued} {
			w.wantState(&orders[i], want)
			if r := results[i]; !r.Done || r.Task.State != want {
				t.Errorf("order %d: %+v", i, r)
			}
		}
		if w.visible() != 2 || w.wakeups() != 3 || m.asked != 3 {
			t.Errorf("%d messages, %d wake-up rows, asked %d times; want 2, 3, and 3: what is behind a task that is queued is queued", w.visible(), w.wakeups(), m.asked)
		}
		if !slices.Equal(w.trace.steps, []string{"put", "send"}) {
			t.Errorf("steps %v", w.trace.steps)
		}
		for i, s := range m.given {
			if row := s.task; s.over[0] != nil || row.ID != orders[i].Task.ID || row.State != task.Claimed || row.Worker != "w1" || row.Seq != orders[i].Task.Seq+1 {
				t.Errorf("slot %d: %v, %+v", i, s.over[0], row)
			}
		}
	})
}

func TestWhatIsNotMatched(t *testing.T) {
	high := queue.Name{Lambda: 7}
	for name, prepare := range map[string]func(w *world, o *task.Order){
		"one before a task of a higher priority": func(_ *world, o *task.Order) { o.InTurn = true },
		"a suspect":                              func(_ *world, o *task.Order) { o.Task.Suspect = true },
		"one that is enqueued, again": func(w *world, o *task.Order) {
			*o = w.retriable(2)
			o.Task = w.Dispatch(w.ctx, []task.Order{*o})[0].Task
		},
		"one behind others of its class": func(w *world, _ *task.Order) {
			w.Send(w.ctx, []task.Task{{ID: task.ID{9}, Partition: partition, Due: w.clock.Now()}})
			w.time.Advance(time.Millisecond)
		},
		"one behind others of a higher class": func(w *world, _ *task.Order) {
			w.Send(w.ctx, []task.Task{{ID: task.ID{9}, Partition: task.Partition{Lambda: high.Lambda}, Due: w.clock.Now()}})
			w.time.Advance(time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorldWith(t, 0, func(w *world, m *workers) {
				o := w.waiting(1)
				prepare(w, &o)
				m.free, m.asked = 1, 0
				r := w.Dispatch(w.ctx, []task.Order{o})[0]
				if r.Err != nil || r.Task.State != task.Enqueued || m.asked != 0 {
					t.Errorf("%+v, asked %d times", r, m.asked)
				}
			})
		})
	}
}

// A task that waits in a queue and is not due, or is of a lower class, is not overtaken.
func TestWhatIsNotOvertaken(t *testing.T) {
	inWorldWith(t, 1, func(w *world, _ *workers) {
		w.Send(w.ctx, []task.Task{
			{ID: task.ID{8}, Partition: task.Partition{Lambda: 7, Priority: 2}, Due: w.clock.Now()},
			{ID: task.ID{9}, Partition: partition, Due: w.clock.Now().Add(time.Minute)},
		})
		w.time.Advance(time.Millisecond)
		o := w.waiting(1)
		wantNone(t, w.Dispatch(w.ctx, []task.Order{o}))
		w.wantState(&o, task.Claimed)
	})
}

// weighted has policies of lambdas whose three priorities have weights.
type weighted struct{ dispatcher.Policies }

func (weighted) PrioritiesBefore(*task.Task) uint8 { return 3 }

// Where priorities have weights a task of a lower one may have the next turn.
func TestWithWeightsNobodyIsOvertaken(t *testing.T) {
	inWorldWith(t, 1, func(w *world, m *workers) {
		w.Policies = weighted{w.Policies}
		low := task.Task{ID: task.ID{8}, Partition: task.Partition{Lambda: 7, Priority: 2}, Due: w.clock.Now()}
		w.Send(w.ctx, []task.Task{low})
		w.time.Advance(time.Millisecond)
		o := w.waiting(1)
		wantNone(t, w.Dispatch(w.ctx, []task.Order{o}))
		w.wantState(&o, task.Enqueued)
		if m.asked != 0 {
			t.Errorf("asked %d times for a slot", m.asked)
		}
	})
}

// durable is a queue that is a service: each Depth is a request.
type durable struct {
	*queue.Queue
	depth int
	asked int
}

func (*durable) Durable() bool                   { return true }
func (*durable) Room(queue.Name) <-chan struct{} { return nil }

func (q *durable) Depth(context.Context, queue.Name) (queue.Depth, error) {
	q.asked++
	return queue.Depth{Visible: q.depth}, nil
}

func TestAServiceIsNotAskedForAMatch(t *testing.T) {
	inWorldWith(t, 1, func(w *world, m *workers) {
		q := &durable{Queue: w.queue, depth: 32}
		w.Queue = q
		w.Room(w.ctx, normal)
		o := w.waiting(1)
		wantNone(t, w.Dispatch(w.ctx, []task.Order{o}))
		w.wantState(&o, task.Enqueued) // so many wait, as was seen a moment ago
		w.time.Advance(time.Second)
		o = w.waiting(2)
		wantNone(t, w.Dispatch(w.ctx, []task.Order{o}))
		w.wantState(&o, task.Claimed) // nothing is known
		if q.asked != 1 || len(m.given) != 1 {
			t.Errorf("asked %d times, want once by Room", q.asked)
		}
		q.depth, m.free = 31, 1
		w.Room(w.ctx, normal)
		o = w.waiting(3)
		wantNone(t, w.Dispatch(w.ctx, []task.Order{o}))
		w.wantState(&o, task.Claimed) // fewer are on their way to workers
	})
}

func TestAMatchThatIsNotStoredIsSaid(t *testing.T) {
	inWorldWith(t, 2, func(w *world, m *workers) {
		beaten, unknown := w.waiting(1), w.waiting(2)
		other := beaten.Task
		other.State, other.Worker, other.Attempt = task.Claimed, "w2", 1
		w.apply(store.Op{Kind: store.PutTask, Task: other})
		w.driver.Fail(store.PutTask, 2, 1, storetest.AppliedButErrored)
		w.driver.FailReads(1000)
		results := w.during(time.Minute, func() []task.Dispatched { return w.Dispatch(w.ctx, []task.Order{beaten, unknown}) })
		w.driver.FailReads(0)
		if r := results[0]; r.Done || r.Err != nil || r.Task.Worker != "w2" || !errors.Is(m.given[0].over[0], store.ErrConflict) {
			t.Errorf("beaten: %+v, slot %v", r, m.given[0].over)
		}
		if r := results[1]; r.Done || !errors.Is(r.Err, store.ErrUnknown) || !errors.Is(m.given[1].over[0], store.ErrUnknown) {
			t.Errorf("unknown: %+v, slot %v", r, m.given[1].over)
		}
		if again := w.Dispatch(w.ctx, []task.Order{unknown})[0]; again.Err != nil || again.Done || again.Task.State != task.Claimed || again.Task.Worker != "w1" {
			t.Errorf("tried again: %+v", again)
		}
	})
}

// Where the queue is in memory and a worker of this process serves the lambda, the claim writes the first
// task row.
func TestAMessageIsSentBeforeTheFirstRow(t *testing.T) {
	inWorldWith(t, 0, func(w *world, m *workers) {
		m.serves = true
		orders := []task.Order{w.waiting(1), w.retriable(2)}
		results := w.Dispatch(w.ctx, orders)
		wantNone(t, results)
		w.wantState(&orders[1], task.Enqueued)
		first := results[0].Task
		if rows, err := w.store.Tasks(w.ctx, []task.ID{first.ID}); err != nil || !rows[0].ID.IsZero() {
			t.Errorf("a task row was written: %+v, %v", rows, err)
		}
		if !results[0].Done || first.State != task.Scheduled || first.Seq != orders[0].Task.Seq || first.Enqueued != w.clock.Now() {
			t.Errorf("%+v", results[0])
		}
		if w.visible() != 2 {
			t.Errorf("%d messages, want 2", w.visible())
		}
		old := w.waiting(3)
		w.time.Advance(task.UndispatchedMax)
		wantNone(t, w.Dispatch(w.ctx, []task.Order{old}))
		w.wantState(&old, task.Enqueued) // which has a brake
	})
}
