package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// settleCase is one kind of write over what must be there before it.
type settleCase struct {
	name   string
	before []store.Op
	op     store.Op
	// beaten is what another caller writes in between; the write must then lose. nil where that is impossible.
	beaten []store.Op
}

func settleCases() []settleCase {
	one := newTask(1, partA, at(10))
	other := one
	other.Worker = "another"
	two := next(one, task.Enqueued, at(20))
	theirs := two
	theirs.Wake = at(21)
	taken, takenByOther := acquired(one, "p1"), acquired(one, "p2")
	apart := store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("mine")}
	foreign := store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("theirs")}
	control := func(kind store.OpKind, version uint64, value string) store.Op {
		return store.Op{Kind: kind, Control: store.Control{Kind: "k", Name: "n", Version: version, Value: []byte(value)}}
	}
	return []settleCase{
		{"PutWaiting", nil, put(store.PutWaiting, one), []store.Op{put(store.PutWaiting, other)}},
		{"DeleteWaiting", []store.Op{put(store.PutWaiting, one)}, put(store.DeleteWaiting, one), []store.Op{put(store.ReplaceWaiting, taken)}},
		{"ReplaceWaiting", []store.Op{put(store.PutWaiting, one)}, put(store.ReplaceWaiting, taken), []store.Op{put(store.ReplaceWaiting, takenByOther)}},
		{"ReplaceGoneWaiting", []store.Op{put(store.PutWaiting, one)}, put(store.ReplaceWaiting, taken), []store.Op{put(store.DeleteWaiting, one)}},
		{"PutTask", nil, put(store.PutTask, one), []store.Op{put(store.PutTask, other)}},
		{"ReplaceTask", []store.Op{put(store.PutTask, one)}, put(store.ReplaceTask, two), []store.Op{put(store.ReplaceTask, theirs)}},
		{"PutPayload", nil, apart, []store.Op{foreign}},
		{"DeletePayload", []store.Op{apart}, store.Op{Kind: store.DeletePayload, Task: one}, nil},
		{"PutControl", nil, control(store.PutControl, 1, "mine"), []store.Op{control(store.PutControl, 1, "theirs")}},
		{"ReplaceControl", []store.Op{control(store.PutControl, 1, "a")}, control(store.PutControl, 2, "mine"), []store.Op{control(store.PutControl, 2, "theirs")}},
		{"DeleteControl", []store.Op{control(store.PutControl, 1, "a")}, control(store.DeleteControl, 1, ""), []store.Op{control(store.PutControl, 2, "theirs")}},
	}
}

// testSettle lets each kind of write come back unknown, both ways, and checks that Store finds out.
func testSettle(t *testing.T, f *fixture) {
	t.Helper()
	for _, c := range settleCases() {
		for _, how := range []Fault{NotApplied, AppliedButErrored} {
			t.Run(c.name+[]string{"NotApplied", "AppliedButErrored"}[how], func(t *testing.T) {
				sub := &fixture{T: t, d: f.d}
				sub.clean()
				sub.apply(c.before...)
				faulty := NewFaulty(f.d)
				faulty.Fail(c.op.Kind, 1, 1, how)
				s := store.New(faulty, store.Config{})
				if results, err := s.Apply(f.Context(), []store.Op{c.op}); err != nil || results[0] != nil {
					t.Fatalf("got %v, %v, want applied", results, err)
				}
				if c.op.Kind != store.DeletePayload { // applied once: the same again conflicts
					sub.refuse(c.op)
				}
			})
		}
		if c.beaten == nil {
			continue
		}
		t.Run(c.name+"Beaten", func(t *testing.T) {
			sub := &fixture{T: t, d: f.d}
			sub.clean()
			sub.apply(c.before...)
			faulty := NewFaulty(f.d)
			faulty.Fail(c.op.Kind, 1, 1, NotApplied)
			s := store.New(&interloper{Driver: faulty, writes: c.beaten}, store.Config{})
			results, err := s.Apply(f.Context(), []store.Op{c.op})
			if err != nil || !errors.Is(results[0], store.ErrConflict) {
				t.Fatalf("got %v, %v, want a conflict", results, err)
			}
		})
	}
}

// clean removes what a settle case may have left.
func (f *fixture) clean() {
	f.Helper()
	one := newTask(1, partA, at(10))
	anySeq := one
	anySeq.Seq = 0
	f.try(put(store.DeleteWaiting, anySeq), store.Op{Kind: store.DeletePayload, Task: one})
	if row := f.task(one.ID); !row.ID.IsZero() {
		f.apply(put(store.ReplaceTask, ended(row, task.Success, 1, 1)))
		f.sweep(1, 1)
	}
	rows, err := f.d.Controls(f.Context(), "k", "n")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range rows {
		f.apply(store.Op{Kind: store.DeleteControl, Control: c})
	}
}

// interloper writes something else right after the first Apply.
type interloper struct {
	store.Driver

	writes []store.Op
}

func (i *interloper) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	results, err := i.Driver.Apply(ctx, ops)
	if i.writes == nil {
		return results, err
	}
	writes := i.writes
	i.writes = nil
	faulty, _ := i.Driver.(*Faulty)
	if _, failed := faulty.Driver.Apply(ctx, writes); failed != nil {
		return nil, failed
	}
	return results, err
}

// testSettleGivesUp checks that an outcome which cannot be found out is reported as such, that
// a few failed readings are not the end, and that the writes beside it keep their own outcomes.
func testSettleGivesUp(_ *testing.T, f *fixture) {
	faulty := NewFaulty(f.d)
	s := store.New(faulty, store.Config{})
	one, two := newTask(1, partA, at(1)), newTask(2, partA, at(2))
	faulty.FailReads(2)
	faulty.Fail(store.PutTask, 1, 2, NotApplied)
	if results, err := s.Apply(f.Context(), []store.Op{put(store.PutTask, one)}); err != nil || results[0] != nil {
		f.Errorf("after 2 failed readings: %v, %v", results, err)
	}
	faulty.FailReads(1 << 20)
	faulty.Fail(store.PutTask, 1, 1, AppliedButErrored)
	results, err := s.Apply(f.Context(), []store.Op{put(store.PutTask, two), put(store.PutWaiting, one)})
	if !errors.Is(err, ErrInjected) || !errors.Is(results[0], store.ErrUnknown) || results[1] != nil {
		f.Errorf("without readings: %v, %v; want unknown and applied", results, err)
	}
	faulty.FailReads(0)
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	results, err = s.Apply(ctx, []store.Op{put(store.PutTask, newTask(3, partA, at(1)))})
	if err == nil || !errors.Is(results[0], store.ErrUnknown) {
		f.Errorf("with an ended context: %v, %v; want unknown", results, err)
	}
	results, err = s.Apply(f.Context(), []store.Op{{Kind: store.PutTask}, put(store.PutTask, newTask(4, partA, at(1)))})
	if err != nil || !errors.Is(results[0], store.ErrMalformed) || results[1] != nil {
		f.Errorf("beside a malformed op: %v, %v", results, err)
	}
}
