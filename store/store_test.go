package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func scheduled(n byte) task.Task {
	return task.Task{ID: task.ID{n}, Partition: task.Partition{Lambda: 7}, State: task.Scheduled, Seq: 1, Due: 1000, Wake: 1000, WakeRow: task.WakeRow{At: 1000, Seq: 1}}
}

func TestMalformedOpsAreRefused(t *testing.T) {
	s := store.New(mem.New(), store.Config{PayloadBytesMax: 10, PayloadInlineMax: 4})
	change := func(kind store.OpKind, f func(*store.Op)) store.Op {
		op := store.Op{Kind: kind, Task: scheduled(1), Payload: []byte("p"), Control: store.Control{Kind: "k", Name: "n", Version: 1}}
		f(&op)
		return op
	}
	for _, c := range []struct {
		op   store.Op
		want error
		text string
	}{
		{change(0, func(*store.Op) {}), store.ErrMalformed, "kind 0"},
		{change(99, func(*store.Op) {}), store.ErrMalformed, "kind 99"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.ID = task.ID{} }), store.ErrMalformed, "zero task id"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.State = task.Processing }), store.ErrMalformed, "want scheduled, enqueued, claimed or none"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.State = task.Acquired }), store.ErrMalformed, "state is acquired"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.State, op.Task.ExpireAt = task.Dead, 5 }), store.ErrMalformed, "state is dead"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.WakeRow.At = 0 }), store.ErrMalformed, "later than 1970"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.Partition.Lambda = 0 }), store.ErrMalformed, "of no lambda"},
		{change(store.DeleteWakeup, func(op *store.Op) { op.Task.Partition = task.Partition{} }), store.ErrMalformed, "of no lambda"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.WakeRow.Seq = 0 }), store.ErrMalformed, "of seq 0"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.WakeRow.Seq = 2 }), store.ErrMalformed, "of seq 2"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.State, op.Task.Wake = task.Unknown, 7 }), store.ErrMalformed, "bare"},
		{change(store.PutWakeup, func(op *store.Op) { op.Task.State, op.Task.Seq, op.Task.WakeRow.Seq = task.Unknown, 0, 0 }), store.ErrMalformed, "of seq 0"},
		{change(store.ReplaceWakeup, func(*store.Op) {}), store.ErrMalformed, "want 2"},
		{change(store.ReplaceWakeup, func(op *store.Op) { op.Task.Seq = 2 }), store.ErrMalformed, "want 2"},
		{change(store.ReplaceWakeup, func(op *store.Op) { op.Task.Seq, op.Task.WakeRow.Seq, op.Task.State = 2, 2, task.Enqueued }), store.ErrMalformed, "want scheduled or acquired"},
		{change(store.ReplaceWakeup, func(op *store.Op) { op.Task.Seq, op.Task.WakeRow.Seq, op.Task.State = 2, 2, task.Unknown }), store.ErrMalformed, "want scheduled or acquired"},
		{change(store.DeleteWakeup, func(op *store.Op) { op.Task.WakeRow.At = -1 }), store.ErrMalformed, "later than 1970"},
		{change(store.PutTask, func(op *store.Op) { op.Task.State = task.Unknown }), store.ErrMalformed, "unknown"},
		{change(store.PutTask, func(op *store.Op) { op.Task.WakeRow = task.WakeRow{} }), store.ErrMalformed, "later than 1970"},
		{change(store.PutTask, func(op *store.Op) { op.Task.WakeRow.Seq = 0 }), store.ErrMalformed, "of seq 0"},
		{change(store.PutTask, func(op *store.Op) { op.Task.WakeRow.Seq = 2 }), store.ErrMalformed, "of seq 2"},
		{change(store.ReplaceTask, func(op *store.Op) { op.Task.Seq, op.Task.WakeRow.Seq = 2, 3 }), store.ErrMalformed, "of seq 3"},
		{change(store.PutTask, func(op *store.Op) {
			op.Task.State, op.Task.Wake, op.Task.ExpireAt, op.Task.WakeRow.At = task.Dead, 0, 5, -1
		}), store.ErrMalformed, "before 1970"},
		{change(store.PutTask, func(op *store.Op) { op.Follows = true }), store.ErrMalformed, "follows"},
		{change(store.PutTask, func(op *store.Op) { op.Lazy = true }), store.ErrMalformed, "lazy"},
		{change(store.PutWakeup, func(op *store.Op) { op.Lazy = true }), store.ErrMalformed, "lazy"},
		{change(store.PutPayload, func(op *store.Op) { op.Lazy = true }), store.ErrMalformed, "lazy"},
		{change(store.PutControl, func(op *store.Op) { op.Lazy = true }), store.ErrMalformed, "lazy"},
		{change(store.DeleteControl, func(op *store.Op) { op.Lazy = true }), store.ErrMalformed, "lazy"},
		{change(store.ReplaceTask, func(op *store.Op) {
			op.Lazy, op.Task.State, op.Task.Seq, op.Task.Wake, op.Task.ExpireAt = true, task.Success, 2, 0, 5
		}), store.ErrMalformed, "lazy"},
		{change(store.DeletePayload, func(op *store.Op) { op.Task.ID, op.Follows = task.ID{2}, true }), store.ErrMalformed, "follows"},
		{change(store.PutControl, func(op *store.Op) { op.Task.ID, op.Follows = task.ID{2}, true }), store.ErrMalformed, "follows"},
		{change(store.PutTask, func(op *store.Op) { op.Task.ID, op.Task.Partition.Shard, op.Follows = task.ID{2}, 1, true }), store.ErrMalformed, "in one partition"},
		{change(store.PutTask, func(op *store.Op) { op.Task.State = task.Accepted }), store.ErrMalformed, "accepted"},
		{change(store.PutTask, func(op *store.Op) { op.Task.Seq = 0 }), store.ErrMalformed, "seq 0"},
		{change(store.PutTask, func(op *store.Op) { op.Task.Wake = 0 }), store.ErrMalformed, "wake-up"},
		{change(store.PutTask, func(op *store.Op) { op.Task.State, op.Task.ExpireAt = task.Dead, 5 }), store.ErrMalformed, "wake-up"},
		{change(store.PutTask, func(op *store.Op) { op.Task.State, op.Task.Wake = task.Dead, 0 }), store.ErrMalformed, "instant of expiry"},
		{change(store.PutTask, func(op *store.Op) { op.Task.Ended = -4 }), store.ErrMalformed, "before 1970"},
		{change(store.ReplaceTask, func(*store.Op) {}), store.ErrMalformed, "at least 2"},
		{change(store.PutTask, func(op *store.Op) { op.Task.Payload = []byte("12345") }), store.ErrMalformed, "at most 4"},
		{change(store.PutTask, func(op *store.Op) { op.Task.Payload = []byte("12") }), store.ErrMalformed, "payload size"},
		{change(store.PutPayload, func(op *store.Op) { op.Payload = nil }), store.ErrMalformed, "empty"},
		{change(store.PutPayload, func(op *store.Op) { op.Payload = make([]byte, 11) }), store.ErrTooLarge, "at most 10"},
		{change(store.DeletePayload, func(op *store.Op) { op.Task.ID = task.ID{} }), store.ErrMalformed, "zero task id"},
		{change(store.PutControl, func(op *store.Op) { op.Control.Kind = "" }), store.ErrMalformed, "control key"},
		{change(store.PutControl, func(op *store.Op) { op.Control.Kind = "a\x00b" }), store.ErrMalformed, "zero byte"},
		{change(store.PutControl, func(op *store.Op) { op.Control.Name = "" }), store.ErrMalformed, "control key"},
		{change(store.DeleteControl, func(op *store.Op) { op.Control.Version = 0 }), store.ErrMalformed, "version 0"},
		{change(store.PutControl, func(op *store.Op) { op.Control.Value = make([]byte, store.ControlBytesMax+1) }), store.ErrTooLarge, "at most"},
	} {
		good := scheduled(2)
		results, err := s.Apply(t.Context(), []store.Op{{Kind: store.PutWakeup, Task: good}, c.op, {Kind: store.DeleteWakeup, Task: good}})
		if err != nil || results[0] != nil || results[2] != nil {
			t.Errorf("beside %+v: %v, %v", c.op, results, err)
		}
		if !errors.Is(results[1], c.want) || !strings.Contains(results[1].Error(), c.text) {
			t.Errorf("%+v: got %v, want %v with %q", c.op, results[1], c.want, c.text)
		}
	}
}

