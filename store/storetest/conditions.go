package storetest

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func testWaitingConditions(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(10))
	f.refuse(put(store.DeleteWaiting, one))
	f.apply(put(store.PutWaiting, one))
	other := one
	other.Collection = "other"
	if c := f.conflict(put(store.PutWaiting, other)); c.Task == nil || !reflect.DeepEqual(*c.Task, one) {
		f.Errorf("conflict shows %+v, want the stored row", c.Task)
	}
	for _, elsewhere := range []task.Task{newTask(1, partA, at(11)), newTask(1, partB, at(10)), newTask(2, partA, at(10))} {
		f.refuse(put(store.DeleteWaiting, elsewhere))
		f.apply(put(store.PutWaiting, elsewhere))
	}
	later := one
	later.Seq = 2
	if c := f.conflict(put(store.DeleteWaiting, later)); c.Task == nil || !reflect.DeepEqual(*c.Task, one) {
		f.Errorf("conflict of a delete shows %+v, want the stored row", c.Task)
	}
	f.apply(put(store.DeleteWaiting, one))
	f.refuse(put(store.DeleteWaiting, one))
	f.apply(put(store.PutWaiting, other))
	if got := f.waiting(store.KeyOf(&one)); !reflect.DeepEqual(got, other) {
		f.Errorf("got %+v, want what was put last", got)
	}
}

// testReplaceWaiting checks the compare-and-set of waiting rows, and that a replaced one is deleted as
// fully as any other.
func testReplaceWaiting(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(10))
	two := acquired(one, "p1")
	if c := f.conflict(put(store.ReplaceWaiting, two)); c.Task != nil {
		f.Errorf("conflict over an absent row shows %+v", c.Task)
	}
	f.apply(put(store.PutTask, newTask(1, partA, at(10)))) // a task row of the same id is another row
	f.refuse(put(store.ReplaceWaiting, two))
	f.apply(put(store.PutWaiting, one))
	for _, elsewhere := range []task.Task{newTask(1, partA, at(11)), newTask(1, partB, at(10)), newTask(2, partA, at(10))} {
		f.refuse(put(store.ReplaceWaiting, acquired(elsewhere, "p1")))
	}
	f.refuse(put(store.ReplaceWaiting, one))
	f.refuse(put(store.ReplaceWaiting, acquired(two, "p2"))) // skips one
	f.apply(put(store.ReplaceWaiting, two))
	if c := f.conflict(put(store.ReplaceWaiting, two)); c.Task == nil || !reflect.DeepEqual(*c.Task, two) {
		f.Errorf("conflict shows %+v, want the stored row", c.Task)
	}
	if c := f.conflict(put(store.PutWaiting, one)); c.Task == nil || !reflect.DeepEqual(*c.Task, two) {
		f.Errorf("conflict of a put shows %+v, want the stored row", c.Task)
	}
	if c := f.conflict(put(store.DeleteWaiting, one)); c.Task == nil || c.Task.Seq != 2 {
		f.Errorf("conflict of a delete shows %+v, want seq 2", c.Task)
	}
	three := acquired(two, "p2")
	f.apply(put(store.ReplaceWaiting, three))
	rows := f.scan(partA, store.WaitingKey{}, forever, 10)
	if len(rows) != 1 || !reflect.DeepEqual(rows[0], three) || !reflect.DeepEqual(f.waiting(store.KeyOf(&one)), three) {
		f.Errorf("got %+v, want the row as it was replaced last", rows)
	}
	anySeq := three
	anySeq.Seq = 0
	f.apply(put(store.DeleteWaiting, anySeq))
	f.apply(put(store.PutWaiting, one), put(store.ReplaceWaiting, two), put(store.DeleteWaiting, two), put(store.PutWaiting, one), put(store.DeleteWaiting, one))
	if rows := f.scan(partA, store.WaitingKey{}, forever, 10); len(rows) != 0 || !f.waiting(store.KeyOf(&one)).ID.IsZero() {
		f.Errorf("deleted rows are back: %+v", rows)
	}
	if got := f.task(one.ID); got.State != task.Scheduled {
		f.Errorf("the task row is %+v", got)
	}
}

func testTaskConditions(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(10))
	if c := f.conflict(put(store.ReplaceTask, next(one, task.Enqueued, at(20)))); c.Task != nil {
		f.Errorf("conflict over an absent row shows %+v", c.Task)
	}
	f.apply(put(store.PutTask, one))
	if c := f.conflict(put(store.PutTask, one)); c.Task == nil || !reflect.DeepEqual(*c.Task, one) {
		f.Errorf("conflict shows %+v, want the stored row", c.Task)
	}
	two := next(one, task.Enqueued, at(20))
	f.apply(put(store.ReplaceTask, two))
	if c := f.conflict(put(store.ReplaceTask, two)); c.Task == nil || c.Task.Seq != 2 {
		f.Errorf("conflict shows %+v, want seq 2", c.Task)
	}
	f.refuse(put(store.ReplaceTask, one))
	skipped := next(next(two, task.Claimed, at(30)), task.Processing, at(30))
	f.refuse(put(store.ReplaceTask, skipped))
	if got := f.task(one.ID); !reflect.DeepEqual(got, two) {
		f.Errorf("got %+v, want %+v", got, two)
	}
}

