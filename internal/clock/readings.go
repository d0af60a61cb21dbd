package clock

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Readings are what the clocks of a process show at one moment. On Linux the
// monotonic clock stands still while the machine is suspended, the boot clock does
// not, and the wall clock can be set: who must not believe that too little time
// went by asks all three.
type Readings struct {
	Mono time.Duration // since some moment of the process's life
	Boot time.Duration // since the machine's start, suspension included; zero where there is no such clock
	Wall task.Instant
}

// Since is the longest time that any of the clocks saw go by, and never negative.
func (r Readings) Since(earlier Readings) time.Duration {
	return max(0, r.Mono-earlier.Mono, r.Boot-earlier.Boot, r.Wall.Sub(earlier.Wall))
}

// Mono is the monotonic reading alone, for timers: it asks for nothing else.
func Mono(c Clock) time.Duration {
	if c == Real() {
		return time.Since(start)
	}
	return Read(c).Mono
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

var start = time.Now() //nolint:gochecknoglobals // the zero of the monotonic readings

func (realClock) Read() Readings {
	now := time.Now()
	return Readings{Mono: now.Sub(start), Boot: sinceBoot(), Wall: task.InstantOf(now)}
}