// TestFollowersOfRefusedOps checks that an op which follows a refused one is not attached to the op before
// that.
func TestFollowersOfRefusedOps(t *testing.T) {
	s := store.New(mem.New(), store.Config{})
	one, bad := scheduled(1), scheduled(2)
	bad.WakeRow.At = -1
	good := scheduled(2)
	results, err := s.Apply(t.Context(), []store.Op{
		{Kind: store.PutTask, Task: one, Follows: true},
		{Kind: store.DeleteWakeup, Task: one, Follows: true},
		{Kind: store.PutWakeup, Task: one},
		{Kind: store.PutWakeup, Task: bad},
		{Kind: store.PutTask, Task: good, Follows: true},
		{Kind: store.DeleteWakeup, Task: good, Follows: true},
		{Kind: store.PutTask, Task: one},
	})
	if err != nil {
		t.Fatal(err)
	}
	skip := store.ErrSkipped
	for i, want := range []error{store.ErrMalformed, skip, nil, store.ErrMalformed, skip, skip, nil} {
		if !errors.Is(results[i], want) {
			t.Errorf("op %d: %v, want %v", i, results[i], want)
		}
	}
}

func TestLimitsOfReads(t *testing.T) {
	s := store.New(mem.New(), store.Config{})
	ctx := t.Context()
	_, err1 := s.ScanSchedule(ctx, task.Partition{}, store.WakeKey{}, 1, 0)
	_, err2 := s.ScanSchedule(ctx, task.Partition{}, store.WakeKey{}, 1, store.ScanMax+1)
	_, _, err3 := s.ScanEnded(ctx, nil, task.Enqueued, nil, 1)
	_, _, err4 := s.ScanEnded(ctx, nil, task.Dead, []byte("no cursor"), 1)
	_, err5 := s.Sweep(ctx, 1, -1)
	_, err6 := s.Controls(ctx, "")
	_, err7 := s.Control(ctx, "k", "")
	for i, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
		if !errors.Is(err, store.ErrMalformed) {
			t.Errorf("call %d: %v, want ErrMalformed", i+1, err)
		}
	}
}

