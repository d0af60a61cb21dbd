package inbound_test

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
	f     *fixture
	free  int
	given []*slot
}

// slot is the slot of a worker; over tells how it was settled.
type slot struct {
	*workers

	over []error
	task task.Task
	told bool // the scheduler knew of the task by then
}

func (*workers) IsIdle(time.Duration) bool { return true }

func (m *workers) Reserve(*catalog.Entry) dispatcher.Slot {
	if m.free == 0 {
		return nil
	}
	m.free--
	s := &slot{workers: m}
	m.given = append(m.given, s)
	return s
}

func (*slot) Worker() string       { return "w" }
func (*slot) Lease() time.Duration { return time.Minute }

func (s *slot) Settle(claimed *task.Task, outcome error) {
	s.over, s.task, s.told = append(s.over, outcome), *claimed, slices.Contains(s.f.sent, claimed.ID)
}

// runMatched is run with workers that have so many slots.
func runMatched(t *testing.T, free int, test func(f *fixture, m *workers)) {
	t.Helper()
	m := &workers{free: free}
	runWith(t, func(f *fixture, c *settings) {
		m.f, c.Start.Register = f, &dispatcher.Register{}
		c.Start.Register.Add("mail", m)
	}, func(f *fixture) {
		test(f, m)
		for _, s := range m.given {
			if len(s.over) != 1 {
				t.Errorf("a slot was settled %d times", len(s.over))
			}
		}
	})
}

func TestATaskThatIsDueGoesToAWorkerThatWaits(t *testing.T) {
	for _, key := range []string{"", "k"} {
		runMatched(t, 1, func(f *fixture, m *workers) {
			id := f.accept(with(in(0), func(i *item) { i.Key = key }))
			row := f.row(id)
			if row.State != task.Claimed || row.Attempt != 1 || row.Worker != "w" || f.messages() != 0 {
				t.Errorf("%+v; %d messages", row, f.messages())
			}
			if wakeups := f.wakeupRows(); len(wakeups) != 1 || wakeups[0].State != task.Claimed || wakeups[0].WakeRow != row.WakeRow {
				t.Errorf("wake-up rows %+v", wakeups)
			}
			if s := m.given[0]; s.over[0] != nil || !s.told || s.task.ID != row.ID || s.task.WakeRow != row.WakeRow || len(f.awake)+len(f.added) != 0 || len(f.sent) != 1 {
				t.Errorf("slot %+v; told %v, %v, %v", s, f.awake, f.added, f.sent)
			}
			if got := f.get(id).Task; got.State != "claimed" || f.accepted != 1 {
				t.Errorf("reported as %s; %d accepted", got.State, f.accepted)
			}
			f.finish(id, task.OutcomeSuccess)
		})
	}
}

func TestASlotIsGivenBackWhenTheTaskIsNotNew(t *testing.T) {
	again := with(in(0), func(i *item) { i.RequestId = uuid7(1) })
	keyed := with(in(0), func(i *item) { i.Key = "k" })
	for _, one := range []*item{again, keyed} {
		runMatched(t, 3, func(f *fixture, m *workers) {
			results := f.schedule(one, one)
			results = append(results, f.schedule(one)...)
			if results[0].Duplicate || !results[1].Duplicate || !results[2].Duplicate || results[0].Id != results[2].Id {
				t.Errorf("results %v", results)
			}
			if len(m.given) != 3 || m.given[0].over[0] != nil {
				t.Fatalf("%d slots given", len(m.given))
			}
			for _, s := range m.given[1:] {
				if s.over[0] == nil || errors.Is(s.over[0], store.ErrUnknown) {
					t.Errorf("settled with %v", s.over[0])
				}
			}
			if row := f.row(results[0].Id); row.State != task.Claimed || row.Attempt != 1 || f.messages() != 0 {
				t.Errorf("%+v; %d messages", row, f.messages())
			}
		})
	}
}

// The slot is settled whether the writes are applied or not, and the task goes to the worker only if its row
// is stored.
func TestASlotIsSettledWhateverFails(t *testing.T) {
	for _, kind := range []store.OpKind{store.PutWakeup, store.PutTask} {
		for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
			for _, reads := range []int{0, 1000} {
				runMatched(t, 1, func(f *fixture, m *workers) {
					f.driver.Fail(kind, 1, 1, how)
					f.driver.FailReads(reads)
					f.during(time.Minute, func() { f.schedule(in(0)) })
					f.driver.FailReads(0)
					s := m.given[0]
					if stored := s.over[0] == nil; stored != (reads == 0) {
						t.Errorf("kind %d, fault %d, %d reads fail: settled with %v", kind, how, reads, s.over[0])
					}
					if s.over[0] != nil && !errors.Is(s.over[0], store.ErrUnknown) {
						t.Errorf("kind %d, fault %d: %v is said of what may be stored", kind, how, s.over[0])
					}
				})
			}
		}
	}
}

func TestALargePayloadThatIsNotStoredGivesTheSlotBack(t *testing.T) {
	runMatched(t, 1, func(f *fixture, m *workers) {
		f.driver.Fail(store.PutPayload, 1, 1, storetest.NotApplied)
		f.driver.FailReads(1000)
		f.during(time.Minute, func() { f.schedule(with(in(0), func(i *item) { i.Payload = make([]byte, 100) })) })
		f.driver.FailReads(0)
		if s := m.given[0]; !errors.Is(s.over[0], store.ErrSkipped) || len(f.wakeupRows()) != 0 {
			t.Errorf("settled with %v", s.over[0])
		}
	})
}

// A key that was cancelled and is taken again for the same moment is another task: what is left of the first
// is no harm.
func TestAKeyIsMatchedAgain(t *testing.T) {
	runMatched(t, 2, func(f *fixture, m *workers) {
		one := with(in(0), func(i *item) { i.Key = "k" })
		id := f.accept(one)
		f.finish(id, task.OutcomeSuccess)
		if r := f.schedule(one)[0]; !r.Duplicate || m.given[1].over[0] == nil {
			t.Errorf("%v, settled with %v", r, m.given[1].over)
		}
		if rows := f.wakeupRows(); len(rows) != 0 {
			t.Errorf("wake-up rows %+v of a task that has ended", rows)
		}
	})
}
