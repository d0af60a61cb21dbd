package intake

import (
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

// TestNeeds is about which wake-up rows a task row needs: the one at its instant, whatever its seq.
func TestNeeds(t *testing.T) {
	live := task.Task{ID: task.ID{1}, State: task.Claimed, Seq: 3, WakeRow: task.WakeRow{At: 1000, Seq: 1}}
	ended, elsewhere := live, live
	ended.State, elsewhere.Partition.Shard = task.Success, 1
	for _, c := range []struct {
		row  task.Task
		at   task.WakeRow
		want bool
	}{
		{live, task.WakeRow{At: 1000, Seq: 1}, true},
		{live, task.WakeRow{At: 1000, Seq: 9}, true}, // put by a call that was repeated
		{live, task.WakeRow{At: 2000, Seq: 1}, false},
		{ended, task.WakeRow{At: 1000, Seq: 1}, false},
		{elsewhere, task.WakeRow{At: 1000, Seq: 1}, false},
	} {
		wakeup := task.Task{ID: task.ID{1}, WakeRow: c.at}
		if got := Needs(&c.row, &wakeup); got != c.want {
			t.Errorf("%+v and the wake-up row %+v: %v", c.row, c.at, got)
		}
	}
}
