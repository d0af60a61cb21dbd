package clock

import (
	"cmp"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/minheap"
	"github.com/kinesin-io/kinesin/task"
)

// Virtual is a time that several processes share, each through a Clock with its own offset. It stands still
// until Advance is called. All methods are safe for concurrent use.
type Virtual struct {
	seed uint64

	advancing sync.Mutex // held by Advance, so that two of them take turns

	mu        sync.Mutex                  // guards all below; never held while a hook runs
	now       int64                       // Unix nanoseconds, true time
	armed     minheap.Heap[*virtualTimer] // the next to fire first
	created   uint64                      // timers armed so far; orders those of one instant
	processes uint64
	settle    func()
}

// NewVirtual returns a virtual time that begins at start. The seed decides all randomness.
func NewVirtual(start task.Instant, seed uint64) *Virtual {
	return &Virtual{seed: seed, now: int64(start) * int64(time.Microsecond)}
}

// Settle sets a hook that Advance calls before it moves time, so that whoever is about to arm a timer counts
// from now, and after each timer that it fires, while the clock stands at the timer's instant. A test in a
// synctest bubble passes synctest.Wait, so that all work which a timer starts is done before time moves on.
func (v *Virtual) Settle(hook func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.settle = hook
}

// Process returns the clock of another process, whose wall clock is offset ahead of true time (negative:
// behind). Timers run alike in every process. Each process has its own random sequence, which depends on the
// seed and on the number of processes before it.
func (v *Virtual) Process(offset time.Duration) Clock {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.processes++
	return &process{v: v, offset: offset, random: rand.New(rand.NewPCG(v.seed, v.processes))} //nolint:gosec // repeatable on purpose
}

// Now returns the true time.
func (v *Virtual) Now() task.Instant {
	v.mu.Lock()
	defer v.mu.Unlock()
	return instantOf(v.now)
}

// Next returns the true time of the next timer, rounded up to the microsecond: advancing to it fires that
// timer. It returns false when no timer is armed.
func (v *Virtual) Next() (task.Instant, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.armed.Len() == 0 {
		return 0, false
	}
	return instantOf(v.armed.First().at + int64(time.Microsecond) - 1), true
}

// Advance moves time by d. It stops at the instant of each timer on the way, and fires the timers of one
// instant in the order in which they were armed, including those that are armed meanwhile.
func (v *Virtual) Advance(d time.Duration) {
	v.advancing.Lock()
	defer v.advancing.Unlock()
	v.mu.Lock()
	end, settle := v.now+int64(d), v.settle
	v.mu.Unlock()
	if settle != nil {
		settle()
	}
	for v.fireNext(end) {
	}
}

// fireNext moves to the next timer up to end and fires it; with none left it moves to end.
func (v *Virtual) fireNext(end int64) (fired bool) {
	v.mu.Lock()
	if v.armed.Len() == 0 || v.armed.First().at > end {
		v.now = max(v.now, end)
		v.mu.Unlock()
		return false
	}
	t := v.armed.First()
	v.now = max(v.now, t.at)
	v.armed.Remove(t)
	t.fire()
	settle := v.settle
	v.mu.Unlock()
	if settle != nil {
		settle()
	}
	return true
}

// Jump moves time to an instant in one step, as for a process that was suspended: every timer armed for that
// instant or before fires once, in order, while the clock shows that instant. A timer that is armed again
// meanwhile counts from there. An instant in the past changes nothing. Jump does not call the hook of Settle.
//
// A goroutine that has yet to arm a timer may be overtaken by a jump; it arms the timer with ResetFrom.
func (v *Virtual) Jump(to task.Instant) {
	v.advancing.Lock()
	defer v.advancing.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = max(v.now, int64(to)*int64(time.Microsecond))
	for v.armed.Len() > 0 && v.armed.First().at <= v.now {
		t := v.armed.First()
		v.armed.Remove(t)
		t.fire()
	}
}

func instantOf(nanos int64) task.Instant { return task.Instant(nanos / int64(time.Microsecond)) }

// process is the Clock of one process.
type process struct {
	v      *Virtual
	offset time.Duration
	random *rand.Rand // guarded by v.mu
}

func (p *process) Now() task.Instant {
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	return instantOf(p.v.now + int64(p.offset))
}

func (p *process) Uint64() uint64 {
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	return p.random.Uint64()
}

func (p *process) NewTimer(d time.Duration) Timer {
	t := &virtualTimer{p: p, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// virtualTimer is armed while it is in Virtual.armed. Its fields are guarded by p.v.mu.
type virtualTimer struct {
	minheap.Place

	p     *process
	c     chan time.Time // holds at most the value of the present setting
	at    int64          // Unix nanoseconds, true time
	order uint64
}

// Before orders timers by when they fire, those of one instant as they were armed.
func (t *virtualTimer) Before(other *virtualTimer) bool {
	return cmp.Or(cmp.Compare(t.at, other.at), cmp.Compare(t.order, other.order)) < 0
}

func (t *virtualTimer) C() <-chan time.Time { return t.c }

func (t *virtualTimer) Reset(d time.Duration) {
	t.p.v.mu.Lock()
	defer t.p.v.mu.Unlock()
	t.arm(t.p.v.now + int64(max(d, 0)))
}

func (t *virtualTimer) stamp() Stamp {
	t.p.v.mu.Lock()
	defer t.p.v.mu.Unlock()
	return Stamp(t.p.v.now)
}

func (t *virtualTimer) resetFrom(from Stamp, d time.Duration) {
	t.p.v.mu.Lock()
	defer t.p.v.mu.Unlock()
	t.arm(int64(from) + int64(max(d, 0)))
}

// arm sets the timer to an instant. One that is not in the future fires at once.
func (t *virtualTimer) arm(at int64) {
	v := t.p.v
	t.disarm()
	t.at = at
	if at <= v.now {
		t.fire()
		return
	}
	v.created++
	t.order = v.created
	v.armed.Put(t)
}

func (t *virtualTimer) Stop() {
	t.p.v.mu.Lock()
	defer t.p.v.mu.Unlock()
	t.disarm()
}

// disarm also removes a fired value that was not received.
func (t *virtualTimer) disarm() {
	t.p.v.armed.Remove(t)
	select {
	case <-t.c:
	default:
	}
}

func (t *virtualTimer) fire() {
	t.c <- time.Unix(0, t.p.v.now+int64(t.p.offset)).UTC() // never blocks: disarm emptied it
}
