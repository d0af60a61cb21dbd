package pebble_test

import (
	"encoding/binary"
	"maps"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks that were stored before a start are counted while new writes come in.
func TestDepthsAfterAStart(t *testing.T) {
	files := vfs.NewMem()
	d := openOn(t, files, pebble.Config{})
	parts := [2]task.Partition{{Lambda: 1}, {Lambda: 1, Priority: 1}}
	row := func(n uint64, s task.State) task.Task {
		one := task.Task{
			Partition: parts[n%2], State: s, Seq: 1, Due: 1_000, Wake: task.Instant(n),
			WakeRow: task.WakeRow{At: 1_000, Seq: 1},
		}
		binary.BigEndian.PutUint64(one.ID[8:], n)
		if s.IsEnd() {
			one.Wake, one.Ended, one.ExpireAt = 0, 1_000, 2_000
		}
		return one
	}
	apply := func(ops ...store.Op) {
		t.Helper()
		results, err := d.Apply(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range results {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var n uint64
	want := map[task.Partition]store.Depth{}
	expect := func(p task.Partition, s task.State, change int64) {
		depth := want[p]
		depth[s] += change
		want[p] = depth
	}
	var claimed []task.Task
	for range 500 {
		for _, s := range task.States() {
			n++
			one := row(n, s)
			first := row(n, task.Scheduled)
			apply(store.Op{Kind: store.PutWakeup, Task: first}, store.Op{Kind: store.PutTask, Task: one, Follows: true})
			if s.IsEnd() {
				expect(one.Partition, task.Scheduled, 1) // the leftover row, of which nothing says that it is one
			} else {
				expect(one.Partition, s, 1)
			}
			if n%4 == 0 { // a move that did not come to its second write
				bare := task.Task{ID: one.ID, Partition: one.Partition, WakeRow: task.WakeRow{At: 5_000, Seq: 2}}
				apply(store.Op{Kind: store.PutWakeup, Task: bare})
				expect(one.Partition, task.Scheduled, 1)
			}
			if s == task.Claimed {
				claimed = append(claimed, one)
			}
		}
		n++
		one := row(n, task.Scheduled)
		apply(store.Op{Kind: store.PutWakeup, Task: one})
		expect(one.Partition, task.Scheduled, 1)
		if n%3 == 0 {
			one.Seq, one.WakeRow.Seq, one.State = 2, 2, task.Acquired
			apply(store.Op{Kind: store.ReplaceWakeup, Task: one})
			expect(one.Partition, task.Scheduled, -1)
			expect(one.Partition, task.Acquired, 1)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openOn(t, files, pebble.Config{})
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, one := range claimed {
		one.Seq++
		one.State = task.Processing
		apply(store.Op{Kind: store.ReplaceTask, Task: one})
		expect(one.Partition, task.Claimed, -1)
		expect(one.Partition, task.Processing, 1)
	}
	depths := d.Capabilities().Depths
	got, ready := depths()
	for !ready {
		runtime.Gosched()
		got, ready = depths()
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
