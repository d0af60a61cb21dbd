package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// settleCase is one kind of write, and the writes that must come before it.
type settleCase struct {
	name   string
	before []store.Op
	op     store.Op
	// beaten is another caller's write in between, after which the write must conflict; nil where that is
	// impossible.
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
	later, latest := bare(one, at(10), 2), bare(one, at(10), 3)
	apart := store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("mine")}
	foreign := store.Op{Kind: store.PutPayload, Task: one, Payload: []byte("theirs")}
	control := func(kind store.OpKind, version uint64, value string) store.Op {
		return store.Op{Kind: kind, Control: store.Control{Kind: "k", Name: "n", Version: version, Value: []byte(value)}}
	}
	first := []store.Op{put(store.PutWakeup, one)}
	anySeq := one
	anySeq.WakeRow.Seq = 0
	second := []store.Op{put(store.PutWakeup, later)}
	third := taken
	third.Seq, third.WakeRow.Seq = 3, 3
	return []settleCase{
		{"PutWakeup", nil, put(store.PutWakeup, one), []store.Op{put(store.PutWakeup, other)}},
		{"PutWakeupOverOlder", first, put(store.PutWakeup, later), []store.Op{put(store.PutWakeup, latest)}},
		{"PutWakeupBare", nil, put(store.PutWakeup, later), []store.Op{put(store.PutWakeup, latest)}},
		{"DeleteWakeup", first, put(store.DeleteWakeup, one), []store.Op{put(store.ReplaceWakeup, taken)}},
		{"DeleteWakeupOfLaterTask", first, put(store.DeleteWakeup, next(two, task.Claimed, at(30))), []store.Op{put(store.PutWakeup, later)}},
		{"DeleteMovedWakeup", first, put(store.DeleteWakeup, one), []store.Op{put(store.PutWakeup, later)}},
		{"ReplaceWakeup", first, put(store.ReplaceWakeup, taken), []store.Op{put(store.ReplaceWakeup, takenByOther)}},
		{"ReplaceGoneWakeup", first, put(store.ReplaceWakeup, taken), []store.Op{put(store.DeleteWakeup, one)}},
		{"ReplaceWakeupByLater", first, put(store.ReplaceWakeup, taken), []store.Op{put(store.PutWakeup, latest)}},
		{"ReplaceWakeupByEarlier", second, put(store.ReplaceWakeup, third), []store.Op{put(store.DeleteWakeup, later), put(store.PutWakeup, one)}},
		{"DeleteWakeupOfAnySeq", second, put(store.DeleteWakeup, anySeq), nil},
		{"PutTask", nil, put(store.PutTask, one), []store.Op{put(store.PutTask, other)}},
		{"ReplaceTask", []store.Op{put(store.PutTask, one)}, put(store.ReplaceTask, two), []store.Op{put(store.ReplaceTask, theirs)}},
		{"ReplaceTaskByLater", []store.Op{put(store.PutTask, one)}, put(store.ReplaceTask, two), []store.Op{put(store.ReplaceTask, theirs), put(store.ReplaceTask, next(theirs, task.Claimed, at(30)))}},
		{"PutPayload", nil, apart, []store.Op{foreign}},
		{"DeletePayload", []store.Op{apart}, store.Op{Kind: store.DeletePayload, Task: one}, nil},
		{"PutControl", nil, control(store.PutControl, 1, "mine"), []store.Op{control(store.PutControl, 1, "theirs")}},
		{"ReplaceControl", []store.Op{control(store.PutControl, 1, "a")}, control(store.PutControl, 2, "mine"), []store.Op{control(store.PutControl, 2, "theirs")}},
		{"DeleteControl", []store.Op{control(store.PutControl, 1, "a")}, control(store.DeleteControl, 1, ""), []store.Op{control(store.PutControl, 2, "theirs")}},
	}
}

