package store_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// events are all kinds, as they come to a task at attempt 1 of worker w; those that a state refuses are
// passed over.
func events(of *task.Task) []task.Event {
	all := []task.Event{
		{Kind: task.Enqueue, By: "p"},
		{Kind: task.Claim, Seq: of.Seq, Worker: "w"},
		{Kind: task.Start, Worker: "w", Attempt: 1, Started: 1500},
		{Kind: task.WorkerLost, Worker: "w", Attempt: 1},
		{Kind: task.Unconfirmed, Worker: "w", Attempt: 1},
		{Kind: task.Cancel},
		{Kind: task.Drop},
		{Kind: task.Acquire, Worker: "p"},
		{Kind: task.HandOver},
		{Kind: task.Match, Worker: "w", Lease: 100},
	}
	for o := task.OutcomeSuccess; o <= task.OutcomeCancelled; o++ {
		all = append(all, task.Event{Kind: task.Finish, Worker: "w", Attempt: 1, Outcome: o, Delay: 7})
	}
	return all
}

// TestALazyWriteMayBeLost makes every transition of the state machine, for a task that is a wake-up row alone
// and for one with a task row, with the writes of the roles, and lets a crash undo the lazy ones. Everything
// that a caller was told must be there, and every live task must have a wake-up row. An acquisition may be
// undone.
func TestALazyWriteMayBeLost(t *testing.T) {
	taken := map[task.State]int{}
	for _, first := range []bool{true, false} {
		for _, before := range standings() {
			state := before.State
			for _, e := range events(&before) {
				next, _, err := before.Apply(e, 2000, task.Policy{MaxAttempts: 3})
				if err != nil || (first && state != task.Scheduled) {
					continue
				}
				for name, ops := range writesOf(&before, next, e, first) {
					taken[next.State]++
					t.Run(fmt.Sprintf("%s/first=%v/%s", name, first, e.Kind), func(t *testing.T) { checkLossOfLazy(t, &before, &next, ops, first) })
				}
			}
		}
	}
	for _, s := range task.States() {
		if taken[s] == 0 {
			t.Errorf("no transition to %s was tried", s)
		}
	}
}

// standings are a task in every state, and one whose time to start is over in those in which that matters.
func standings() (all []task.Task) {
	for _, state := range task.States() {
		one := inState(state)
		if state == task.Processing {
			one.Failures = 2 // of 3
		}
		all = append(all, one)
	}
	for _, state := range []task.State{task.Scheduled, task.Enqueued, task.Claimed} {
		one := inState(state)
		one.StartBefore = 1900
		all = append(all, one)
	}
	return all
}

func inState(s task.State) task.Task {
	one := scheduled(1)
	one.State, one.Seq = s, 5
	switch {
	case s.IsRunning():
		one.Attempt, one.Worker = 1, "w"
	case s == task.Acquired:
		one.Worker, one.Key = "q", "k"
	case s.IsEnd():
		one.Wake, one.Ended, one.ExpireAt = 0, 1500, 9000
	}
	return one
}

// writesOf returns the lists of writes by which the roles make the transition.
func writesOf(before *task.Task, next task.Task, e task.Event, first bool) map[string][]store.Op {
	keyed := next
	keyed.Key = "k"
	switch {
	case e.Kind == task.Acquire && first:
		return map[string][]store.Op{"alone": {store.Acquire(next, true)}, "keyed": {store.Acquire(keyed, true)}}
	case e.Kind == task.Acquire:
		return map[string][]store.Op{"again": {store.Acquire(next, false)}}
	case first && next.State.IsEnd():
		return map[string][]store.Op{"waiting": store.EndWaiting(next, before), "undelivered": store.EndUndelivered(next, before)}
	case first:
		return map[string][]store.Op{"new": store.FirstWithRow(next)}
	}
	return map[string][]store.Op{
		"in place": store.Change(next, false, false), "moved": store.Change(next, true, false), "patient": store.Change(next, true, true),
	}
}

func checkLossOfLazy(t *testing.T, before, next *task.Task, ops []store.Op, first bool) {
	t.Helper()
	s := store.New(mem.New(), store.Config{})
	isNew := ops[0].New
	if !isNew {
		mustApply(t, s, store.Op{Kind: store.PutWakeup, Task: wakeupOf(before, first)})
	}
	if !first {
		mustApply(t, s, store.Op{Kind: store.PutTask, Task: *before})
	}
	var kept []store.Op
	for _, op := range ops {
		if !op.Lazy {
			kept = append(kept, op)
		}
	}
	mustApply(t, s, kept...)
	row := read(t, s, next.ID)
	switch {
	case next.State == task.Acquired: // may be forgotten: nobody was told
		if (!row.ID.IsZero() && row.State != before.State) || row.Seq > before.Seq {
			t.Errorf("got row %+v, want that of before", row)
		}
	case row.State != next.State || row.Seq != next.Seq:
		t.Errorf("got %s at seq %d, want %s at seq %d: the writes were %+v", row.State, row.Seq, next.State, next.Seq, ops)
	}
	wake, isLive := row.WakeRow, !row.State.IsEnd()
	if row.ID.IsZero() {
		wake = before.WakeRow
	}
	wakeups, err := s.Wakeups(t.Context(), []store.WakeKey{{Partition: next.Partition, Wake: wake.At, ID: next.ID}})
	if err != nil || (isLive && wakeups[0].ID.IsZero()) {
		t.Errorf("a live task has no wake-up row (%v): the writes were %+v", err, ops)
	}
}

// wakeupOf returns the wake-up row of a task: the task itself, or only its id once it has a task row.
func wakeupOf(of *task.Task, first bool) task.Task {
	if first {
		one := *of
		one.Seq, one.WakeRow.Seq = 1, 1
		return one
	}
	row := task.Task{ID: of.ID, Partition: of.Partition, Seq: of.WakeRow.Seq, Wake: of.WakeRow.At, WakeRow: of.WakeRow}
	return row
}

func mustApply(t *testing.T, s *store.Store, ops ...store.Op) {
	t.Helper()
	results, err := s.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r != nil {
			t.Fatalf("write %d of %+v: %v", i, ops, r)
		}
	}
}

func read(t *testing.T, s *store.Store, id task.ID) task.Task {
	t.Helper()
	rows, err := s.Tasks(t.Context(), []task.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	return rows[0]
}

// TestWhatEndsADeliveryIsDurable checks that the two removals without a task row are durable, and that a
// payload is deleted lazily.
func TestWhatEndsADeliveryIsDurable(t *testing.T) {
	one := scheduled(1)
	gone := task.Task{ID: one.ID, Partition: one.Partition, WakeRow: one.WakeRow}
	if got, want := store.RemoveLast(&one), (store.Op{Kind: store.DeleteWakeup, Task: gone}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	gone.WakeRow.Seq = 0
	if got, want := store.RemoveDelivered(&one), (store.Op{Kind: store.DeleteWakeup, Task: gone, Patient: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := store.ForgetPayload(&one), (store.Op{Kind: store.DeletePayload, Task: task.Task{ID: one.ID}, Lazy: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
