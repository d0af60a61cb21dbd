package scheduler

import (
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

// A finished life of a task takes nothing from the next one, which waits at the same place.
func TestDoneIsOfOneWakeupRow(t *testing.T) {
	at := task.Instant(5000)
	row := func(seq uint64) *task.Task {
		return &task.Task{ID: task.ID{1}, WakeRow: task.WakeRow{At: at, Seq: seq}}
	}
	for seq, wantKept := range map[uint64]bool{6: true, 7: false, 8: false} {
		b := newBuffer(10)
		b.add(entry{at: at, id: task.ID{1}, row: row(7)})
		b.dropUpTo(keyOf(row(7)), seq)
		if kept := b.entries.Len() == 1; kept != wantKept {
			t.Errorf("done up to seq %d: entry of seq 7 kept %v", seq, kept)
		}
	}
}