// recorder notes the calls that reach a driver.
type recorder struct {
	store.Driver

	applied []int
	read    []int
}

func (r *recorder) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	r.applied = append(r.applied, len(ops))
	return r.Driver.Apply(ctx, ops)
}

func (r *recorder) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	r.read = append(r.read, len(ids))
	return r.Driver.Tasks(ctx, ids)
}

func TestLongListsAreSplit(t *testing.T) {
	r := &recorder{Driver: mem.New()}
	s := store.New(r, store.Config{})
	ops := make([]store.Op, 2*store.ApplyMax+1)
	ids := make([]task.ID, len(ops))
	for i := range ops {
		row := scheduled(1)
		row.ID = task.ID{byte(i), byte(i >> 8), 1}
		ids[i] = row.ID
		ops[i] = store.Op{Kind: store.PutTask, Task: row}
	}
	results, err := s.Apply(t.Context(), ops)
	if err != nil || len(results) != len(ops) || errors.Join(results...) != nil {
		t.Fatalf("%d results, %v, %v", len(results), errors.Join(results...), err)
	}
	if len(r.applied) != 3 || r.applied[2] != 1 {
		t.Errorf("calls of %v ops", r.applied)
	}
	rows, err := s.Tasks(t.Context(), ids)
	if err != nil || len(rows) != len(ids) || rows[len(ids)-1].ID != ids[len(ids)-1] {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if len(r.read) != 3 {
		t.Errorf("reads of %v rows", r.read)
	}
	r.read = nil
	if _, err := s.Tasks(t.Context(), ids[:store.ReadMax+1]); err != nil || slices.Contains(r.read, 1) || len(r.read) != 2 {
		t.Errorf("reads of %v rows, %v; want no row read alone", r.read, err)
	}
	r.applied = nil
	large := make([]store.Op, 40)
	for i := range large {
		large[i] = store.Op{Kind: store.PutPayload, Task: scheduled(byte(i + 1)), Payload: make([]byte, store.PayloadBytesMaxDefault)}
	}
	if results, err := s.Apply(t.Context(), large); err != nil || errors.Join(results...) != nil {
		t.Fatal(results, err)
	}
	for _, n := range r.applied {
		if n*store.PayloadBytesMaxDefault > store.ApplyBytesMax {
			t.Errorf("a call of %d payloads is above ApplyBytesMax", n)
		}
	}
}

// TestChainsAreNotCut checks that the writes of one task stay in one call, wherever a list is split.
func TestChainsAreNotCut(t *testing.T) {
	r := &recorder{Driver: mem.New()}
	s := store.New(r, store.Config{})
	ops := []store.Op{{Kind: store.PutWakeup, Task: scheduled(1)}}
	for i := range store.ApplyMax {
		row := scheduled(1)
		row.ID = task.ID{byte(i), byte(i >> 8), 2}
		ops = append(ops, store.FirstWithRow(row)...)
	}
	results, err := s.Apply(t.Context(), ops)
	if err != nil || errors.Join(results...) != nil {
		t.Fatal(errors.Join(results...), err)
	}
	for _, n := range r.applied[:2] {
		if n != store.ApplyMax-1 && n != store.ApplyMax {
			t.Errorf("calls of %v ops", r.applied)
		}
	}
	if r.applied[0] != store.ApplyMax-1 {
		t.Errorf("calls of %v ops, want the first to end before a chain", r.applied)
	}
	r.applied = nil
	long := []store.Op{{Kind: store.PutTask, Task: scheduled(7)}}
	for i := range store.ApplyMax + 5 {
		row := scheduled(7)
		row.Seq = uint64(i + 2)
		long = append(long, store.Op{Kind: store.ReplaceTask, Task: row, Follows: true})
	}
	results, err = s.Apply(t.Context(), append(long, store.Op{Kind: store.PutTask, Task: scheduled(8)}))
	if err != nil || errors.Join(results...) != nil || len(r.applied) != 2 || r.applied[0] != len(long) {
		t.Errorf("calls of %v ops for a chain of %d: %v, %v", r.applied, len(long), errors.Join(results...), err)
	}
}

func TestSingleRows(t *testing.T) {
	s := store.New(mem.New(), store.Config{})
	ctx := t.Context()
	if _, err := s.Task(ctx, task.ID{9}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("task: %v", err)
	}
	if _, err := s.Control(ctx, "k", "n"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("control: %v", err)
	}
	c := store.Control{Kind: "k", Name: "n", Version: 1, Value: []byte("v")}
	if err := s.PutControl(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := s.PutControl(ctx, c); !errors.Is(err, store.ErrConflict) {
		t.Errorf("put again: %v", err)
	}
	if got, err := s.Control(ctx, "k", "n"); err != nil || string(got.Value) != "v" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := s.DeleteControl(ctx, c); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestFullStoreRefusesOnlyNewTasks(t *testing.T) {
	d := mem.New()
	s := store.New(d, store.Config{})
	d.SetFull(true)
	row := scheduled(1)
	results, err := s.Apply(t.Context(), []store.Op{
		{Kind: store.PutWakeup, Task: row, New: true}, {Kind: store.PutPayload, Task: row, Payload: []byte("p"), New: true}, {Kind: store.PutTask, Task: row},
	})
	if err != nil || !errors.Is(results[0], store.ErrFull) || !errors.Is(results[1], store.ErrFull) || results[2] != nil || !s.Full() {
		t.Errorf("%v, %v", results, err)
	}
}

func TestObserverIsTold(t *testing.T) {
	told := map[string]int{}
	var failed int
	s := store.New(mem.New(), store.Config{Observer: store.Observer{OpDone: func(_ context.Context, kind string, ops int, took time.Duration, err error) {
		told[kind] += ops
		if err != nil {
			failed++
		}
		if took < 0 {
			t.Errorf("%s took %v", kind, took)
		}
	}}})
	row := scheduled(1)
	_, _ = s.Apply(t.Context(), []store.Op{{Kind: store.PutWakeup, Task: row}, {Kind: store.PutTask, Task: row}})
	_, _ = s.Tasks(t.Context(), []task.ID{row.ID})
	_, _ = s.Payload(t.Context(), row.ID)
	if told["apply"] != 2 || told["tasks"] != 1 || told["payload"] != 1 || failed != 1 {
		t.Errorf("told %v, failed %d", told, failed)
	}
}

func TestClosedStore(t *testing.T) {
	s := store.New(mem.New(), store.Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	results, err := s.Apply(t.Context(), []store.Op{{Kind: store.PutWakeup, Task: scheduled(1)}})
	if !errors.Is(err, store.ErrClosed) || len(results) != 1 || results[0] == nil {
		t.Errorf("%v, %v", results, err)
	}
}

// doubtful is a driver whose next writes are not applied and have an unknown outcome, and whose next reads
// fail.
type doubtful struct {
	store.Driver

	unknown, failing int
}

var errRead = errors.New("read failed")

func (d *doubtful) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	if d.unknown--; d.unknown >= 0 {
		return slices.Repeat([]error{store.ErrUnknown}, len(ops)), nil
	}
	return d.Driver.Apply(ctx, ops)
}

func (d *doubtful) fails() error {
	if d.failing--; d.failing >= 0 {
		return errRead
	}
	return nil
}

func (d *doubtful) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	if err := d.fails(); err != nil {
		return nil, err
	}
	return d.Driver.Wakeups(ctx, keys)
}

func (d *doubtful) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if err := d.fails(); err != nil {
		return nil, err
	}
	return d.Driver.Payload(ctx, id)
}

func (d *doubtful) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if err := d.fails(); err != nil {
		return nil, err
	}
	return d.Driver.Controls(ctx, kind, name)
}

