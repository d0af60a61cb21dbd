package chain_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

const start = task.Instant(1_700_000_000_000_000)

// fault is what happens to one write.
type fault uint8

const (
	none      fault = iota
	lost            // it is not applied, and its outcome is unknown
	unheard         // it is applied, and its outcome is unknown
	diedAfter       // it is applied, and the process dies
	diedBefore
)

// faulty applies writes one by one, as a service does, until one of them has a fault.
type faulty struct {
	store.Driver

	fault fault
	at    int // of which write
	n     int
	dead  bool
	early int // rows that were put before their payload
}

func (f *faulty) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	results := make([]error, len(ops))
	for i := range ops {
		if f.dead {
			return nil, store.ErrClosed
		}
		if ops[i].Follows && !ops[i-1].Holds(results[i-1]) {
			results[i] = store.ErrSkipped
			if errors.Is(results[i-1], store.ErrUnknown) {
				results[i] = store.ErrUnknown
			}
			continue
		}
		one := ops[i]
		one.Follows = false
		f.n++
		hit := f.n == f.at
		if hit && (f.fault == lost || f.fault == diedBefore) {
			f.dead = f.fault == diedBefore
			results[i] = store.ErrUnknown
			continue
		}
		if one.Kind == store.PutWakeup && one.Task.PayloadStoredApart() {
			if _, err := f.Payload(ctx, one.Task.PayloadID()); err != nil {
				f.early++
			}
		}
		r, err := f.Driver.Apply(ctx, []store.Op{one})
		if err != nil {
			return nil, err
		}
		if results[i] = r[0]; hit && f.fault != none {
			results[i] = store.ErrUnknown
			f.dead = f.fault == diedAfter
		}
	}
	return results, nil
}

func (f *faulty) Close() error { return nil }

// world is a store with one task that others follow.
type world struct {
	*testing.T

	mem    *mem.Driver
	parent task.Task
	clock  clock.Clock
}

func lambdaOf(ref uint32) task.Lambda {
	return task.Lambda{Name: fmt.Sprint("l", ref), Ref: ref, Priorities: []string{"normal"}, Shards: 4, Retention: time.Hour}
}

func (w *world) keeper(d store.Driver, told map[task.ID]int) *chain.Keeper {
	return chain.New(chain.Config{
		Store: store.New(d, store.Config{Clock: w.clock}), Clock: w.clock, Log: slog.New(slog.DiscardHandler),
		Lambda: func(_ context.Context, ref uint32) (*task.Lambda, error) {
			if ref == 9 {
				return nil, nil //nolint:nilnil // it was deleted
			}
			l := lambdaOf(ref)
			return &l, nil
		},
		Added: func(t *task.Task) { told[t.ID]++ },
	})
}

func followups(large bool) *kinesinv1.Followups {
	item := func(ref uint32, payload string) *kinesinv1.ScheduleItem {
		return &kinesinv1.ScheduleItem{Lambda: fmt.Sprint("l", ref), LambdaRef: ref, Payload: []byte(payload)}
	}
	f := &kinesinv1.Followups{
		Then:    []*kinesinv1.ScheduleItem{item(1, "one"), item(2, "two"), item(9, "of a deleted lambda")},
		Else:    []*kinesinv1.ScheduleItem{item(1, "undo")},
		Finally: []*kinesinv1.ScheduleItem{item(3, "always")},
	}
	f.Then[0].Then = []*kinesinv1.ScheduleItem{item(1, "later")}
	f.Then[1].Delay = time.Hour.Microseconds()
	if large {
		f.Then[0].Payload = []byte(strings.Repeat("x", 2000))
	}
	return f
}

func newWorld(t *testing.T, large bool) *world {
	t.Helper()
	return newWorldOf(t, followups(large))
}

// newWorldOf is a world whose task these follow.
func newWorldOf(t *testing.T, f *kinesinv1.Followups) *world {
	t.Helper()
	w := &world{T: t, mem: mem.New(), clock: clock.Real()}
	w.parent = task.Task{
		ID: task.NewID(start, 1, 2), Partition: task.Partition{Lambda: 1}, State: task.Claimed, Seq: 3, Due: start, Created: start, Wake: start + 1e6,
		Attempt: 1, Worker: "w", ClaimedAt: start, WakeRow: task.WakeRow{At: start, Seq: 1},
	}
	apart, err := chain.Attach(&w.parent, f, 700)
	if err != nil {
		t.Fatal(err)
	}
	first := w.parent
	first.State, first.Seq, first.Wake, first.Attempt, first.Worker, first.ClaimedAt = task.Scheduled, 1, start, 0, "", 0
	ops := []store.Op{{Kind: store.PutWakeup, Task: first}, {Kind: store.PutTask, Task: w.parent, Follows: true}}
	if apart != nil {
		ops = append([]store.Op{store.PutFollow(&w.parent, apart, 0)}, ops...)
	}
	for i, outcome := range w.apply(ops) {
		if outcome != nil {
			t.Fatalf("op %d: %v", i, outcome)
		}
	}
	return w
}

