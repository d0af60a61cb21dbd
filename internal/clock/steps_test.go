package clock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// machine shows what a test says.
type machine struct {
	clock.Clock

	now clock.Readings
}

func (m *machine) Now() task.Instant    { return m.now.Wall }
func (m *machine) Read() clock.Readings { return m.now }

func TestStepsAreToldOnceWithTheirSize(t *testing.T) {
	t.Parallel()
	m := &machine{now: clock.Readings{Mono: time.Hour, Boot: 2 * time.Hour, Wall: start}}
	var told []time.Duration
	s := clock.NewSteps(m, func(by time.Duration) { told = append(told, by) })
	pass := func(mono, boot, wall time.Duration) {
		m.now = clock.Readings{Mono: m.now.Mono + mono, Boot: m.now.Boot + boot, Wall: m.now.Wall.Add(wall)}
		s.Look()
		s.Look()
	}
	pass(time.Second, time.Second, time.Second)
	pass(time.Second, time.Second, time.Second+time.Hour)
	pass(time.Second, time.Second, time.Second-24*time.Hour)
	pass(time.Second, time.Minute, time.Minute) // suspended
	for range 100 {
		pass(time.Second, time.Second, time.Second+clock.StepMin-1) // slewed
	}
	pass(time.Second, time.Second, time.Second-clock.StepMin)
	if want := []time.Duration{time.Hour, -24 * time.Hour, -clock.StepMin}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}

func TestNoStepsOfNoClock(t *testing.T) {
	t.Parallel()
	var s *clock.Steps
	s.Look()
}

func TestSteadyIsNotSet(t *testing.T) {
	t.Parallel()
	m := &machine{now: clock.Readings{Mono: time.Hour, Wall: start}}
	before := clock.Steady(m)
	m.now = clock.Readings{Mono: time.Hour + time.Second, Wall: start.Add(-time.Hour)}
	wall, steady := clock.Both(m)
	if passed := clock.Steady(m).Sub(before); passed != time.Second || steady.Sub(before) != time.Second || wall != m.now.Wall {
		t.Errorf("%v passed; both: %v and %v", passed, wall, steady)
	}
	wall, steady = clock.Both(clock.Real())
	if later := clock.Steady(clock.Real()); later < steady || wall.Sub(steady).Abs() > 365*24*time.Hour {
		t.Errorf("steady time went from %v to %v, the wall clock shows %v", steady, later, wall)
	}
}