func testPayloadConditions(_ *testing.T, f *fixture) {
	one, two := newTask(1, partA, at(1)), newTask(2, partA, at(1))
	f.apply(store.Op{Kind: store.DeletePayload, Task: one}) // absent is fine
	large := bytes.Repeat([]byte("0123456789abcdef"), 256<<10/16)
	f.apply(store.Op{Kind: store.PutPayload, Task: one, Payload: large})
	f.refuse(store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("x")})
	f.apply(store.Op{Kind: store.PutPayload, Task: two, Payload: []byte{0}})
	if got, err := f.d.Payload(f.Context(), one.ID); err != nil || !bytes.Equal(got, large) {
		f.Errorf("got %d bytes, %v", len(got), err)
	}
	f.apply(store.Op{Kind: store.DeletePayload, Task: one})
	if _, err := f.d.Payload(f.Context(), one.ID); !errors.Is(err, store.ErrNotFound) {
		f.Errorf("deleted payload: %v, want ErrNotFound", err)
	}
	if got, err := f.d.Payload(f.Context(), two.ID); err != nil || !bytes.Equal(got, []byte{0}) {
		f.Errorf("got %v, %v", got, err)
	}
	f.apply(store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("again")})
}

func testControlConditions(_ *testing.T, f *fixture) {
	row := func(version uint64, value string) store.Control {
		return store.Control{Kind: "gate", Name: "n", Version: version, Value: []byte(value)}
	}
	putRow := func(c store.Control) store.Op { return store.Op{Kind: store.PutControl, Control: c} }
	deleteRow := func(c store.Control) store.Op { return store.Op{Kind: store.DeleteControl, Control: c} }
	if c := f.conflict(putRow(row(2, "b"))); c.Control != nil {
		f.Errorf("conflict over an absent row shows %+v", c.Control)
	}
	f.refuse(deleteRow(row(1, "")))
	f.apply(putRow(row(1, "a")))
	if c := f.conflict(putRow(row(1, "b"))); c.Control == nil || !reflect.DeepEqual(*c.Control, row(1, "a")) {
		f.Errorf("conflict shows %+v, want the stored row", c.Control)
	}
	f.refuse(putRow(row(3, "c")))
	f.apply(putRow(row(2, "b")))
	if c := f.conflict(deleteRow(row(1, ""))); c.Control == nil || c.Control.Version != 2 {
		f.Errorf("conflict shows %+v, want version 2", c.Control)
	}
	f.apply(deleteRow(row(2, "")))
	f.apply(putRow(row(1, "anew")))
}

func testEveryFieldComesBack(_ *testing.T, f *fixture) {
	running := full(1, partA)
	apart := full(2, partC)
	apart.Payload, apart.PayloadSize = nil, 5000
	over := full(3, partB)
	over = ended(over, task.Dead, at(9), at(900))
	for _, want := range []task.Task{running, apart, over} {
		f.apply(put(store.PutTask, want))
		if got := f.task(want.ID); !reflect.DeepEqual(got, want) {
			f.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if got := f.task(apart.ID); !got.PayloadStoredApart() {
		f.Error("a payload stored apart came back as an inline one")
	}
	waiting := newTask(4, partA, at(3))
	waiting.Collection, waiting.Overrides.MaxAttempts = "c", 7
	f.apply(put(store.PutWaiting, waiting))
	if got := f.waiting(store.KeyOf(&waiting)); !reflect.DeepEqual(got, waiting) {
		f.Errorf("got  %+v\nwant %+v", got, waiting)
	}
}

func testMissingRows(_ *testing.T, f *fixture) {
	one := newTask(2, partA, at(1))
	f.apply(put(store.PutTask, one), put(store.PutWaiting, one))
	rows, err := f.d.Tasks(f.Context(), []task.ID{idOf(1), idOf(2), idOf(3), idOf(2)})
	if err != nil || len(rows) != 4 {
		f.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, want := range []bool{false, true, false, true} {
		if rows[i].ID.IsZero() == want {
			f.Errorf("row %d: %v", i, rows[i].ID)
		}
	}
	miss := store.WaitingKey{Partition: partB, Due: at(1), ID: one.ID}
	rows, err = f.d.Waiting(f.Context(), []store.WaitingKey{miss, store.KeyOf(&one)})
	if err != nil || len(rows) != 2 || !rows[0].ID.IsZero() || rows[1].ID != one.ID {
		f.Errorf("%v, %v", ids(rows), err)
	}
	if rows, err = f.d.Tasks(f.Context(), nil); err != nil || len(rows) != 0 {
		f.Errorf("nothing asked: %v, %v", rows, err)
	}
}

func testReturnedValuesAreOwned(_ *testing.T, f *fixture) {
	want := full(1, partA)
	f.apply(put(store.PutTask, want))
	got := f.task(want.ID)
	got.History[0].Error = "overwritten"
	_ = append(got.History[:1], task.Attempt{})
	if again := f.task(want.ID); !reflect.DeepEqual(again, want) {
		f.Error("writing to a returned history changed the stored row")
	}
	value := []byte("value")
	f.apply(store.Op{Kind: store.PutControl, Control: store.Control{Kind: "k", Name: "n", Version: 1, Value: value}})
	value[0] = 'X'
	for range 2 {
		rows, err := f.d.Controls(f.Context(), "k", "n")
		if err != nil || len(rows) != 1 || string(rows[0].Value) != "value" {
			f.Fatalf("%+v, %v", rows, err)
		}
		rows[0].Value[0] = 'Y'
	}
}

// testOneKeyInOneCall applies a whole life in one call: each op sees the one before it.
func testOneKeyInOneCall(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(1))
	two := next(one, task.Enqueued, at(9))
	three := next(two, task.Claimed, at(9))
	over := ended(three, task.Success, at(5), at(100))
	f.apply(
		put(store.PutWaiting, one), put(store.PutTask, one), put(store.ReplaceTask, two), put(store.DeleteWaiting, one),
		store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("p")}, store.Op{Kind: store.DeletePayload, Task: one},
		put(store.PutWaiting, one), put(store.ReplaceTask, three), put(store.ReplaceTask, over), put(store.DeleteWaiting, one),
		store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("p")},
	)
	if got := f.task(one.ID); !reflect.DeepEqual(got, over) {
		f.Errorf("got %+v", got)
	}
	results := f.try(put(store.PutWaiting, one), put(store.PutWaiting, one), put(store.DeleteWaiting, one), put(store.DeleteWaiting, one))
	for i, want := range []bool{true, false, true, false} {
		if (results[i] == nil) != want {
			f.Errorf("op %d: %v", i, results[i])
		}
	}
}