func (w *world) apply(ops []store.Op) []error {
	w.Helper()
	results, err := w.mem.Apply(context.Background(), ops)
	if err != nil {
		w.Fatal(err)
	}
	return results
}

// end returns the writes by which a worker's result ends the parent.
func (w *world) end(o task.Outcome) []store.Op {
	w.Helper()
	next, _, err := w.parent.Apply(task.Event{Kind: task.Finish, Worker: "w", Attempt: 1, Outcome: o, Result: []byte("r")}, start+5e5, task.Policy{MaxAttempts: 1, Retention: time.Hour})
	if err != nil {
		w.Fatal(err)
	}
	return store.Change(next, false, true)
}

// rows returns all wake-up rows but the parent's, by their payload, and whether the parent has one.
func (w *world) rows() (found map[string]int, parent bool) {
	w.Helper()
	found = map[string]int{}
	for lambda := range uint32(4) {
		for shard := range uint16(4) {
			rows, err := w.mem.ScanSchedule(context.Background(), task.Partition{Lambda: lambda, Shard: shard}, store.WakeKey{}, math.MaxInt64, 5000)
			if err != nil {
				w.Fatal(err)
			}
			for i := range rows {
				t := &rows[i]
				if t.ID == w.parent.ID {
					parent = true
					continue
				}
				payload := t.Payload
				if t.PayloadStoredApart() {
					if payload, err = w.mem.Payload(context.Background(), t.PayloadID()); err != nil {
						w.Errorf("payload of a follow-up: %v", err)
					}
				}
				found[string(payload[:min(len(payload), 6)])]++
			}
		}
	}
	return found, parent
}

