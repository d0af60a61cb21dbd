package clock

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Readings are what the clocks of a process show at one moment. On Linux the
// monotonic clock stands still while the machine is suspended, the boot clock does
// not, and the wall clock can be set: who must not believe that too little time
// went by asks Since, who asks whether the wall clock was set asks SteppedSince.
type Readings struct {
	Mono time.Duration // since some moment of the process's life
	Boot time.Duration // since the machine's start, suspension included; zero where there is no such clock
	Wall task.Instant
}

// Since is the longest time that went by for sure, and never negative. The wall clock tells only where there
// is no boot clock, because a suspension cannot be told from a clock that was set forward there.
func (r Readings) Since(earlier Readings) time.Duration {
	longest := max(0, r.Mono-earlier.Mono, r.Boot-earlier.Boot)
	if r.Boot == 0 || earlier.Boot == 0 {
		longest = max(longest, r.Wall.Sub(earlier.Wall))
	}
	return longest
}

// SteppedSince is by how much the wall clock went further than time did: positive when it was set forward,
// negative when it was set back. A suspension is no step where the boot clock shows it.
func (r Readings) SteppedSince(earlier Readings) time.Duration {
	passed := r.Mono - earlier.Mono
	if r.Boot != 0 && earlier.Boot != 0 {
		passed = max(passed, r.Boot-earlier.Boot)
	}
	return r.Wall.Sub(earlier.Wall) - passed
}

// Mono is the monotonic reading alone, for timers: it asks for nothing else.
func Mono(c Clock) time.Duration {
	if c == Real() {
		return time.Since(start)
	}
	return Read(c).Mono
}

// Steady is what the wall clock would show if nobody had set it since the process started. Steps of the wall
// clock do not show in it, so it counts whatever both begins and ends in this process. It means nothing to
// other processes.
func Steady(c Clock) task.Instant {
	if c == Real() {
		return startWall.Add(time.Since(start))
	}
	return task.Instant(0).Add(Read(c).Mono)
}

// reader is a Clock that has all three clocks.
type reader interface{ Read() Readings }

// Read takes the readings of a process's clock. One that has only a wall clock, as
// a virtual one, shows the same time on the monotonic clock.
func Read(c Clock) Readings {
	if r, hasAll := c.(reader); hasAll {
		return r.Read()
	}
	wall := c.Now()
	return Readings{Mono: wall.Sub(0), Wall: wall}
}

var (
	start     = time.Now()            //nolint:gochecknoglobals // the zero of the monotonic readings
	startWall = task.InstantOf(start) //nolint:gochecknoglobals // what the wall clock showed then
)

// Both is what the wall clock shows and what Steady says, at the same moment.
func Both(c Clock) (wall, steady task.Instant) {
	if c == Real() {
		now := time.Now()
		return task.InstantOf(now), startWall.Add(now.Sub(start))
	}
	r := Read(c)
	return r.Wall, task.Instant(0).Add(r.Mono)
}

// togetherMax is how far apart readings of one moment may be. On a busy machine the process may have to wait
// between two of them: then they are taken again, togetherTries times in all.
const (
	togetherMax   = 10 * time.Millisecond
	togetherTries = 4
)

// Read takes the readings of all three clocks.
func (realClock) Read() (r Readings) {
	for range togetherTries {
		before := sinceBoot()
		now := time.Now()
		r = Readings{Mono: now.Sub(start), Boot: sinceBoot(), Wall: task.InstantOf(now)}
		if r.Boot-before <= togetherMax {
			break
		}
	}
	return r
}
