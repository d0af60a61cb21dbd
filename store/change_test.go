package store_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func kinds(ops []store.Op) []store.OpKind {
	of := make([]store.OpKind, len(ops))
	for i := range ops {
		of[i] = ops[i].Kind
	}
	return of
}

func TestFirst(t *testing.T) {
	one := scheduled(1)
	one.Wake, one.WakeRow = 0, task.WakeRow{}
	ops := store.First(one)
	if want := scheduled(1); len(ops) != 1 || ops[0].Kind != store.PutWakeup || !ops[0].New || ops[0].Lazy || !reflect.DeepEqual(ops[0].Task, want) {
		t.Errorf("got %+v, want the put of %+v", ops, want)
	}
}

func TestFirstWithRow(t *testing.T) {
	one := scheduled(1)
	one.WakeRow = task.WakeRow{}
	next, _, err := one.Apply(task.Event{Kind: task.Enqueue, By: "p"}, 500, task.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	ops := store.FirstWithRow(next)
	if got := kinds(ops); !reflect.DeepEqual(got, []store.OpKind{store.PutWakeup, store.PutTask}) {
		t.Fatalf("got %v", got)
	}
	next.WakeRow = task.WakeRow{At: 1000, Seq: 1}
	for i := range ops {
		if !reflect.DeepEqual(ops[i].Task, next) || !ops[i].New || ops[i].Lazy || ops[i].Follows != (i == 1) {
			t.Errorf("op %d: %+v", i, ops[i])
		}
	}
}

// TestChange checks the writes of an end, of a move and of a change in place.
func TestChange(t *testing.T) {
	old := task.WakeRow{At: 1000, Seq: 1}
	live := scheduled(1)
	live.State, live.Seq, live.Wake, live.Payload, live.PayloadSize = task.RetriableFailure, 4, 9000, []byte("p"), 1
	over := live
	over.State, over.Wake, over.Ended, over.ExpireAt = task.Success, 0, 9000, 9999
	there := live
	there.Wake = old.At
	bare := task.Task{ID: live.ID, Partition: live.Partition, Seq: 4, Wake: 9000, WakeRow: task.WakeRow{At: 9000, Seq: 4}}
	moved := live
	moved.WakeRow = bare.WakeRow
	gone := task.Task{ID: live.ID, Partition: live.Partition, WakeRow: old}
	remove := store.Op{Kind: store.DeleteWakeup, Task: gone, Lazy: true, Follows: true}
	for name, c := range map[string]struct {
		next    task.Task
		move    bool
		patient bool
		want    []store.Op
	}{
		"in place":            {live, false, true, []store.Op{{Kind: store.ReplaceTask, Task: live, Patient: true}}},
		"to where the row is": {there, true, false, []store.Op{{Kind: store.ReplaceTask, Task: there}}},
		"an end":              {over, true, true, []store.Op{{Kind: store.ReplaceTask, Task: over, Patient: true}, remove}},
		"a move": {live, true, true, []store.Op{
			{Kind: store.PutWakeup, Task: bare, Patient: true}, {Kind: store.ReplaceTask, Task: moved, Patient: true, Follows: true}, remove,
		}},
	} {
		if got := store.Change(c.next, c.move, c.patient); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
		}
	}
	if got := store.Remove(&live); !reflect.DeepEqual(got, store.Op{Kind: store.DeleteWakeup, Task: gone, Lazy: true}) {
		t.Errorf("got %+v", got)
	}
}

// TestChangesKeepOneWakeupRow leads a task through its life and checks that after each change exactly the
// wake-up row that its task row names is there, and none after its end.
func TestChangesKeepOneWakeupRow(t *testing.T) {
	s := store.New(mem.New(), store.Config{})
	now := task.Instant(2000)
	apply := func(ops []store.Op) {
		t.Helper()
		results, err := s.Apply(t.Context(), ops)
		for i := range results {
			if err != nil || results[i] != nil {
				t.Fatalf("op %d: %v, %v", i, results, err)
			}
		}
	}
	current := scheduled(1)
	apply(store.First(current))
	policy := task.Policy{MaxAttempts: 3, BackoffMin: time.Hour, BackoffMax: time.Hour, Retention: time.Hour}
	step := func(move bool, e task.Event) {
		t.Helper()
		e.Seq, e.Attempt = current.Seq, current.Attempt
		next, _, err := current.Apply(e, now, policy)
		if err != nil {
			t.Fatal(err)
		}
		ops := store.Change(next, move, false)
		if current.State == task.Scheduled && current.Attempt == 0 {
			ops = []store.Op{{Kind: store.PutTask, Task: next}}
		}
		apply(ops)
		if current, err = s.Task(t.Context(), next.ID); err != nil {
			t.Fatal(err)
		}
		rows, err := s.ScanSchedule(t.Context(), current.Partition, store.WakeKey{}, 1<<62, 10)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case current.State.IsEnd():
			if len(rows) != 0 {
				t.Errorf("after %s: wake-up rows %+v", e.Kind, rows)
			}
		case len(rows) != 1 || rows[0].WakeRow != current.WakeRow || rows[0].ID != current.ID:
			t.Errorf("after %s: wake-up rows %+v, the task row names %+v", e.Kind, rows, current.WakeRow)
		}
		if moved := current.WakeRow.At == current.Wake && current.WakeRow.Seq == current.Seq; moved != (move && !current.State.IsEnd()) {
			t.Errorf("after %s: the wake-up row is %+v of seq %d, wake-up %d", e.Kind, current.WakeRow, current.Seq, current.Wake)
		}
	}
	step(false, task.Event{Kind: task.Enqueue, By: "p"})
	step(false, task.Event{Kind: task.Claim, Worker: "w", Lease: time.Second})
	step(true, task.Event{Kind: task.Finish, Worker: "w", Outcome: task.OutcomeRetriable})
	step(false, task.Event{Kind: task.Enqueue, By: "p"})
	step(false, task.Event{Kind: task.Claim, Worker: "w", Lease: time.Second})
	step(false, task.Event{Kind: task.Finish, Worker: "w", Outcome: task.OutcomeSuccess})
}