// testSettle makes the outcome of each kind of write unknown, both ways, and checks that Store finds it out.
func testSettle(t *testing.T, f *fixture) {
	t.Helper()
	for _, c := range settleCases() {
		for _, how := range []Fault{NotApplied, AppliedButErrored} {
			t.Run(c.name+faultNames[how], func(t *testing.T) {
				sub := f.begin(t, c.before...)
				faulty := NewFaulty(f.d)
				faulty.Fail(c.op.Kind, 1, 1, how)
				s := store.New(faulty, hasty)
				if results, err := s.Apply(f.Context(), []store.Op{c.op}); err != nil || results[0] != nil {
					t.Fatalf("got %v, %v, want applied", results, err)
				}
				if !isUnconditional(c.op) { // applied once: the same again conflicts
					sub.refuse(c.op)
				}
			})
		}
		if c.beaten == nil {
			continue
		}
		t.Run(c.name+"Beaten", func(t *testing.T) {
			f.begin(t, c.before...)
			faulty := NewFaulty(f.d)
			faulty.Fail(c.op.Kind, 1, 1, NotApplied)
			s := store.New(&interloper{Driver: faulty, writes: c.beaten}, hasty)
			results, err := s.Apply(f.Context(), []store.Op{c.op})
			if err != nil || !errors.Is(results[0], store.ErrConflict) {
				t.Fatalf("got %v, %v, want a conflict", results, err)
			}
		})
	}
}

// isUnconditional reports whether a write may succeed where nothing is left to do.
func isUnconditional(op store.Op) bool {
	return op.Kind == store.DeletePayload || op.Kind == store.DeleteWakeup && op.Task.WakeRow.Seq == 0
}

