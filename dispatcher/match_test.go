package dispatcher_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// workers have some slots that wait.
type workers struct {
	free, asked int
	given       []*slot
}

// slot is one of them; over says how it was settled.
type slot struct {
	*workers

	over []error
	task task.Task
}

func (*workers) IsIdle(time.Duration) bool { return true }

func (m *workers) Reserve(*catalog.Entry) dispatcher.Slot {
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
		w.Register = &dispatcher.Register{}
		w.Register.Add("mail", m)
		test(w, m)
		for _, s := range m.given {
			if len(s.over) != 1 {
				t.Errorf("a slot was settled %d times", len(s.over))
			}
		}
	})
}

// TestGroupsTakeTurns has more groups of slots than are looked at for one task.
func TestGroupsTakeTurns(t *testing.T) {
	r, l, groups := &dispatcher.Register{}, lambdas{}.ByRef(7), make([]workers, 100)
	for i := range groups {
		r.Add(l.Name, &groups[i])
	}
	asked := func() (total int) {
		for i := range groups {
			total += groups[i].asked
		}
		return total
	}
	if slot := r.Match(l, 0); slot != nil || asked() != 64 {
		t.Errorf("slot %v after %d looks, want none after 64", slot, asked())
	}
	for range groups {
		r.Match(l, 0)
	}
	for i := range groups {
		if n := groups[i].asked; n < 64 || n > 65 {
			t.Errorf("group %d was asked %d times, want as often as the others", i, n)
		}
		if i > 0 {
			r.Remove(l.Name, &groups[i])
		}
	}
	if groups[0].free = 1; r.Match(l, 0) == nil {
		t.Error("no slot of the group that was not removed")
	}
}

