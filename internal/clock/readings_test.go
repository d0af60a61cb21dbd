package clock_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

func TestSinceBelievesTheClockThatSawMost(t *testing.T) {
	t.Parallel()
	start := clock.Readings{Mono: time.Second, Boot: time.Hour, Wall: task.FromMillis(1_000_000)}
	for _, c := range []struct {
		name  string
		later clock.Readings
		want  time.Duration
	}{
		{"all agree", clock.Readings{Mono: 3 * time.Second, Boot: time.Hour + 2*time.Second, Wall: start.Wall.Add(2 * time.Second)}, 2 * time.Second},
		{"machine was suspended", clock.Readings{Mono: time.Second, Boot: time.Hour + time.Minute, Wall: start.Wall.Add(time.Minute)}, time.Minute},
		{"no boot clock now", clock.Readings{Mono: time.Second, Wall: start.Wall.Add(time.Minute)}, time.Minute},
		{"wall clock set forward", clock.Readings{Mono: 6 * time.Second, Boot: time.Hour + 5*time.Second, Wall: start.Wall.Add(time.Hour)}, 5 * time.Second},
		{"wall clock set back", clock.Readings{Mono: 6 * time.Second, Boot: time.Hour + 5*time.Second, Wall: start.Wall.Add(-time.Hour)}, 5 * time.Second},
		{"all backwards", clock.Readings{Wall: start.Wall.Add(-time.Hour)}, 0},
	} {
		if got := c.later.Since(start); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReadOfEachKindOfClock(t *testing.T) {
	t.Parallel()
	first := clock.Read(clock.Real())
	if second := clock.Read(clock.Real()); second.Mono < first.Mono || second.Boot < first.Boot {
		t.Errorf("real readings went back from %+v to %+v", first, second)
	}
	v := clock.NewVirtual(task.FromMillis(1_000), 1)
	process := v.Process(time.Minute)
	before := clock.Read(process)
	v.Advance(3 * time.Second)
	if got := clock.Read(process).Since(before); got != 3*time.Second {
		t.Errorf("virtual readings are %v apart, want 3s", got)
	}
}