// scan is a full scan: it removes the leftover rows that it meets.
func (w *world) scan(k *chain.Keeper) {
	w.Helper()
	rows, err := w.mem.ScanSchedule(context.Background(), w.parent.Partition, store.WakeKey{}, math.MaxInt64, 5000)
	if err != nil {
		w.Fatal(err)
	}
	for i := range rows {
		row, err := w.mem.Tasks(context.Background(), []task.ID{rows[i].ID})
		if err != nil {
			w.Fatal(err)
		}
		if store.Conclude(&rows[i], &row[0], w.clock.Now()) == store.Leftover {
			if _, err := k.Apply(context.Background(), []store.Op{store.Remove(&rows[i])}); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// Whatever happens to any one write of an end, and whoever dies after it, the follow-ups of the end are
// there once a full scan is over, each once, and those of other edges are not.
func TestFollowUpsSurviveAnyFault(t *testing.T) {
	synctest.Test(t, followUpsSurviveAnyFault) // a store that does not answer is asked again after pauses
}

func followUpsSurviveAnyFault(t *testing.T) {
	for _, large := range []bool{false, true} {
		for outcome, want := range map[task.Outcome]string{task.OutcomeSuccess: "one two always", task.OutcomeFatal: "undo always"} {
			if large {
				want = strings.Replace(want, "one", "xxxxxx", 1)
			}
			for _, f := range []fault{none, lost, unheard, diedAfter, diedBefore} {
				for at := 1; at <= 8; at++ {
					w := newWorld(t, large)
					told := map[task.ID]int{}
					d := &faulty{Driver: w.mem, fault: f, at: at}
					k := w.keeper(d, told)
					results, _ := k.Apply(t.Context(), w.end(outcome))
					row, err := w.mem.Tasks(t.Context(), []task.ID{w.parent.ID})
					if err != nil {
						t.Fatal(err)
					}
					ended := row[0].State.IsEnd()
					if results[0] == nil != ended && f < diedAfter {
						t.Errorf("fault %d at %d: the end has outcome %v, and the row is %s", f, at, results[0], row[0].State)
					}
					if !ended {
						continue // the worker reports again
					}
					if d.early > 0 {
						t.Errorf("large %v, fault %d at %d: %d follow-ups are there before their payloads", large, f, at, d.early)
					}
					w.scan(w.keeper(w.mem, told)) // of the process that takes over
					found, parent := w.rows()
					if text := fmt.Sprint(found); len(found) != len(strings.Fields(want)) || parent {
						t.Errorf("large %v, fault %d at %d: follow-ups %s, want %s; the parent has a wake-up row: %v", large, f, at, text, want, parent)
					}
					for name := range strings.FieldsSeq(want) {
						if found[name] != 1 {
							t.Errorf("large %v, fault %d at %d: %d × %s", large, f, at, found[name], name)
						}
						if f == none && len(told) != len(found) {
							t.Errorf("the scheduler was told of %d of %d", len(told), len(found))
						}
					}
				}
			}
		}
	}
}

// More follow-ups than one write takes are all put, each once and after its payload, whoever dies among them.
func TestManyFollowUps(t *testing.T) { synctest.Test(t, manyFollowUps) }

func manyFollowUps(t *testing.T) {
	for _, n := range []int{65, 1234} {
		f := &kinesinv1.Followups{}
		for i := range n {
			contents := fmt.Sprintf("%06d", i)
			if i%50 == 0 {
				contents += strings.Repeat("x", 2000)
			}
			f.Then = append(f.Then, &kinesinv1.ScheduleItem{Lambda: "l1", LambdaRef: 1, Payload: []byte(contents), Delay: int64(i) * 1e6})
		}
		large := (n + 49) / 50
		for _, fault := range []fault{none, lost, unheard, diedAfter, diedBefore} {
			for _, at := range []int{2, large + 1, large + 2, 512, 600, n} {
				w := newWorldOf(t, f)
				told := map[task.ID]int{}
				d := &faulty{Driver: w.mem, fault: fault, at: at}
				_, _ = w.keeper(d, told).Apply(t.Context(), w.end(task.OutcomeSuccess))
				if d.early > 0 {
					t.Errorf("%d follow-ups, fault %d at %d: %d are there before their payloads", n, fault, at, d.early)
				}
				if !w.row(w.parent.ID).State.IsEnd() {
					continue
				}
				if found, parent := w.rows(); len(found) < n && !parent {
					t.Errorf("%d follow-ups, fault %d at %d: %d are there, and nothing says that others are to come", n, fault, at, len(found))
				}
				w.scan(w.keeper(w.mem, told))
				found, parent := w.rows()
				for i := range n {
					if name := fmt.Sprintf("%06d", i); found[name] != 1 {
						t.Fatalf("%d follow-ups, fault %d at %d: %d × the one with number %d", n, fault, at, found[name], i)
					}
				}
				if parent || fault == none && len(told) != n {
					t.Errorf("%d follow-ups, fault %d at %d: the scheduler was told of %d; the parent has a wake-up row: %v", n, fault, at, len(told), parent)
				}
			}
		}
	}
}

// unread is a driver of which the nth read of a kind fails.
type unread struct {
	store.Driver

	kind string
	nth  int
}

func (u *unread) fails(kind string) error {
	if kind != u.kind {
		return nil
	}
	if u.nth--; u.nth == 0 {
		return store.ErrUnreachable
	}
	return nil
}

func (u *unread) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if err := u.fails("task"); err != nil {
		return nil, err
	}
	return u.Driver.Tasks(ctx, ids)
}

func (u *unread) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	if err := u.fails("wake-up"); err != nil {
		return nil, err
	}
	return u.Driver.Wakeups(ctx, keys)
}

func (u *unread) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if err := u.fails("payload"); err != nil {
		return nil, err
	}
	return u.Driver.Payload(ctx, id)
}

// A read that fails loses no follow-up: that of an end, of what is done later, and of a full scan. Until all of
// them are there the wake-up row of the parent is.
func TestAReadThatFailsLosesNoFollowUp(t *testing.T) {
	for _, kind := range []string{"task", "wake-up", "payload"} {
		for nth := 1; nth <= 3; nth++ {
			for _, died := range []bool{false, true} { // the process that ended the task, before it put any
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, true)
					if died {
						_, _ = w.keeper(&faulty{Driver: w.mem, fault: diedBefore, at: 3}, map[task.ID]int{}).Apply(t.Context(), w.end(task.OutcomeSuccess))
					}
					k := w.keeper(&unread{w.mem, kind, nth}, map[task.ID]int{})
					stop := runtest.Start(t, k.Run)
					whole := func() bool { found, _ := w.rows(); return len(found) == 3 }
					if !died {
						if results, err := k.Apply(t.Context(), w.end(task.OutcomeSuccess)); err != nil || results[0] != nil {
							t.Fatal(results, err)
						}
					}
					for range 5 {
						if _, parent := w.rows(); !parent && !whole() {
							t.Fatalf("read %d of a %s row failed, died %v: follow-ups are missing, and nothing says so", nth, kind, died)
						}
						if died { // else the process itself puts them later
							w.scan(k)
						}
						time.Sleep(time.Minute)
					}
					stop()
					if _, parent := w.rows(); parent || !whole() {
						t.Errorf("read %d of a %s row failed, died %v: all are there: %v; the parent has a wake-up row: %v", nth, kind, died, whole(), parent)
					}
				})
			}
		}
	}
}

