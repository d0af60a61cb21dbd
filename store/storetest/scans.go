package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const forever = task.Instant(1<<63 - 1)

func (f *fixture) scan(p task.Partition, from store.WakeKey, through task.Instant, limit int) []task.Task {
	f.Helper()
	rows, err := f.d.ScanSchedule(f.Context(), p, from, through, limit)
	if err != nil {
		f.Fatalf("scan: %v", err)
	}
	return rows
}

func (f *fixture) want(what string, rows []task.Task, want ...int) {
	f.Helper()
	if got := ids(rows); !slices.Equal(got, want) {
		f.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func testScanSchedule(_ *testing.T, f *fixture) {
	for _, t := range []task.Task{
		newTask(5, partA, at(30)), newTask(2, partA, at(20)), newTask(1, partA, at(20)), newTask(4, partA, at(10)),
		newTask(3, partA, at(1000)), newTask(6, partB, at(5)), newTask(7, partC, at(15)),
	} {
		f.apply(put(store.PutWakeup, t))
	}
	head := store.WakeKey{}
	f.want("in order of wake and id", f.scan(partA, head, forever, 10), 4, 1, 2, 5, 3)
	f.want("through is inclusive", f.scan(partA, head, at(20), 10), 4, 1, 2)
	f.want("through before the first", f.scan(partA, head, at(9), 10))
	f.want("through the past", f.scan(partA, head, 0, 10))
	f.want("limit", f.scan(partA, head, forever, 2), 4, 1)
	f.want("after a row", f.scan(partA, store.WakeKey{Partition: partA, Wake: at(20), ID: idOf(1)}, forever, 10), 2, 5, 3)
	f.want("after a key without a row", f.scan(partA, store.WakeKey{Partition: partA, Wake: at(20), ID: idOf(0)}, forever, 10), 1, 2, 5, 3)
	f.want("after the last", f.scan(partA, store.WakeKey{Partition: partA, Wake: at(1000), ID: idOf(3)}, forever, 10))
	f.want("other partition", f.scan(partB, head, forever, 10), 6)
	f.want("empty partition", f.scan(task.Partition{Lambda: 1}, head, forever, 10))
	if got := f.scan(partC, head, forever, 1); !reflect.DeepEqual(got[0], newTask(7, partC, at(15))) {
		f.Errorf("scanned row is %+v", got[0])
	}
}

// testScanScheduleLateInsert inserts before rows that were scanned and deleted.
func testScanScheduleLateInsert(_ *testing.T, f *fixture) {
	head := store.WakeKey{}
	for i := range 20 {
		f.apply(put(store.PutWakeup, newTask(i, partA, at(100+i))))
	}
	f.want("head", f.scan(partA, head, forever, 1), 0)
	for i := range 10 {
		f.apply(put(store.DeleteWakeup, newTask(i, partA, at(100+i))))
	}
	f.want("new head", f.scan(partA, head, forever, 1), 10)
	f.want("nothing due", f.scan(partA, head, at(105), 10))
	f.apply(put(store.PutWakeup, newTask(50, partA, at(50))))
	f.want("late insert", f.scan(partA, head, forever, 2), 50, 10)
	f.apply(put(store.PutWakeup, newTask(51, partA, at(105))))
	f.want("insert between", f.scan(partA, head, forever, 3), 50, 51, 10)
	f.apply(put(store.DeleteWakeup, newTask(50, partA, at(50))), put(store.PutWakeup, newTask(52, partA, at(49))))
	f.want("head in the same call", f.scan(partA, head, forever, 2), 52, 51)
}

// testScanSchedulePages pages by the last key, through many rows of one instant, while rows before the page
// come and go.
func testScanSchedulePages(_ *testing.T, f *fixture) {
	var all []int
	for i := range 10 {
		f.apply(put(store.PutWakeup, newTask(100+i, partA, at(20))), put(store.PutWakeup, newTask(120+i, partB, at(20))))
		all = append(all, 100+i)
	}
	f.apply(put(store.PutWakeup, bare(newTask(99, partA, at(1)), at(20), 5)), put(store.PutWakeup, newTask(98, partA, at(21))))
	all = append(append([]int{99}, all...), 98)
	for _, limit := range []int{1, 3, 4, 12, 13} {
		var got []int
		var after store.WakeKey
		for page := 0; ; page++ {
			rows := f.scan(partA, after, forever, limit)
			got = append(got, ids(rows)...)
			if len(rows) < limit || page > len(all) {
				break
			}
			after = store.KeyOf(&rows[len(rows)-1])
		}
		if !slices.Equal(got, all) {
			f.Errorf("by %d: got %v, want %v", limit, got, all)
		}
	}
	f.apply(put(store.DeleteWakeup, newTask(104, partA, at(20))), put(store.PutWakeup, newTask(1, partA, at(20))))
	f.want("after a row that is gone", f.scan(partA, store.WakeKey{Wake: at(20), ID: idOf(104)}, at(20), 3), 105, 106, 107)
	f.want("from the head", f.scan(partA, store.WakeKey{}, at(20), 3), 1, 99, 100)
}

// testWakeupsFollowTheRow moves a wake-up row both ways. Each live row always has exactly one, the one that
// it names.
func testWakeupsFollowTheRow(_ *testing.T, f *fixture) {
	head := store.WakeKey{}
	row := newTask(1, partA, at(10))
	f.apply(append(store.FirstWithRow(row), store.FirstWithRow(newTask(2, partA, at(15)))...)...)
	for i, wake := range []task.Instant{at(20), at(20), at(5), at(30), at(10)} {
		row = next(f.task(row.ID), task.RetriableFailure, wake)
		f.apply(store.Change(row, true, false)...)
		row = f.task(row.ID)
		rows := f.scan(partA, head, forever, 10)
		if len(rows) != 2 || row.WakeRow.At != wake || f.wakeup(row).WakeRow != row.WakeRow {
			f.Fatalf("step %d: %+v", i, rows)
		}
		f.want(fmt.Sprintf("due at step %d", i), f.scan(partA, head, min(wake, at(14)), 10), ids(dueBefore(row, at(15)))...)
	}
	f.apply(store.Change(ended(row, task.Success, at(40), at(100)), false, false)...)
	f.want("after the end", f.scan(partA, head, forever, 10), 2)
}

func dueBefore(t task.Task, limit task.Instant) []task.Task {
	if t.Wake < limit {
		return []task.Task{t}
	}
	return nil
}

// ended pages over all ended rows and returns their sorted numbers.
func (f *fixture) ended(p *task.Partition, s task.State, limit int) []int {
	f.Helper()
	var all []task.Task
	var cursor []byte
	for page := 0; ; page++ {
		if page > 1000 {
			f.Fatal("more pages than rows")
		}
		rows, more, err := f.d.ScanEnded(f.Context(), p, s, cursor, limit)
		if err != nil {
			f.Fatalf("scan: %v", err)
		}
		if len(rows) > limit {
			f.Fatalf("%d rows, limit %d", len(rows), limit)
		}
		all = append(all, rows...)
		if cursor = more; len(more) == 0 {
			break
		}
	}
	for _, t := range all {
		if (t.State != s && s != task.Unknown) || !t.State.IsEnd() || (p != nil && t.Partition != *p) {
			f.Errorf("%s of %s does not belong here", t.State, t.Partition)
		}
	}
	found := ids(all)
	slices.Sort(found)
	return found
}

func testScanEnded(_ *testing.T, f *fixture) {
	n := 0
	wantAll, wantA := map[task.State][]int{}, map[task.State][]int{}
	for range 4 {
		for _, s := range task.States() {
			for _, p := range []task.Partition{partA, partB} {
				n++
				row := newTask(n, p, at(n))
				if !s.IsEnd() {
					f.apply(put(store.PutTask, next(row, s, at(n))))
					continue
				}
				f.apply(put(store.PutTask, ended(row, s, at(n), at(1000-n/3))))
				wantAll[s], wantAll[task.Unknown] = append(wantAll[s], n), append(wantAll[task.Unknown], n)
				if p == partA {
					wantA[s], wantA[task.Unknown] = append(wantA[s], n), append(wantA[task.Unknown], n)
				}
			}
		}
	}
	for s, want := range wantAll {
		for _, limit := range []int{1, 3, 100} {
			if got := f.ended(nil, s, limit); !slices.Equal(got, want) {
				f.Errorf("all %s by %d: got %v, want %v", s, limit, got, want)
			}
			if got := f.ended(&partA, s, limit); !slices.Equal(got, wantA[s]) {
				f.Errorf("%s of one partition by %d: got %v, want %v", s, limit, got, wantA[s])
			}
		}
	}
}

// testDeadLetters checks that the list has exactly the rows in Dead, and no redriven ones.
func testDeadLetters(_ *testing.T, f *fixture) {
	rows := make([]task.Task, 3)
	for i := range rows {
		live := newTask(i, partA, at(i+1))
		f.apply(put(store.PutTask, live))
		rows[i] = ended(live, task.Dead, at(50+i), at(500))
		f.apply(put(store.ReplaceTask, rows[i]))
	}
	if got := f.ended(&partA, task.Dead, 2); !slices.Equal(got, []int{0, 1, 2}) {
		f.Errorf("got %v", got)
	}
	redriven := next(rows[1], task.Enqueued, at(60))
	redriven.Ended, redriven.ExpireAt = 0, 0
	redriven = named(redriven, at(60), redriven.Seq)
	f.apply(put(store.PutWakeup, bare(redriven, at(60), redriven.Seq)), then(store.ReplaceTask, redriven))
	if got := f.ended(nil, task.Dead, 2); !slices.Equal(got, []int{0, 2}) {
		f.Errorf("after a redrive: got %v", got)
	}
	f.want("wake-up of the redriven", f.scan(partA, store.WakeKey{}, forever, 10), 1)
	again := ended(redriven, task.Dead, at(51), at(500)) // the very keys it had before
	f.apply(put(store.ReplaceTask, again))
	if got := f.ended(nil, task.Dead, 2); !slices.Equal(got, []int{0, 1, 2}) {
		f.Errorf("dead again: got %v", got)
	}
}

func (f *fixture) sweep(now task.Instant, limit int) int {
	f.Helper()
	n, err := f.d.Sweep(f.Context(), now, limit)
	if err != nil {
		f.Fatalf("sweep: %v", err)
	}
	return n
}

func testSweep(_ *testing.T, f *fixture) {
	states := []task.State{task.Success, task.Dead, task.Cancelled}
	for i := range 9 {
		row := ended(newTask(i, partA, at(1)), states[i%3], at(2), at(100+i))
		f.apply(put(store.PutTask, row), store.Op{Kind: store.PutPayload, Task: row, Payload: []byte("p")})
	}
	f.apply(put(store.PutTask, next(newTask(20, partA, at(1)), task.Enqueued, at(3))), put(store.PutWakeup, newTask(21, partA, at(1))))
	if n := f.sweep(at(99), 100); n != 0 {
		f.Errorf("swept %d before anything expired", n)
	}
	if n := f.sweep(at(103), 3); n != 3 {
		f.Errorf("swept %d, want the limit of 3", n)
	}
	if n := f.sweep(at(103), 100); n != 1 {
		f.Errorf("swept %d, want the 1 that is left", n)
	}
	for i := range 9 {
		_, err := f.d.Payload(f.Context(), idOf(i))
		if gone := i <= 3; f.task(idOf(i)).ID.IsZero() != gone || (err != nil) != gone {
			f.Errorf("task %d: row gone %v, payload error %v", i, !gone, err)
		}
	}
	if got := f.ended(nil, task.Dead, 10); !slices.Equal(got, []int{4, 7}) {
		f.Errorf("dead letters left: %v", got)
	}
	if n := f.sweep(forever, 100); n != 5 {
		f.Errorf("swept %d, want 5", n)
	}
	if f.task(idOf(20)).ID.IsZero() || f.wakeup(newTask(21, partA, at(1))).ID.IsZero() {
		f.Error("a live task was swept")
	}
	f.apply(put(store.PutTask, newTask(1, partA, at(1)))) // a swept id is free again
	f.sweepsKeyedPayload()
}

// sweepsKeyedPayload checks that the payload of a keyed task, which has its own id, is deleted with the task.
func (f *fixture) sweepsKeyedPayload() {
	keyed := newTask(30, partA, at(1))
	keyed.ID, keyed.Key, keyed.Digest = task.IDOf([]byte("k")), "k", [16]byte{1}
	keyed.PayloadSize = 1
	keyed = ended(keyed, task.Success, at(2), at(3))
	other := keyed
	other.Digest = [16]byte{2} // of a call with the same key that failed
	for _, t := range []*task.Task{&keyed, &other} {
		f.apply(store.Op{Kind: store.PutPayload, Task: task.Task{ID: t.PayloadID()}, Payload: []byte("p")})
	}
	f.apply(put(store.PutTask, keyed))
	if n := f.sweep(at(3), 10); n != 1 {
		f.Errorf("swept %d keyed tasks, want 1", n)
	}
	_, own := f.d.Payload(f.Context(), keyed.PayloadID())
	_, foreign := f.d.Payload(f.Context(), other.PayloadID())
	if !errors.Is(own, store.ErrNotFound) || foreign != nil {
		f.Errorf("payload of the swept task: %v; of another call: %v", own, foreign)
	}
}

// testSweepTakesTheWakeupRow checks that an ended row is deleted with the wake-up row that it names, if that
// exists, and with no other one.
func testSweepTakesTheWakeupRow(_ *testing.T, f *fixture) {
	over := func(n int) task.Task { return ended(newTask(n, partA, at(1)), task.Success, at(2), at(10)) }
	f.apply(put(store.PutWakeup, newTask(1, partA, at(1))), put(store.PutTask, over(1)))
	f.apply(put(store.PutWakeup, newTask(2, partA, at(1))), put(store.PutTask, named(over(2), at(1), 2))) // of another seq
	f.apply(put(store.PutWakeup, newTask(3, partA, at(1))), put(store.PutTask, named(over(3), at(5), 2))) // of another instant
	f.apply(put(store.PutWakeup, bare(over(3), at(5), 2)))
	f.apply(put(store.PutWakeup, newTask(4, partB, at(1))), put(store.PutTask, over(4))) // of another partition
	f.apply(put(store.PutTask, over(5)), put(store.PutTask, named(over(6), 0, 0)))       // of none
	f.apply(store.FirstWithRow(newTask(7, partA, at(1)))...)
	if n := f.sweep(at(10), 100); n != 6 {
		f.Errorf("swept %d, want the 6 that ended", n)
	}
	f.want("what is left", f.scan(partA, store.WakeKey{}, forever, 10), 2, 3, 7)
	f.want("what is left beside it", f.scan(partB, store.WakeKey{}, forever, 10), 4)
	f.apply(put(store.PutWakeup, newTask(1, partA, at(1)))) // a swept row is gone for every write
	f.want("the row that came again", f.scan(partA, store.WakeKey{}, forever, 10), 1, 2, 3, 7)
}

func testSweepSparesRedriven(_ *testing.T, f *fixture) {
	row := ended(newTask(1, partA, at(1)), task.Dead, at(2), at(10))
	later := ended(newTask(2, partA, at(1)), task.Dead, at(2), at(10))
	f.apply(put(store.PutTask, row), put(store.PutTask, later))
	redriven := next(row, task.Enqueued, at(20))
	redriven.Ended, redriven.ExpireAt = 0, 0
	kept := later
	kept.Seq++
	kept.ExpireAt = at(50)
	f.apply(put(store.ReplaceTask, redriven), put(store.ReplaceTask, kept))
	if n := f.sweep(at(30), 10); n != 0 {
		f.Errorf("swept %d rows that no longer expire", n)
	}
	if n := f.sweep(at(50), 10); n != 1 {
		f.Errorf("swept %d, want the one that was kept longer", n)
	}
	if f.task(row.ID).State != task.Enqueued {
		f.Error("the redriven task is gone")
	}
}

func testControls(_ *testing.T, f *fixture) {
	for _, key := range [][2]string{{"lambda", "b"}, {"lambda", "a"}, {"lambda", "ab"}, {"lambdas", "x"}, {"lamb", "da"}, {"gate", "a\x00b"}} {
		f.apply(store.Op{Kind: store.PutControl, Control: store.Control{Kind: key[0], Name: key[1], Version: 1, Value: []byte(key[1])}})
	}
	names := func(kind, name string) []string {
		rows, err := f.d.Controls(f.Context(), kind, name)
		if err != nil {
			f.Fatalf("controls: %v", err)
		}
		var found []string
		for _, c := range rows {
			if c.Kind != kind || string(c.Value) != c.Name || c.Version != 1 {
				f.Errorf("row %+v", c)
			}
			found = append(found, c.Name)
		}
		return found
	}
	for _, c := range []struct {
		kind, name string
		want       []string
	}{
		{"lambda", "", []string{"a", "ab", "b"}},
		{"lambda", "a", []string{"a"}},
		{"lambda", "c", nil},
		{"lambdas", "", []string{"x"}},
		{"none", "", nil},
		{"gate", "", []string{"a\x00b"}},
		{"gate", "a", nil},
	} {
		if got := names(c.kind, c.name); !slices.Equal(got, c.want) {
			f.Errorf("%q %q: got %q, want %q", c.kind, c.name, got, c.want)
		}
	}
}
