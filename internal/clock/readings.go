package clock

import (
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Readings are the times of a process's clocks at one moment. On Linux the monotonic clock stops while the
// machine is suspended, the boot clock does not, and the wall clock can be set. Since returns how much time
// passed, and SteppedSince whether the wall clock was set.
type Readings struct {
	Mono time.Duration // since some moment in the process's life
	Boot time.Duration // since the start of the machine, with suspensions; zero where there is no such clock
	Wall task.Instant
}

// Since returns how much time passed at least; it is never negative. It uses the wall clock only where there
// is no boot clock, because there a suspension looks like a wall clock that was set forward.
func (r Readings) Since(earlier Readings) time.Duration {
	longest := max(0, r.Mono-earlier.Mono, r.Boot-earlier.Boot)
	if r.Boot == 0 || earlier.Boot == 0 {
		longest = max(longest, r.Wall.Sub(earlier.Wall))
	}
	return longest
}

// SteppedSince returns by how much the wall clock was set: positive for forward, negative for back. A
// suspension does not count where there is a boot clock.
func (r Readings) SteppedSince(earlier Readings) time.Duration {
	passed := r.Mono - earlier.Mono
	if r.Boot != 0 && earlier.Boot != 0 {
		passed = max(passed, r.Boot-earlier.Boot)
	}
	return r.Wall.Sub(earlier.Wall) - passed
}

// Mono returns the monotonic reading alone, which is cheaper.
func Mono(c Clock) time.Duration {
	if c == Real() {
		return time.Since(start)
	}
	return Read(c).Mono
}

// Steady returns the time that the wall clock would show if nobody had set it since the process started. Use
// it to measure within this process; it means nothing to other processes.
func Steady(c Clock) task.Instant {
	if c == Real() {
		return startWall.Add(time.Since(start))
	}
	return task.Instant(0).Add(Read(c).Mono)
}

// reader is a Clock with all three clocks.
type reader interface{ Read() Readings }

// Read returns the readings of a process's clocks. A Clock that has only a wall clock, such as a virtual one,
// shows the same time on the monotonic clock.
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

// Both returns the time of the wall clock and that of Steady at the same moment.
func Both(c Clock) (wall, steady task.Instant) {
	if c == Real() {
		now := time.Now()
		return task.InstantOf(now), startWall.Add(now.Sub(start))
	}
	r := Read(c)
	return r.Wall, task.Instant(0).Add(r.Mono)
}

// togetherMax is how far apart readings of one moment may be. On a busy machine the process may have to wait
// between two of them. Read then repeats them, up to togetherTries times.
const (
	togetherMax   = 10 * time.Millisecond
	togetherTries = 4
)

// Read returns the readings of all three clocks.
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

// Ahead returns by how much at least our clock is ahead of another one, below zero: behind. The other clock showed theirs,
// rounded down to resolution, at some moment between began and ended on ours. Zero means that the two may agree.
func Ahead(began, ended, theirs task.Instant, resolution time.Duration) time.Duration {
	switch {
	case began > theirs.Add(resolution):
		return began.Sub(theirs.Add(resolution))
	case ended < theirs:
		return ended.Sub(theirs)
	}
	return 0
}

// StepMin is the smallest step between two looks that counts as setting the wall clock. Time daemons slew it
// by less all the time.
const StepMin = 100 * time.Millisecond

// Steps notices when the wall clock of a process is set, and calls tell. Look is safe for concurrent use; a
// nil Steps notices nothing.
type Steps struct {
	clock Clock
	tell  func(by time.Duration)

	mu   sync.Mutex // guards last; held while tell runs
	last Readings
}

// NewSteps begins to watch a clock. It calls tell once for each step, with its size: positive when the clock
// was set forward. tell must not call Look.
func NewSteps(c Clock, tell func(by time.Duration)) *Steps {
	return &Steps{clock: c, tell: tell, last: Read(c)}
}

// Look compares the clocks with their readings at the last call. When it returns, tell has been called for
// every step before.
func (s *Steps) Look() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Read(s.clock)
	by := now.SteppedSince(s.last)
	s.last = now
	if by.Abs() >= StepMin {
		s.tell(by)
	}
}

// Within returns a context that ends after d on the clock, with context.DeadlineExceeded as its cause. The
// caller must call the cancel function to release the context's resources.
func Within(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	if c == Real() {
		return context.WithTimeout(ctx, d) // cheaper than a goroutine
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.NewTimer(d)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-stopped
	}
}
