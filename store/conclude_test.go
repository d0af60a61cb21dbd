package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// TestConclude is the table of docs/internals/protocol.md.
func TestConclude(t *testing.T) {
	const now = task.Instant(1_700_000_000_000_000)
	here, there := task.WakeRow{At: now, Seq: 1}, task.WakeRow{At: now.Add(time.Minute), Seq: 4}
	at := func(t task.Task, w task.WakeRow) task.Task {
		t.ID, t.WakeRow = task.ID{1}, w
		return t
	}
	first := task.Task{State: task.Scheduled, Seq: 1, Created: now}
	keyed, old := first, first
	keyed.Key, old.Key, old.Created = "k", "k", now.Add(-store.CallMax-time.Second)
	long := old.Created
	slow := keyed
	slow.Created = now.Add(-store.CallMax)
	bare := task.Task{Seq: 4}
	live := task.Task{State: task.Claimed, Seq: 3}
	ended := task.Task{State: task.Success, Seq: 5}
	for name, c := range map[string]struct {
		wakeup, row task.Task
		want        store.Conclusion
	}{
		"not dispatched":                     {at(first, here), task.Task{}, store.Undispatched},
		"keyed, its call is under way":       {at(keyed, here), task.Task{}, store.Undispatched},
		"keyed, its call may be slow":        {at(slow, here), task.Task{}, store.Undispatched},
		"a task row that cannot be read":     {at(first, here), task.Task{ID: task.ID{1}}, store.Unclear},
		"keyed, ended and expired":           {at(old, here), task.Task{}, store.Leftover},
		"bare, ended and expired":            {at(bare, there), task.Task{}, store.Leftover},
		"in flight":                          {at(first, here), at(live, here), store.Live},
		"in flight, put by a repeated call":  {at(keyed, task.WakeRow{At: now, Seq: 9}), at(live, here), store.Live},
		"moved, the old row":                 {at(first, here), at(live, there), store.Leftover},
		"moved, the new row":                 {at(bare, there), at(live, there), store.Live},
		"a move to come":                     {at(bare, there), at(live, here), store.Unclear},
		"a move that lost":                   {at(bare, task.WakeRow{At: there.At, Seq: 3}), at(live, here), store.Leftover},
		"a refused call of a later time":     {at(keyed, task.WakeRow{At: there.At, Seq: 9}), at(live, here), store.Leftover},
		"ended":                              {at(first, here), at(ended, here), store.Leftover},
		"ended elsewhere":                    {at(bare, there), at(ended, here), store.Leftover},
		"ended, and to live again":           {at(bare, task.WakeRow{At: there.At, Seq: uint64(now)}), at(ended, here), store.Unclear},
		"ended, a redrive died":              {at(bare, task.WakeRow{At: there.At, Seq: uint64(long)}), at(ended, here), store.Leftover},
		"ended, its key is to be used again": {at(keyed, task.WakeRow{At: there.At, Seq: 9}), at(ended, here), store.Unclear},
		"ended, a call for its key died":     {at(old, task.WakeRow{At: there.At, Seq: 9}), at(ended, here), store.Leftover},
		"a change by a user to come":         {at(bare, task.WakeRow{At: there.At, Seq: uint64(now)}), at(live, here), store.Unclear},
		"a change by a user that died":       {at(bare, task.WakeRow{At: there.At, Seq: uint64(long)}), at(live, here), store.Leftover},
	} {
		if got := store.Conclude(&c.wakeup, &c.row, now); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	elsewhere := at(live, here)
	elsewhere.Partition.Shard = 1
	if w := at(first, here); store.Conclude(&w, &elsewhere, now) != store.Leftover {
		t.Error("the row of another partition is not the task's")
	}
}

// TestConcludeNeverDropsWhatALiveTaskNeeds puts rule 1 to every combination of places, seqs and states: a
// wake-up row that a live task row names is never a leftover, nor is a bare one that is newer than the task
// row.
func TestConcludeNeverDropsWhatALiveTaskNeeds(t *testing.T) {
	const at = task.Instant(1_700_000_000_000_000)
	for _, state := range task.States() {
		for combination := range 2 * 2 * 4 * 4 {
			names, holds := at+task.Instant(combination%2), task.State(combination/2%2*int(task.Scheduled))
			rowSeq, wakeSeq := uint64(combination/4%4+1), uint64(combination/16+1)
			row := task.Task{ID: task.ID{7}, State: state, Seq: rowSeq, WakeRow: task.WakeRow{At: names, Seq: 1}}
			wakeup := task.Task{ID: row.ID, State: holds, Seq: wakeSeq, WakeRow: task.WakeRow{At: at, Seq: wakeSeq}}
			what := fmt.Sprintf("task row %s at seq %d, names place %d; wake-up row of seq %d", state, rowSeq, names-at, wakeSeq)
			got := store.Conclude(&wakeup, &row, at)
			needed := !state.IsEnd() && names == at
			if got == store.Leftover && (needed || wakeup.IsBare() && wakeSeq == rowSeq+1) {
				t.Errorf("%s: dropped", what)
			}
			if got == store.Undispatched || (got == store.Live) != needed {
				t.Errorf("%s: %d", what, got)
			}
		}
	}
}