// clean removes the rows of settle cases.
func (f *fixture) clean() {
	f.Helper()
	one := newTask(1, partA, at(10))
	for _, row := range f.scan(partA, store.WakeKey{}, forever, 10) {
		f.apply(put(store.DeleteWakeup, row))
	}
	f.apply(store.Op{Kind: store.DeletePayload, Task: one})
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

// interloper applies other writes right after the first Apply.
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

// testSettleLostWakeup makes the outcome of a put of a wake-up row unknown, and lets the row be absent when
// it is read back. It must be written again, unless a task row proves that it was put and removed.
func testSettleLostWakeup(t *testing.T, f *fixture) {
	t.Helper()
	mine := bare(newTask(1, partA, at(10)), at(10), 3)
	row := named(newTask(1, partA, at(10)), at(10), 3)
	row.Seq = 3
	earlier := named(row, at(5), 1)
	earlier.Seq = 2
	sameSeq := named(row, at(5), 3) // another's move of the same seq
	moved := named(row, at(50), 5)
	moved.Seq = 5
	movedBack := named(row, at(10), 5) // to the same place, by a later row that is gone as well
	movedBack.Seq = 5
	for _, c := range []struct {
		name string
		row  task.Task // what another caller stored
		back bool
	}{
		{"NoTaskRow", task.Task{}, true},
		{"RowNamesIt", row, true},
		{"RowNamesItAndWentOn", next(row, task.Enqueued, at(70)), true},
		{"EarlierRow", earlier, true},
		{"EndBefore", ended(named(newTask(1, partA, at(10)), at(5), 1), task.Cancelled, at(2), at(900)), true},
		{"EndSince", ended(row, task.Success, at(2), at(900)), false},
		{"MovedAtOnce", sameSeq, false},
		{"MovedSince", moved, false},
		{"MovedAwayAndBack", movedBack, false},
	} {
		for _, how := range []Fault{NotApplied, AppliedButErrored} {
			t.Run(c.name+faultNames[how], func(t *testing.T) {
				sub := f.begin(t)
				faulty := NewFaulty(f.d)
				faulty.Fail(store.PutWakeup, 1, 1, how)
				var between []store.Op
				if !c.row.ID.IsZero() {
					between = append(between, put(store.PutTask, c.row))
				}
				if how == AppliedButErrored {
					between = append(between, put(store.DeleteWakeup, mine))
				}
				s := store.New(&interloper{Driver: faulty, writes: between}, hasty)
				results, err := s.Apply(sub.Context(), []store.Op{put(store.PutWakeup, mine)})
				if err != nil || results[0] != nil {
					t.Errorf("got %v, %v, want applied", results, err)
				}
				if back := !sub.wakeup(mine).ID.IsZero(); back != c.back {
					t.Errorf("the row is there: %v, want %v", back, c.back)
				}
			})
		}
	}
}

// noPauses is the machine's clock without pauses: a Store settles by tries, whatever the time between them.
type noPauses struct{ clock.Clock }

// NewTimer implements clock.Clock.
func (c noPauses) NewTimer(time.Duration) clock.Timer { return c.Clock.NewTimer(0) }

// hasty configures a Store that settles without pauses.
var hasty = store.Config{Clock: noPauses{clock.Real()}}

var faultNames = []string{"NotApplied", "AppliedButErrored"}

// testSettleChains makes the outcome of each op of a chain unknown, both ways, and checks that the rest is
// written if and only if that op holds.
func testSettleChains(t *testing.T, f *fixture) {
	t.Helper()
	one := newTask(1, partA, at(10))
	enqueued := next(one, task.Enqueued, at(20))
	first := store.FirstWithRow(one)
	end := ended(one, task.Success, at(20), at(900))
	for _, c := range []struct {
		name   string
		before []store.Op
		ops    []store.Op
		beaten []store.Op // what another caller writes in between
		at     int        // the op that then loses
	}{
		{"First", nil, first, []store.Op{put(store.PutTask, enqueued)}, 1},
		{"Move", first, soon(store.Change(next(one, task.RetriableFailure, at(50)), true, false)), []store.Op{put(store.ReplaceTask, enqueued)}, 1},
		{"End", first, soon(store.Change(end, false, true)), []store.Op{put(store.ReplaceTask, enqueued)}, 0},
		{"Cancel", first[:1], []store.Op{put(store.PutTask, end), then(store.DeleteWakeup, one)}, []store.Op{put(store.PutTask, enqueued)}, 0},
	} {
		for i := range c.ops {
			for _, how := range []Fault{NotApplied, AppliedButErrored} {
				t.Run(fmt.Sprintf("%s%d%s", c.name, i, faultNames[how]), func(t *testing.T) { f.settleChain(t, c.before, c.ops, i, how) })
			}
		}
		t.Run(c.name+"Late", func(t *testing.T) { f.settleLateChain(t, c.before, c.ops) })
		t.Run(c.name+"Beaten", func(t *testing.T) { f.settleBeaten(t, c.before, c.ops, c.beaten, c.at) })
		t.Run(c.name+"Unknown", func(t *testing.T) { f.settleUnknownChain(t, c.before, c.ops) })
	}
}

// soon makes lazy ops durable, because the loss of a lazy one makes no difference to a caller.
func soon(ops []store.Op) []store.Op {
	for i := range ops {
		ops[i].Lazy = false
	}
	return ops
}

// testSettleAfterRowInPlace lets the outcomes be unknown when the wake-up row was there already.
func testSettleAfterRowInPlace(t *testing.T, f *fixture) {
	t.Helper()
	one := newTask(1, partA, at(10))
	for _, there := range []task.Task{one, bare(one, at(10), 4)} {
		for _, how := range []Fault{NotApplied, AppliedButErrored} {
			for _, kind := range []store.OpKind{store.PutWakeup, store.PutTask} {
				sub := f.begin(t, put(store.PutWakeup, there))
				faulty := NewFaulty(f.d)
				faulty.Fail(kind, 1, 1, how)
				mine := one
				mine.Worker = "mine"
				results, err := store.New(faulty, hasty).Apply(t.Context(), store.FirstWithRow(mine))
				if err != nil {
					t.Fatal(err)
				}
				sub.outcomes("after a row in place", results, store.ErrConflict, nil)
				if row := sub.task(one.ID); row.Worker != "mine" {
					t.Errorf("the task row is %+v", row)
				}
			}
		}
	}
}

// settleChain makes op i fail, and then op i and the next one.
func (f *fixture) settleChain(t *testing.T, before, ops []store.Op, i int, how Fault) {
	t.Helper()
	for _, second := range []bool{false, true} {
		sub := f.begin(t, before...)
		faulty := NewFaulty(f.d)
		faulty.Fail(ops[i].Kind, 1, 1, how)
		if second && i+1 < len(ops) {
			faulty.Fail(ops[i+1].Kind, 1, 1, NotApplied)
		}
		results, err := store.New(faulty, hasty).Apply(t.Context(), ops)
		for j := range results {
			if err != nil || results[j] != nil {
				t.Fatalf("op %d: got %v, %v, want applied", j, results, err)
			}
		}
		last := ops[len(ops)-1]
		if last.Kind == store.DeleteWakeup && !sub.wakeup(last.Task).ID.IsZero() {
			t.Error("the last op was not applied")
		}
		if row := sub.task(last.Task.ID); row.State != task.Scheduled && row.Seq != 2 {
			t.Errorf("the task row is %+v", row)
		}
	}
}

// settleLateChain applies the whole chain only after it was read back, so that it conflicts with itself when
// it is written again.
func (f *fixture) settleLateChain(t *testing.T, before, ops []store.Op) {
	t.Helper()
	f.begin(t, before...)
	results, err := store.New(&late{Driver: f.d}, hasty).Apply(t.Context(), ops)
	for j := range results {
		if err != nil || results[j] != nil {
			t.Fatalf("op %d: got %v, %v, want applied", j, results, err)
		}
	}
}

// late applies the first call together with the second.
type late struct {
	store.Driver

	first []store.Op
	calls int
}

func (l *late) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	switch l.calls++; l.calls {
	case 1:
		l.first = ops
		return nil, ErrInjected
	case 2:
		if _, err := l.Driver.Apply(ctx, l.first); err != nil {
			return nil, err
		}
	}
	return l.Driver.Apply(ctx, ops)
}