// TestAFailedReadBackTellsNothing deletes rows by writes that are not applied and have an unknown outcome. A
// failed reading back must not count as a deleted row.
func TestAFailedReadBackTellsNothing(t *testing.T) {
	one, setting := scheduled(1), store.Control{Kind: "k", Name: "n", Version: 1}
	for name, c := range map[string]struct {
		put, remove store.Op
		isGone      func(*store.Store) bool
	}{
		"wake-up row": {store.Op{Kind: store.PutWakeup, Task: one}, store.RemoveLast(&one), func(s *store.Store) bool {
			rows, err := s.Wakeups(t.Context(), []store.WakeKey{store.KeyOf(&one)})
			return err == nil && rows[0].ID.IsZero()
		}},
		"payload": {store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("p")}, store.Op{Kind: store.DeletePayload, Task: one}, func(s *store.Store) bool {
			_, err := s.Payload(t.Context(), one.ID)
			return errors.Is(err, store.ErrNotFound)
		}},
		"control row": {store.Op{Kind: store.PutControl, Control: setting}, store.Op{Kind: store.DeleteControl, Control: setting}, func(s *store.Store) bool {
			_, err := s.Control(t.Context(), "k", "n")
			return errors.Is(err, store.ErrNotFound)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &doubtful{Driver: mem.New()}
			s := store.New(d, store.Config{})
			mustApply(t, s, c.put)
			d.unknown, d.failing = 1, 1
			results, err := s.Apply(t.Context(), []store.Op{c.remove})
			if err != nil || results[0] != nil || !c.isGone(s) {
				t.Errorf("%s: %v, %v, gone %v", name, results, err, c.isGone(s))
			}
		})
	}
}

