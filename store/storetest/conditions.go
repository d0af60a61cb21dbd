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

func testWakeupConditions(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(10))
	f.refuse(put(store.DeleteWakeup, one))
	f.apply(put(store.PutWakeup, one))
	other := one
	other.Collection = "other"
	f.conflictWith(put(store.PutWakeup, other), one)
	for _, elsewhere := range []task.Task{newTask(1, partA, at(11)), newTask(1, partB, at(10)), newTask(2, partA, at(10))} {
		f.refuse(put(store.DeleteWakeup, elsewhere))
		f.apply(put(store.PutWakeup, elsewhere))
	}
	f.conflictWith(put(store.DeleteWakeup, named(one, at(10), 2)), one)
	f.apply(put(store.DeleteWakeup, one))
	f.refuse(put(store.DeleteWakeup, one))
	f.apply(put(store.PutWakeup, other))
	if got := f.wakeup(one); !reflect.DeepEqual(got, other) {
		f.Errorf("got %+v, want what was put last", got)
	}
	late := other // what was due when it was stored has its row elsewhere than its due time
	late.Due = at(3)
	f.apply(put(store.PutWakeup, named(late, at(12), 1)))
	if got := f.wakeup(named(one, at(12), 0)); got.Due != at(3) || !f.wakeup(named(one, at(3), 0)).ID.IsZero() {
		f.Errorf("the row is not where it was put: %+v", got)
	}
}

// testWakeupSeqs checks that a put replaces only a row of an earlier change, and that a late delete does not
// remove a row that was put since, also when a task moves away and back.
func testWakeupSeqs(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(10))
	here := func(seq uint64) task.Task { return bare(one, at(10), seq) }
	f.apply(put(store.PutWakeup, one))
	f.refuse(put(store.PutWakeup, here(1)))
	f.apply(put(store.PutWakeup, bare(one, at(50), 3)), put(store.DeleteWakeup, one))
	f.apply(put(store.PutWakeup, here(4)), put(store.DeleteWakeup, bare(one, at(50), 3)))
	f.conflictWith(put(store.DeleteWakeup, one), here(4))
	for _, seq := range []uint64{1, 3, 4} {
		f.conflictWith(put(store.PutWakeup, here(seq)), here(4))
	}
	f.refuse(put(store.PutWakeup, one)) // a late duplicate of the first write
	f.apply(put(store.PutWakeup, here(7)))
	again := one
	again.Seq, again.State, again.Wake = 9, task.Enqueued, at(30)
	again.WakeRow.Seq = 8
	f.apply(put(store.PutWakeup, again))
	f.refuse(put(store.DeleteWakeup, here(7)))
	f.refuse(put(store.DeleteWakeup, here(9))) // the seq of the task is not that of the row
	if rows := f.scan(partA, store.WakeKey{}, forever, 10); len(rows) != 1 || !reflect.DeepEqual(rows[0], again) || !reflect.DeepEqual(f.wakeup(one), again) {
		f.Errorf("got %+v, want only the row that was put last", rows)
	}
	f.apply(put(store.DeleteWakeup, here(8)))
	if rows := f.scan(partA, store.WakeKey{}, forever, 10); len(rows) != 0 {
		f.Errorf("deleted rows are back: %+v", rows)
	}
}

// testReplaceWakeup checks the compare-and-set of wake-up rows, and that a replaced row can be deleted like
// any other.
func testReplaceWakeup(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(10))
	two := acquired(one, "p1")
	if c := f.conflict(put(store.ReplaceWakeup, two)); c.Task != nil {
		f.Errorf("conflict over an absent row shows %+v", c.Task)
	}
	f.apply(put(store.PutTask, newTask(1, partA, at(10)))) // a task row of the same id is another row
	f.refuse(put(store.ReplaceWakeup, two))
	f.apply(put(store.PutWakeup, one))
	for _, elsewhere := range []task.Task{newTask(1, partA, at(11)), newTask(1, partB, at(10)), newTask(2, partA, at(10))} {
		f.refuse(put(store.ReplaceWakeup, acquired(elsewhere, "p1")))
	}
	f.refuse(put(store.ReplaceWakeup, one))
	f.refuse(put(store.ReplaceWakeup, acquired(two, "p2"))) // skips one
	f.apply(put(store.ReplaceWakeup, two))
	f.conflictWith(put(store.ReplaceWakeup, two), two)
	f.conflictWith(put(store.PutWakeup, one), two)
	if c := f.conflict(put(store.DeleteWakeup, one)); c.Task == nil || c.Task.Seq != 2 {
		f.Errorf("conflict of a delete shows %+v, want seq 2", c.Task)
	}
	three := acquired(two, "p2")
	f.apply(put(store.ReplaceWakeup, three))
	rows := f.scan(partA, store.WakeKey{}, forever, 10)
	if len(rows) != 1 || !reflect.DeepEqual(rows[0], three) || !reflect.DeepEqual(f.wakeup(one), three) {
		f.Errorf("got %+v, want the row as it was replaced last", rows)
	}
	f.apply(put(store.DeleteWakeup, named(three, at(10), 0)))
	f.apply(put(store.PutWakeup, one), put(store.ReplaceWakeup, two), put(store.DeleteWakeup, two), put(store.PutWakeup, one), put(store.DeleteWakeup, one))
	if rows := f.scan(partA, store.WakeKey{}, forever, 10); len(rows) != 0 || !f.wakeup(one).ID.IsZero() {
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
	f.conflictWith(put(store.PutTask, one), one)
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
	enqueued := named(full(5, partA), at(5), 1)
	enqueued.State, enqueued.Seq, enqueued.Wake, enqueued.History = task.Enqueued, 2, at(20), nil
	claimed := named(full(6, partA), at(5), 1)
	claimed.State, claimed.Seq = task.Claimed, 3
	for _, want := range []task.Task{waiting, enqueued, claimed, bare(running, at(8), 1<<40)} {
		f.apply(put(store.PutWakeup, want))
		if got := f.wakeup(want); !reflect.DeepEqual(got, want) {
			f.Errorf("got  %+v\nwant %+v", got, want)
		}
		if rows := f.scan(partA, store.WakeKey{}, want.WakeRow.At, 10); !reflect.DeepEqual(rows[len(rows)-1], want) {
			f.Errorf("scan shows %+v\nwant %+v", rows[len(rows)-1], want)
		}
	}
}