func TestWhatIsMatchedIsClaimedInOneWrite(t *testing.T) {
	inWorldWith(t, 2, func(w *world, m *workers) {
		orders := []task.Order{w.waiting(1), w.retriable(2), w.retriable(3), w.retriable(4)}
		results := w.Dispatch(w.ctx, orders)
		wantNone(t, results)
		for i, want := range []task.State{task.Claimed, task.Claimed, task.Enqueued, task.Enqueued} {
			w.wantState(&orders[i], want)
			if r := results[i]; !r.Done || r.Task.State != want {
				t.Errorf("order %d: %+v", i, r)
			}
		}
		if w.visible() != 2 || w.wakeups() != 1 || m.asked != 3 {
			t.Errorf("%d messages, %d wake-up rows, asked %d times; want 2, 1, and 3: what is behind a task that is queued is queued", w.visible(), w.wakeups(), m.asked)
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
	for name, prepare := range map[string]func(w *world, o *task.Order){
		"one before a task of a higher priority": func(_ *world, o *task.Order) { o.InTurn = true },
		"a suspect":                              func(_ *world, o *task.Order) { o.Task.Suspect = true },
		"one that is enqueued, again":            func(w *world, o *task.Order) { o.Task = w.Dispatch(w.ctx, []task.Order{*o})[0].Task },
	} {
		t.Run(name, func(t *testing.T) {
			inWorldWith(t, 0, func(w *world, m *workers) {
				o := w.retriable(1)
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

// TestHowATaskStarts has three tasks of a round start, of which the first gets the only slot. Another slot is
// free after the second, which the third must not take.
func TestHowATaskStarts(t *testing.T) {
	const notHere, started, queued, first = dispatcher.NotHere, dispatcher.Started, dispatcher.Queued, dispatcher.MessageFirst
	for name, c := range map[string]struct {
		from   dispatcher.From
		change func(w *world, t *task.Task)
		want   [3]dispatcher.Answer
	}{
		"by its owner":                      {from: dispatcher.Owner, want: [3]dispatcher.Answer{started, first, first}},
		"by its owner, of a counted lambda": {from: dispatcher.Owner, change: counted, want: [3]dispatcher.Answer{started, first, first}},
		"by its owner, too late":            {from: dispatcher.Owner, change: tooLate, want: [3]dispatcher.Answer{queued, queued, queued}}, // which ends it
		"near":                              {from: dispatcher.Near, want: [3]dispatcher.Answer{started, queued, queued}},
		"near, of a counted lambda":         {from: dispatcher.Near, change: counted},
		"near, too late":                    {from: dispatcher.Near, change: tooLate},
		"near, of an unknown lambda":        {from: dispatcher.Near, change: func(_ *world, t *task.Task) { t.Partition.Lambda = 8 }},
		"near, with room for two":           {from: dispatcher.Near, change: func(w *world, _ *task.Task) { w.NearDepthMax = 2 }, want: [3]dispatcher.Answer{started, queued, notHere}},
		"near, of a queue that is away":     {from: dispatcher.Near, change: unanswered},
		"a follow-up":                       {from: dispatcher.Followup, want: [3]dispatcher.Answer{started, notHere, started}}, // no other task waits
		"a follow-up of a counted lambda":   {from: dispatcher.Followup, change: counted},
		"a follow-up, too late":             {from: dispatcher.Followup, change: tooLate},
		"a follow-up, others wait":          {from: dispatcher.Followup, change: behindOthers},
	} {
		t.Run(name, func(t *testing.T) {
			inWorldWith(t, 1, func(w *world, m *workers) {
				round := w.Begin(w.clock.Now())
				for i, want := range c.want {
					o := w.waiting(uint64(i) + 1)
					if c.change != nil {
						c.change(w, &o.Task)
					}
					s, _, err := round.Start(w.ctx, &o, c.from)
					if err != nil || s.Answer != want {
						t.Errorf("task %d: %v, %v, want %v", i, s.Answer, err, want)
					}
					w.Settle(&s, &o.Task, store.ErrConflict)
					m.free = i
				}
			})
		})
	}
}

func counted(w *world, _ *task.Task) { w.Counted = func(uint32) bool { return true } }

func unanswered(w *world, _ *task.Task) {
	w.Queue = &service{tracedQueue: tracedQueue{w.queue, w.trace}, fails: errors.New("no answer")}
}

func behindOthers(w *world, t *task.Task) {
	w.Send(w.ctx, []task.Task{*t})
	w.time.Advance(time.Second)
}

func tooLate(w *world, t *task.Task) { t.StartBefore = w.clock.Now() }

// The scheduler hears of a task that is in flight before its worker gets it, and so before its end. It knows of
// those that it started itself, and is told of no task that is not stored.
func TestTheSchedulerHearsFirst(t *testing.T) {
	for _, from := range []dispatcher.From{dispatcher.Owner, dispatcher.Near, dispatcher.Followup} {
		for _, outcome := range []error{nil, store.ErrConflict} {
			inWorldWith(t, 1, func(w *world, m *workers) {
				told := 0
				w.Enqueued = func(*task.Task) {
					if told++; len(m.given[0].over) > 0 {
						t.Error("told after the worker")
					}
				}
				round, o := w.Begin(w.clock.Now()), w.waiting(1)
				s, next, err := round.Start(w.ctx, &o, from)
				if err != nil {
					t.Fatal(err)
				}
				w.Settle(&s, &next, outcome)
				w.Settle(&s, &next, store.ErrSkipped) // it is settled already
				if tells := from != dispatcher.Owner && outcome == nil; told != map[bool]int{true: 1}[tells] || !errors.Is(m.given[0].over[0], outcome) {
					t.Errorf("from %d, outcome %v: told %d times, slot settled with %v", from, outcome, told, m.given[0].over)
				}
			})
		}
	}
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
		m.free = 1
		if again := w.Dispatch(w.ctx, []task.Order{unknown})[0]; again.Err != nil || again.Done || again.Task.State != task.Claimed || again.Task.Worker != "w1" {
			t.Errorf("tried again: %+v", again)
		}
	})
}

// Where the queue is in memory and a worker of this process serves the lambda, the claim writes the first
// task row.
func TestAMessageIsSentBeforeTheFirstRow(t *testing.T) {
	inWorldWith(t, 0, func(w *world, _ *workers) {
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
		occurrence := w.waiting(4)
		occurrence.Task.Occurrence = &task.Occurrence{Cron: "c"}
		wantNone(t, w.Dispatch(w.ctx, []task.Order{occurrence}))
		w.wantState(&occurrence, task.Enqueued) // its row says what ran
		old := w.waiting(3)
		w.time.Advance(task.UndispatchedMax)
		wantNone(t, w.Dispatch(w.ctx, []task.Order{old}))
		w.wantState(&old, task.Enqueued) // which has a brake
	})
}
