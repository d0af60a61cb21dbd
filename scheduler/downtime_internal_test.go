package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

func TestWhichRowsAreStale(t *testing.T) {
	const from = task.Instant(1_700_000_000_000_000)
	first := func(state task.State, due, created time.Duration) task.Task {
		return task.Task{State: state, WakeRow: task.WakeRow{At: from.Add(due), Seq: 1}, Created: from.Add(created)}
	}
	keyed, bare := first(task.Scheduled, -time.Hour, -2*time.Hour), first(task.Unknown, -time.Hour, 0)
	keyed.Key = "k"
	for _, c := range []struct {
		name      string
		row       task.Task
		gap       time.Duration
		retention time.Duration
		want      bool
	}{
		{"due before, longer gap", first(task.Scheduled, -time.Second, -time.Hour), 2 * time.Hour, time.Hour, true},
		{"due before, shorter gap", first(task.Scheduled, -time.Second, -time.Hour), time.Hour - scansApart, time.Hour, false},
		{"due before, by less than full scans are apart", first(task.Scheduled, -time.Second, -time.Hour), time.Hour - scansApart + time.Microsecond, time.Hour, true},
		{"due while the record may be behind", first(task.Scheduled, recordAgeMax, -time.Hour), 2 * time.Hour, time.Hour, true},
		{"due in the gap", first(task.Scheduled, recordAgeMax+time.Microsecond, -time.Hour), 2 * time.Hour, time.Hour, false},
		{"stored in the gap, due before", first(task.Scheduled, -time.Hour, recordAgeMax+time.Microsecond), 2 * time.Hour, time.Hour, false},
		{"shortest retention", first(task.Scheduled, -time.Second, -time.Hour), task.EndedMin - scansApart, time.Minute, false},
		{"shortest retention, longer gap", first(task.Scheduled, -time.Second, -time.Hour), task.EndedMin, time.Minute, true},
		{"key", keyed, 48 * time.Hour, time.Hour, false},
		{"bare", bare, 48 * time.Hour, time.Hour, false},
		{"enqueued in the gap by who stored it", first(task.Enqueued, time.Hour, time.Hour), 2 * time.Hour, time.Hour, true},
		{"claimed in the gap by who stored it", first(task.Claimed, time.Hour, time.Hour+time.Microsecond), 2 * time.Hour, time.Hour, false},
	} {
		g := gap{From: from, Till: from.Add(c.gap)}
		if got := g.isStale(&c.row, c.retention); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestGapsThatSayNothingNewAreNotKept(t *testing.T) {
	const h = task.Instant(time.Hour / time.Microsecond)
	var n activityRecord
	for _, g := range []gap{{0, 9 * h}, {h, h + 1}, {h, 3 * h}, {2 * h, 3 * h}, {2 * h, 3 * h}, {h, 2 * h}, {10 * h, 11 * h}} {
		n.add(g)
	}
	if want := []gap{{h, 3 * h}, {10 * h, 11 * h}}; !slices.Equal(n.Gaps, want) {
		t.Errorf("kept are %v, want %v", n.Gaps, want)
	}
	n.add(gap{20 * h, 30 * h})
	if want := []gap{{20 * h, 30 * h}}; !slices.Equal(n.Gaps, want) {
		t.Errorf("then %v, want %v", n.Gaps, want)
	}
}