// A follow-up that has ended is not started again by who meets the leftover of its parent.
func TestAFollowUpStartsOnce(t *testing.T) { synctest.Test(t, aFollowUpStartsOnce) }

func aFollowUpStartsOnce(t *testing.T) {
	w := newWorld(t, false)
	d := &faulty{Driver: w.mem, fault: diedAfter, at: 3} // the end and two follow-ups
	_, _ = w.keeper(d, map[task.ID]int{}).Apply(t.Context(), w.end(task.OutcomeSuccess))
	row, err := w.mem.Tasks(t.Context(), []task.ID{w.parent.ID})
	if err != nil {
		t.Fatal(err)
	}
	told := map[task.ID]int{}
	k := w.keeper(w.mem, told)
	all, _, err := k.Followups(t.Context(), &row[0])
	if err != nil {
		t.Fatal(err)
	}
	first := all[0].Task
	ended, _, err := first.Apply(task.Event{Kind: task.Cancel}, w.clock.Now(), task.Policy{Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	w.apply(store.EndWaiting(ended, &first))
	w.scan(k)
	rows, err := w.mem.Wakeups(t.Context(), []store.WakeKey{store.KeyOf(&first)})
	if err != nil {
		t.Fatal(err)
	}
	if c := store.Conclude(&rows[0], &ended, w.clock.Now()); !rows[0].ID.IsZero() && c != store.Leftover {
		t.Errorf("the row of an ended follow-up counts as %v", c)
	}
	if _, parent := w.rows(); parent {
		t.Error("the parent keeps its wake-up row")
	}
}

// A redrive has follow-ups of its own, and does not hide that those of the end before are missing.
func TestEachRoundHasItsFollowUps(t *testing.T) {
	w := newWorld(t, false)
	ended := w.end(task.OutcomeFatal)[0].Task
	next, _, err := ended.Apply(task.Event{Kind: task.Redrive, Due: start + 1e6}, start+1e6, task.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	next.Ended = ended.Ended // of clocks that are set back
	if a, b := task.FollowupID(&ended, task.Else, 0), task.FollowupID(&next, task.Else, 0); a == b {
		t.Error("two ends of a task have the same follow-up")
	}
	w.apply([]store.Op{{Kind: store.ReplaceTask, Task: ended}}) // and its process died
	told := map[task.ID]int{}
	if err := w.keeper(w.mem, told).Complete(t.Context(), &ended); err != nil || len(told) != 2 {
		t.Errorf("%d follow-ups were put before the redrive: %v", len(told), err)
	}
}

// An end that loses against another change has no follow-ups, and the task keeps its wake-up row.
func TestARefusedEndIsNotFollowed(t *testing.T) {
	w := newWorld(t, false)
	other := w.parent
	other.Seq++
	w.apply([]store.Op{{Kind: store.ReplaceTask, Task: other}})
	results, err := w.keeper(w.mem, map[task.ID]int{}).Apply(t.Context(), w.end(task.OutcomeSuccess))
	if err != nil || !errors.Is(results[0], store.ErrConflict) {
		t.Errorf("%v, %v", results, err)
	}
	if found, parent := w.rows(); len(found) != 0 || !parent {
		t.Errorf("follow-ups %v; the task has a wake-up row: %v", found, parent)
	}
}

// A job that gives up the row of a task which ended long ago does not have it followed once more.
func TestAnAmendedEndIsNotFollowedAgain(t *testing.T) {
	w := newWorld(t, false)
	k := w.keeper(w.mem, map[task.ID]int{})
	end := w.end(task.OutcomeSuccess)
	if _, err := k.Apply(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	all, _, err := k.Followups(t.Context(), &end[0].Task)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if f := &all[i].Task; !f.ID.IsZero() { // it has ended, and its row has expired
			w.apply([]store.Op{{Kind: store.DeleteWakeup, Task: *f}})
		}
	}
	next := end[0].Task
	next.Seq++
	next.ExpireAt = w.clock.Now()
	if results, err := k.Apply(t.Context(), []store.Op{{Kind: store.ReplaceTask, Task: next, Amends: true}}); err != nil || results[0] != nil {
		t.Fatalf("%v, %v", results, err)
	}
	if found, _ := w.rows(); len(found) != 0 {
		t.Errorf("%v", found)
	}
}