func testMissingRows(_ *testing.T, f *fixture) {
	one := newTask(2, partA, at(1))
	f.apply(put(store.PutTask, one), put(store.PutWakeup, one))
	rows, err := f.d.Tasks(f.Context(), []task.ID{idOf(1), idOf(2), idOf(3), idOf(2)})
	if err != nil || len(rows) != 4 {
		f.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, want := range []bool{false, true, false, true} {
		if rows[i].ID.IsZero() == want {
			f.Errorf("row %d: %v", i, rows[i].ID)
		}
	}
	miss := store.WakeKey{Partition: partB, Wake: at(1), ID: one.ID}
	rows, err = f.d.Wakeups(f.Context(), []store.WakeKey{miss, store.KeyOf(&one)})
	if err != nil || len(rows) != 2 || !rows[0].ID.IsZero() || rows[1].ID != one.ID {
		f.Errorf("%v, %v", ids(rows), err)
	}
	if rows, err = f.d.Tasks(f.Context(), nil); err != nil || len(rows) != 0 {
		f.Errorf("nothing asked: %v, %v", rows, err)
	}
}

// testWakeKeysAreWhole reads by keys that lack a part. The driver would find no row, and its task would look
// gone, so the store refuses them before the driver sees them.
func testWakeKeysAreWhole(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(1))
	f.apply(put(store.PutWakeup, one))
	s, whole := store.New(f.d, store.Config{}), store.KeyOf(&one)
	if rows, err := s.Wakeups(f.Context(), []store.WakeKey{whole}); err != nil || len(rows) != 1 || rows[0].ID != one.ID {
		f.Errorf("by the whole key: %v, %v", ids(rows), err)
	}
	for _, lacking := range []store.WakeKey{
		{},
		{Wake: whole.Wake, ID: whole.ID},
		{Partition: whole.Partition, ID: whole.ID},
		{Partition: whole.Partition, Wake: whole.Wake},
		{Partition: task.Partition{Priority: partA.Priority}, Wake: whole.Wake, ID: whole.ID},
	} {
		for _, keys := range [][]store.WakeKey{{lacking}, {whole, lacking}} {
			if rows, err := s.Wakeups(f.Context(), keys); !errors.Is(err, store.ErrMalformed) {
				f.Errorf("by %+v: %v, %v; want that it is malformed", keys, ids(rows), err)
			}
		}
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
		put(store.PutWakeup, one), put(store.PutTask, one), put(store.ReplaceTask, two), put(store.DeleteWakeup, one),
		store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("p")}, store.Op{Kind: store.DeletePayload, Task: one},
		put(store.PutWakeup, one), put(store.ReplaceTask, three), put(store.ReplaceTask, over), put(store.DeleteWakeup, one),
		store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("p")},
	)
	if got := f.task(one.ID); !reflect.DeepEqual(got, over) {
		f.Errorf("got %+v", got)
	}
	results := f.try(put(store.PutWakeup, one), put(store.PutWakeup, one), put(store.DeleteWakeup, one), put(store.DeleteWakeup, one))
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
	f.apply(lazy(put(store.PutWakeup, one)), lazy(put(store.PutTask, one)))
	if f.wakeup(one).ID != one.ID || f.task(one.ID).ID != one.ID {
		f.Error("a lazy put is not seen")
	}
	f.refuse(lazy(put(store.PutTask, one)))
	f.apply(lazy(put(store.DeleteWakeup, one)), put(store.ReplaceTask, next(one, task.Enqueued, at(2))))
	if !f.wakeup(one).ID.IsZero() {
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
