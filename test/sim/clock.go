package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// processClock is the clock of one process: true time, that of the bubble, seen wrongly.
type processClock struct {
	mu     sync.Mutex // guards all below
	random *rand.Rand
	start  time.Time
	offset time.Duration // of the wall clock now, steps included
	drift  float64       // how much faster than true time all clocks of the process run; 1e-4 is 100 ppm
	turned time.Time     // when the drift became that
	before time.Duration // what the clocks had counted then
	slept  time.Duration // for how long the monotonic clock stood still (suspension)
	frozen time.Time     // since when the process does not run; zero: it does
	vm     bool          // it is the machine that does not: its monotonic clock stands still
	late   []*processTimer
}

func newClock(seed, stream uint64, offset time.Duration, drift float64) *processClock {
	return &processClock{random: rand.New(rand.NewPCG(seed, stream)), start: time.Now(), turned: time.Now(), offset: offset, drift: drift}
}

// Now implements clock.Clock.
func (c *processClock) Now() task.Instant { return c.Read().Wall }

// Uint64 implements clock.Clock.
func (c *processClock) Uint64() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Uint64()
}

// Read shows all three clocks.
func (c *processClock) Read() clock.Readings {
	c.mu.Lock()
	defer c.mu.Unlock()
	boot, slept := c.countedLocked(), c.slept
	if c.vm {
		slept += time.Since(c.frozen)
	}
	return clock.Readings{
		Mono: boot - slept + time.Hour, Boot: boot + 2*time.Hour,
		Wall: task.InstantOf(c.start.Add(boot + c.offset)),
	}
}

// countedLocked is what a clock that is never set has counted since the start of the process.
func (c *processClock) countedLocked() time.Duration {
	since := time.Since(c.turned)
	return c.before + since + time.Duration(float64(since)*c.drift)
}

// step moves the wall clock.
func (c *processClock) step(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += by
}

// slew has all clocks of the process run faster (or slower) from now on, without a step.
func (c *processClock) slew(drift float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.turned = c.countedLocked(), time.Now()
	c.drift = drift
}

// freeze stops the timers of the process; with vm the machine stands still, and its monotonic clock with it.
func (c *processClock) freeze(vm bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen, c.vm = time.Now(), vm
}

// thaw lets the timers go on. Those that came due meanwhile fire now.
func (c *processClock) thaw() {
	c.mu.Lock()
	if c.vm {
		c.slept += time.Since(c.frozen)
	}
	c.frozen, c.vm = time.Time{}, false
	late := c.late
	c.late = nil
	c.mu.Unlock()
	for _, t := range late {
		t.ring()
	}
}

// NewTimer implements clock.Clock.
func (c *processClock) NewTimer(d time.Duration) clock.Timer {
	t := &processTimer{c: c, out: make(chan time.Time, 1)}
	t.timer = time.AfterFunc(time.Hour, t.ring)
	t.Reset(d)
	return t
}

type processTimer struct {
	c     *processClock
	out   chan time.Time
	timer *time.Timer
	armed bool // guarded by c.mu
}

// C implements clock.Timer.
func (t *processTimer) C() <-chan time.Time { return t.out }

func (t *processTimer) ring() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	switch {
	case !t.armed:
	case !t.c.frozen.IsZero():
		t.c.late = append(t.c.late, t)
	default:
		t.armed = false
		t.out <- time.Now()
	}
}

// Reset implements clock.Timer.
func (t *processTimer) Reset(d time.Duration) {
	t.Stop()
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.armed = true
	if d > 0 {
		d = time.Duration(float64(d)/(1+t.c.drift)) + 1 // rounded up: never early
	}
	t.timer.Reset(max(d, 0))
}

// Stop implements clock.Timer.
func (t *processTimer) Stop() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.timer.Stop()
	t.armed = false
	select {
	case <-t.out:
	default:
	}
}