func testEachOpIsAtomicByItself(_ *testing.T, f *fixture) {
	one, two, three := newTask(1, partA, at(1)), newTask(2, partA, at(2)), newTask(3, partA, at(3))
	f.apply(put(store.PutTask, two))
	results := f.try(put(store.PutTask, one), put(store.PutTask, two), put(store.PutTask, three))
	if results[0] != nil || !errors.Is(results[1], store.ErrConflict) || results[2] != nil {
		f.Errorf("got %v, want only the second refused", results)
	}
	if f.task(one.ID).ID.IsZero() || f.task(three.ID).ID.IsZero() {
		f.Error("a row beside a refused one is missing")
	}
}

func testLargeCalls(_ *testing.T, f *fixture) {
	ops := make([]store.Op, store.ApplyMax)
	keys := make([]task.ID, len(ops))
	for i := range ops {
		keys[i] = idOf(i + 1)
		ops[i] = put(store.PutTask, newTask(i+1, partA, at(i+1)))
	}
	f.apply(ops...)
	rows, err := f.d.Tasks(f.Context(), keys)
	if err != nil {
		f.Fatal(err)
	}
	for i := range rows {
		if rows[i].ID != keys[i] {
			f.Fatalf("row %d: %v", i, rows[i].ID)
		}
	}
	var large []store.Op
	for i := range 32 {
		large = append(large, store.Op{Kind: store.PutPayload, Task: newTask(i+1, partA, at(1)), Payload: bytes.Repeat([]byte{byte(i)}, 128<<10)})
	}
	f.apply(large...)
	if got, err := f.d.Payload(f.Context(), idOf(32)); err != nil || len(got) != 128<<10 || got[5] != 31 {
		f.Errorf("got %d bytes, %v", len(got), err)
	}
}

func testLazyWritesAreSeen(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(1))
	lazy := func(op store.Op) store.Op { op.Lazy = true; return op }
	f.apply(lazy(put(store.PutWaiting, one)), lazy(put(store.PutTask, one)))
	if f.waiting(store.KeyOf(&one)).ID != one.ID || f.task(one.ID).ID != one.ID {
		f.Error("a lazy put is not seen")
	}
	f.refuse(lazy(put(store.PutTask, one)))
	f.apply(lazy(put(store.DeleteWaiting, one)), put(store.ReplaceTask, next(one, task.Enqueued, at(2))))
	if !f.waiting(store.KeyOf(&one)).ID.IsZero() {
		f.Error("a lazy delete is not seen")
	}
}

func testEndedContext(_ *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	if _, err := f.d.Tasks(ctx, []task.ID{idOf(1)}); !errors.Is(err, context.Canceled) {
		f.Errorf("read with an ended context: %v", err)
	}
	if _, err := f.d.Apply(ctx, []store.Op{put(store.PutTask, newTask(1, partA, at(1)))}); !errors.Is(err, context.Canceled) {
		f.Errorf("write with an ended context: %v", err)
	}
}