// settleBeaten drops the whole chain, and lets another caller's write make op at conflict.
func (f *fixture) settleBeaten(t *testing.T, before, ops, beaten []store.Op, at int) {
	t.Helper()
	sub := f.begin(t, before...)
	faulty := NewFaulty(f.d)
	faulty.Fail(ops[0].Kind, 1, 1, NotApplied)
	results, err := store.New(&interloper{Driver: faulty, writes: beaten}, hasty).Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]error, len(ops))
	want[at] = store.ErrConflict
	for j := at + 1; j < len(ops); j++ {
		want[j] = store.ErrSkipped
	}
	sub.outcomes("beaten", results, want...)
	if last := ops[len(ops)-1]; last.Kind == store.DeleteWakeup && sub.wakeup(last.Task).ID.IsZero() {
		t.Error("the wake-up row that the task needs is gone")
	}
}

// settleUnknownChain checks that what follows a write with an unknown outcome is unknown, and neither skipped
// nor refused.
func (f *fixture) settleUnknownChain(t *testing.T, before, ops []store.Op) {
	t.Helper()
	for _, how := range []Fault{NotApplied, AppliedButErrored} {
		f.begin(t, before...)
		faulty := NewFaulty(f.d)
		faulty.Fail(ops[0].Kind, 1, 1, how)
		faulty.FailReads(1 << 20)
		results, err := store.New(skipping{faulty}, hasty).Apply(t.Context(), ops)
		if err == nil {
			t.Error("no reason why it is unknown")
		}
		for j := range results {
			if !errors.Is(results[j], store.ErrUnknown) {
				t.Errorf("op %d: got %v, want unknown", j, results[j])
			}
		}
	}
}

// skipping answers ErrSkipped for what follows an unknown write, as a driver may that writes one row after
// the other.
type skipping struct{ store.Driver }

func (s skipping) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	results, err := s.Driver.Apply(ctx, ops)
	for i := range results {
		if ops[i].Follows && errors.Is(results[i], store.ErrUnknown) {
			results[i] = store.ErrSkipped
		}
	}
	return results, err
}

// testSettleGivesUp checks that an outcome which cannot be found out stays unknown, that settling survives a
// few failed reads, and that other writes keep their outcomes.
func testSettleGivesUp(_ *testing.T, f *fixture) {
	faulty := NewFaulty(f.d)
	s := store.New(faulty, hasty)
	one, two := newTask(1, partA, at(1)), newTask(2, partA, at(2))
	faulty.FailReads(2)
	faulty.Fail(store.PutTask, 1, 2, NotApplied)
	if results, err := s.Apply(f.Context(), []store.Op{put(store.PutTask, one)}); err != nil || results[0] != nil {
		f.Errorf("after 2 failed readings: %v, %v", results, err)
	}
	faulty.FailReads(1 << 20)
	faulty.Fail(store.PutTask, 1, 1, AppliedButErrored)
	results, err := s.Apply(f.Context(), []store.Op{put(store.PutTask, two), put(store.PutWakeup, one)})
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