// TestTheErrorOfAnyPartIsTold splits a list whose first part fails.
func TestTheErrorOfAnyPartIsTold(t *testing.T) {
	ops := make([]store.Op, store.ApplyMax+1)
	for i := range ops {
		one := scheduled(1)
		one.ID[14], one.ID[15] = byte(i>>8), byte(i)
		ops[i] = store.Op{Kind: store.PutWakeup, Task: one}
	}
	s := store.New(&firstFails{Driver: mem.New()}, store.Config{})
	results, err := s.Apply(t.Context(), ops)
	if !errors.Is(err, store.ErrClosed) || !errors.Is(results[0], store.ErrUnknown) || results[store.ApplyMax] != nil {
		t.Errorf("%v, %v, %v", results[0], results[store.ApplyMax], err)
	}
}

// firstFails is a driver whose first write fails.
type firstFails struct {
	store.Driver

	calls int
}

func (d *firstFails) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	if d.calls++; d.calls == 1 {
		return nil, store.ErrClosed
	}
	return d.Driver.Apply(ctx, ops)
}

// shortAnswer is a driver that answers one write less than it was given, the first time.
type shortAnswer struct {
	store.Driver

	calls int
}

func (d *shortAnswer) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	results, err := d.Driver.Apply(ctx, ops)
	if d.calls++; d.calls == 1 {
		results = results[:len(results)-1]
	}
	return results, err
}

// TestAShortAnswerIsReadBack checks that each write has an outcome, whatever a driver answers.
func TestAShortAnswerIsReadBack(t *testing.T) {
	s := store.New(&shortAnswer{Driver: mem.New()}, store.Config{})
	results, err := s.Apply(t.Context(), []store.Op{{Kind: store.PutWakeup, Task: scheduled(1)}, {Kind: store.PutWakeup, Task: scheduled(2)}})
	if err != nil || len(results) != 2 || errors.Join(results...) != nil {
		t.Errorf("%v, %v: want that both are found to be applied", results, err)
	}
}
